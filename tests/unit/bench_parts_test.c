/* What benchmarks are made of: costs, the layers that stand for a model, synthetic weights. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "bench/cost.h"
#include "bench/shape.h"
#include "bench/synthetic.h"
#include "bench/timing.h"
#include "checkpoint.h"
#include "engine/runner.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped_gemm/grouped_gemm.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

static void medians(void **state)
{
    (void)state;
    double odd[] = {5.0, 1.0, 3.0}, even[] = {4.0, 1.0, 3.0, 2.0};
    assert_true(di_timing_median(odd, 3) == 3.0);
    assert_true(di_timing_median(even, 4) == 2.5);
}

static void count_calls(void *user, int64_t i)
{
    int64_t *n = user;
    assert_int_equal(i, *n);
    ++*n;
}

static void timing_calls_in_order(void **state)
{
    (void)state;
    int64_t n = 0;
    di_timing timing;
    di_timing_run(count_calls, &n, 0.001, &timing);
    assert_int_equal(timing.n_calls, n - 1);
    assert_true(timing.minimum > 0.0 && timing.median >= timing.minimum);
}

static void costs_of_linears(void **state)
{
    (void)state;
    const di_gemm_args f8 = {.m = 3, .n = 70, .k = 100};
    di_bench_cost c = di_bench_cost_of(DI_OP_gemm_f8, &f8, 3);
    assert_true(c.memory_bytes == 70 * 100 + 3 * 4);
    assert_true(c.flops == 2.0 * 3 * 70 * 100);
    c = di_bench_cost_of(DI_OP_gemm_bf16, &f8, 3);
    assert_true(c.memory_bytes == 2 * 70 * 100);
    const int32_t expert_begin[] = {0, 2, 7};
    const di_grouped_gemm_args f4 = {.n_active = 2, .n = 64, .k = 96, .expert_begin = expert_begin};
    c = di_bench_cost_of(DI_OP_grouped_gemm_f4, &f4, 5);
    assert_true(c.memory_bytes == 2 * (64 * 48 + 64 * 3));
    assert_true(c.flops == 2.0 * 7 * 64 * 96);
}

static void bounds(void **state)
{
    (void)state;
    const di_ceilings ceilings = {
        .n_threads = 1,
        .rate = {[DI_CEILING_MEMORY] = 10.0,
                 [DI_CEILING_MEMORY_SMALL_PAGES] = 20.0,
                 [DI_CEILING_CACHE] = 100.0,
                 [DI_CEILING_FMA] = 1000.0,
                 [DI_CEILING_DOT_INT8] = 4000.0,
                 [DI_CEILING_DOT_BF16] = 2000.0,
                 [DI_CEILING_AMX_BF16] = 8000.0},
    };
    double seconds;
    const di_bench_cost reads = {.memory_bytes = 60.0, .cache_bytes = 200.0, .flops = 2500.0};
    assert_int_equal(di_bench_bound(DI_OP_gemm_f8, &reads, DI_ISA_AVX512, &ceilings, &seconds),
                     DI_CEILING_MEMORY);
    assert_true(seconds == 3.0);
    const di_bench_cost computes = {.memory_bytes = 60.0, .flops = 8000.0};
    assert_int_equal(
        di_bench_bound(DI_OP_gemm_f8, &computes, DI_ISA_AVX512VNNI, &ceilings, &seconds),
        DI_CEILING_FMA);
    assert_true(seconds == 8.0);
    assert_int_equal(
        di_bench_bound(DI_OP_gemm_f8, &computes, DI_ISA_AVX512BF16, &ceilings, &seconds),
        DI_CEILING_DOT_BF16);
    assert_true(seconds == 4.0);
    assert_int_equal(di_bench_unit(DI_OP_sparse_attention, DI_ISA_AVX512BF16, &ceilings),
                     DI_CEILING_FMA);
    assert_int_equal(di_bench_bound(DI_OP_gemm_f8, &computes, DI_ISA_AMX, &ceilings, &seconds),
                     DI_CEILING_MEMORY);
    assert_int_equal(di_bench_unit(DI_OP_index_logits, DI_ISA_AVX512VNNI, &ceilings),
                     DI_CEILING_DOT_INT8);
}

/* Every layer's entries, selection and candidates come from layers that are there too. */
static void check_reduced(const di_config *full, int n)
{
    int layers[DI_MAX_LAYERS];
    di_config c;
    require(di_synthetic_pick(full, n, layers));
    di_synthetic_reduce(full, layers, n, &c);
    assert_int_equal(c.n_layers, n);
    for (int i = 0; i < n; i++) {
        const int from = layers[i];
        assert_true(i == 0 || from > layers[i - 1]);
        assert_int_equal(c.compress_ratios[i], full->compress_ratios[from]);
        assert_int_equal(di_synthetic_has_engram(&c, i), di_synthetic_has_engram(full, from));
        if (c.compress_ratios[i] == 0)
            continue;
        assert_int_equal(layers[c.kv_source[i]], full->kv_source[from]);
        assert_int_equal(layers[c.index_source[i]], full->index_source[from]);
        if (full->candidate_source >= 0 && from >= full->candidate_source)
            assert_int_equal(layers[c.candidate_source], full->candidate_source);
    }
}

