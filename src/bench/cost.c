#include "bench/cost.h"

#include "base/checked.h"
#include "kernels/compress/compress.h"
#include "kernels/embed/embed.h"
#include "kernels/engram/engram.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/index_logits/index_logits.h"
#include "kernels/moe_gate/moe_gate.h"
#include "kernels/quantize/quantize.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "kernels/sparse_attention/sparse_attention.h"
#include "kernels/swiglu/swiglu.h"
#include "kernels/topk/topk.h"
#include "kernels/vocab/vocab.h"

static di_bench_cost in_cache(int64_t bytes)
{
    return (di_bench_cost){.cache_bytes = (double)bytes};
}

/* ----------------------------------------------------------------------------------- linears */

static di_bench_cost of_gemm(const di_gemm_args *a, int64_t weight_bytes)
{
    return (di_bench_cost){.memory_bytes = (double)weight_bytes,
                           .flops = 2.0 * (double)a->m * (double)a->n * (double)a->k};
}

static di_bench_cost of_gemm_f8(const void *args, int64_t n_rows)
{
    (void)n_rows;
    const di_gemm_args *a = args;
    return of_gemm(a, a->n * a->k + di_ceil_div(a->n, 32) * di_ceil_div(a->k, 32));
}

static di_bench_cost of_gemm_bf16(const void *args, int64_t n_rows)
{
    (void)n_rows;
    const di_gemm_args *a = args;
    return of_gemm(a, 2 * a->n * a->k);
}

static di_bench_cost of_grouped_gemm_f4(const void *args, int64_t n_rows)
{
    (void)n_rows;
    const di_grouped_gemm_args *a = args;
    const double values = (double)a->n * (double)a->k;
    return (di_bench_cost){.memory_bytes = (double)a->n_active * values * (1.0 / 2 + 1.0 / 32),
                           .flops = 2.0 * values * a->expert_begin[a->n_active]};
}

/* ------------------------------------------------------------------------------ rows in cache */

static di_bench_cost of_embed(const void *args, int64_t n_rows)
{
    const di_embed_args *a = args;
    return (di_bench_cost){.memory_bytes = 2.0 * (double)(n_rows * a->dim),
                           .cache_bytes = 2.0 * (double)(n_rows * a->dim * a->hc)};
}

static di_bench_cost of_rmsnorm(const void *args, int64_t n_rows)
{
    const di_rmsnorm_args *a = args;
    return in_cache(4 * n_rows * a->dim);
}

static di_bench_cost of_rope(const void *args, int64_t n_rows)
{
    const di_rope_args *a = args;
    return in_cache(4 * n_rows * a->n_heads * a->rope_dim);
}

static di_bench_cost of_quantize_q8(const void *args, int64_t n_rows)
{
    const di_quantize_args *a = args;
    return in_cache(4 * n_rows * a->dim);
}

static di_bench_cost of_quantize_q4i(const void *args, int64_t n_rows)
{
    return of_quantize_q8(args, n_rows);
}

static di_bench_cost of_pack_q8(const void *args, int64_t n_rows)
{
    const di_pack_args *a = args;
    return in_cache(n_rows * (2 * a->dim + a->out.code_bytes + a->out.scale_bytes));
}

static di_bench_cost of_pack_q4kv(const void *args, int64_t n_rows)
{
    return of_pack_q8(args, n_rows);
}

static di_bench_cost of_pack_q4i(const void *args, int64_t n_rows)
{
    return of_pack_q8(args, n_rows);
}

static di_bench_cost of_hc_project(const void *args, int64_t n_rows)
{
    const di_hc_project_args *a = args;
    const int64_t in = a->hc * a->dim, out = (int64_t)(2 + a->hc) * a->hc;
    return (di_bench_cost){.memory_bytes = 4.0 * (double)(in * out),
                           .cache_bytes = 2.0 * (double)(n_rows * in),
                           .flops = 2.0 * (double)(n_rows * in * out)};
}

