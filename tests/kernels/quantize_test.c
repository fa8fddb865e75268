/* The quantizers against their definitions (model spec 3), worked out by search: the scale from the
 * group's largest magnitude, then the nearest representable value, ties to the even code. Exact. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compare.h"
#include "kernel_case.h"
#include "kernels/quantize/quantize.h"

/* ------------------------------------------------------------------- definitions */

/* Value of an e4m3 code 0 .. 0x7e. */
static double e4m3_value(int code)
{
    const int e = code >> 3, m = code & 7;
    return e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
}

static const double e2m1_values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

static double e2m1_value(int code)
{
    return e2m1_values[code];
}

/* Code of the value nearest to a magnitude; beyond the largest one, the largest. */
static int nearest(double magnitude, double (*value)(int), int n_codes)
{
    int best = 0;
    for (int c = 1; c < n_codes; c++) {
        const double d = fabs(value(c) - magnitude), d_best = fabs(value(best) - magnitude);
        if (d < d_best || (d == d_best && c % 2 == 0))
            best = c;
    }
    return best;
}

/* Least power of two >= y. */
static double power_above(double y)
{
    int e;
    const double m = frexp(y, &e);
    return ldexp(1, m == 0.5 ? e - 1 : e);
}

typedef struct format {
    int group;
    double least; /* of the group's largest magnitude */
    double limit;
    bool has_e4m3_scale;
    double (*value)(int);
    int n_codes;
} format;

static const format q8 = {32, (double)1e-4f, 448, false, e4m3_value, 127};
static const format q4i = {32, 6 * 0x1p-126, 6, false, e2m1_value, 8};
static const format q4kv = {16, 6 * 0x1p-9, 6, true, e2m1_value, 8};

static double scale_of(const format *f, const di_bf16 *x)
{
    double a = f->least;
    for (int i = 0; i < f->group; i++)
        a = fmax(a, fabs((double)di_bf16_to_f32(x[i])));
    if (f->has_e4m3_scale) /* true division, in fp32 */
        return e4m3_value(nearest((double)(float)(a / f->limit), e4m3_value, 127));
    return power_above((double)(float)(a * (double)(float)(1 / f->limit))); /* times f32(1/limit) */
}

/* Signed code value of x under a scale. */
static double rounded(const format *f, di_bf16 x, double scale)
{
    const double v = (double)(float)((double)di_bf16_to_f32(x) / scale);
    const double magnitude = f->value(nearest(fmin(fabs(v), f->limit), f->value, f->n_codes));
    if (magnitude == 0 && f->n_codes == 8) /* e2m1 has no -0 */
        return 0;
    return signbit(v) ? -magnitude : magnitude;
}

/* ------------------------------------------------------------------- quantize_* */

typedef struct shape {
    int64_t n, dim, pad;
    bool in_place;
} shape;

static const shape shapes[] = {
    {1, 32, 0, false}, {3, 64, 5, false}, {5, 96, 0, true}, {2, 160, 7, true}, {2, 512, 0, false}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* The pattern, with one group of a row at each interesting place: a group of zeros, one whose
 * largest magnitude is exactly a power of two times the limit, one just above. */
static void fill(di_rng *rng, const format *f, di_pattern pattern, di_bf16 *x, int64_t n)
{
    di_fill_bf16(rng, pattern, x, n);
    for (int64_t g = 0; g + f->group <= n; g += f->group) {
        const int kind = (int)di_rng_below(rng, 6);
        if (kind == 0)
            memset(x + g, 0, (size_t)f->group * sizeof *x);
        const float limit = ldexpf((float)f->limit, (int)di_rng_between(rng, -6, 6));
        if (kind == 1 || kind == 2)
            for (int i = 0; i < f->group; i++) /* ties of the code grid are likely */
                x[g + i] = di_f32_to_bf16(limit * (float)di_rng_between(rng, -24, 24) / 24);
        if (kind == 1)
            x[g + di_rng_below(rng, f->group)] = di_f32_to_bf16(limit);
        if (kind == 2)
            x[g + di_rng_below(rng, f->group)] = (di_bf16)(di_f32_to_bf16(limit) + 1);
    }
}

static void check_rounding(di_op op, const format *f, const shape *s, di_pattern pattern)
{
    di_kernel_case c =
        di_case_new(op, "%s, %d rows of %d, %s%s", di_op_name(op), (int)s->n, (int)s->dim,
                    di_pattern_name(pattern), s->in_place ? ", in place" : "");
    di_rng rng = di_rng_named(c.what);
    const int64_t stride = s->dim + s->pad, total = s->n * stride;
    di_bf16 *y = di_case_inout(&c, total, DI_BF16);
    di_bf16 *x = s->in_place ? y : di_case_input(&c, total, sizeof *x);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, y, total);
    for (int64_t row = 0; row < s->n; row++)
        fill(&rng, f, pattern, x + row * stride, s->dim);
    const di_quantize_args args = {
        .x = x, .y = y, .dim = s->dim, .x_stride = stride, .y_stride = stride};
    di_case_run(&c, &args, s->n);
    const di_bf16 *before = di_case_before(&c, y), *in = s->in_place ? before : x;
    for (int64_t i = 0; i < total; i++) {
        const int64_t place = i % stride;
        if (place >= s->dim) {
            assert_int_equal(y[i], before[i]);
            continue;
        }
        const double scale = scale_of(f, in + i - place % f->group);
        di_expect_bf16_exact(c.what, i, y[i], rounded(f, in[i], scale) * scale);
    }
    di_case_free(&c);
}

