/* Token masks found beside the forward pass: a constrained sequence's next mask depends on the
 * token before it, which is known when the pass begins, and on nothing that the pass computes. A
 * thread finds them, one sequence after the other; those that it has not come to when the pass ends
 * are found when they are applied, so that waiting for it takes no longer than one sequence's. They
 * are the same masks, whoever finds them. */
#ifndef DI_SAMPLE_MASK_AHEAD_H
#define DI_SAMPLE_MASK_AHEAD_H

#include "sample/constraint.h"

typedef struct di_mask_ahead di_mask_ahead;

/* The thread sleeps until there is something to find. It may run where the calling thread may. */
DI_WARN_UNUSED di_status di_mask_ahead_create(di_mask_ahead **out);
void di_mask_ahead_destroy(di_mask_ahead *ahead); /* not between start and join; NULL is fine */

/* Notes a constraint that is applied next, each once, and what may be the tokens after that
 * (drafts; n_next 0: none). All is borrowed, and nobody else may touch it, until
 * di_mask_ahead_join. */
void di_mask_ahead_add(di_mask_ahead *ahead, di_constraint *constraint, const int32_t *next,
                       int32_t n_next);
/* Lets the thread begin. The same thread adds, starts and joins. */
void di_mask_ahead_start(di_mask_ahead *ahead);
/* Waits for the sequence whose masks are being found, if any, and forgets the constraints. */
void di_mask_ahead_join(di_mask_ahead *ahead);

#endif
