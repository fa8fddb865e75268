/* Cuts text into pre-tokens with the splits of a tokenizer file: each split cuts every piece of the
 * one before it at its regex's matches; matches and what lies between them all become pieces. */
#ifndef DI_TEXT_PRETOKENIZE_H
#define DI_TEXT_PRETOKENIZE_H

#include "base/buf.h"

enum { DI_PRETOKENIZER_MAX_SPLITS = 16 };

typedef struct di_splitter di_splitter; /* one compiled regex */

/* Never changes once its splits are added; free to use from several threads. */
typedef struct di_pretokenizer {
    di_splitter *splitters[DI_PRETOKENIZER_MAX_SPLITS];
    int n_splitters;
} di_pretokenizer;

/* The regex is what the tokenizer file says (Oniguruma syntax). */
DI_WARN_UNUSED di_status di_pretokenizer_add(di_pretokenizer *pretokenizer, const char *regex,
                                             size_t len);
void di_pretokenizer_free(di_pretokenizer *pretokenizer);

/* What one caller needs to match: one per thread, reusable. */
typedef struct di_split_scratch di_split_scratch;
DI_WARN_UNUSED di_status di_split_scratch_create(di_split_scratch **out);
void di_split_scratch_destroy(di_split_scratch *scratch);

/* Takes the next piece, in order, never empty. */
typedef di_status (*di_piece_fn)(void *user, const char *piece, size_t len);

/* Calls fn with each piece of text; their concatenation is text. text may hold any bytes: the
 * regexes see the stretches of valid UTF-8, and each run of bytes that are not is one piece. */
DI_WARN_UNUSED di_status di_pretokenize(const di_pretokenizer *pretokenizer,
                                        di_split_scratch *scratch, const char *text, size_t len,
                                        di_piece_fn fn, void *user);

#endif
