/* Streaming decode: gives out whole characters only. What is given out in all is exactly the whole
 * decode made valid (di_tokenizer_decode, then di_utf8_append_lossy): each invalid sequence of
 * bytes becomes U+FFFD as soon as it is certain that no byte to come can mend it, and a character
 * still cut at the end becomes one U+FFFD. */
#ifndef DI_TEXT_DETOKENIZER_H
#define DI_TEXT_DETOKENIZER_H

#include "text/tokenizer.h"

typedef struct di_detokenizer {
    const di_tokenizer *tokenizer;
    bool skip_special;
    uint8_t n_pending;
    char pending[4]; /* beginning of a character */
} di_detokenizer;

void di_detokenizer_init(di_detokenizer *detokenizer, const di_tokenizer *tokenizer,
                         bool skip_special);
/* Appends to out the characters that id completes. An id out of range is DI_ERR_ARGUMENT and
 * changes nothing. */
DI_WARN_UNUSED di_status di_detokenizer_push(di_detokenizer *detokenizer, int32_t id, di_buf *out);
/* Appends what was held back. The detokenizer then stands as after di_detokenizer_init. */
DI_WARN_UNUSED di_status di_detokenizer_finish(di_detokenizer *detokenizer, di_buf *out);

#endif
