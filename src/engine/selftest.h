/* `deepinfer selftest`: the same requests in different company must give the same bits. */
#ifndef DI_ENGINE_SELFTEST_H
#define DI_ENGINE_SELFTEST_H

#include "base/arena.h"
#include "base/pcg64.h"
#include "deepinfer/tools.h"
#include "kernels/kernel.h"

typedef struct di_st_requests {
    di_request *items;
    size_t n;
} di_st_requests;

typedef struct di_st_results {
    di_result **items; /* by request; freed by di_st_results_free */
    size_t n;
    di_engine_stats stats;
} di_st_results;

/* How an engine runs requests. */
typedef struct di_st_setting {
    int n_threads, max_step_tokens, max_seqs; /* 0: the caller's */
    int64_t window_blocks;                    /* KV blocks for windows; 0: enough */
    bool is_async, has_prefix_cache;
    bool one_by_one; /* the next request after the last one's end */
    int n_rounds;    /* all requests so often; the last round's results count; 0 = 1 */
} di_st_setting;

enum { DI_ST_TEXT_BYTES = 512 };

typedef struct di_selftest {
    di_model *model;
    di_options options;
    const di_selftest_options *wanted;
    const di_kernel *const *kernels; /* [DI_N_OPS]: in place of the chosen ones; or NULL */
    FILE *out;
    uint64_t seed;
    di_pcg64 rng;
    di_arena arena;      /* of the requests */
    int64_t context_len; /* no request is longer */

    char what[DI_ST_TEXT_BYTES];    /* what the running check compares */
    char finding[DI_ST_TEXT_BYTES]; /* its first difference; "" if none */
    di_st_requests requests;        /* random ones */
    di_st_results alone;            /* and their results, each alone; made when wanted */
} di_selftest;

/* ------------------------------------------------------------------- selftest_run.c */

/* A random prompt of low .. high tokens, as the next request of a list with room for it. */
DI_WARN_UNUSED di_status di_st_add_prompt(di_selftest *self, int64_t low, int64_t high,
                                          const di_sampling_params *sampling,
                                          di_st_requests *requests);
DI_WARN_UNUSED di_status di_st_requests_new(di_selftest *self, size_t room, di_st_requests *out);
/* Greedy if temperature is 0; log probabilities of prompt and output are always asked for. */
di_sampling_params di_st_sampling(double temperature, uint64_t seed, int64_t max_tokens);

DI_WARN_UNUSED di_status di_st_run(di_selftest *self, const di_st_requests *requests,
                                   const di_st_setting *setting, di_st_results *out);
void di_st_results_free(di_st_results *results);

/* False, and the finding set, if two results of one request differ in a token or in a bit of a log
 * probability. `how`: "with 2 threads". */
bool di_st_same(di_selftest *self, const char *how, size_t request, const di_result *found,
                const di_result *wanted);
/* All results, request by request. */
bool di_st_all_same(di_selftest *self, const char *how, const di_st_results *found,
                    const di_st_results *wanted);
void di_st_find(di_selftest *self, const char *fmt, ...) DI_PRINTF(2, 3);

/* ------------------------------------------------------------------- selftest_checks.c */

typedef struct di_st_check {
    const char *name;
    di_status (*run)(di_selftest *self);
} di_st_check;

extern const di_st_check di_st_checks[];
extern const int di_n_st_checks;

/* Makes the random requests of most checks. */
DI_WARN_UNUSED di_status di_st_prepare(di_selftest *self);

/* ------------------------------------------------------------------- selftest.c */

/* di_selftest with other kernels, for the test that a bad one is found. */
DI_WARN_UNUSED di_status di_selftest_with(di_model *model, const di_options *options,
                                          const di_selftest_options *selftest,
                                          const di_kernel *const *kernels, FILE *out);

#endif
