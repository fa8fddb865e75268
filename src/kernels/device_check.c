#include "kernels/device_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device_mirror.h"

typedef di_status (*case_fn)(di_op_case *c);

static const case_fn makers[DI_N_OPS] = {
#define DI_OP(op) di_##op##_case,
#include "kernels/ops.def"
#undef DI_OP
};

typedef struct checker {
    di_device *device;
    di_stream stream;
    const di_device_kernel *kernel;
    uint64_t seed;
    size_t guard_bytes;
    di_device_finding *finding;
} checker;

/* A case, and what was in its memory and is there on the device after the call. */
typedef struct call {
    di_arena arena;
    di_op_case made;
    size_t args_bytes;
    di_mirror mirror;
    unsigned char **before, **after; /* [mirror.n_parts] */
} call;

static void fail(checker *self, const char *fmt, ...) DI_PRINTF(2, 3);

static void fail(checker *self, const char *fmt, ...)
{
    if (self->finding->has_failed)
        return;
    self->finding->has_failed = true;
    const int n =
        snprintf(self->finding->text, sizeof self->finding->text, "%s=%s, seed %" PRIu64 ": ",
                 di_op_name(self->kernel->op), self->kernel->name, self->seed);
    va_list args;
    va_start(args, fmt);
    vsnprintf(self->finding->text + n, sizeof self->finding->text - (size_t)n, fmt, args);
    va_end(args);
}

/* ------------------------------------------------------------------------- a call */

static void call_free(call *c)
{
    for (size_t i = 0; i < c->mirror.n_parts; i++) {
        if (c->before)
            free(c->before[i]);
        if (c->after)
            free(c->after[i]);
    }
    free(c->before);
    free(c->after);
    di_mirror_free(&c->mirror);
    di_arena_free(&c->arena);
}

static di_status copies_new(call *c)
{
    const size_t n = c->mirror.n_parts;
    c->before = calloc(n + 1, sizeof *c->before);
    c->after = calloc(n + 1, sizeof *c->after);
    if (!c->before || !c->after)
        return di_fail_memory(n * sizeof *c->before, "a check");
    for (size_t i = 0; i < n; i++) {
        const di_mirror_part *p = &c->mirror.parts[i];
        c->before[i] = malloc(p->bytes);
        c->after[i] = malloc(p->bytes);
        if (!c->before[i] || !c->after[i])
            return di_fail_memory(p->bytes, "a check");
        memcpy(c->before[i], p->host, p->bytes);
    }
    return DI_OK;
}

/* The case of these rows, computed on the device. */
static di_status call_run(checker *self, const int32_t *row_ids, int64_t n_rows, call *c)
{
    unsigned char args[DI_MIRROR_ARGS_BYTES] __attribute__((aligned(16)));
    c->arena.chunk_bytes = 64; /* a chunk an array */
    c->made =
        (di_op_case){.arena = &c->arena, .seed = self->seed, .row_ids = row_ids, .n_rows = n_rows};
    c->mirror = (di_mirror){
        .device = self->device, .stream = self->stream, .guard_bytes = self->guard_bytes};
    DI_TRY(makers[self->kernel->op](&c->made));
    DI_TRY(di_mirror_add_arena(&c->mirror, &c->arena));
    DI_TRY(copies_new(c));
    DI_TRY(di_mirror_args(&c->mirror, self->kernel->op, c->made.args, c->made.args_bytes, n_rows,
                          args));
    DI_TRY(self->kernel->launch(args, c->made.n_items, self->stream));
    for (size_t i = 0; i < c->mirror.n_parts; i++) {
        bool is_intact;
        DI_TRY(di_mirror_read(&c->mirror, i, c->after[i], &is_intact));
        if (!is_intact)
            fail(self, "%d rows: wrote before or behind array %zu of the call", (int)n_rows, i);
    }
    return DI_OK;
}

/* The device's bytes of a place in the case's memory. */
static const unsigned char *found_at(const call *c, const void *host)
{
    for (size_t i = 0; i < c->mirror.n_parts; i++) {
        const di_mirror_part *p = &c->mirror.parts[i];
        const size_t at = (size_t)((const unsigned char *)host - p->host);
        if ((const unsigned char *)host >= p->host && at < p->bytes)
            return c->after[i] + at;
    }
    return NULL;
}

