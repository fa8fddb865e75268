#include "kernels/check.h"

#include <inttypes.h>
#include <string.h>

typedef di_status (*case_fn)(di_op_case *c);

static const case_fn makers[DI_N_OPS] = {
#define DI_OP(op) di_##op##_case,
#include "kernels/ops.def"
#undef DI_OP
};

/* ------------------------------------------------------------------- random values */

/* The stream's part of all rows (row id -1) or of one. */
static void seed_part(const di_op_case *c, uint32_t stream, int32_t row_id, di_pcg64 *rng)
{
    const uint32_t words[] = {(uint32_t)c->seed, (uint32_t)(c->seed >> 32), stream,
                              (uint32_t)row_id};
    di_pcg64_seed_words(rng, words, 4);
}

/* Magnitudes 2^-8 .. 2^4 and all mantissas: another order of a sum shows in its bits. */
static uint32_t random_bits(di_pcg64 *rng)
{
    const uint64_t x = di_pcg64_next(rng);
    return (uint32_t)(x & 0x80000000u) | (uint32_t)(119 + (x >> 32) % 12) << 23 |
           (uint32_t)(x & 0x7fffffu);
}

static void fill_bf16(di_pcg64 *rng, di_bf16 *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (di_bf16)(random_bits(rng) >> 16);
}

static void fill_f32(di_pcg64 *rng, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = di_f32_from_bits(random_bits(rng));
}

int64_t di_op_size(di_op_case *c, int64_t low, int64_t high)
{
    di_pcg64 rng;
    seed_part(c, c->n_streams++, -1, &rng);
    return low + (int64_t)di_pcg64_below(&rng, (uint64_t)(high - low + 1));
}

di_status di_op_shared_bf16(di_op_case *c, int64_t n, di_bf16 **out)
{
    di_pcg64 rng;
    seed_part(c, c->n_streams++, -1, &rng);
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)n, out));
    fill_bf16(&rng, *out, n);
    return DI_OK;
}

di_status di_op_shared_f32(di_op_case *c, int64_t n, float **out)
{
    di_pcg64 rng;
    seed_part(c, c->n_streams++, -1, &rng);
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)n, out));
    fill_f32(&rng, *out, n);
    return DI_OK;
}

di_status di_op_shared_bytes(di_op_case *c, int64_t n, int low, int high, uint8_t **out)
{
    di_pcg64 rng;
    seed_part(c, c->n_streams++, -1, &rng);
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)n, out));
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = (uint8_t)(low + (int)di_pcg64_below(&rng, (uint64_t)(high - low + 1)));
    return DI_OK;
}

di_status di_op_shared_e4m3(di_op_case *c, int64_t n, uint8_t **out)
{
    DI_TRY(di_op_shared_bytes(c, n, 0, 255, out));
    for (int64_t i = 0; i < n; i++)
        if (((*out)[i] & 0x7f) == 0x7f)
            (*out)[i] ^= 1;
    return DI_OK;
}

di_status di_op_rows_bf16(di_op_case *c, int64_t n, di_bf16 **out)
{
    const uint32_t stream = c->n_streams++;
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(c->n_rows * n), out));
    for (int64_t i = 0; i < c->n_rows; i++) {
        di_pcg64 rng;
        seed_part(c, stream, c->row_ids[i], &rng);
        fill_bf16(&rng, *out + i * n, n);
    }
    return DI_OK;
}

di_status di_op_rows_f32(di_op_case *c, int64_t n, float **out)
{
    const uint32_t stream = c->n_streams++;
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(c->n_rows * n), out));
    for (int64_t i = 0; i < c->n_rows; i++) {
        di_pcg64 rng;
        seed_part(c, stream, c->row_ids[i], &rng);
        fill_f32(&rng, *out + i * n, n);
    }
    return DI_OK;
}

di_status di_op_rows_int(di_op_case *c, int64_t n, int32_t low, int32_t high, int32_t **out)
{
    const uint32_t stream = c->n_streams++;
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)(c->n_rows * n), out));
    for (int64_t i = 0; i < c->n_rows; i++) {
        di_pcg64 rng;
        seed_part(c, stream, c->row_ids[i], &rng);
        for (int64_t j = 0; j < n; j++)
            (*out)[i * n + j] =
                low + (int32_t)di_pcg64_below(&rng, (uint64_t)((int64_t)high - low + 1));
    }
    return DI_OK;
}