static void layers_stand_for_a_model(void **state)
{
    (void)state;
    di_config release;
    int layers[DI_MAX_LAYERS];
    di_shape_release(&release);
    require(di_synthetic_pick(&release, 2, layers));
    assert_int_equal(layers[0], 20);
    assert_int_equal(layers[1], 21);
    for (int n = 1; n <= release.n_layers; n++)
        check_reduced(&release, n);
    /* Eight layers have every kind. */
    require(di_synthetic_pick(&release, 8, layers));
    for (int layer = 0; layer < release.n_layers; layer++) {
        bool is_there = false;
        for (int i = 0; i < 8; i++)
            is_there |= di_synthetic_is_same_kind(&release, layers[i], layer);
        assert_true(is_there);
    }
    assert_int_equal(di_synthetic_pick(&release, 41, layers), DI_ERR_ARGUMENT);
    assert_int_equal(di_synthetic_pick(&release, 0, layers), DI_ERR_ARGUMENT);
}

static void fillers_make_sane_values(void **state)
{
    (void)state;
    uint8_t bytes[4099], again[4099];
    di_bench_fill_weights(bytes, sizeof bytes, 7);
    di_bench_fill_weights(again, sizeof again, 7);
    assert_memory_equal(bytes, again, sizeof bytes);
    di_bench_fill_weights(again, sizeof again, 8);
    assert_true(memcmp(bytes, again, sizeof bytes) != 0);
    for (size_t i = 0; i < sizeof bytes; i++) {
        const float code = fabsf(di_e4m3_to_f32[bytes[i]]);
        assert_true(code >= 0x1p-3f && code < 2.0f);
    }
    for (size_t i = 0; i + 1 < sizeof bytes; i += 2) {
        di_bf16 value;
        memcpy(&value, bytes + i, sizeof value);
        const float magnitude = fabsf(di_bf16_to_f32(value));
        assert_true(magnitude >= 0x1p-15f && magnitude < 2.0f);
    }
    di_bench_fill_scales(bytes, sizeof bytes, 1);
    di_bench_fill_e4m3(again, sizeof again, 1);
    for (size_t i = 0; i < sizeof bytes; i++) {
        const float scale = di_e8m0_to_f32(bytes[i]), q4kv = di_e4m3_to_f32[again[i]];
        assert_true(scale == 0x1p-7f || scale == 0x1p-6f);
        assert_true(q4kv >= 0.25f && q4kv < 2.0f);
    }
}

/* Ten layers of random weights give finite logits that depend on the tokens. */
static void synthetic_model_runs(void **state)
{
    (void)state;
    di_config full, config;
    di_synthetic synthetic;
    di_runner runner;
    int layers[DI_MAX_LAYERS];
    require(di_test_config("golden/tiny", &full));
    require(di_synthetic_pick(&full, full.n_layers, layers));
    di_synthetic_reduce(&full, layers, full.n_layers, &config);
    require(di_synthetic_init(&config, 5, &synthetic)); /* fewer than a layer has */
    assert_int_equal(synthetic.n_pool_experts, 5);
    require(di_runner_init(&synthetic.model, &(di_options){.n_threads = 2}, &runner));
    di_runner_seq seqs[2] = {{.compressor_state = NULL}};
    di_work works[2];
    for (int s = 0; s < 2; s++) {
        for (int32_t i = 0; i < 150; i++) {
            const int32_t token = (i * 17 + s) % (int32_t)config.vocab_size;
            require(di_runner_seq_append(&runner, &seqs[s], &token, 1));
        }
        works[s] = (di_work){.seq = &seqs[s], .n_tokens = 150, .wants_last_logits = true};
    }
    float *logits;
    require(di_runner_forward(&runner, works, 2, NULL, &logits));
    double difference = 0.0;
    for (int64_t i = 0; i < config.vocab_size; i++) {
        assert_true(isfinite(logits[i]) && isfinite(logits[config.vocab_size + i]));
        difference += fabs((double)logits[i] - (double)logits[config.vocab_size + i]);
    }
    assert_true(difference > 0.01 * (double)config.vocab_size);
    for (int s = 0; s < 2; s++)
        di_runner_seq_free(&runner, &seqs[s]);
    di_runner_free(&runner);
    di_synthetic_free(&synthetic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(timing_calls_in_order),
        cmocka_unit_test(costs_of_linears),
        cmocka_unit_test(bounds),
        cmocka_unit_test(layers_stand_for_a_model),
        cmocka_unit_test(fillers_make_sane_values),
        cmocka_unit_test(synthetic_model_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
