/* Unicode properties as sets of code points, from utf8proc's tables. */
#ifndef DI_GRAMMAR_UNICODE_H
#define DI_GRAMMAR_UNICODE_H

#include "grammar/charset.h"

/* What \p{NAME} stands for: a general category by its short or long name, also as
 * General_Category=NAME or gc=NAME; Any, ASCII, Assigned, ASCII_Hex_Digit, White_Space.
 * DI_ERR_UNSUPPORTED for all others (scripts among them). */
DI_WARN_UNUSED di_status di_unicode_property(di_arena *arena, const char *name, di_charset *out);

/* The set and everything that differs from a member in case only (simple case folding). */
DI_WARN_UNUSED di_status di_unicode_fold(di_arena *arena, di_charset set, di_charset *out);

#endif