static di_bench_cost of_hc_mix(const void *args, int64_t n_rows)
{
    const di_hc_mix_args *a = args;
    const int64_t out = (int64_t)(2 + a->hc) * a->hc;
    return in_cache(4 * n_rows * (2 * out + 1));
}

static di_bench_cost of_hc_collapse(const void *args, int64_t n_rows)
{
    const di_hc_collapse_args *a = args;
    return in_cache(2 * n_rows * (a->hc + 1) * a->dim);
}

static di_bench_cost of_hc_expand(const void *args, int64_t n_rows)
{
    const di_hc_expand_args *a = args;
    return in_cache(2 * n_rows * (2 * a->hc + 1) * a->dim);
}

static di_bench_cost of_compress_pool(const void *args, int64_t n_rows)
{
    const di_compress_pool_args *a = args;
    return in_cache(n_rows * a->dim * (4 * 4 + 2));
}

static di_bench_cost of_moe_gate(const void *args, int64_t n_rows)
{
    const di_moe_gate_args *a = args;
    return in_cache(4 * n_rows * a->n_experts);
}

static di_bench_cost of_moe_combine(const void *args, int64_t n_rows)
{
    const di_moe_combine_args *a = args;
    return in_cache(2 * n_rows * (a->k + 2) * a->dim);
}

static di_bench_cost of_swiglu(const void *args, int64_t n_rows)
{
    const di_swiglu_args *a = args;
    return in_cache(6 * n_rows * a->dim);
}

/* ----------------------------------------------------------------------------------- attention */

/* A key that several rows of one sequence read comes from memory once. */
static bool is_new_sequence(const int32_t *const *tables, int64_t row)
{
    return row == 0 || tables[row] != tables[row - 1];
}

static di_bench_cost of_index_logits(const void *args, int64_t n_rows)
{
    const di_index_logits_args *a = args;
    const double entry = a->keys.code_bytes + a->keys.scale_bytes;
    di_bench_cost c = {0};
    for (int64_t row = 0; row < n_rows; row++) {
        const double n = a->n_visible[row];
        if (is_new_sequence(a->block_tables, row))
            c.memory_bytes += n * entry;
        c.cache_bytes += 2.0 * n;
        c.flops += 2.0 * n * (double)(a->n_heads * a->dim);
    }
    return c;
}

static di_bench_cost of_scores(const int32_t *n_visible, int64_t n_rows)
{
    di_bench_cost c = {0};
    for (int64_t row = 0; row < n_rows; row++)
        c.cache_bytes += 2.0 * n_visible[row];
    return c;
}

static di_bench_cost of_candidate_blocks(const void *args, int64_t n_rows)
{
    const di_candidate_blocks_args *a = args;
    return of_scores(a->n_visible, n_rows);
}

static di_bench_cost of_topk(const void *args, int64_t n_rows)
{
    const di_topk_args *a = args;
    return of_scores(a->n_visible, n_rows);
}

/* Rows of one sequence share most of their keys: those of the first are counted. */
static di_bench_cost of_sparse_attention(const void *args, int64_t n_rows)
{
    const di_sparse_attention_args *a = args;
    const double window_entry = a->window.code_bytes + a->window.scale_bytes;
    const double entry = a->compressed.code_bytes + a->compressed.scale_bytes;
    di_bench_cost c = {0};
    for (int64_t row = 0; row < n_rows; row++) {
        const double window = (double)di_min_i64(a->positions[row] + 1, a->window_len);
        const double selected = a->indices ? a->counts[row] : 0;
        if (is_new_sequence(a->window_tables, row))
            c.memory_bytes += window * window_entry + selected * entry;
        c.flops += 4.0 * (window + selected) * (double)(a->n_heads * a->head_dim);
    }
    return c;
}

/* -------------------------------------------------------------------------------------- engram */