static const unsigned char *row_of(const di_op_output *o, int64_t row)
{
    const size_t row_bytes = (size_t)o->row_len * di_dtype_bytes(o->dtype);
    return (const unsigned char *)o->data + (size_t)(o->places ? o->places[row] : row) * row_bytes;
}

/* ------------------------------------------------------------------------- comparisons */

static double value_at(di_dtype dtype, const unsigned char *data, int64_t i)
{
    uint32_t word = 0;
    memcpy(&word, data + (size_t)i * di_dtype_bytes(dtype), di_dtype_bytes(dtype));
    return dtype == DI_BF16 ? (double)di_bf16_to_f32((di_bf16)word)
                            : (double)di_f32_from_bits(word);
}

static double bound_of(di_numerics numerics, di_dtype dtype) /* docs/kernels.md */
{
    if (numerics == DI_NUMERICS_LOWP)
        return 2e-2;
    return dtype == DI_BF16 ? 2e-3 : 1e-5;
}

/* Integers, and results of EXACT kernels: equal bytes, but any NaN for a NaN. */
static void compare_bits(checker *self, const di_op_output *o, const unsigned char *found,
                         const unsigned char *wanted, int64_t n)
{
    const size_t bytes = di_dtype_bytes(o->dtype);
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(found + (size_t)i * bytes, wanted + (size_t)i * bytes, bytes) == 0)
            continue;
        uint64_t a = 0, b = 0;
        memcpy(&a, found + (size_t)i * bytes, bytes);
        memcpy(&b, wanted + (size_t)i * bytes, bytes);
        if (o->dtype != DI_BF16 && o->dtype != DI_F32) {
            fail(self, "value %" PRId64 ": found 0x%" PRIx64 ", wanted 0x%" PRIx64, i, a, b);
            return;
        }
        const double x = value_at(o->dtype, found, i), y = value_at(o->dtype, wanted, i);
        if (isnan(x) && isnan(y))
            continue;
        fail(self, "value %" PRId64 ": found %.9g (0x%" PRIx64 "), wanted %.9g (0x%" PRIx64 ")", i,
             x, a, y, b);
        return;
    }
}

static void compare_values(checker *self, const di_op_output *o, const unsigned char *found,
                           const unsigned char *wanted, int64_t n)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = value_at(o->dtype, found, i), b = value_at(o->dtype, wanted, i);
        if (isnan(a) != isnan(b) || ((isinf(a) || isinf(b)) && a != b)) {
            fail(self, "value %" PRId64 ": found %g, wanted %g", i, a, b);
            return;
        }
        if (isfinite(a)) {
            error += (a - b) * (a - b);
            norm += b * b;
        }
    }
    const double relative = norm > 0 ? sqrt(error / norm) : sqrt(error);
    if (relative > self->finding->error)
        self->finding->error = relative;
    const double bound = bound_of(self->kernel->numerics, o->dtype);
    if (relative > bound)
        fail(self, "relative error %.3g, wanted at most %.3g", relative, bound);
}

static void compare_outputs(checker *self, const call *c)
{
    for (int i = 0; i < c->made.n_outputs; i++) {
        const di_op_output *o = &c->made.outputs[i];
        const unsigned char *found = found_at(c, o->data), *wanted = o->data;
        const int64_t n = c->made.n_rows * o->row_len;
        if (n == 0)
            continue;
        const bool is_float = o->dtype == DI_BF16 || o->dtype == DI_F32;
        if (is_float && self->kernel->numerics != DI_NUMERICS_EXACT)
            compare_values(self, o, found, wanted, n);
        else
            compare_bits(self, o, found, wanted, n);
    }
}

