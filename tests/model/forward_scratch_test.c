/* di_forward_scratch_bytes bounds what a pass takes from its arena, and not by much. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/checked.h"
#include "golden.h"
#include "share.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

static int64_t room(int64_t n, size_t elem_bytes)
{
    return (n * (int64_t)elem_bytes + 63) / 64 * 64;
}

/* What di_runner_execute takes from the same arena beside the pass. */
static int64_t logits_bytes(const di_runner *r, int64_t n_logit_rows)
{
    return room(n_logit_rows * r->model->config.vocab_size, sizeof(float));
}

/* One pass of n rows that ends at `context_len`. */
static void check_pass(const di_golden *golden, const char *name, int64_t n, int64_t context_len,
                       int n_threads, bool wants_all)
{
    const di_options options = {.n_threads = n_threads, .max_step_tokens = 2048};
    di_runner runner;
    di_runner_seq seq = {.compressor_state = NULL};
    float *logits;
    require(di_runner_init(golden->model, &options, &runner));
    for (int64_t i = 0; i < context_len; i++) {
        const int32_t token = (int32_t)((i * i + 7 * i) % runner.model->config.vocab_size);
        require(di_runner_seq_append(&runner, &seq, &token, 1));
    }
    for (int64_t at = 0; at < context_len - n;) {
        const int64_t step = di_min_i64(n, context_len - n - at);
        const di_work before = {.seq = &seq, .n_tokens = step};
        require(di_runner_forward(&runner, &before, 1, NULL, &logits));
        at += step;
    }
    runner.scratch.peak_bytes = 0;
    const di_work work = {
        .seq = &seq, .n_tokens = n, .wants_all_logits = wants_all, .wants_last_logits = true};
    require(di_runner_forward(&runner, &work, 1, NULL, &logits));
    const int64_t taken =
        (int64_t)runner.scratch.peak_bytes - logits_bytes(&runner, wants_all ? n : 1);
    const int64_t bound =
        di_forward_scratch_bytes(&golden->model->config, false, n, context_len, n_threads);
    if (taken > bound)
        fail_msg("%s: %d rows at %d tokens take %lld bytes, planned %lld", name, (int)n,
                 (int)context_len, (long long)taken, (long long)bound);
    if (bound > 2 * taken)
        fail_msg("%s: %d rows at %d tokens take %lld bytes, planned %lld: more than twice that",
                 name, (int)n, (int)context_len, (long long)taken, (long long)bound);
    di_runner_seq_free(&runner, &seq);
    di_runner_free(&runner);
}

static void check(const char *name)
{
    di_golden golden;
    di_golden_open(name, &golden);
    const int64_t most = di_min_i64(golden.model->config.max_position_embeddings, 400);
    const int64_t rows[] = {1, 13, 200};
    for (int i = 0; i < 3; i++) {
        check_pass(&golden, name, rows[i], rows[i], 1, true);
        check_pass(&golden, name, rows[i], rows[i], 3, false);
        if (rows[i] >= 13)
            check_pass(&golden, name, rows[i], most, 2, true);
    }
    di_golden_close(&golden);
}

static void golden(void **state)
{
    (void)state;
    check("tiny");
    if (DI_TEST_SHARE == 1)
        check("small");
}

static void varied(void **state)
{
    (void)state;
    check("varied/one_stream");
    check("varied/ratio_one");
    check("varied/ratio_two");
    check("varied/mixed");
    check("varied/constants");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(varied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