static void quantize(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        for (int p = 0; p < DI_N_PATTERNS; p++) {
            check_rounding(DI_OP_quantize_q8, &q8, &shapes[i], (di_pattern)p);
            check_rounding(DI_OP_quantize_q4i, &q4i, &shapes[i], (di_pattern)p);
        }
    }
}

/* A group that holds a NaN or an infinity is NaN, as its magnitude is; the group beside it is not.
 */
static void check_nan_rounding(di_op op, const format *f, di_bf16 broken)
{
    enum { DIM = 64 };
    di_kernel_case c = di_case_new(op, "%s, %04x", di_op_name(op), broken);
    di_rng rng = di_rng_named(c.what);
    di_bf16 *x = di_case_input(&c, DIM, sizeof *x), *y = di_case_output(&c, DIM, DI_BF16);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, x, DIM);
    x[39] = broken;
    const di_quantize_args args = {.x = x, .y = y, .dim = DIM, .x_stride = DIM, .y_stride = DIM};
    di_case_run(&c, &args, 1);
    for (int i = 0; i < 32; i++)
        di_expect_bf16_exact(c.what, i, y[i], rounded(f, x[i], scale_of(f, x)) * scale_of(f, x));
    for (int i = 32; i < DIM; i++)
        assert_true(isnan(di_bf16_to_f32(y[i])));
    di_case_free(&c);
}

static const di_bf16 broken[] = {0x7fc0, 0xffc0, 0x7f81, 0x7f80, 0xff80};

static void nan_spoils_its_group(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        check_nan_rounding(DI_OP_quantize_q8, &q8, broken[i]);
        check_nan_rounding(DI_OP_quantize_q4i, &q4i, broken[i]);
    }
}

/* ------------------------------------------------------------------- pack_* */

static int code_at(const format *f, const uint8_t *codes, int64_t i)
{
    if (f->n_codes == 127)
        return codes[i];
    return i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15; /* low nibble first */
}

static void check_entry(const di_kernel_case *c, const format *f, const di_bf16 *x, int64_t dim,
                        const uint8_t *codes, const uint8_t *scales)
{
    const int sign_bit = f->n_codes == 127 ? 0x80 : 8;
    for (int64_t i = 0; i < dim; i++) {
        const double scale = scale_of(f, x + i - i % f->group);
        const int scale_code = scales[i / f->group];
        const double stored =
            f->has_e4m3_scale ? e4m3_value(scale_code) : ldexp(1, scale_code - 127);
        const int code = code_at(f, codes, i);
        const double value = f->value(code & (sign_bit - 1)) * (code & sign_bit ? -1 : 1);
        if (stored != scale || value != rounded(f, x[i], scale))
            fail_msg("%s: channel %d: %g times scale %g, wanted %g times %g", c->what, (int)i,
                     value, stored, rounded(f, x[i], scale), scale);
    }
}

