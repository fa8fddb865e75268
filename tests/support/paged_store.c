#include "paged_store.h"

#include <math.h>
#include <string.h>

di_paged di_paged_random(di_kernel_case *c, di_rng *rng, di_entry_format format, int64_t dim,
                         int32_t block_len, int64_t n_blocks)
{
    enum { BETWEEN = 5 };
    const int32_t code_bytes = (int32_t)(format == DI_ENTRY_Q8 ? dim : dim / 2);
    const int32_t scale_bytes = (int32_t)(format == DI_ENTRY_Q4KV ? dim / 16 : dim / 32);
    const int64_t block_bytes = (int64_t)(code_bytes + scale_bytes) * block_len + BETWEEN;
    uint8_t *data = di_case_input(c, n_blocks * block_bytes, 1);
    for (int64_t b = 0; b < n_blocks; b++) {
        uint8_t *codes = data + b * block_bytes, *scales = codes + code_bytes * block_len;
        if (format == DI_ENTRY_Q8)
            di_fill_e4m3(rng, codes, code_bytes * block_len);
        else
            di_fill_bytes(rng, codes, code_bytes * block_len);
        for (int64_t i = 0; i < code_bytes * block_len && format == DI_ENTRY_Q8; i++)
            codes[i] &= 0xbf; /* magnitudes below 2: attention does not become one-hot */
        for (int64_t i = 0; i < scale_bytes * block_len; i++) /* about 1/4 .. 2 */
            scales[i] = (uint8_t)(format == DI_ENTRY_Q4KV ? di_rng_between(rng, 0x28, 0x3f)
                                                          : di_rng_between(rng, 125, 127));
    }
    return (di_paged){data,      block_bytes, (int64_t)code_bytes * block_len,
                      block_len, code_bytes,  scale_bytes};
}

const int32_t *di_block_table_random(di_kernel_case *c, di_rng *rng, int64_t n_logical,
                                     int64_t n_blocks)
{
    int32_t *table = di_case_input(c, n_logical, sizeof *table);
    for (int64_t i = 0; i < n_logical;) {
        bool is_taken = false;
        table[i] = (int32_t)di_rng_below(rng, n_blocks);
        for (int64_t j = 0; j < i; j++)
            is_taken |= table[j] == table[i];
        i += !is_taken;
    }
    return table;
}

static double e4m3_value(int code)
{
    const int e = code >> 3 & 15, m = code & 7;
    const double magnitude = e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

double di_paged_value(const di_paged *p, di_entry_format format, const int32_t *table,
                      int64_t index, int64_t i)
{
    static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const uint8_t *block = p->data + table[index / p->block_len] * p->block_bytes;
    const int64_t at = index % p->block_len;
    const uint8_t *codes = block + at * p->code_bytes;
    const uint8_t *scales = block + p->scales_offset + at * p->scale_bytes;
    if (format == DI_ENTRY_Q8)
        return e4m3_value(codes[i]) * ldexp(1, scales[i / 32] - 127);
    const int code = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    const double value = (code & 8 ? -1 : 1) * e2m1[code & 7];
    if (format == DI_ENTRY_Q4I)
        return value * ldexp(1, scales[i / 32] - 127);
    return value * e4m3_value(scales[i / 16]); /* at most 6 significant bits: a bf16 value */
}
