/* The weight cache gives the mapping's bits, whatever its size, the number of threads and the
 * chunking; what cannot be read ends the pass with an error and nothing else. The reads run on
 * threads of their own (pthread_create): ThreadSanitizer takes this test. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "checkpoint.h"
#include "engine/engine.h"
#include "engine_check.h"
#include "weights/expert_place.h"
#include "weights/read_ahead.h"

#define TINY DI_TEST_DATA "/golden/tiny"
#define NANO DI_TEST_DATA "/../models/nano"

enum { N_TOKENS = 96 };

static di_model *open_model(const char *path)
{
    di_model *model;
    di_require(di_model_open(path, NULL, &model));
    return model;
}

/* ----------------------------------------------------------------------------------- the bits */

/* Logits [N_TOKENS, vocab] of a made-up text, `chunk` tokens a pass. Free with free(). */
static float *run(const di_model *model, const di_options *options, int64_t chunk,
                  di_weight_stats *stats)
{
    const size_t vocab = (size_t)model->config.vocab_size;
    di_runner runner;
    di_runner_seq seq = {.compressor_state = NULL};
    int32_t tokens[N_TOKENS];
    float *out = malloc(N_TOKENS * vocab * sizeof *out);
    assert_non_null(out);
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)(((size_t)i * i * 31 + 7 * (size_t)i + 3) % (vocab - 8));
    di_require(di_runner_init(model, options, &runner));
    di_require(di_runner_seq_append(&runner, &seq, tokens, N_TOKENS));
    for (int64_t at = 0; at < N_TOKENS; at += chunk) {
        const int64_t n = di_min_i64(chunk, N_TOKENS - at);
        const di_work work = {.seq = &seq, .n_tokens = n, .wants_all_logits = true};
        float *logits;
        di_require(di_runner_forward(&runner, &work, 1, NULL, &logits));
        memcpy(out + (size_t)at * vocab, logits, (size_t)n * vocab * sizeof *out);
    }
    di_weight_source_get_stats(runner.source, stats);
    di_runner_seq_free(&runner, &seq);
    di_runner_free(&runner);
    return out;
}

static int64_t slot_bytes(const di_model *model)
{
    int64_t bytes;
    di_require(di_weight_cache_slot(model->weights, &bytes));
    return bytes;
}

static void check_bits(const char *path)
{
    di_model *model = open_model(path);
    const di_config *c = &model->config;
    const size_t bytes = N_TOKENS * (size_t)c->vocab_size * sizeof(float);
    const int64_t least = c->n_experts_per_tok, all = di_experts_count(model->weights);
    const struct {
        int64_t n_slots, chunk;
        int n_threads;
    } cases[] = {
        {least, N_TOKENS, 1},   {least, 1, 2},      {least, 7, 3},
        {least + 2, 32, 2},     {3 * least, 13, 1}, {c->n_routed_experts + 1, N_TOKENS, 2},
        {all - 1, N_TOKENS, 2}, {all, 24, 3},       {2 * all, 5, 2},
    };
    di_weight_stats stats;
    const di_options plain = {.n_threads = 2, .kv_cache_bytes = 1};
    float *wanted = run(model, &plain, N_TOKENS, &stats);
    assert_true(stats.n_hits + stats.n_misses > 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const di_options options = {.n_threads = cases[i].n_threads,
                                    .kv_cache_bytes = 1,
                                    .weight_cache = cases[i].n_slots * slot_bytes(model)};
        float *got = run(model, &options, cases[i].chunk, &stats);
        if (memcmp(wanted, got, bytes) != 0)
            fail_msg("%s: other bits with %d slots, chunks of %d, %d threads", path,
                     (int)cases[i].n_slots, (int)cases[i].chunk, cases[i].n_threads);
        assert_true(stats.n_misses > 0 && stats.bytes_read > 0);
        if (cases[i].n_slots >= all) /* everything is read once */
            assert_true(stats.n_misses <= (uint64_t)(c->n_layers * c->n_routed_experts));
        if (cases[i].n_slots >= all && cases[i].chunk < N_TOKENS)
            assert_true(stats.n_hits > 0);
        free(got);
    }
    free(wanted);
    di_model_close(model);
}

static void tiny_has_the_bits_of_the_mapping(void **state)
{
    (void)state;
    check_bits(TINY);
}

static void nano_has_the_bits_of_the_mapping(void **state)
{
    (void)state;
    check_bits(NANO);
}

static void too_small_a_cache_is_refused(void **state)
{
    (void)state;
    di_model *model = open_model(TINY);
    const int64_t least = model->config.n_experts_per_tok * slot_bytes(model);
    const di_options options = {.kv_cache_bytes = 1, .weight_cache = least - 1};
    di_engine *engine;
    char text[64];
    snprintf(text, sizeof text, "weight_cache: found %lld, wanted at least %lld",
             (long long)least - 1, (long long)least);
    assert_int_equal(di_engine_create(model, &options, &engine), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), text));
    const di_options huge = {.kv_cache_bytes = 1, .weight_cache = INT64_MAX / 4};
    assert_int_equal(di_engine_create(model, &huge, &engine), DI_ERR_MEMORY);
    assert_non_null(strstr(di_last_error(), "weight cache 2305843009213693951"));
    di_model_close(model);
}