/* Rows go to scattered slots, one is skipped, and what lies around the entries stays. */
static void check_packing(di_op op, const format *f, int64_t dim, di_pattern pattern)
{
    enum { N = 5, N_BLOCKS = 4, BLOCK_LEN = 3, PAD = 9 };
    di_kernel_case c =
        di_case_new(op, "%s, %d channels, %s", di_op_name(op), (int)dim, di_pattern_name(pattern));
    di_rng rng = di_rng_named(c.what);
    const int32_t code_bytes = (int32_t)(f->n_codes == 127 ? dim : dim / 2);
    const int32_t scale_bytes = (int32_t)(dim / f->group);
    const int64_t block_bytes = (code_bytes + scale_bytes) * BLOCK_LEN + PAD, stride = dim + 3;
    uint8_t *data = di_case_inout(&c, N_BLOCKS * block_bytes, DI_U8);
    di_bf16 *x = di_case_input(&c, N * stride, sizeof *x);
    int64_t *slots = di_case_input(&c, N, sizeof *slots);
    di_fill_bytes(&rng, data, N_BLOCKS * block_bytes);
    for (int64_t row = 0; row < N; row++)
        fill(&rng, f, pattern, x + row * stride, dim);
    const int64_t places[N] = {4, -1, 11, 0, 5};
    memcpy(slots, places, sizeof places);
    const di_pack_args args = {.x = x,
                               .dim = dim,
                               .x_stride = stride,
                               .slots = slots,
                               .out = {.data = data,
                                       .block_bytes = block_bytes,
                                       .scales_offset = (int64_t)code_bytes * BLOCK_LEN,
                                       .block_len = BLOCK_LEN,
                                       .code_bytes = code_bytes,
                                       .scale_bytes = scale_bytes}};
    di_case_run(&c, &args, N);
    uint8_t *rest = malloc((size_t)(N_BLOCKS * block_bytes)); /* 1: belongs to an entry */
    assert_non_null(rest);
    memset(rest, 0, (size_t)(N_BLOCKS * block_bytes));
    for (int row = 0; row < N; row++) {
        if (slots[row] < 0)
            continue;
        const int64_t block = slots[row] / BLOCK_LEN * block_bytes, at = slots[row] % BLOCK_LEN;
        const int64_t codes = block + at * code_bytes;
        const int64_t scales = block + args.out.scales_offset + at * scale_bytes;
        check_entry(&c, f, x + row * stride, dim, data + codes, data + scales);
        memset(rest + codes, 1, (size_t)code_bytes);
        memset(rest + scales, 1, (size_t)scale_bytes);
    }
    const uint8_t *before = di_case_before(&c, data);
    for (int64_t i = 0; i < N_BLOCKS * block_bytes; i++)
        if (!rest[i])
            assert_int_equal(data[i], before[i]);
    free(rest);
    di_case_free(&c);
}

static void pack(void **state)
{
    (void)state;
    const int64_t dims[] = {32, 64, 96, 512};
    for (int i = 0; i < 4; i++) {
        for (int p = 0; p < DI_N_PATTERNS; p++) {
            check_packing(DI_OP_pack_q8, &q8, dims[i], (di_pattern)p);
            check_packing(DI_OP_pack_q4i, &q4i, dims[i], (di_pattern)p);
            check_packing(DI_OP_pack_q4kv, &q4kv, dims[i], (di_pattern)p);
        }
    }
}

/* The stored scale says it, whatever the codes are. */
static void check_nan_packing(di_op op, const format *f, di_bf16 value)
{
    enum { DIM = 64 };
    di_kernel_case c = di_case_new(op, "%s, %04x", di_op_name(op), value);
    di_rng rng = di_rng_named(c.what);
    const int32_t code_bytes = f->n_codes == 127 ? DIM : DIM / 2, scale_bytes = DIM / f->group;
    uint8_t *data = di_case_inout(&c, code_bytes + scale_bytes, DI_U8);
    di_bf16 *x = di_case_input(&c, DIM, sizeof *x);
    int64_t *slots = di_case_input(&c, 1, sizeof *slots);
    di_fill_bytes(&rng, data, code_bytes + scale_bytes);
    di_fill_bf16(&rng, DI_PATTERN_NORMAL, x, DIM);
    x[39] = value;
    slots[0] = 0;
    const di_pack_args args = {.x = x,
                               .dim = DIM,
                               .x_stride = DIM,
                               .slots = slots,
                               .out = {.data = data,
                                       .block_bytes = code_bytes + scale_bytes,
                                       .scales_offset = code_bytes,
                                       .block_len = 1,
                                       .code_bytes = code_bytes,
                                       .scale_bytes = scale_bytes}};
    di_case_run(&c, &args, 1);
    check_entry(&c, f, x, 32, data, data + code_bytes);
    assert_int_equal(data[code_bytes + 39 / f->group], f->has_e4m3_scale ? 0x7f : 0xff);
    di_case_free(&c);
}

static void nan_is_kept_by_the_scale(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        check_nan_packing(DI_OP_pack_q8, &q8, broken[i]);
        check_nan_packing(DI_OP_pack_q4i, &q4i, broken[i]);
        check_nan_packing(DI_OP_pack_q4kv, &q4kv, broken[i]);
    }
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantize), cmocka_unit_test(nan_spoils_its_group), cmocka_unit_test(pack),
        cmocka_unit_test(nan_is_kept_by_the_scale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
