/* Requests on the null device and what came of them: made at random or by hand, run, and compared
 * with what each sample must give alone. The outputs of the null device are a function of each
 * sample's own history: anything that mixes sequences up gives other tokens than di_expect, or a
 * line in the device's `problem`. */
#ifndef DI_TEST_TRAFFIC_H
#define DI_TEST_TRAFFIC_H

#include "engine_check.h"
#include "random.h"

enum { DI_TRAFFIC_EOS = 1, DI_TRAFFIC_SAMPLES = 3, DI_N_COUNTING = 28 };

extern di_model *di_traffic_model; /* golden/tiny, while it is open */
int di_traffic_open_model(void **state);
int di_traffic_close_model(void **state);

/* A request and what came of it. */
typedef struct di_traffic {
    di_request request;
    int32_t *prompt;
    di_request_id id;
    bool is_cancelled;
    di_ids tokens[DI_TRAFFIC_SAMPLES];
    int n_final[DI_TRAFFIC_SAMPLES];
    di_finish_reason reason[DI_TRAFFIC_SAMPLES];
} di_traffic;

/* A random request; some prompts begin alike. Free with di_traffic_free. */
void di_traffic_make(di_rng *rng, int64_t most_prompt, int64_t most_new, di_traffic *t);
void di_traffic_free(di_traffic *t);
void di_traffic_note(di_traffic *t, const di_output *o);
/* Notes all outputs: request i + 1 is all[i]. */
void di_traffic_poll(di_engine *engine, di_traffic *all, size_t n);
/* Steps until all is done; every so many steps everything is checked. */
void di_traffic_run(di_engine *engine, di_null_device *device, di_traffic *all, size_t n,
                    int every);
void di_traffic_check_sample(const di_null_device *device, const di_traffic *t, int32_t sample);
/* The result says what the outputs said. Takes it; returns its cached prompt tokens. */
size_t di_traffic_check_result(di_engine *engine, const di_traffic *t);
/* All samples and results, and that nothing is left; cached prompt tokens of all requests. */
size_t di_traffic_check(di_engine *engine, const di_null_device *device, const di_traffic *all,
                        size_t n);

typedef struct di_null_setting {
    di_null_pace pace;
    const char *async, *prefix;
    int max_seqs, max_step_tokens;
    int64_t kv_blocks; /* 0 = plenty */
    int wrong_drafts;  /* di_null_device's */
    const char *varlen;
    int draft_len; /* 0 = the default */
} di_null_setting;

di_engine *di_null_setting_engine(const di_null_setting *s, di_null_device *device);

/* Every 24th history or so ends. */
void di_end_sometimes(void *user, uint64_t history, int64_t position, float *logits);
/* 3, 4, 5, ... */
extern const int32_t di_counting[DI_N_COUNTING];
/* Greedy. */
di_request di_plain_request(const int32_t *prompt, size_t n_prompt, int64_t max_tokens);
void di_traffic_submit(di_engine *engine, di_traffic *t);

#endif
