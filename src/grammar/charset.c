#include "grammar/charset.h"

#include <stdlib.h>

#include "base/buf.h"

enum { SURROGATE_FIRST = 0xD800, SURROGATE_LAST = 0xDFFF };

static const di_code_range all_ranges[] = {{0, SURROGATE_FIRST - 1},
                                           {SURROGATE_LAST + 1, DI_CODE_LAST}};

di_charset di_charset_all(void)
{
    return (di_charset){.ranges = all_ranges, .n = 2};
}

di_status di_charset_add(di_charset_builder *builder, uint32_t first, uint32_t last)
{
    DI_TRY(DI_GROW(&builder->ranges, &builder->cap, builder->n + 1));
    builder->ranges[builder->n++] = (di_code_range){first, last};
    return DI_OK;
}

di_status di_charset_add_set(di_charset_builder *builder, di_charset set)
{
    for (uint32_t i = 0; i < set.n; i++)
        DI_TRY(di_charset_add(builder, set.ranges[i].first, set.ranges[i].last));
    return DI_OK;
}

void di_charset_builder_free(di_charset_builder *builder)
{
    free(builder->ranges);
    *builder = (di_charset_builder){0};
}

static int by_first(const void *a, const void *b)
{
    const uint32_t x = ((const di_code_range *)a)->first;
    const uint32_t y = ((const di_code_range *)b)->first;
    return (x > y) - (x < y);
}

/* Sorts, and joins ranges that overlap or touch. */
static size_t normalize(di_code_range *r, size_t n)
{
    if (n == 0)
        return 0;
    qsort(r, n, sizeof *r, by_first);
    size_t out = 0;
    for (size_t i = 1; i < n; i++) {
        if (r[i].first <= r[out].last + 1)
            r[out].last = r[i].last > r[out].last ? r[i].last : r[out].last;
        else
            r[++out] = r[i];
    }
    return out + 1;
}

di_status di_charset_finish(di_charset_builder *builder, di_arena *arena, bool negate,
                            di_charset *out)
{
    builder->n = normalize(builder->ranges, builder->n);
    const di_charset raw = {.ranges = builder->ranges, .n = (uint32_t)builder->n};
    const di_status status = negate ? di_charset_minus(arena, di_charset_all(), raw, out)
                                    : di_charset_intersect(arena, raw, di_charset_all(), out);
    builder->n = 0;
    return status;
}

di_status di_charset_range(di_arena *arena, uint32_t first, uint32_t last, di_charset *out)
{
    const di_code_range range = {first, last};
    return di_charset_intersect(arena, (di_charset){.ranges = &range, .n = 1}, di_charset_all(),
                                out);
}

di_status di_charset_complement(di_arena *arena, di_charset a, di_charset *out)
{
    return di_charset_minus(arena, di_charset_all(), a, out);
}

di_status di_charset_intersect(di_arena *arena, di_charset a, di_charset b, di_charset *out)
{
    di_code_range *ranges;
    uint32_t n = 0;
    DI_TRY(DI_ARENA_NEW(arena, (size_t)a.n + b.n, &ranges));
    for (uint32_t i = 0, j = 0; i < a.n && j < b.n;) {
        const di_code_range x = a.ranges[i], y = b.ranges[j];
        const uint32_t first = x.first > y.first ? x.first : y.first;
        const uint32_t last = x.last < y.last ? x.last : y.last;
        if (first <= last)
            ranges[n++] = (di_code_range){first, last};
        if (x.last < y.last)
            i++;
        else
            j++;
    }
    *out = (di_charset){.ranges = ranges, .n = n};
    return DI_OK;
}

di_status di_charset_minus(di_arena *arena, di_charset a, di_charset b, di_charset *out)
{
    di_code_range *ranges;
    uint32_t n = 0, j = 0;
    DI_TRY(DI_ARENA_NEW(arena, (size_t)a.n + b.n, &ranges));
    for (uint32_t i = 0; i < a.n; i++) {
        uint32_t first = a.ranges[i].first;
        const uint32_t last = a.ranges[i].last;
        while (j < b.n && b.ranges[j].last < first)
            j++;
        for (uint32_t k = j; first <= last; k++) {
            if (k == b.n || b.ranges[k].first > last) {
                ranges[n++] = (di_code_range){first, last};
                break;
            }
            if (b.ranges[k].first > first)
                ranges[n++] = (di_code_range){first, b.ranges[k].first - 1};
            first = b.ranges[k].last + 1;
        }
    }
    *out = (di_charset){.ranges = ranges, .n = n};
    return DI_OK;
}

bool di_charset_contains(di_charset set, uint32_t code)
{
    uint32_t low = 0, high = set.n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (set.ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set.n && set.ranges[low].first <= code;
}
