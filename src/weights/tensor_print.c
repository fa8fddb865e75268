#include "weights/tensor_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"

enum { VALUES_A_LINE = 8 };

void di_shape_format(int rank, const int64_t *shape, char out[DI_SHAPE_TEXT_BYTES])
{
    size_t n = (size_t)snprintf(out, DI_SHAPE_TEXT_BYTES, "[");
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(out + n, DI_SHAPE_TEXT_BYTES - n, "%s%lld", i ? "," : "",
                              (long long)shape[i]);
    snprintf(out + n, DI_SHAPE_TEXT_BYTES - n, "]");
}

void di_name_print(const char *name, FILE *out)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        fputc(*p < 0x20 || *p == 0x7f ? '?' : *p, out);
}

/* ------------------------------------------------------------------------------------ one value */

/* The shortest decimal that reads back as x, at least 6 digits of it where there are so many (fewer
 * would turn 120 into 1.2e+02); is_double: in double precision. */
static void print_real(double x, bool is_double, FILE *out)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        const double back = strtod(text, NULL);
        if (is_double ? back == x : (float)back == (float)x)
            break;
    }
    fputs(text, out);
}

#define LOAD(type, data, i)                                                                        \
    ({                                                                                             \
        type load_;                                                                                \
        memcpy(&load_, (const char *)(data) + (size_t)(i) * sizeof load_, sizeof load_);           \
        load_;                                                                                     \
    })

static void print_integer(const di_tensor *t, int64_t i, FILE *out)
{
    switch (t->dtype) {
    case DI_I8:
        fprintf(out, "%d", LOAD(int8_t, t->data, i));
        return;
    case DI_I16:
        fprintf(out, "%d", LOAD(int16_t, t->data, i));
        return;
    case DI_U16:
        fprintf(out, "%u", LOAD(uint16_t, t->data, i));
        return;
    case DI_I32:
        fprintf(out, "%" PRId32, LOAD(int32_t, t->data, i));
        return;
    case DI_U32:
        fprintf(out, "%" PRIu32, LOAD(uint32_t, t->data, i));
        return;
    case DI_I64:
        fprintf(out, "%" PRId64, LOAD(int64_t, t->data, i));
        return;
    case DI_U64:
        fprintf(out, "%" PRIu64, LOAD(uint64_t, t->data, i));
        return;
    case DI_BOOL:
        fputs(LOAD(uint8_t, t->data, i) ? "true" : "false", out);
        return;
    default:
        fprintf(out, "%u", LOAD(uint8_t, t->data, i));
    }
}

static void print_value(const di_tensor *t, int64_t i, FILE *out)
{
    switch (t->dtype) {
    case DI_F8_E4M3:
        print_real((double)di_e4m3_to_f32[LOAD(uint8_t, t->data, i)], false, out);
        return;
    case DI_F8_E5M2: /* the upper byte of an fp16 */
        print_real((double)di_f16_to_f32((uint16_t)(LOAD(uint8_t, t->data, i) << 8)), false, out);
        return;
    case DI_F8_E8M0:
        print_real((double)di_e8m0_to_f32(LOAD(uint8_t, t->data, i)), false, out);
        return;
    case DI_F16:
        print_real((double)di_f16_to_f32(LOAD(uint16_t, t->data, i)), false, out);
        return;
    case DI_BF16:
        print_real((double)di_bf16_to_f32(LOAD(di_bf16, t->data, i)), false, out);
        return;
    case DI_F32:
        print_real((double)LOAD(float, t->data, i), false, out);
        return;
    case DI_F64:
        print_real(LOAD(double, t->data, i), true, out);
        return;
    default:
        print_integer(t, i, out);
    }
}

/* Weight i of a quantized matrix, times its scale: one a row and 32 columns, or one a 32x32 block.
 */
static void print_weight(const di_tensor *t, const di_tensor *scale, int64_t i, FILE *out)
{
    const bool is_fp4 = t->dtype == DI_I8;
    const int64_t n_in = t->shape[1] * (is_fp4 ? 2 : 1), row = i / n_in, column = i % n_in;
    const bool is_by_row = scale->shape[0] == t->shape[0];
    const int64_t scale_row = is_by_row ? row : row / 32;
    const uint8_t code = LOAD(uint8_t, t->data, is_fp4 ? i / 2 : i);
    const uint8_t exponent = LOAD(uint8_t, scale->data, scale_row * scale->shape[1] + column / 32);
    const float value =
        is_fp4 ? di_e2m1_to_f32[i % 2 ? code >> 4 : code & 15] : di_e4m3_to_f32[code];
    print_real((double)(value * di_e8m0_to_f32(exponent)), false, out);
}

void di_tensor_print_values(const di_tensor *tensor, const di_tensor *scale, int64_t n, FILE *out)
{
    int64_t total = (int64_t)(tensor->bytes / di_dtype_bytes(tensor->dtype));
    if (scale && tensor->dtype == DI_I8)
        total *= 2;
    const int64_t shown = n < 0 || n > total ? total : n;
    for (int64_t i = 0; i < shown; i++) {
        if (scale)
            print_weight(tensor, scale, i, out);
        else
            print_value(tensor, i, out);
        fputc(i % VALUES_A_LINE == VALUES_A_LINE - 1 || i == shown - 1 ? '\n' : ' ', out);
    }
    if (shown < total)
        fprintf(out, "... %lld more\n", (long long)(total - shown));
}
