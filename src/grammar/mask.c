#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/token_static.h"

enum { MAX_MASK_BYTES = 64 << 20 };

/* A set's mask as it is kept. */
struct di_mask_list {
    uint32_t n_ids; /* of ids; DI_MASK_LIST + 1: bits */
    union {
        uint32_t ids[DI_MASK_LIST];
        uint64_t bits[1];
    };
};

/* Tokens below `node` by walking on from a whole set. */
static di_status walk_whole(di_acceptor *a, uint32_t node, uint32_t set, uint64_t *bits)
{
    const di_vocab *v = a->vocab;
    const uint32_t top = v->nodes[node].depth, end = v->nodes[node].skip;
    uint32_t few[64], *sets = few;
    if (v->max_len - top + 1 > sizeof few / sizeof *few) {
        sets = malloc((v->max_len - top + 1) * sizeof *sets);
        if (sets == NULL)
            return di_fail_memory(v->max_len * sizeof *sets, "a token mask");
    }
    di_status status = DI_OK;
    sets[0] = set;
    for (uint32_t i = node + 1; i < end && status == DI_OK;) {
        const di_vocab_node *n = &v->nodes[i];
        uint32_t next = DI_SET_DEAD;
        status = di_acceptor_step(a, sets[n->depth - top - 1], n->byte, &next);
        if (next == DI_SET_DEAD) {
            i = n->skip;
            continue;
        }
        for (uint32_t k = 0; k < n->n_own; k++)
            di_mask_set(bits, v->sorted[n->first_token + k]);
        sets[n->depth - top] = next;
        i++;
    }
    if (sets != few)
        free(sets);
    return status;
}

static bool return_fits(const di_rule *rule, uint32_t reg, uint32_t count)
{
    const uint64_t total = (uint64_t)reg + count;
    return total >= rule->min && (rule->max == DI_REPEAT_INF || total <= rule->max);
}

/* The base's returns: a place with a base has no register. */
static di_status follow_base(di_acceptor *a, const di_token_static *t, uint32_t set, uint64_t bytes,
                             uint64_t *bits)
{
    const di_vocab *v = a->vocab;
    uint32_t next = 0; /* of not_base: the first that is not left behind */
    for (uint32_t i = 0; i < t->base->n_returns; i++) {
        const uint32_t node = t->base->returns[i].node;
        while (next < t->n_not_base && v->nodes[t->not_base[next]].skip <= node)
            next++;
        const bool is_base = next == t->n_not_base || node < t->not_base[next];
        if (is_base && (v->below[node] & bytes) != 0)
            DI_TRY(walk_whole(a, node, set, bits));
    }
    return DI_OK;
}

/* What follows where tokens return out of the place's rule. */
static di_status follow_returns(di_acceptor *a, const di_token_static *t, di_item item,
                                uint64_t *bits)
{
    const di_vocab *v = a->vocab;
    const di_rule *rule = &a->grammar->rules[a->grammar->states[item.state].rule];
    uint32_t set;
    if (t->n_returns == 0 && t->base == NULL)
        return DI_OK;
    DI_TRY(di_acceptor_returned(a, item.node, &set));
    const uint64_t bytes = di_acceptor_bytes(a, set);
    if (t->base != NULL)
        DI_TRY(follow_base(a, t, set, bytes, bits));
    for (uint32_t i = 0; i < t->n_returns; i++) {
        const uint32_t node = t->returns[i].node;
        if (rule->is_loop) {
            if (!return_fits(rule, item.reg, t->returns[i].count))
                continue;
            for (uint32_t k = 0; k < v->nodes[node].n_own; k++)
                di_mask_set(bits, v->sorted[v->nodes[node].first_token + k]);
        }
        if ((v->below[node] & bytes) != 0)
            DI_TRY(walk_whole(a, node, set, bits));
    }
    return DI_OK;
}

static void add_bits(const di_vocab *v, const di_token_static *t, uint64_t *bits)
{
    if (t->bits != NULL)
        for (uint32_t i = 0; i < v->n_words; i++)
            bits[i] |= t->bits[i];
    else
        for (uint32_t i = 0; i < t->n_ids; i++)
            di_mask_set(bits, t->ids[i]);
}

