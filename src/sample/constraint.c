#include "sample/constraint.h"

#include <math.h>
#include <stdlib.h>

di_status di_constraint_init(di_constraint *constraint, const di_constraint_setup *setup)
{
    di_constraint fresh = {.begins_after = setup->begins_after,
                           .eos_ids = setup->eos_ids,
                           .n_eos_ids = setup->n_eos_ids};
    if (setup->acceptor != NULL) {
        const di_vocab *vocab = di_acceptor_vocab(setup->acceptor);
        fresh.n_ids = vocab->n_ids;
        const size_t bytes = sizeof *fresh.mask + vocab->n_words * sizeof *fresh.mask->bits;
        fresh.mask = malloc(bytes);
        if (fresh.mask == NULL)
            return di_fail_memory(bytes, "a token mask");
        fresh.mask->is_known = false;
        const di_status status = di_matcher_create(setup->acceptor, &fresh.matcher);
        if (status != DI_OK) {
            free(fresh.mask);
            return status;
        }
    }
    *constraint = fresh;
    return DI_OK;
}

void di_constraint_free(di_constraint *constraint)
{
    di_matcher_destroy(constraint->matcher);
    free(constraint->mask);
    *constraint = (di_constraint){0};
}

static bool is_eos(const di_constraint *c, int32_t id)
{
    for (size_t i = 0; i < c->n_eos_ids; i++)
        if (c->eos_ids[i] == id)
            return true;
    return false;
}

/* The scores of one word of the mask. */
static void apply_word(uint64_t word, float *scores, int32_t n)
{
    if (word == UINT64_MAX)
        return;
    for (int32_t i = 0; i < n; i++)
        if ((word >> i & 1) == 0)
            scores[i] = -INFINITY;
}

static di_status find_mask(const di_constraint *c)
{
    di_constraint_mask *mask = c->mask;
    if (mask->is_known)
        return DI_OK;
    DI_TRY(di_matcher_mask(c->matcher, mask->bits));
    mask->must_end = di_matcher_must_end(c->matcher);
    const bool may_end = di_matcher_may_end(c->matcher);
    for (size_t i = 0; may_end && i < c->n_eos_ids; i++)
        if ((uint32_t)c->eos_ids[i] < c->n_ids)
            mask->bits[c->eos_ids[i] / 64] |= (uint64_t)1 << (c->eos_ids[i] % 64);
    mask->is_known = true;
    return DI_OK;
}

di_status di_constraint_apply(const di_constraint *c, float *scores, int32_t vocab_size,
                              bool *must_end)
{
    DI_TRY(find_mask(c));
    *must_end = c->mask->must_end;
    for (int32_t first = 0; first < vocab_size; first += 64) {
        const int32_t n = vocab_size - first < 64 ? vocab_size - first : 64;
        const uint64_t word = (uint32_t)first < c->n_ids ? c->mask->bits[first / 64] : 0;
        apply_word(word, scores + first, n);
    }
    return DI_OK;
}

di_constraint_mark di_constraint_mark_of(const di_constraint *c)
{
    return (di_constraint_mark){c->begins_after,
                                c->matcher ? di_matcher_n_accepted(c->matcher) : 0};
}

void di_constraint_rewind(di_constraint *c, const di_constraint_mark *mark)
{
    if (c->matcher)
        di_matcher_rollback(c->matcher, di_matcher_n_accepted(c->matcher) - mark->n_accepted);
    c->begins_after = mark->begins_after;
    if (c->mask)
        c->mask->is_known = false;
}

/* The masks behind the next one stay with the acceptor. */
void di_constraint_prepare(di_constraint *c, const int32_t *next, int32_t n_next)
{
    const di_constraint_mark mark = di_constraint_mark_of(c);
    for (int32_t i = 0; i < n_next; i++)
        if ((di_constraint_is_on(c) && (find_mask(c) != DI_OK || is_eos(c, next[i]))) ||
            di_constraint_append(c, next[i]) != DI_OK)
            break;
    if (di_constraint_is_on(c))
        (void)find_mask(c);
    if (n_next == 0)
        return;
    di_constraint_rewind(c, &mark);
    if (di_constraint_is_on(c))
        (void)find_mask(c);
}

di_status di_constraint_forced(const di_constraint *c, size_t max_bytes, di_buf *out,
                               bool *is_whole)
{
    const size_t before = out->len;
    bool accepted;
    *is_whole = false;
    DI_TRY(di_matcher_forced(c->matcher, max_bytes, out));
    if (out->len == before)
        return DI_OK;
    DI_TRY(di_matcher_accept(c->matcher, di_buf_str(out) + before, out->len - before, &accepted));
    *is_whole = accepted && di_matcher_must_end(c->matcher);
    if (accepted)
        di_matcher_rollback(c->matcher, 1);
    return DI_OK;
}

di_status di_constraint_append(di_constraint *c, int32_t token_id)
{
    bool accepted = true;
    if (c->matcher == NULL)
        return DI_OK;
    c->mask->is_known = false;
    if (c->begins_after >= 0) {
        if (token_id == c->begins_after)
            c->begins_after = -1;
        return DI_OK;
    }
    if (is_eos(c, token_id))
        return DI_OK; /* the output ends with it */
    DI_TRY(di_matcher_accept_token(c->matcher, (uint32_t)token_id, &accepted));
    if (!accepted)
        return di_fail(DI_ERR_RUNTIME, "structured output: token id %d cannot follow here",
                       (int)token_id);
    return DI_OK;
}