/* What is no output must be as it was; `pointers`, which the mirror has translated, aside. */
static void check_rest(checker *self, call *c)
{
    for (int i = 0; i < c->made.n_outputs; i++) { /* outputs count as unchanged */
        const di_op_output *o = &c->made.outputs[i];
        const size_t bytes = (size_t)(c->made.n_rows * o->row_len) * di_dtype_bytes(o->dtype);
        for (size_t p = 0; p < c->mirror.n_parts; p++) {
            const unsigned char *host = c->mirror.parts[p].host;
            if ((const unsigned char *)o->data >= host &&
                (const unsigned char *)o->data < host + c->mirror.parts[p].bytes) {
                const size_t at = (size_t)((const unsigned char *)o->data - host);
                memcpy(c->before[p] + at, c->after[p] + at, bytes);
            }
        }
    }
    for (size_t p = 0; p < c->mirror.n_parts; p++) {
        const di_mirror_part *part = &c->mirror.parts[p];
        for (size_t b = 0; b + 8 <= part->bytes; b += 8) {
            void *was;
            memcpy(&was, c->before[p] + b, sizeof was);
            if (memcmp(c->before[p] + b, c->after[p] + b, 8) != 0 &&
                !di_mirror_translate(&c->mirror, was)) {
                fail(self, "wrote to what is no output: array %zu, byte %zu", p, b);
                return;
            }
        }
    }
}

/* ------------------------------------------------------------------------- the check */

static const di_kernel *reference_of(di_op op)
{
    const di_kernel_mask mask = {.max_isa = DI_ISA_REF};
    return di_kernel_select(op, DI_WIDTH_ANY, true, &mask);
}

/* Other choices of the rows, in other orders: bit by bit the whole call's rows. */
static di_status check_choices(checker *self, const call *whole, int32_t *ids, int32_t n)
{
    enum { N_CHOICES = 3 };
    di_pcg64 rng;
    di_pcg64_seed(&rng, self->seed ^ 0x9e3779b97f4a7c15u);
    for (int choice = 0; choice < N_CHOICES; choice++) {
        for (int32_t at = n - 1; at > 0; at--) {
            const int32_t other = (int32_t)di_pcg64_below(&rng, (uint64_t)at + 1), id = ids[at];
            ids[at] = ids[other];
            ids[other] = id;
        }
        const int64_t m = choice == 0 ? 1 : 1 + (int64_t)di_pcg64_below(&rng, (uint64_t)n);
        call c = {.before = NULL};
        const di_status status = call_run(self, ids, m, &c);
        self->finding->n_calls++;
        for (int i = 0; status == DI_OK && i < c.made.n_outputs; i++) {
            const di_op_output *o = &c.made.outputs[i], *w = &whole->made.outputs[i];
            const size_t bytes = (size_t)o->row_len * di_dtype_bytes(o->dtype);
            for (int64_t row = 0; bytes > 0 && row < m; row++)
                if (memcmp(found_at(&c, row_of(o, row)), found_at(whole, row_of(w, ids[row])),
                           bytes) != 0)
                    fail(self, "a row among %d has other bits than among %d", (int)m, (int)n);
        }
        call_free(&c);
        DI_TRY(status);
    }
    return DI_OK;
}

static di_status check(checker *self, int32_t n_rows, int32_t *ids, call *whole)
{
    for (int32_t i = 0; i < n_rows; i++)
        ids[i] = i;
    DI_TRY(call_run(self, ids, n_rows, whole));
    self->finding->n_calls++;
    reference_of(self->kernel->op)->fn(whole->made.args, 0, whole->made.n_items, 0);
    compare_outputs(self, whole);
    check_rest(self, whole);
    if (self->kernel->is_batch_invariant && !self->finding->has_failed)
        DI_TRY(check_choices(self, whole, ids, n_rows));
    return DI_OK;
}

di_status di_device_check(di_device *device, const di_device_kernel *kernel, uint64_t seed,
                          int32_t n_rows, bool is_exact_memory, di_device_finding *out)
{
    *out = (di_device_finding){.has_failed = false};
    checker self = {.device = device,
                    .kernel = kernel,
                    .seed = seed,
                    .guard_bytes = is_exact_memory ? 0 : 4096,
                    .finding = out};
    call whole = {.before = NULL};
    int32_t *ids = malloc(((size_t)n_rows + 1) * sizeof *ids);
    if (!ids)
        return di_fail_memory((size_t)n_rows * sizeof *ids, "a check");
    di_status status = di_stream_create(device, &self.stream);
    if (status == DI_OK)
        status = check(&self, n_rows, ids, &whole);
    call_free(&whole);
    di_stream_destroy(self.stream);
    free(ids);
    return status;
}
