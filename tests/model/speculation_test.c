/* Real passes with and without drafts: the same tokens (D01, D07), and after each step the state of
 * a sequence that was never speculated: what its slot keeps, and all entries of computed positions,
 * bit for bit. Truncated drafts, batches and preemption are in batch_test. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/checked.h"
#include "engine_check.h"
#include "random.h"

#define TINY DI_TEST_DATA "/golden/tiny"
#define NANO DI_TEST_DATA "/../models/nano"

static di_model *model;

static void open_model(const char *dir)
{
    di_require(di_model_open(dir, NULL, &model));
}

static void close_model(void)
{
    di_model_close(model);
}

typedef struct setting {
    const char *speculation, *varlen;
    int draft_len;
    const char *async;
    int64_t kv_bytes; /* 0 = plenty */
} setting;

static di_engine *make_engine(const setting *s)
{
    const di_options options = {
        .n_threads = 1,
        .max_seqs = 16,
        .max_context_len = 512,
        .kv_cache_bytes = s->kv_bytes,
        .prefix_cache = "off",
        .async_scheduling = s->async,
        .speculation = s->speculation,
        .draft_len = s->draft_len,
        .draft_varlen = s->varlen,
    };
    di_engine *engine;
    di_require(di_engine_create(model, &options, &engine));
    return engine;
}

/* ------------------------------------------------------------------------------- the state */

enum { N_REQUESTS = 5, MOST_SAMPLES = 2, MOST_LEN = 256 };

typedef enum part { ROWS, ENGRAM, SAMPLER, MASK, WINDOW, COMPRESSED, INDEX, N_PARTS } part;

static const char *const part_names[N_PARTS] = {"pending tokens of the compressors",
                                                "engram ids",
                                                "sampler",
                                                "mask of the next token",
                                                "window entries",
                                                "compressed entries",
                                                "index keys"};

/* Of a sequence whose newest token stands at a position. */
typedef struct snapshot {
    bool is_taken;
    di_buf parts[N_PARTS];
} snapshot;

typedef struct history {
    snapshot at[N_REQUESTS][MOST_SAMPLES][MOST_LEN];
    size_t n_bytes[N_PARTS]; /* that were compared */
} history;

static void put(di_buf *out, const void *data, size_t bytes)
{
    di_require(di_buf_append(out, data, bytes));
}

static void put_entry(const di_kv_cache *kv, const di_kv_seq *seq, int layer, di_kv_store store,
                      int64_t position, di_buf *out)
{
    const int group = store == DI_KV_WINDOW ? 0 : kv->layout.group_of_layer[layer];
    const di_paged view = di_kv_cache_view(kv, layer, store);
    const int64_t index = position / kv->layout.groups[group].ratio;
    const int64_t slot = di_paged_slot(seq->tables[group], view.block_len, index);
    put(out, di_paged_codes(&view, slot), (size_t)view.code_bytes);
    put(out, di_paged_scales(&view, slot), (size_t)view.scale_bytes);
}

/* Windows, as far as rows to come see them, of the layers that all engines have; compressed entries
 * and index keys of all positions. */
static void put_entries(const di_engine *engine, const di_seq *seq, int64_t n, snapshot *out)
{
    const di_kv_cache *kv = &engine->runner.kv;
    for (int layer = 0; layer < model->config.n_layers; layer++) {
        for (int64_t t = di_max_i64(0, n - kv->window_len + 1); t < n; t++)
            put_entry(kv, &seq->sched.kv, layer, DI_KV_WINDOW, t, &out->parts[WINDOW]);
        if (kv->layout.place_in_group[layer] < 0)
            continue;
        const int ratio = kv->layout.groups[kv->layout.group_of_layer[layer]].ratio;
        for (int64_t t = ratio - 1; t < n; t += ratio) {
            put_entry(kv, &seq->sched.kv, layer, DI_KV_COMPRESSED, t, &out->parts[COMPRESSED]);
            put_entry(kv, &seq->sched.kv, layer, DI_KV_INDEX, t, &out->parts[INDEX]);
        }
    }
}

/* The token before an odd position waits for its pair. */
static void put_pending(const di_engine *engine, const di_slot *slot, int64_t n, snapshot *out)
{
    const di_kv_cache *kv = &engine->runner.kv;
    const int64_t token = 2 * kv->head_dim;
    for (int c = 0; n % 2 && c < kv->layout.n_compressors; c++)
        put(&out->parts[ROWS],
            slot->compressor_state + (c * DI_PENDING_PAIRS + n / 2 % DI_PENDING_PAIRS) * token,
            (size_t)token * sizeof *slot->compressor_state);
}

