#include "grammar/acceptor.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/mask.h"
#include "grammar/token_static.h"

/* The nodes without a caller, each with the one place it returns to. */
static di_status add_bottoms(di_acceptor *a)
{
    static const di_item returns[] = {
        {DI_STATE_ACCEPT, DI_NODE_ROOT, 0},
        {DI_STATE_POP, DI_NODE_BOTTOM, 0},
        {DI_STATE_POP, DI_NODE_RELATIVE, 0},
    };
    DI_TRY(DI_GROW(&a->nodes, &a->cap_nodes, 3));
    DI_TRY(DI_GROW(&a->entries, &a->cap_entries, 3));
    for (uint32_t i = 0; i < 3; i++) {
        a->nodes[i] = (di_node){.first_entry = i, .n_entries = 1, .n_group = 1};
        a->entries[i] = returns[i];
    }
    a->n_nodes = a->n_entries = 3;
    DI_TRY(DI_GROW(&a->sets, &a->cap_sets, 2));
    a->sets[DI_SET_UNKNOWN] = a->sets[DI_SET_DEAD] = (di_set){0};
    a->n_sets = 2;
    DI_TRY(DI_GROW(&a->steps, &a->cap_steps, 1));
    a->n_steps = 1; /* 0: no table */
    return DI_OK;
}

static di_status prepare(di_acceptor *a)
{
    const di_grammar *g = a->grammar;
    DI_TRY(di_closure_create(g, &a->work));
    DI_TRY(add_bottoms(a));
    if (a->vocab != NULL) {
        a->statics = calloc(g->n_states, sizeof *a->statics);
        if (a->statics == NULL)
            return di_fail_memory(g->n_states * sizeof *a->statics, "a grammar's masks");
    }
    di_closure_begin(a);
    DI_TRY(di_closure_enter(a, (di_item){g->rules[g->root].start, DI_NODE_ROOT, 0}));
    return di_closure_finish(a, &a->start);
}

di_status di_acceptor_create(di_grammar *grammar, di_vocab *vocab, di_acceptor **out)
{
    di_acceptor *a = calloc(1, sizeof *a);
    if (a == NULL)
        return di_fail_memory(sizeof *a, "a grammar");
    atomic_init(&a->n_refs, 1);
    a->most_bytes = DI_ACCEPTOR_MOST_BYTES;
    pthread_mutex_init(&a->lock, NULL);
    a->grammar = di_grammar_ref(grammar);
    a->vocab = vocab == NULL ? NULL : di_vocab_ref(vocab);
    const di_status status = prepare(a);
    if (status != DI_OK) {
        di_acceptor_unref(a);
        return status;
    }
    *out = a;
    return DI_OK;
}

di_acceptor *di_acceptor_ref(di_acceptor *a)
{
    atomic_fetch_add(&a->n_refs, 1);
    return a;
}

const di_vocab *di_acceptor_vocab(const di_acceptor *a)
{
    return a->vocab;
}

static size_t pool_bytes(const di_acceptor *a)
{
    return a->cap_sets * sizeof *a->sets + a->cap_items * sizeof *a->items +
           a->cap_nodes * sizeof *a->nodes + a->cap_entries * sizeof *a->entries +
           a->cap_steps * sizeof *a->steps + a->cap_member_sets * sizeof *a->member_sets +
           a->cap_words * sizeof *a->words;
}

size_t di_acceptor_n_bytes(di_acceptor *a)
{
    pthread_mutex_lock(&a->lock);
    const size_t bytes = pool_bytes(a);
    pthread_mutex_unlock(&a->lock);
    return bytes;
}

void di_acceptor_limit(di_acceptor *a, size_t most_bytes)
{
    pthread_mutex_lock(&a->lock);
    a->most_bytes = most_bytes;
    pthread_mutex_unlock(&a->lock);
}