/* ------------------------------------------------------------------------- files that are cut */

static char dir[4096], shard_path[4200];
static di_forward_fn forward;

/* tiny's configuration, and a shard of its own for two layers' experts. */
static di_model *open_split(void)
{
    DI_BUF_AUTO made = {0};
    DI_BUF_AUTO link = {0};
    di_test_plan plan;
    di_config config;
    di_require(di_test_make_dir(&made));
    snprintf(dir, sizeof dir, "%s", di_buf_str(&made));
    json_t *json = di_test_config_json("golden/tiny");
    char *text = json_dumps(json, JSON_REAL_PRECISION(17));
    assert_non_null(text);
    di_require(di_test_config_parse(json, &config));
    di_require(di_test_write_file(dir, "config.json", text, strlen(text)));
    free(text);
    json_decref(json);
    di_require(di_test_plan_make(&config, &plan));
    plan.n_shards = 2;
    for (size_t i = 0; i < plan.n; i++)
        plan.tensors[i].shard = strncmp(plan.tensors[i].name, "layers.3.ffn.experts.", 21) == 0 ||
                                strncmp(plan.tensors[i].name, "layers.4.ffn.experts.", 21) == 0;
    di_require(di_test_plan_write(&plan, dir));
    di_test_plan_free(&plan);
    snprintf(shard_path, sizeof shard_path, "%s/model-00002-of-00002.safetensors", dir);
    di_require(di_buf_printf(&link, "%s/tokenizer.json", dir));
    assert_int_equal(symlink(TINY "/tokenizer.json", di_buf_str(&link)), 0);
    return open_model(dir);
}

static void close_split(di_model *model)
{
    di_model_close(model);
    di_test_remove_dir(dir);
}

static di_status cut_and_forward(di_pass *pass, float *logits)
{
    assert_int_equal(truncate(shard_path, 20000), 0);
    return forward(pass, logits);
}

/* Puts back what was cut off. */
static void restore(const char *data, size_t bytes)
{
    const int fd = open(shard_path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, bytes, 0), bytes);
    close(fd);
}

static di_result *generate(di_engine *engine)
{
    static const int32_t ids[] = {0, 417, 303, 554, 297, 1230, 274, 12, 360, 335, 598, 566, 13};
    di_request r = DI_REQUEST_INIT;
    di_request_id id;
    di_result *result;
    bool has_work = true;
    r.token_ids = ids;
    r.n_token_ids = sizeof ids / sizeof *ids;
    r.sampling.temperature = 0;
    r.sampling.max_tokens = 8;
    r.sampling.ignore_eos = true;
    di_require(di_engine_submit(engine, &r, &id));
    while (has_work)
        di_require(di_engine_step(engine, &has_work));
    di_require(di_engine_take_result(engine, id, &result));
    return result;
}

static void a_shard_that_is_cut_in_a_pass_ends_its_requests(void **state)
{
    (void)state;
    di_model *model = open_split();
    DI_BUF_AUTO whole = {0};
    di_require(di_file_read(shard_path, 64 << 20, &whole));
    const di_options options = {
        .n_threads = 2, .kv_cache_bytes = 1, .weight_cache = 6 * slot_bytes(model)};
    di_engine *engine;
    di_require(di_engine_create(model, &options, &engine));
    di_result *before = generate(engine);
    assert_int_equal(before->finish_reason, DI_FINISH_LENGTH);
    forward = engine->runner.forward;
    engine->runner.forward = cut_and_forward;
    for (int i = 0; i < 3; i++) {
        di_result *failed = generate(engine);
        assert_int_equal(failed->finish_reason, DI_FINISH_ERROR);
        assert_int_equal(failed->status, DI_ERR_RUNTIME);
        assert_non_null(strstr(failed->error, shard_path));
        assert_non_null(strstr(failed->error, "cut while in use"));
        di_result_free(failed);
        restore(whole.data, whole.len);
    }
    engine->runner.forward = forward;
    di_result *after = generate(engine);
    assert_int_equal(after->finish_reason, DI_FINISH_LENGTH);
    assert_memory_equal(before->token_ids, after->token_ids, 8 * sizeof *after->token_ids);
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    assert_true(stats.expert_misses > 0 && stats.weight_bytes_read > 0);
    di_result_free(before);
    di_result_free(after);
    di_engine_destroy(engine);
    close_split(model);
}

