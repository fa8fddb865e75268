/* The Engram token map (model spec 4.6): ids whose texts are the same but for case, accents, width
 * and white space share one number. */
#ifndef DI_TEXT_TOKEN_MAP_H
#define DI_TEXT_TOKEN_MAP_H

#include "text/tokenizer.h"

/* map [vocab_size]: numbers 0, 1, ... in the order in which their first id comes; *n_distinct is
 * their count. vocab_size is the config's; DI_ERR_INPUT if the tokenizer has ids beyond it. An id
 * without a token has no text to share: it gets a number of its own. (The released vocabulary has
 * none; placeholder tokens, each with its own text, would come out the same.) */
DI_WARN_UNUSED di_status di_token_map_build(const di_tokenizer *tokenizer, int64_t vocab_size,
                                            int32_t *map, int64_t *n_distinct);

#endif