void di_acceptor_unref(di_acceptor *a)
{
    if (a == NULL || atomic_fetch_sub(&a->n_refs, 1) > 1)
        return;
    di_acceptor_drop_masks(a);
    di_statics_free(a);
    free(a->plain);
    free(a->sets);
    free(a->items);
    free(a->nodes);
    free(a->entries);
    free(a->steps);
    free(a->member_sets);
    free(a->words);
    free(a->set_table.ids);
    free(a->node_table.ids);
    free(a->member_table.ids);
    di_closure_destroy(a->work);
    di_vocab_unref(a->vocab);
    di_grammar_unref(a->grammar);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static di_status step(di_acceptor *a, uint32_t set, uint8_t byte, uint32_t *out)
{
    const di_grammar *g = a->grammar;
    di_closure_begin(a);
    for (uint32_t i = 0; i < a->sets[set].n_items; i++) {
        const di_item item = a->items[a->sets[set].first_item + i];
        if (item.state >= DI_STATE_POP)
            continue;
        const di_state *s = &g->states[item.state];
        const di_edge *edges = g->edges + s->first_edge;
        for (uint32_t k = 0; k < s->n_bytes; k++)
            if (edges[k].first <= byte && byte <= edges[k].last)
                DI_TRY(di_closure_enter(a, (di_item){edges[k].target, item.node, item.reg}));
    }
    return di_closure_finish(a, out);
}

static di_status add_steps(di_acceptor *a, uint32_t set)
{
    if (pool_bytes(a) > a->most_bytes)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "the texts of the grammar are too manifold: more than %zu MiB to tell apart",
                       a->most_bytes >> 20);
    const uint32_t n = a->grammar->n_classes;
    DI_TRY(DI_GROW(&a->steps, &a->cap_steps, a->n_steps + n));
    memset(a->steps + a->n_steps, 0, n * sizeof *a->steps);
    a->sets[set].next = (uint32_t)a->n_steps;
    a->n_steps += n;
    return DI_OK;
}

di_status di_acceptor_new_step(di_acceptor *a, uint32_t set, uint8_t byte, uint32_t *out)
{
    if (set == DI_SET_DEAD) {
        *out = DI_SET_DEAD;
        return DI_OK;
    }
    if (a->sets[set].next == 0)
        DI_TRY(add_steps(a, set));
    const size_t at = a->sets[set].next + a->grammar->byte_class[byte];
    DI_TRY(step(a, set, byte, out));
    a->steps[at] = *out;
    return DI_OK;
}

static uint64_t edge_bytes(const di_edge *edge)
{
    uint64_t bytes = 0;
    for (unsigned b = edge->first; b <= edge->last && bytes != UINT64_MAX; b++)
        bytes |= (uint64_t)1 << (b % 64);
    return bytes;
}

uint64_t di_acceptor_bytes(di_acceptor *a, uint32_t set)
{
    di_set *s = &a->sets[set];
    if (s->bytes != 0)
        return s->bytes;
    for (uint32_t i = 0; i < s->n_items; i++) {
        const di_item item = a->items[s->first_item + i];
        if (item.state >= DI_STATE_POP)
            continue;
        const di_state *state = &a->grammar->states[item.state];
        for (uint32_t k = 0; k < state->n_bytes; k++)
            s->bytes |= edge_bytes(&a->grammar->edges[state->first_edge + k]);
    }
    return s->bytes;
}

di_status di_acceptor_place(di_acceptor *a, di_item item, uint32_t *out)
{
    return di_intern_set(a, &item, 1, false, out);
}

di_status di_acceptor_returned(di_acceptor *a, uint32_t node, uint32_t *out)
{
    if (a->nodes[node].returned == DI_SET_UNKNOWN) {
        di_closure_begin(a);
        for (uint32_t i = 0; i < a->nodes[node].n_entries; i++)
            DI_TRY(di_closure_enter(a, a->entries[a->nodes[node].first_entry + i]));
        uint32_t set;
        DI_TRY(di_closure_finish(a, &set));
        a->nodes[node].returned = set;
    }
    *out = a->nodes[node].returned;
    return DI_OK;
}