/* Those that need at most `left` counts: all but a few, or only a few. */
static di_status add_counted(const di_vocab *v, const di_token_static *t, uint32_t left,
                             uint64_t *bits)
{
    if (left + 1 >= t->n_needs) {
        add_bits(v, t, bits);
        return DI_OK;
    }
    const uint32_t n_fit = t->needs[left + 1];
    if (t->bits == NULL || n_fit <= t->n_ids / 2) {
        for (uint32_t i = 0; i < n_fit; i++)
            di_mask_set(bits, t->ids[i]);
        return DI_OK;
    }
    uint64_t *all = malloc(v->n_words * sizeof *all);
    if (all == NULL)
        return di_fail_memory(v->n_words * sizeof *all, "a token mask");
    memcpy(all, t->bits, v->n_words * sizeof *all);
    for (uint32_t i = n_fit; i < t->n_ids; i++)
        all[t->ids[i] / 64] &= ~((uint64_t)1 << (t->ids[i] % 64));
    for (uint32_t i = 0; i < v->n_words; i++)
        bits[i] |= all[i];
    free(all);
    return DI_OK;
}

static di_status add_place(di_acceptor *a, di_item item, uint64_t *bits)
{
    const di_rule *rule = &a->grammar->rules[a->grammar->states[item.state].rule];
    if (rule->kind != DI_REGISTER_NONE && !rule->is_loop) { /* what fits depends on the register */
        uint32_t place;
        DI_TRY(di_acceptor_place(a, item, &place));
        return walk_whole(a, 0, place, bits);
    }
    const di_token_static *t;
    DI_TRY(di_token_static_of(a, item.state, &t));
    if (rule->is_loop && rule->max != DI_REPEAT_INF)
        DI_TRY(add_counted(a->vocab, t, rule->max - item.reg, bits));
    else
        add_bits(a->vocab, t, bits);
    return follow_returns(a, t, item, bits);
}

/* --- the cache --- */

void di_acceptor_drop_masks(di_acceptor *a)
{
    for (size_t i = 0; i < a->n_sets; i++) {
        free(a->sets[i].mask);
        a->sets[i].mask = NULL;
    }
    a->mask_bytes = 0;
}

static di_status keep(di_acceptor *a, uint32_t set, const uint64_t *bits)
{
    const uint32_t n_words = a->vocab->n_words;
    const uint32_t n = di_mask_count(bits, n_words, DI_MASK_LIST);
    const size_t head = offsetof(struct di_mask_list, bits);
    const size_t bytes = head + (n > DI_MASK_LIST ? n_words * 8 : n * 4) + 8;
    if (a->mask_bytes + bytes > MAX_MASK_BYTES)
        di_acceptor_drop_masks(a);
    struct di_mask_list *mask = malloc(bytes);
    if (mask == NULL)
        return di_fail_memory(bytes, "a token mask");
    mask->n_ids = n > DI_MASK_LIST ? DI_MASK_LIST + 1 : n;
    if (n > DI_MASK_LIST) {
        memcpy(mask->bits, bits, n_words * 8);
    } else {
        di_mask_ids(bits, n_words, mask->ids);
    }
    a->sets[set].mask = mask;
    a->mask_bytes += bytes;
    return DI_OK;
}

static void take(const di_acceptor *a, const struct di_mask_list *mask, uint64_t *bits)
{
    const size_t bytes = a->vocab->n_words * sizeof *bits;
    if (mask->n_ids > DI_MASK_LIST) {
        memcpy(bits, mask->bits, bytes);
        return;
    }
    memset(bits, 0, bytes);
    for (uint32_t i = 0; i < mask->n_ids; i++)
        di_mask_set(bits, mask->ids[i]);
}

di_status di_acceptor_mask(di_acceptor *a, uint32_t set, uint64_t *bits)
{
    if (a->sets[set].mask != NULL) {
        take(a, a->sets[set].mask, bits);
        return DI_OK;
    }
    memset(bits, 0, a->vocab->n_words * sizeof *bits);
    const uint32_t n = a->sets[set].n_items;
    for (uint32_t i = 0; i < n; i++)
        DI_TRY(add_place(a, a->items[a->sets[set].first_item + i], bits));
    return keep(a, set, bits);
}
