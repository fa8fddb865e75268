/* Checkpoints with NaN among the weights: a request that meets one ends with an error, others and
 * the engine go on as if it had not been there. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli_fixtures.h"
#include "deepinfer/deepinfer.h"

#define SHARD "model-00001-of-00001.safetensors"

enum { N_TOKENS = 24, BAD_TOKEN = 555, MAX_REQUESTS = 8 };

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

/* Where a row of a BF16 tensor begins in a safetensors file. */
static size_t find_row(const char *data, const char *name, size_t row)
{
    uint64_t header_bytes;
    memcpy(&header_bytes, data, sizeof header_bytes);
    json_t *header = json_loadb(data + 8, header_bytes, 0, NULL);
    const json_t *tensor = json_object_get(header, name);
    assert_non_null(tensor);
    assert_string_equal(json_string_value(json_object_get(tensor, "dtype")), "BF16");
    const json_t *shape = json_object_get(tensor, "shape");
    const json_t *offsets = json_object_get(tensor, "data_offsets");
    const size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    const size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    const size_t n_rows = (size_t)json_integer_value(json_array_get(shape, 0));
    assert_true(row < n_rows);
    json_decref(header);
    return 8 + header_bytes + begin + row * ((end - begin) / n_rows);
}

/* A folder `name` like golden/tiny, opened; the first number of that row of `tensor` is NaN. */
static di_model *open_damaged(const char *name, const char *tensor, size_t row)
{
    static const unsigned char bf16_nan[] = {0xc0, 0x7f};
    char path[512];
    size_t bytes;
    di_cli_link_model(name, SHARD);
    if (!di_cli_exists("whole"))
        di_cli_link_model("whole", NULL);
    char *data = di_cli_read("whole/" SHARD, &bytes);
    memcpy(data + find_row(data, tensor, row), bf16_nan, sizeof bf16_nan);
    snprintf(path, sizeof path, "%s/" SHARD, name);
    di_cli_write(path, data, bytes);
    free(data);
    snprintf(path, sizeof path, "%s/%s", di_cli_tmp, name);
    di_model *model;
    require(di_model_open(path, NULL, &model));
    return model;
}

static di_engine *make_engine(di_model *model)
{
    const di_options options = {.n_threads = 2, .max_step_tokens = 32, .kv_cache_bytes = 1};
    di_engine *engine;
    require(di_engine_create(model, &options, &engine));
    return engine;
}

/* The same beginning, so that the prefix cache has its part. */
static const int32_t good_ids[] = {0, 417, 303, 554, 297, 1230, 274, 12, 360, 335, 598, 566, 13};
static const int32_t bad_ids[] = {0, 417, 303, 554, 297, 1230, BAD_TOKEN, 12, 360, 335, 598, 566};

static di_request make_request(bool is_bad)
{
    static const di_logit_bias ban = {BAD_TOKEN, -INFINITY};
    di_request r = DI_REQUEST_INIT;
    r.token_ids = is_bad ? bad_ids : good_ids;
    r.n_token_ids = is_bad ? sizeof bad_ids / sizeof *bad_ids : sizeof good_ids / sizeof *good_ids;
    r.sampling.has_seed = true;
    r.sampling.seed = 11;
    r.sampling.max_tokens = N_TOKENS;
    r.sampling.ignore_eos = true;
    r.sampling.n_logprobs = 2;
    r.sampling.logit_bias = &ban;
    r.sampling.n_logit_bias = 1;
    return r;
}

static void run_all(di_engine *engine, const di_request *requests, size_t n, di_result **out)
{
    di_request_id ids[MAX_REQUESTS];
    for (size_t i = 0; i < n; i++)
        require(di_engine_submit(engine, &requests[i], &ids[i]));
    bool has_work = true;
    for (int step = 0; has_work; step++) {
        assert_true(step < 2000);
        require(di_engine_step(engine, &has_work));
        di_output output;
        while (di_engine_poll(engine, &output))
            assert_true(output.finish_reason != DI_FINISH_ERROR || output.error[0]);
    }
    for (size_t i = 0; i < n; i++)
        require(di_engine_take_result(engine, ids[i], &out[i]));
}

