#include "bench/cases.h"

#include <stdarg.h>
#include <string.h>

#include "base/checked.h"

enum { MAX_TURNS = 4096 };

typedef di_status (*maker)(di_bench_cases *b);

static const maker makers[DI_N_OPS] = {
#define DI_OP(op) di_bench_cases_##op,
#include "kernels/ops.def"
#undef DI_OP
};

di_status di_bench_cases_run(di_bench_cases *b, di_op op)
{
    const di_status status = makers[op](b);
    di_bench_memory_free(&b->store);
    di_arena_reset(&b->arena);
    return status;
}

void di_bench_cases_free(di_bench_cases *b)
{
    di_bench_memory_free(&b->weights);
    di_bench_memory_free(&b->scales);
    di_bench_memory_free(&b->store);
    di_arena_free(&b->arena);
}

/* ------------------------------------------------------------------------------ random values */

static uint64_t next(di_bench_cases *b)
{
    b->random = b->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return b->random >> 32;
}

int64_t di_bench_below(di_bench_cases *b, int64_t n)
{
    return (int64_t)(next(b) * (uint64_t)n >> 32);
}

di_status di_bench_bf16(di_bench_cases *b, int64_t n, di_bf16 **out)
{
    DI_TRY(DI_BENCH_NEW(b, n, out));
    for (int64_t i = 0; i < n; i++) /* 2^-4 to 1 */
        (*out)[i] = (di_bf16)((next(b) & 0x81ff) + 0x3d80);
    return DI_OK;
}

di_status di_bench_q8(di_bench_cases *b, int64_t n, di_bf16 **out)
{
    DI_TRY(DI_BENCH_NEW(b, n, out));
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = di_f32_to_bf16(di_e4m3_to_f32[(next(b) & 0x9f) + 0x20]);
    return DI_OK;
}

di_status di_bench_q4(di_bench_cases *b, int64_t n, di_bf16 **out)
{
    DI_TRY(DI_BENCH_NEW(b, n, out));
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = di_f32_to_bf16(di_e2m1_to_f32[next(b) & 15]);
    return DI_OK;
}

di_status di_bench_f32(di_bench_cases *b, int64_t n, float **out)
{
    DI_TRY(DI_BENCH_NEW(b, n, out));
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = (float)((int64_t)next(b) - (INT64_C(1) << 31)) * 0x1p-29f;
    return DI_OK;
}

/* ----------------------------------------------------------------------------------- weights */

typedef void (*fill_fn)(uint8_t *out, int64_t bytes, uint64_t seed);

/* Memory of at least `bytes`; one that is there and too small is made anew. */
static di_status provide(di_bench_cases *b, di_bench_memory *memory, int64_t bytes, fill_fn fill)
{
    if (memory->data && memory->bytes >= bytes)
        return DI_OK;
    di_bench_memory_free(memory);
    DI_TRY(di_bench_memory_new(bytes, b->pages, memory));
    if (!b->is_dry)
        fill(memory->data, bytes, 0);
    return DI_OK;
}

di_status di_bench_weights_take(di_bench_cases *b, int64_t bytes, int64_t scale_bytes,
                                di_bench_weights *out)
{
    out->stride = di_ceil_div(bytes, 64) * 64;
    out->scales_stride = di_ceil_div(scale_bytes, 64) * 64;
    out->n_turns = di_min_i64(MAX_TURNS, di_max_i64(1, b->rotation_bytes / out->stride));
    DI_TRY(provide(b, &b->weights, di_max_i64(b->rotation_bytes, out->n_turns * out->stride),
                   di_bench_fill_weights));
    DI_TRY(provide(b, &b->scales, out->n_turns * out->scales_stride, di_bench_fill_scales));
    out->codes = b->weights.data;
    out->scales = b->scales.data;
    return DI_OK;
}

/* ------------------------------------------------------------------------------ paged stores */

static void fill_store(const di_paged *p, uint8_t *data, int64_t n_blocks, bool is_q4kv)
{
    const bool is_e4m3 = p->code_bytes == 32 * p->scale_bytes;
    const int64_t code_bytes = (int64_t)p->block_len * p->code_bytes;
    const int64_t scale_bytes = (int64_t)p->block_len * p->scale_bytes;
    const fill_fn fill_codes = is_e4m3 ? di_bench_fill_weights : di_bench_fill_codes;
    const fill_fn fill_scales = is_q4kv ? di_bench_fill_e4m3 : di_bench_fill_scales;
    for (int64_t i = 0; i < n_blocks; i++) {
        uint8_t *block = data + i * p->block_bytes;
        fill_codes(block, code_bytes, (uint64_t)i);
        fill_scales(block + code_bytes, scale_bytes, (uint64_t)i);
    }
}

di_status di_bench_store(di_bench_cases *b, di_paged *shape, int64_t n_entries, bool is_q4kv,
                         int64_t *n_blocks)
{
    const int64_t entry = shape->code_bytes + shape->scale_bytes;
    shape->scales_offset = (int64_t)shape->block_len * shape->code_bytes;
    shape->block_bytes = shape->block_len * entry;
    const int64_t n =
        di_ceil_div(di_max_i64(n_entries, b->rotation_bytes / entry), shape->block_len);
    di_bench_memory_free(&b->store);
    DI_TRY(di_bench_memory_new(n * shape->block_bytes, b->pages, &b->store));
    if (!b->is_dry)
        fill_store(shape, b->store.data, n, is_q4kv);
    shape->data = b->store.data;
    *n_blocks = n;
    return DI_OK;
}

di_status di_bench_tables(di_bench_cases *b, int64_t n, int64_t n_entries, int32_t block_len,
                          int64_t n_blocks, const int32_t *const **out)
{
    const int64_t len = di_ceil_div(n_entries, block_len);
    const int32_t **tables;
    int32_t *blocks;
    DI_TRY(DI_BENCH_NEW(b, n, &tables));
    DI_TRY(DI_BENCH_NEW(b, n * len, &blocks));
    for (int64_t i = 0; i < n * len; i++)
        blocks[i] = (int32_t)(i % n_blocks);
    for (int64_t i = 0; i < n; i++)
        tables[i] = blocks + i * len;
    *out = tables;
    return DI_OK;
}

/* ------------------------------------------------------------------------------------- turns */

di_status di_bench_turns(di_bench_cases *b, const void *args, size_t bytes, int64_t n_turns,
                         void **out)
{
    char *copies;
    DI_TRY(DI_BENCH_NEW(b, n_turns * (int64_t)bytes, &copies));
    for (int64_t i = 0; i < n_turns; i++)
        memcpy(copies + (size_t)i * bytes, args, bytes);
    *out = copies;
    return DI_OK;
}

di_status di_bench_emit(di_bench_cases *b, di_bench_case *c, const char *shape, ...)
{
    va_list list;
    va_start(list, shape);
    vsnprintf(c->shape, sizeof c->shape, shape, list);
    va_end(list);
    return b->emit(b->user, c);
}