static void put_sampler(const di_slot *slot, snapshot *out)
{
    const di_sampler_state *s = &slot->sampler;
    const int32_t vocab_size = (int32_t)model->config.vocab_size;
    put(&out->parts[SAMPLER], &slot->last_token, sizeof slot->last_token);
    put(&out->parts[SAMPLER], &s->n_output, sizeof s->n_output);
    if (s->counts.seen) {
        put(&out->parts[SAMPLER], s->counts.seen, (size_t)vocab_size * sizeof *s->counts.seen);
        put(&out->parts[SAMPLER], s->counts.distinct,
            (size_t)s->counts.n_distinct * sizeof *s->counts.distinct);
    }
    if (!di_constraint_is_on(&s->constraint))
        return;
    const di_constraint_mark mark = di_constraint_mark_of(&s->constraint);
    float *scores = calloc((size_t)vocab_size, sizeof *scores);
    bool must_end;
    assert_non_null(scores);
    di_require(di_constraint_apply(&s->constraint, scores, vocab_size, &must_end));
    put(&out->parts[MASK], &mark.n_accepted, sizeof mark.n_accepted);
    put(&out->parts[MASK], scores, (size_t)vocab_size * sizeof *scores);
    free(scores);
}

static void take_snapshot(const di_engine *engine, const di_seq *seq, snapshot *out)
{
    const int64_t n = seq->slot->position; /* computed */
    out->is_taken = true;
    put_pending(engine, seq->slot, n, out);
    put_sampler(seq->slot, out);
    put_entries(engine, seq, n, out);
    if (seq->slot->engram_ids) {
        const int64_t from = di_max_i64(0, n - model->config.engram_max_ngram_size);
        put(&out->parts[ENGRAM], seq->slot->engram_ids + from,
            (size_t)(n - from) * sizeof *seq->slot->engram_ids);
    }
}

static void free_snapshot(snapshot *s)
{
    for (int p = 0; p < N_PARTS; p++)
        di_buf_free(&s->parts[p]);
    *s = (snapshot){.is_taken = false};
}

static void compare(history *h, const snapshot *want, const snapshot *got, int64_t position)
{
    for (int p = 0; p < N_PARTS; p++) {
        const di_buf *a = &want->parts[p], *b = &got->parts[p];
        if (a->len != b->len || (a->len && memcmp(di_buf_str(a), di_buf_str(b), a->len) != 0))
            fail_msg("position %lld: the %s differ", (long long)position, part_names[p]);
        h->n_bytes[p] += a->len;
    }
}

/* Of all sequences that stand between two steps. is_reference: keeps, else compares; returns how
 * many. */
static int look(const di_engine *engine, bool is_reference, history *h)
{
    int n = 0;
    for (const di_entry *e = engine->active.first; e; e = e->active_next) {
        for (int32_t i = 0; i < e->n_samples; i++) {
            const di_seq *seq = &e->seqs[i];
            if (!seq->slot || seq->finish_reason != DI_FINISH_NONE || seq->slot->last_token < 0 ||
                di_seq_n_output(seq) == 0 || seq->slot->position != (int64_t)seq->tokens.len - 1 ||
                seq->sched.kv.len == 0)
                continue;
            const int64_t position = seq->slot->position;
            snapshot *kept = &h->at[e->id - 1][i][position];
            if (is_reference) {
                if (!kept->is_taken)
                    take_snapshot(engine, seq, kept);
                continue;
            }
            if (!kept->is_taken || seq->sched.kv.len < position)
                continue; /* preempted: nothing is computed */
            snapshot s = {.is_taken = false};
            take_snapshot(engine, seq, &s);
            compare(h, kept, &s, position);
            free_snapshot(&s);
            n++;
        }
    }
    return n;
}

static const di_so_args words = {.schema_type = DI_SCHEMA_REGEX,
                                 .schema = "([b-df-z]{2,5} ?){30,40}\\. And so it was for ever\\."};