di_status di_op_row_pointers(di_op_case *c, const int32_t *values, int64_t n,
                             const int32_t *const **out)
{
    const int32_t **pointers;
    DI_TRY(DI_ARENA_NEW(c->arena, (size_t)c->n_rows, &pointers));
    for (int64_t i = 0; i < c->n_rows; i++)
        pointers[i] = values + i * n;
    *out = pointers;
    return DI_OK;
}

void di_op_output_add(di_op_case *c, di_dtype dtype, int64_t n, void *data)
{
    c->outputs[c->n_outputs++] = (di_op_output){.data = data, .dtype = dtype, .row_len = n};
}

di_status di_op_output_new(di_op_case *c, di_dtype dtype, int64_t n, void **out)
{
    const size_t bytes = (size_t)(c->n_rows * n) * di_dtype_bytes(dtype);
    unsigned char *data;
    DI_TRY(DI_ARENA_NEW(c->arena, bytes, &data));
    memset(data, 0xff, bytes);
    di_op_output_add(c, dtype, n, data);
    *out = data;
    return DI_OK;
}

di_status di_op_args(di_op_case *c, const void *args, size_t bytes, int64_t n_items)
{
    unsigned char *copy;
    DI_TRY(DI_ARENA_NEW(c->arena, bytes, &copy));
    memcpy(copy, args, bytes);
    c->args = copy;
    c->args_bytes = bytes;
    c->n_items = n_items;
    return DI_OK;
}

/* ------------------------------------------------------------------- the check */

typedef enum split { SPLIT_NONE, SPLIT_PIECES, SPLIT_ITEMS } split;

typedef struct checker {
    const di_kernel *kernel;
    uint64_t seed;
    int32_t n_rows;
    di_pcg64 rng; /* of choices and pieces */
    di_arena whole_arena, arena;
    di_op_case whole; /* all rows in one call */
    di_op_finding *finding;
} checker;

/* The items in random pieces, the last one first. */
static void run_pieces(checker *self, const di_op_case *c)
{
    int64_t end = c->n_items;
    for (int worker = 0; end > 0; worker = (worker + 1) % DI_OP_WORKERS) {
        const int64_t most = c->n_items / 3 + 1;
        const int64_t n = 1 + (int64_t)di_pcg64_below(&self->rng, (uint64_t)most);
        const int64_t begin = n < end ? end - n : 0;
        self->kernel->fn(c->args, begin, end, worker);
        end = begin;
    }
}

static di_status make_and_run(checker *self, const int32_t *row_ids, int64_t n_rows, split how,
                              di_op_case *c)
{
    const di_kernel *k = self->kernel;
    c->seed = self->seed;
    c->row_ids = row_ids;
    c->n_rows = n_rows;
    DI_TRY(makers[k->op](c));
    if (how == SPLIT_NONE)
        k->fn(c->args, 0, c->n_items, 0);
    else if (how == SPLIT_PIECES)
        run_pieces(self, c);
    else
        for (int64_t i = 0; i < c->n_items; i++)
            k->fn(c->args, i, i + 1, (int)(i % DI_OP_WORKERS));
    return DI_OK;
}

static const unsigned char *result_of(const di_op_output *o, int64_t row)
{
    const size_t row_bytes = (size_t)o->row_len * di_dtype_bytes(o->dtype);
    return (const unsigned char *)o->data + (size_t)(o->places ? o->places[row] : row) * row_bytes;
}

static void print_value(const unsigned char *at, di_dtype dtype, char *out, size_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, at, di_dtype_bytes(dtype)); /* little-endian, as all of the formats */
    if (dtype == DI_F32)
        snprintf(out, bytes, "%.9g (0x%08" PRIx64 ")", (double)di_f32_from_bits((uint32_t)bits),
                 bits);
    else if (dtype == DI_BF16)
        snprintf(out, bytes, "%.5g (0x%04" PRIx64 ")", (double)di_bf16_to_f32((di_bf16)bits), bits);
    else
        snprintf(out, bytes, "%" PRId64, dtype == DI_I32 ? (int64_t)(int32_t)bits : (int64_t)bits);
}

