/* A sequence's constraint while it is sampled: which tokens may come next. Lives where the
 * sampler's state lives, with the device. One thread at a time; what it shares with other sequences
 * (acceptor, vocabulary) has locks. */
#ifndef DI_SAMPLE_CONSTRAINT_H
#define DI_SAMPLE_CONSTRAINT_H

#include "grammar/matcher.h"

typedef struct di_constraint_setup {
    di_acceptor *acceptor;  /* NULL: free text; borrowed, the state takes its own reference */
    int32_t begins_after;   /* the token after which it begins (</think>); -1: from the start */
    const int32_t *eos_ids; /* allowed where the text may end; borrowed for the life of the state */
    size_t n_eos_ids;
} di_constraint_setup;

/* The tokens that can come next, the ends among them. */
typedef struct di_constraint_mask {
    bool is_known; /* of the token that comes next; else of one before */
    bool must_end; /* only the end can follow */
    uint64_t bits[];
} di_constraint_mask;

typedef struct di_constraint {
    di_matcher *matcher;  /* NULL: free text */
    int32_t begins_after; /* -1: it has begun */
    const int32_t *eos_ids;
    size_t n_eos_ids;
    di_constraint_mask *mask;
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

/* Finds the mask of the next token now, if it is constrained: all that it depends on is known as
 * soon as the last token is appended. Also those behind it, should next[n_next] be the tokens that
 * come next. Costs time only: what fails here fails again, and says why, when it is applied. */
void di_constraint_prepare(di_constraint *constraint, const int32_t *next, int32_t n_next);
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