static di_request state_request(int index, const int32_t *ids)
{
    di_request r = DI_REQUEST_INIT;
    r.token_ids = ids;
    r.n_token_ids = (size_t)(9 + 13 * index);
    r.sampling.temperature = index % 2 ? 0.7 : 0;
    r.sampling.n = 1 + index % MOST_SAMPLES;
    r.sampling.has_seed = true;
    r.sampling.seed = 7;
    r.sampling.max_tokens = 60;
    r.sampling.ignore_eos = index != 4;
    r.sampling.frequency_penalty = index >= 2 ? -2 : 0;
    r.sampling.repetition_penalty = index == 3 ? 1.2 : 1;
    r.so_args = index == 4 ? &words : NULL;
    return r;
}

static int run_states(const setting *s, bool is_reference, history *h, di_engine_stats *stats)
{
    int32_t ids[MOST_LEN];
    int n_compared = 0;
    di_rng rng = di_rng_named("states");
    for (int i = 0; i < MOST_LEN; i++)
        ids[i] = (int32_t)di_rng_between(&rng, 3, 1200);
    di_engine *engine = make_engine(s);
    for (int i = 0; i < N_REQUESTS; i++) {
        const di_request r = state_request(i, ids + i);
        di_request_id id;
        di_require(di_engine_submit(engine, &r, &id));
        assert_int_equal(id, i + 1);
    }
    bool has_work = true;
    while (has_work) {
        di_require(di_engine_step(engine, &has_work));
        n_compared += look(engine, is_reference, h);
    }
    di_check_idle(engine, NULL);
    di_engine_get_stats(engine, stats);
    di_engine_destroy(engine);
    return n_compared;
}

static void free_history(history *h)
{
    for (int i = 0; i < N_REQUESTS; i++)
        for (int k = 0; k < MOST_SAMPLES; k++)
            for (int t = 0; t < MOST_LEN; t++)
                free_snapshot(&h->at[i][k][t]);
    free(h);
}

static int64_t bytes_for(int64_t n_tokens)
{
    di_kv_layout layout;
    int64_t bytes = 0;
    di_kv_layout_init(&model->config, true, &layout);
    for (int g = 0; g < layout.n_groups; g++)
        bytes += di_ceil_div(n_tokens, DI_KV_BLOCK_TOKENS) * layout.groups[g].block_bytes;
    return bytes;
}

static void committed_state_is_that_without_drafts(void **state)
{
    (void)state;
    open_model(TINY);
    history *h = calloc(1, sizeof *h);
    assert_non_null(h);
    di_engine_stats stats;
    const setting off = {"off", "off", 5, "off", 0};
    run_states(&off, true, h, &stats);
    const setting settings[] = {
        {"auto", "off", 5, "off", 0},
        {"auto", "off", 7, "off", bytes_for(640)},
        {"auto", "on", 3, "off", 0},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const int n = run_states(&settings[i], false, h, &stats);
        print_message("%d states compared; of %llu verified drafts %llu accepted, %llu "
                      "preemptions\n",
                      n, (unsigned long long)stats.verified_drafts,
                      (unsigned long long)stats.accepted_drafts,
                      (unsigned long long)stats.n_preemptions);
        assert_true(n > 50);
        assert_true(stats.verified_drafts > 0);
        assert_true(i == 2 || stats.accepted_drafts > 0);
        assert_int_equal(stats.n_preemptions > 0, settings[i].kv_bytes > 0);
    }
    for (int p = 0; p < N_PARTS; p++)
        assert_true(h->n_bytes[p] > 0);
    free_history(h);
    close_model();
}

/* ------------------------------------------------------------------------------- the tokens */

typedef struct outputs {
    di_result **results;
    int n;
    di_engine_stats stats;
} outputs;

static outputs run_all(const setting *s, const di_request *requests, int n)
{
    outputs out = {.results = calloc((size_t)n, sizeof(di_result *)), .n = n};
    di_request_id *ids = calloc((size_t)n, sizeof *ids);
    assert_true(out.results && ids);
    di_engine *engine = make_engine(s);
    for (int i = 0; i < n; i++)
        di_require(di_engine_submit(engine, &requests[i], &ids[i]));
    bool has_work = true;
    while (has_work)
        di_require(di_engine_step(engine, &has_work));
    for (int i = 0; i < n; i++)
        di_require(di_engine_take_result(engine, ids[i], &out.results[i]));
    di_engine_get_stats(engine, &out.stats);
    di_engine_destroy(engine);
    free(ids);
    return out;
}

static void free_outputs(outputs *out)
{
    for (int i = 0; i < out->n; i++)
        di_result_free(out->results[i]);
    free(out->results);
}