static void assert_failed(const di_result *r)
{
    assert_int_equal(r->finish_reason, DI_FINISH_ERROR);
    assert_int_equal(r->status, DI_ERR_RUNTIME);
    assert_non_null(strstr(r->error, "NaN"));
    assert_int_equal(r->n_token_ids, 0);
}

static void assert_same(const di_result *a, const di_result *b)
{
    assert_int_equal(b->finish_reason, DI_FINISH_LENGTH);
    assert_int_equal(a->n_token_ids, N_TOKENS);
    assert_int_equal(b->n_token_ids, N_TOKENS);
    assert_memory_equal(a->token_ids, b->token_ids, N_TOKENS * sizeof *a->token_ids);
    for (size_t i = 0; i < N_TOKENS; i++)
        for (size_t k = 0; k < 3; k++)
            assert_memory_equal(&a->logprobs[i].entries[k], &b->logprobs[i].entries[k],
                                sizeof(di_logprob));
}

/* M05 end to end: every request fails, each by itself, and the engine goes on. */
static void one_nan_norm_weight_ends_the_request(void **state)
{
    static const char *const tensors[] = {
        "norm.weight", "layers.2.attn_norm.weight", "layers.2.attn.kv_norm.weight",
        "layers.2.attn.compressor.norm.weight", "layers.2.attn.indexer.k_norm.weight"};
    (void)state;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "norm-%zu", i);
        di_model *model = open_damaged(name, tensors[i], 5);
        di_engine *engine = make_engine(model);
        for (int round = 0; round < 2; round++) {
            const di_request requests[] = {make_request(false), make_request(false)};
            di_result *results[2];
            run_all(engine, requests, 2, results);
            for (int k = 0; k < 2; k++) {
                if (i < 4) /* an index key that is NaN only misleads the selection */
                    assert_failed(results[k]);
                di_result_free(results[k]);
            }
        }
        di_engine_stats stats;
        di_engine_get_stats(engine, &stats);
        assert_int_equal(stats.kv_blocks_used, 0);
        const di_request request = make_request(false);
        di_result *r;
        if (i < 4)
            assert_int_equal(di_generate(engine, &request, NULL, NULL, &r), DI_ERR_RUNTIME);
        di_engine_destroy(engine);
        di_model_close(model);
    }
}

/* A token whose embedding holds a NaN spoils what reads it and nothing else: not those in the same
 * pass, and not those that get its cache blocks afterwards. */
static void a_nan_does_not_reach_other_requests(void **state)
{
    (void)state;
    di_model *clean, *model = open_damaged("embedding", "embed.weight", BAD_TOKEN);
    require(di_model_open(DI_CLI_TINY, NULL, &clean));
    const di_request bad = make_request(true), good = make_request(false);
    di_engine *engine = make_engine(clean);
    di_result *want, *results[5];
    require(di_generate(engine, &good, NULL, NULL, &want));
    di_engine_destroy(engine);

    engine = make_engine(model);
    const di_request requests[] = {bad, good, bad, good, bad};
    for (int round = 0; round < 3; round++) {
        run_all(engine, requests, 5, results);
        for (int i = 0; i < 5; i++) {
            if (i % 2 == 0)
                assert_failed(results[i]);
            else
                assert_same(want, results[i]);
            di_result_free(results[i]);
        }
    }
    di_engine_destroy(engine);
    di_result_free(want);
    di_model_close(model);
    di_model_close(clean);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_nan_norm_weight_ends_the_request),
        cmocka_unit_test(a_nan_does_not_reach_other_requests),
    };
    return cmocka_run_group_tests(tests, di_cli_setup, di_cli_teardown);
}
