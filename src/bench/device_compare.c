#include "bench/device_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gemm/gemm.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/moe_gate/moe_gate.h"
#include "kernels/sparse_attention/sparse_attention.h"

/* Results of the operations that have kernels which are not exact. */
typedef struct results {
    const void *data;
    int64_t n;
    bool is_f32;
} results;

static results results_of(const di_bench_case *c)
{
    if (c->op == DI_OP_gemm_f8 || c->op == DI_OP_gemm_bf16) {
        const di_gemm_args *a = (const void *)c->args;
        return (results){a->y, a->m * a->n, a->is_f32_out};
    }
    if (c->op == DI_OP_grouped_gemm_f4) {
        const di_grouped_gemm_args *a = (const void *)c->args;
        return (results){a->y, a->n * a->expert_begin[a->n_active], false};
    }
    if (c->op == DI_OP_sparse_attention) {
        const di_sparse_attention_args *a = (const void *)c->args;
        return (results){a->out, c->n_items * a->head_dim, false};
    }
    return (results){NULL};
}

/* The reference's scratch, which no kernel on a device writes. */
static bool is_scratch(const di_bench_case *c, const unsigned char *at)
{
    if (c->op != DI_OP_moe_gate)
        return false;
    const di_moe_gate_args *a = (const void *)c->args;
    const unsigned char *scores = (const void *)a->scores;
    return at >= scores && at < scores + c->n_rows * a->n_experts * 4;
}

static float value_at(const void *data, int64_t i, bool is_f32)
{
    return is_f32 ? ((const float *)data)[i] : di_bf16_to_f32(((const di_bf16 *)data)[i]);
}

static void compare_values(const results *r, const void *found, di_numerics numerics,
                           di_bench_difference *out)
{
    double error = 0.0, norm = 0.0;
    for (int64_t i = 0; i < r->n; i++) {
        const double a = (double)value_at(found, i, r->is_f32);
        const double b = (double)value_at(r->data, i, r->is_f32);
        error += (a - b) * (a - b);
        norm += b * b;
    }
    const double relative = sqrt(error / norm);
    const double bound = numerics == DI_NUMERICS_LOWP ? 2e-2 : r->is_f32 ? 1e-5 : 2e-3;
    out->is_wrong = !(relative <= bound);
    snprintf(out->text, sizeof out->text, out->is_wrong ? "WRONG %.1e" : "%.1e", relative);
}

/* Arrays of pointers differ by being translated. */
static bool is_pointer(const di_mirror *mirror, const unsigned char *at)
{
    void *word;
    memcpy(&word, (const void *)((uintptr_t)at & ~(uintptr_t)7), sizeof word);
    return di_mirror_translate(mirror, word) != NULL;
}

static void compare_bytes(const di_bench_case *c, const di_mirror *mirror, const di_mirror_part *p,
                          const unsigned char *found, di_bench_difference *out)
{
    for (size_t i = 0; i < p->bytes; i++) {
        if (found[i] == p->host[i] || is_scratch(c, p->host + i) || is_pointer(mirror, p->host + i))
            continue;
        out->is_wrong = true;
        snprintf(out->text, sizeof out->text, "WRONG");
        return;
    }
}

di_status di_bench_device_compare(const di_bench_case *c, di_numerics numerics, di_mirror *mirror,
                                  di_bench_difference *out)
{
    *out = (di_bench_difference){.text = "equal"};
    const results r = numerics == DI_NUMERICS_EXACT ? (results){NULL} : results_of(c);
    for (size_t i = 0; i < mirror->n_parts && !out->is_wrong; i++) {
        const di_mirror_part *p = &mirror->parts[i];
        const unsigned char *result = r.data;
        const bool has_results = result && result >= p->host && result < p->host + p->bytes;
        if (p->is_lent || (numerics != DI_NUMERICS_EXACT && !has_results))
            continue;
        unsigned char *found = malloc(p->bytes);
        bool is_intact = true;
        if (!found)
            return di_fail_memory(p->bytes, "a device's results");
        const di_status status = di_mirror_read(mirror, i, found, &is_intact);
        if (status == DI_OK && has_results)
            compare_values(&r, found + (result - p->host), numerics, out);
        else if (status == DI_OK)
            compare_bytes(c, mirror, p, found, out);
        free(found);
        DI_TRY(status);
    }
    return DI_OK;
}