static void assert_same_outputs(const outputs *a, const outputs *b)
{
    for (int i = 0; i < a->n; i++) {
        const di_result *x = a->results[i], *y = b->results[i];
        if (x->status != DI_OK || y->status != DI_OK)
            fail_msg("request %d: %s%s", i, x->error, y->error);
        assert_int_equal(x->n_token_ids, y->n_token_ids);
        assert_memory_equal(x->token_ids, y->token_ids, x->n_token_ids * sizeof *x->token_ids);
        assert_string_equal(x->text, y->text);
        assert_int_equal(x->finish_reason, y->finish_reason);
    }
}

/* All settings give what the first, without drafts, gives. */
static void compare_settings(const char *what, const di_request *requests, int n)
{
    const setting settings[] = {
        {"off", "off", 5, "off", 0},
        {"auto", "off", 5, "off", 0},
        {"auto", "on", 5, "on", 0},
        {"auto", "off", 2, "on", 0},
    };
    outputs want = run_all(&settings[0], requests, n);
    assert_int_equal(want.stats.drafted_tokens, 0);
    for (size_t i = 1; i < sizeof settings / sizeof settings[0]; i++) {
        outputs got = run_all(&settings[i], requests, n);
        assert_same_outputs(&want, &got);
        print_message("%s: %llu passes instead of %llu, %llu of %llu drafts accepted\n", what,
                      (unsigned long long)got.stats.n_steps, (unsigned long long)want.stats.n_steps,
                      (unsigned long long)got.stats.accepted_drafts,
                      (unsigned long long)got.stats.verified_drafts);
        if (settings[i].varlen[1] == 'f') {
            assert_true(got.stats.accepted_drafts > 0);
            assert_true(got.stats.n_steps < want.stats.n_steps);
        }
        free_outputs(&got);
    }
    free_outputs(&want);
}

static di_request text_request(const char *text, int64_t max_tokens)
{
    di_request r = DI_REQUEST_INIT;
    r.text = text;
    r.sampling.temperature = 0;
    r.sampling.max_tokens = max_tokens;
    r.sampling.ignore_eos = true;
    return r;
}

/* D01. */
static void greedy_texts(void **state)
{
    (void)state;
    static const char *const prompts[] = {
        "Once upon a time there was a little fox who",
        "The old man opened the door and",
        "Long ago, in a country by the sea,",
        "What is the capital of France?",
        "One, two, three, four,",
        "The king had three sons. The eldest",
    };
    enum { N = sizeof prompts / sizeof prompts[0] };
    di_request requests[N];
    for (int i = 0; i < N; i++)
        requests[i] = text_request(prompts[i], 100 / DI_TEST_SHARE);
    open_model(NANO);
    compare_settings("greedy", requests, N);
    close_model();
}

/* D07: penalties count every accepted token, min_tokens counts tokens; one request is too short to
 * have drafts. */
static void penalties_and_bias(void **state)
{
    (void)state;
    static const double frequency[] = {-2.0, 0, 2.0}, repetition[] = {1.0, 1.3};
    static const di_logit_bias bias[] = {{300, 4.0f}, {301, -100.0f}, {1, 6.0f}};
    enum { N_GRID = 6, N = 2 * N_GRID + 2 };
    di_request requests[N];
    for (int i = 0; i < N; i++) {
        di_request r = text_request("Repeat the word hello: hello", 8 + 32 / DI_TEST_SHARE);
        r.sampling.ignore_eos = false;
        r.sampling.min_tokens = 8;
        r.sampling.frequency_penalty = frequency[i % 3];
        r.sampling.repetition_penalty = repetition[i / 3 % 2];
        if (i >= N_GRID) {
            r.sampling.presence_penalty = i % 2 ? 1.5 : -1.5;
            r.sampling.logit_bias = bias;
            r.sampling.n_logit_bias = sizeof bias / sizeof bias[0];
            r.sampling.temperature = i % 3 ? 0.8 : 0;
            r.sampling.has_seed = true;
            r.sampling.seed = (uint64_t)i;
        }
        requests[i] = r;
    }
    requests[N - 1].sampling.min_tokens = 0;
    requests[N - 1].sampling.max_tokens = 1;
    open_model(NANO);
    compare_settings("penalties", requests, N);
    close_model();
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_state_is_that_without_drafts),
        cmocka_unit_test(greedy_texts),
        cmocka_unit_test(penalties_and_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
