/* Stop strings over text that arrives in pieces of any size. What comes out is certain not to
 * belong to a stop string: the longest end of the text that may still become one is held back.
 *
 * The match that is complete first ends the text; of those complete at the same byte, the one that
 * began first. So the result does not depend on how the text was cut. Time is linear in the text,
 * for each stop string. */
#ifndef DI_SAMPLE_STOP_H
#define DI_SAMPLE_STOP_H

#include <stdbool.h>

#include "base/buf.h"

typedef struct di_stop_matcher di_stop_matcher;

/* Copies the strings; none may be NULL or empty. n = 0 is fine: nothing is held back or matched. */
DI_WARN_UNUSED di_status di_stop_create(const char *const *stop, size_t n, di_stop_matcher **out);
void di_stop_destroy(di_stop_matcher *matcher); /* NULL is fine */

/* Takes the next piece and appends to `out` the text that is now certain. With is_enabled false a
 * string that is completed by this piece does not count (min_tokens), but may begin in it. *matched
 * (an index into `stop`) is -1, or the string that ended the text: then all text before it has been
 * given out, and whatever is pushed later is dropped. */
DI_WARN_UNUSED di_status di_stop_push(di_stop_matcher *matcher, const char *text, size_t bytes,
                                      bool is_enabled, di_buf *out, int *matched);

/* The text ends here: appends what was held back. */
DI_WARN_UNUSED di_status di_stop_finish(di_stop_matcher *matcher, di_buf *out);

/* Bytes held back now. */
size_t di_stop_held_bytes(const di_stop_matcher *matcher);

#endif
