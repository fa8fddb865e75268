/* Checked size arithmetic for numbers that come from files or clients: false on overflow. */
#ifndef DI_BASE_CHECKED_H
#define DI_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool di_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool di_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline int64_t di_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t di_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t di_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
