/* Sets of Unicode code points, for the classes of regular expressions and grammars. Surrogates
 * (U+D800 to U+DFFF) are never members: no UTF-8 text contains them. */
#ifndef DI_GRAMMAR_CHARSET_H
#define DI_GRAMMAR_CHARSET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define DI_CODE_LAST 0x10FFFFu

typedef struct di_code_range {
    uint32_t first, last; /* both included */
} di_code_range;

/* Ranges ascend, do not overlap and do not touch. The memory belongs to an arena. */
typedef struct di_charset {
    const di_code_range *ranges;
    uint32_t n;
} di_charset;

/* Collects ranges in any order. Zero-initialise; free with di_charset_builder_free. */
typedef struct di_charset_builder {
    di_code_range *ranges;
    size_t n, cap;
} di_charset_builder;

/* first <= last <= DI_CODE_LAST. */
DI_WARN_UNUSED di_status di_charset_add(di_charset_builder *builder, uint32_t first, uint32_t last);
DI_WARN_UNUSED di_status di_charset_add_set(di_charset_builder *builder, di_charset set);
/* The collected set, or with `negate` all other code points. The builder is empty afterwards. */
DI_WARN_UNUSED di_status di_charset_finish(di_charset_builder *builder, di_arena *arena,
                                           bool negate, di_charset *out);
void di_charset_builder_free(di_charset_builder *builder);

DI_WARN_UNUSED di_status di_charset_range(di_arena *arena, uint32_t first, uint32_t last,
                                          di_charset *out);
DI_WARN_UNUSED di_status di_charset_complement(di_arena *arena, di_charset a, di_charset *out);
DI_WARN_UNUSED di_status di_charset_intersect(di_arena *arena, di_charset a, di_charset b,
                                              di_charset *out);
DI_WARN_UNUSED di_status di_charset_minus(di_arena *arena, di_charset a, di_charset b,
                                          di_charset *out);
bool di_charset_contains(di_charset set, uint32_t code);
/* Every code point but surrogates; static memory. */
di_charset di_charset_all(void);

#endif