static void report(checker *self, const di_op_case *c, int64_t row, const di_op_output *o,
                   const char *how)
{
    const int32_t id = c->row_ids[row];
    const di_op_output *wanted = &self->whole.outputs[o - c->outputs];
    const unsigned char *a = result_of(o, row), *b = result_of(wanted, id);
    const size_t bytes = di_dtype_bytes(o->dtype);
    int64_t i = 0;
    while (memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) == 0)
        i++;
    char found[64], expected[64];
    print_value(a + (size_t)i * bytes, o->dtype, found, sizeof found);
    print_value(b + (size_t)i * bytes, o->dtype, expected, sizeof expected);
    self->finding->has_failed = true;
    snprintf(self->finding->text, sizeof self->finding->text,
             "%s=%s, %s: row %d of a call of %" PRId64 " rows, value %" PRId64
             ": found %s, among %d rows %s",
             di_op_name(self->kernel->op), self->kernel->name, how, (int)row, c->n_rows, i, found,
             self->n_rows, expected);
}

static di_status compare(checker *self, const int32_t *row_ids, int64_t n_rows, split how,
                         const char *what)
{
    if (self->finding->has_failed)
        return DI_OK;
    di_arena_reset(&self->arena);
    di_op_case c = {.arena = &self->arena};
    DI_TRY(make_and_run(self, row_ids, n_rows, how, &c));
    self->finding->n_calls++;
    for (int o = 0; o < c.n_outputs; o++) {
        const di_op_output *output = &c.outputs[o];
        const size_t row_bytes = (size_t)output->row_len * di_dtype_bytes(output->dtype);
        for (int64_t row = 0; row < n_rows; row++)
            if (memcmp(result_of(output, row), result_of(&self->whole.outputs[o], row_ids[row]),
                       row_bytes) != 0) {
                report(self, &c, row, output, what);
                return DI_OK;
            }
    }
    return DI_OK;
}

static di_status compare_all(checker *self, int32_t *ids)
{
    enum { N_CHOICES = 4 };
    const int32_t n = self->n_rows;
    DI_TRY(compare(self, ids, n, SPLIT_ITEMS, "item by item"));
    for (int32_t m = 1; m < n; m++)
        DI_TRY(compare(self, ids, m, SPLIT_NONE, "the first rows"));
    for (int i = 0; i < N_CHOICES; i++) {
        for (int32_t at = n - 1; at > 0; at--) {
            const int32_t other = (int32_t)di_pcg64_below(&self->rng, (uint64_t)at + 1);
            const int32_t id = ids[at];
            ids[at] = ids[other];
            ids[other] = id;
        }
        const int64_t m = 1 + (int64_t)di_pcg64_below(&self->rng, (uint64_t)n);
        DI_TRY(compare(self, ids, m, SPLIT_NONE, "other rows in another order"));
        DI_TRY(compare(self, ids, n, SPLIT_PIECES, "in pieces"));
    }
    return DI_OK;
}

static di_status check_rows(checker *self)
{
    int32_t *all, *ids;
    self->whole.arena = &self->whole_arena;
    DI_TRY(DI_ARENA_NEW(&self->whole_arena, (size_t)self->n_rows, &all));
    DI_TRY(DI_ARENA_NEW(&self->whole_arena, (size_t)self->n_rows, &ids));
    for (int32_t i = 0; i < self->n_rows; i++)
        all[i] = ids[i] = i;
    di_op_case whole = {.arena = &self->whole_arena};
    DI_TRY(make_and_run(self, all, self->n_rows, SPLIT_NONE, &whole));
    /* results by row id: row i is id i */
    self->whole = whole;
    return compare_all(self, ids);
}

di_status di_op_check_rows(const di_kernel *kernel, uint64_t seed, int32_t n_rows,
                           di_op_finding *out)
{
    *out = (di_op_finding){.has_failed = false};
    checker self = {.kernel = kernel, .seed = seed, .n_rows = n_rows, .finding = out};
    di_pcg64_seed(&self.rng, seed ^ 0x9e3779b97f4a7c15u);
    const di_status status = check_rows(&self);
    di_arena_free(&self.arena);
    di_arena_free(&self.whole_arena);
    return status;
}
