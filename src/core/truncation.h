/* Prefill truncation (model spec 6, decoder replay): the layers from the last KV source on own
 * nothing global. Of a prompt's rows they leave only windows, which later rows see for window - 1
 * positions: so only the prompt's last rows need them. Which rows a layer computes follows from a
 * row's position and the length of its prompt alone, so that results depend neither on the chunks
 * of a prefill nor on preemptions.
 *
 * compact: all these layers compute the prompt's last `keep` rows; their windows are cut where
 * these begin. An approximation.
 * exact: below the last layer each computes window - 1 rows more than the one after it, whose rows
 * then have all they depend on: the last layer's last `keep` inputs, and what follows from them,
 * have the bits of a run of all rows. */
#ifndef DI_CORE_TRUNCATION_H
#define DI_CORE_TRUNCATION_H

#include "core/config.h"

typedef enum di_truncation_mode {
    DI_TRUNCATION_OFF,
    DI_TRUNCATION_COMPACT,
    DI_TRUNCATION_EXACT
} di_truncation_mode;

/* All 0: off. */
typedef struct di_truncation {
    di_truncation_mode mode;
    int first_layer, n_layers; /* the decoder is first_layer .. n_layers - 1; the first of them
                                  makes compressed entries and index keys of all rows */
    int64_t keep;
    int64_t window; /* sliding_window */
} di_truncation;

/* Checks that the model has the layout this is for, and that `keep` rows are enough: the window and
 * the tokens that speculation may take back, two passes' worth of a block of drafts and the token
 * after them. DI_ERR_UNSUPPORTED, DI_ERR_ARGUMENT. Any keep will do with DI_TRUNCATION_OFF. */
DI_WARN_UNUSED di_status di_truncation_init(const di_config *config, di_truncation_mode mode,
                                            int64_t keep, di_truncation *out);

/* Where a prompt's last `keep` rows begin; 0 = every layer computes every row. */
int64_t di_truncation_start(const di_truncation *t, int64_t n_prompt);

/* First position whose window entry a layer writes, for a prompt with this start. */
int64_t di_truncation_first_key(const di_truncation *t, int64_t start, int layer);
/* First position whose row passes the whole layer; not before the first key. */
int64_t di_truncation_first_row(const di_truncation *t, int64_t start, int layer);

/* Whether windows of positions before `end`, written for a prompt with start `written`, are what a
 * prompt with this start needs of them. */
bool di_truncation_can_share(const di_truncation *t, int64_t start, int64_t written, int64_t end);

#endif
