/* A sequence's constraint while it is sampled: which tokens may come next. Lives where the
 * sampler's state lives, with the device. */
#ifndef DI_SAMPLE_CONSTRAINT_H
#define DI_SAMPLE_CONSTRAINT_H

#include "grammar/matcher.h"

typedef struct di_constraint_setup {
    di_acceptor *acceptor;  /* NULL: free text; borrowed, the state takes its own reference */
    int32_t begins_after;   /* the token after which it begins (</think>); -1: from the start */
    const int32_t *eos_ids; /* allowed where the text may end; borrowed for the life of the state */
    size_t n_eos_ids;
} di_constraint_setup;

typedef struct di_constraint {
    di_matcher *matcher;  /* NULL: free text */
    int32_t begins_after; /* -1: it has begun */
    const int32_t *eos_ids;
    size_t n_eos_ids;
    uint64_t *bits; /* the mask */
    uint32_t n_ids;
} di_constraint;

DI_WARN_UNUSED di_status di_constraint_init(di_constraint *constraint,
                                            const di_constraint_setup *setup);
void di_constraint_free(di_constraint *constraint);

/* Whether the next token is constrained. */
static inline bool di_constraint_is_on(const di_constraint *constraint)
{
    return constraint->matcher != NULL && constraint->begins_after < 0;
}

/* Puts -inf in the place of every token that cannot come next. *must_end: only the end can. */
DI_WARN_UNUSED di_status di_constraint_apply(const di_constraint *constraint, float *scores,
                                             int32_t vocab_size, bool *must_end);
/* Where a constraint stands, to try tokens and take them back. */
typedef struct di_constraint_mark {
    int32_t begins_after;
    size_t n_accepted;
} di_constraint_mark;

di_constraint_mark di_constraint_mark_of(const di_constraint *constraint);
void di_constraint_rewind(di_constraint *constraint, const di_constraint_mark *mark);

/* Appends the text that must come next, at most max_bytes of it; none if there is a choice.
 * *is_whole: and nothing can follow it. */
DI_WARN_UNUSED di_status di_constraint_forced(const di_constraint *constraint, size_t max_bytes,
                                              di_buf *out, bool *is_whole);

/* The token is now part of the output; on failure it is not. */
DI_WARN_UNUSED di_status di_constraint_append(di_constraint *constraint, int32_t token_id);

#endif
