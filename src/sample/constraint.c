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
        fresh.bits = malloc(((size_t)vocab->n_words + 1) * sizeof *fresh.bits);
        if (fresh.bits == NULL)
            return di_fail_memory(vocab->n_words * sizeof *fresh.bits, "a token mask");
        const di_status status = di_matcher_create(setup->acceptor, &fresh.matcher);
        if (status != DI_OK) {
            free(fresh.bits);
            return status;
        }
    }
    *constraint = fresh;
    return DI_OK;
}

void di_constraint_free(di_constraint *constraint)
{
    di_matcher_destroy(constraint->matcher);
    free(constraint->bits);
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

di_status di_constraint_apply(const di_constraint *c, float *scores, int32_t vocab_size,
                              bool *must_end)
{
    DI_TRY(di_matcher_mask(c->matcher, c->bits));
    *must_end = di_matcher_must_end(c->matcher);
    const bool may_end = di_matcher_may_end(c->matcher);
    for (size_t i = 0; may_end && i < c->n_eos_ids; i++)
        if ((uint32_t)c->eos_ids[i] < c->n_ids)
            c->bits[c->eos_ids[i] / 64] |= (uint64_t)1 << (c->eos_ids[i] % 64);
    for (int32_t first = 0; first < vocab_size; first += 64) {
        const int32_t n = vocab_size - first < 64 ? vocab_size - first : 64;
        const uint64_t word = (uint32_t)first < c->n_ids ? c->bits[first / 64] : 0;
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