static di_bench_cost of_engram_hash(const void *args, int64_t n_rows)
{
    const di_engram_hash_args *a = args;
    return in_cache(8 * n_rows * (a->max_ngram - 1) * a->n_heads);
}

static di_bench_cost of_engram_gather(const void *args, int64_t n_rows)
{
    const di_engram_gather_args *a = args;
    const double values = (double)(n_rows * a->n_columns * a->dim);
    return (di_bench_cost){.memory_bytes = values * (1.0 + 1.0 / 32), .cache_bytes = 2.0 * values};
}

static di_bench_cost of_engram_gate(const void *args, int64_t n_rows)
{
    const di_engram_gate_args *a = args;
    return in_cache(2 * a->dim * (n_rows * (3 * a->hc + 1) + 2 * a->hc));
}

static di_bench_cost of_row_peaks(const void *args, int64_t n_rows)
{
    const di_row_peaks_args *a = args;
    return in_cache(4 * n_rows * a->n);
}

static di_bench_cost of_exp_weights(const void *args, int64_t n_rows)
{
    const di_exp_weights_args *a = args;
    return in_cache(4 * n_rows * a->n);
}

static di_bench_cost of_philox_bits(const void *args, int64_t n_rows)
{
    const di_philox_bits_args *a = args;
    return in_cache(20 * n_rows * a->n);
}

/* ---------------------------------------------------------------------------------------- bound */

typedef di_bench_cost (*cost_fn)(const void *args, int64_t n_rows);

static const cost_fn costs[DI_N_OPS] = {
#define DI_OP(op) of_##op,
#include "kernels/ops.def"
#undef DI_OP
};

di_bench_cost di_bench_cost_of(di_op op, const void *args, int64_t n_rows)
{
    return costs[op](args, n_rows);
}

/* Index scores are sums of products of 4-bit codes and so exact in integers. VDPBF16PS adds the
 * linears' products as FP32 multiply-adds would; it bounds the kernels of its level alone, since it
 * has half of their rate elsewhere. */
di_ceiling di_bench_unit(di_op op, di_isa level, const di_ceilings *c)
{
    const bool is_integer = op == DI_OP_index_logits;
    if (is_integer && level >= DI_ISA_AMX && c->rate[DI_CEILING_AMX_INT8] > 0.0)
        return DI_CEILING_AMX_INT8;
    if (is_integer && level >= DI_ISA_AVX512VNNI && c->rate[DI_CEILING_DOT_INT8] > 0.0)
        return DI_CEILING_DOT_INT8;
    if (level >= DI_ISA_AMX && c->rate[DI_CEILING_AMX_BF16] > 0.0)
        return DI_CEILING_AMX_BF16;
    const bool is_linear =
        op == DI_OP_gemm_f8 || op == DI_OP_gemm_bf16 || op == DI_OP_grouped_gemm_f4;
    if (is_linear && level == DI_ISA_AVX512BF16 && c->rate[DI_CEILING_DOT_BF16] > 0.0)
        return DI_CEILING_DOT_BF16;
    return DI_CEILING_FMA;
}

double di_bench_memory_rate(const di_ceilings *c)
{
    const double large = c->rate[DI_CEILING_MEMORY];
    const double small = c->rate[DI_CEILING_MEMORY_SMALL_PAGES];
    return large > small ? large : small;
}

di_ceiling di_bench_bound(di_op op, const di_bench_cost *cost, di_isa level, const di_ceilings *c,
                          double *seconds)
{
    const double memory = cost->memory_bytes / di_bench_memory_rate(c);
    const double cache = cost->cache_bytes / c->rate[DI_CEILING_CACHE];
    const di_ceiling unit = di_bench_unit(op, level, c);
    const double flops = cost->flops / c->rate[unit];
    if (memory >= cache && memory >= flops) {
        *seconds = memory;
        return DI_CEILING_MEMORY;
    }
    *seconds = cache >= flops ? cache : flops;
    return cache >= flops ? DI_CEILING_CACHE : unit;
}