/* The tensors of every expert, as the cache has them, are those of the mapping. */
static void slots_hold_the_files_bytes(void **state)
{
    (void)state;
    di_model *model = open_split();
    const di_weights *w = model->weights;
    di_weight_source *source;
    di_require(di_weight_source_open(w, 3 * slot_bytes(model), &source));
    for (int l = 0; l < model->config.n_layers; l++) {
        const di_layer_weights *layer = &w->layers[l];
        di_weight_source_begin(source);
        for (int32_t e = 0; e < layer->n_experts; e++) {
            const di_expert_weights *got, *wanted = &layer->experts[e];
            const size_t n = (size_t)(wanted->w1.n_in * wanted->w1.n_out);
            int64_t n_got;
            di_require(di_weight_source_acquire(source, layer, &e, 1, &got, &n_got));
            assert_int_equal(n_got, 1);
            assert_ptr_not_equal(got->w1.codes, wanted->w1.codes);
            assert_int_equal(got->w2.n_out, wanted->w2.n_out);
            assert_memory_equal(got->w1.codes, wanted->w1.codes, n / 2);
            assert_memory_equal(got->w1.scales, wanted->w1.scales, n / 32);
            assert_memory_equal(got->w2.codes, wanted->w2.codes, n / 2);
            assert_memory_equal(got->w2.scales, wanted->w2.scales, n / 32);
            assert_memory_equal(got->w3.codes, wanted->w3.codes, n / 2);
            assert_memory_equal(got->w3.scales, wanted->w3.scales, n / 32);
            di_weight_source_release(source, layer, &e, 1);
        }
    }
    di_weight_source_close(source);
    close_split(model);
}

/* ------------------------------------------------------------------------------- read-ahead */

static bool is_resident(const di_expert_range *range)
{
    enum { PAGES = 256 };
    unsigned char pages[PAGES];
    assert_true(range->bytes <= PAGES * DI_IO_ALIGN);
    assert_int_equal(
        mincore((void *)(range->shard->mapping.data + range->offset), (size_t)range->wanted, pages),
        0);
    for (int64_t i = 0; i < di_ceil_div(range->wanted, DI_IO_ALIGN); i++)
        if (!(pages[i] & 1))
            return false;
    return true;
}

/* Drops the split shard from the page cache, as far as the file system has one to drop from. */
static void drop_pages(const di_expert_place *place)
{
    const di_mapping *m = &place->ranges[0].shard->mapping;
    assert_int_equal(madvise((void *)m->data, m->size, MADV_DONTNEED), 0);
    assert_int_equal(fsync(m->fd), 0);
    assert_int_equal(posix_fadvise(m->fd, 0, 0, POSIX_FADV_DONTNEED), 0);
}

static void routed_experts_are_read_ahead(void **state)
{
    (void)state;
    di_model *model = open_split();
    const di_layer_weights *layer = &model->weights->layers[3];
    const int32_t ids[] = {0, 2, 5};
    di_expert_place place;
    di_read_ahead *ahead;
    di_read_ahead_stats stats;
    di_require(di_expert_place_find(model->weights, layer->first_expert + ids[1], &place));
    drop_pages(&place);
    const bool was_resident = is_resident(&place.ranges[0]);
    di_require(di_read_ahead_create(model->weights, &ahead));
    di_read_ahead_begin(ahead);
    di_read_ahead_experts(ahead, layer, ids, 3);
    di_read_ahead_drain(ahead);
    di_read_ahead_get_stats(ahead, &stats);
    assert_int_equal(stats.n_resident + stats.n_asked, 3);
    if (!was_resident)
        assert_true(stats.n_asked > 0);
    while (!is_resident(&place.ranges[0])) /* it is being read */
        usleep(1000);
    di_read_ahead_experts(ahead, layer, ids, 3); /* nothing to ask for */
    di_read_ahead_get_stats(ahead, &stats);
    assert_int_equal(stats.n_resident + stats.n_asked, 6);
    di_read_ahead_destroy(ahead);
    di_read_ahead_destroy(NULL);
    close_split(model);
}

static void engram_rows_are_read_ahead(void **state)
{
    (void)state;
    di_model *model = open_model(TINY);
    const di_config *c = &model->config;
    assert_true(c->n_engram_layers > 0);
    di_read_ahead *ahead;
    di_require(di_read_ahead_create(model->weights, &ahead));
    enum { N = 1000 };
    int64_t rows[N];
    for (int i = 0; i < c->n_engram_layers; i++) {
        const di_engram_weights *t = model->weights->layers[c->engram_layer_ids[i]].engram;
        for (int64_t r = 0; r < N; r++)
            rows[r] = (r * 7919) % t->n_rows;
        rows[N - 1] = t->n_rows - 1;
        for (int pass = 0; pass < 40; pass++) { /* asks at first, and no more when all is there */
            di_read_ahead_begin(ahead);
            di_read_ahead_rows(ahead, i, rows, pass % 2 ? 1 : N);
        }
    }
    di_read_ahead_drain(ahead);
    di_read_ahead_destroy(ahead);
    di_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_has_the_bits_of_the_mapping),
        cmocka_unit_test(nano_has_the_bits_of_the_mapping),
        cmocka_unit_test(too_small_a_cache_is_refused),
        cmocka_unit_test(a_shard_that_is_cut_in_a_pass_ends_its_requests),
        cmocka_unit_test(slots_hold_the_files_bytes),
        cmocka_unit_test(routed_experts_are_read_ahead),
        cmocka_unit_test(engram_rows_are_read_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
