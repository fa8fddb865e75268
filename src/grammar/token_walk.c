#include "grammar/token_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/mask.h"
#include "grammar/plain.h"

enum {
    MAX_NESTING = 32,
    NEARLY_ALL = 224, /* of 256 bytes */
    SLICE_NODES = 16, /* below a node with fewer a slice is not looked for */
};

/* --- what a set means to the walk --- */

/* The fewest counts of the bottom rule with which one of the items can still end. */
static uint32_t needed(const di_acceptor *a, const di_item *items, uint32_t n, int nesting)
{
    uint32_t least = DI_NO_NEED;
    for (uint32_t i = 0; i < n && nesting < MAX_NESTING; i++) {
        uint32_t need;
        if (items[i].state >= DI_STATE_POP)
            continue;
        if (items[i].node == DI_NODE_RELATIVE) {
            need = items[i].reg + a->grammar->states[items[i].state].fewest;
        } else {
            const di_node *node = &a->nodes[items[i].node];
            need = needed(a, a->entries + node->first_entry, node->n_entries, nesting + 1);
        }
        least = need < least ? need : least;
    }
    return least;
}

static void accept_range(di_token_walk *w, uint32_t first, uint32_t n, uint32_t need)
{
    const di_vocab *v = w->a->vocab;
    for (uint32_t i = first; i < first + n; i++) {
        const uint32_t id = v->sorted[i];
        di_mask_set(w->bits, id);
        if (w->is_relative && need < w->needs[id])
            w->needs[id] = (uint16_t)need;
    }
}

static void clear_tokens(di_token_walk *w, uint32_t first, uint32_t end)
{
    const di_vocab *v = w->a->vocab;
    for (uint32_t i = first; i < end; i++)
        w->bits[v->sorted[i] / 64] &= ~((uint64_t)1 << (v->sorted[i] % 64));
}

static di_status add_return(di_token_walk *w, uint32_t node, uint32_t count)
{
    DI_TRY(DI_GROW(&w->returns, &w->cap_returns, w->n_returns + 1));
    w->returns[w->n_returns++] = (di_token_return){node, count};
    return DI_OK;
}

/* A trie node is reached with a set: takes its own tokens, notes returns. *goes_on: tokens below
 * may be accepted without returning. */
static di_status reach(di_token_walk *w, uint32_t node, uint32_t set, bool *goes_on)
{
    di_acceptor *a = w->a;
    const di_vocab_node *n = &a->vocab->nodes[node];
    const di_item *items = a->items + a->sets[set].first_item;
    const uint32_t n_items = a->sets[set].n_items;
    const bool has_below = n->skip > node + 1;
    uint32_t n_going = n_items;
    while (n_going > 0 && items[n_going - 1].state == DI_STATE_POP) /* the last ones */
        n_going--;
    for (uint32_t i = n_going; i < n_items; i++)
        if (w->is_relative || (has_below && w->returns_matter))
            DI_TRY(add_return(w, node, items[i].reg));
    *goes_on = n_going > 0;
    if (!*goes_on && w->is_plain)
        clear_tokens(w, n->first_token + n->n_own, di_vocab_end_token(w->a->vocab, node));
    if (*goes_on || !w->is_relative) {
        const uint32_t need = w->is_relative ? needed(a, items, n_items, 0) : 0;
        accept_range(w, n->first_token, n->n_own, need);
    }
    return DI_OK;
}

/* --- slices: below a node where the place is one that reads on and on (inside a string), and the
 * bytes so far could have been read there too, tokens are those of that place --- */

/* The place of a state by itself, if it is such a one; DI_SET_DEAD if not. */
static di_status loop_place(di_acceptor *a, uint32_t state, uint32_t *place)
{
    uint32_t set, next;
    DI_TRY(di_acceptor_place(a, (di_item){state, DI_NODE_BOTTOM, 0}, &set));
    *place = DI_SET_DEAD;
    for (const char *c = "ae z"; *c != '\0'; c++) {
        DI_TRY(di_acceptor_step(a, set, (uint8_t)*c, &next));
        if (next != set)
            return DI_OK;
    }
    *place = set;
    return DI_OK;
}

/* *loop: static tokens of the state a set stands at, if the walk below `node` can take them over.
 */
static di_status find_slice(di_token_walk *w, uint32_t node, uint32_t set,
                            const di_token_static **loop, uint32_t *back)
{
    di_acceptor *a = w->a;
    const di_vocab *v = a->vocab;
    *loop = NULL;
    if (w->is_relative || a->sets[set].n_items != 1)
        return DI_OK;
    const di_item item = a->items[a->sets[set].first_item];
    if (item.state >= DI_STATE_POP || di_token_static_is_under_way(a, item.state) ||
        a->grammar->rules[a->grammar->states[item.state].rule].kind != DI_REGISTER_NONE)
        return DI_OK;
    uint32_t place;
    DI_TRY(loop_place(a, item.state, &place));
    if (place == DI_SET_DEAD)
        return DI_OK;
    const char *bytes = v->tokens[v->sorted[v->nodes[node].first_token]].bytes;
    uint32_t at = place;
    for (uint32_t i = 0; i < v->nodes[node].depth; i++)
        DI_TRY(di_acceptor_step(a, at, (uint8_t)bytes[i], &at));
    if (at != place)
        return DI_OK;
    *back = item.node;
    return di_token_static_of(a, item.state, loop);
}

static di_status walk_below(di_token_walk *w, uint32_t node, uint32_t set);

/* No token at and below a node can follow. */
static void reject(di_token_walk *w, uint32_t node)
{
    const di_vocab *v = w->a->vocab;
    if (w->is_plain && v->plain_state[node] != DI_PLAIN_DEAD)
        clear_tokens(w, v->nodes[node].first_token, di_vocab_end_token(v, node));
}

/* Tokens of a set of bits, at and below a node. */
static void take_bits(di_token_walk *w, uint32_t node, const uint64_t *bits)
{
    const di_vocab *v = w->a->vocab;
    const uint32_t end = di_vocab_end_token(v, node);
    for (uint32_t i = v->nodes[node].first_token; i < end; i++)
        if (di_mask_has(bits, v->sorted[i]))
            di_mask_set(w->bits, v->sorted[i]);
}

/* Tokens at and below `node` that return out of the loop, read on from its callers. */
static di_status follow_all(di_token_walk *w, uint32_t node, const di_token_static *loop,
                            uint32_t back)
{
    const uint32_t skip = w->a->vocab->nodes[node].skip;
    uint32_t set;
    bool goes_on;
    DI_TRY(di_acceptor_returned(w->a, back, &set));
    const bool returns_on = di_acceptor_has_returned(w->a, set);
    const uint64_t bytes = di_acceptor_bytes(w->a, set);
    uint32_t low = 0, high = loop->n_returns;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (loop->returns[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < loop->n_returns && loop->returns[low].node < skip; low++) {
        const uint32_t at = loop->returns[low].node;
        if (!returns_on && (w->a->vocab->below[at] & bytes) == 0)
            continue; /* its own tokens are the loop's */
        DI_TRY(reach(w, at, set, &goes_on));
        if (goes_on)
            DI_TRY(walk_below(w, at, set));
    }
    return DI_OK;
}

/* What they lead to comes to what the slice has: nothing is taken out. */
static di_status follow_returns(di_token_walk *w, uint32_t node, const di_token_static *loop,
                                uint32_t back)
{
    const bool was_plain = w->is_plain;
    w->is_plain = false;
    const di_status status = follow_all(w, node, loop, back);
    w->is_plain = was_plain;
    return status;
}

static bool is_usable(const di_token_static *loop)
{
    return loop != NULL && loop->bits != NULL && loop->base == NULL;
}

/* Below some nodes the tokens are known without a walk: those of plain text, or of a slice. */
static di_status take_known(di_token_walk *w, uint32_t node, uint32_t set, bool *is_known)
{
    const di_token_static *loop = NULL;
    uint32_t back = 0;
    *is_known = false;
    if (!w->is_relative)
        DI_TRY(di_plain_below(w->a, node, set, !w->returns_matter, is_known));
    if (*is_known) {
        if (!w->is_plain)
            take_bits(w, node, w->a->vocab->plain);
        return DI_OK;
    }
    if (w->a->vocab->nodes[node].skip - node > SLICE_NODES)
        DI_TRY(find_slice(w, node, set, &loop, &back));
    if (!is_usable(loop))
        return DI_OK;
    *is_known = true;
    reject(w, node);
    take_bits(w, node, loop->bits);
    return follow_returns(w, node, loop, back);
}

/* Nothing has returned. */
static bool is_inside(const di_acceptor *a, uint32_t set)
{
    return a->sets[set].n_items > 0 && !di_acceptor_has_returned(a, set);
}

static di_status walk_below(di_token_walk *w, uint32_t node, uint32_t set)
{
    const di_vocab *v = w->a->vocab;
    const uint32_t end = v->nodes[node].skip, top = v->nodes[node].depth;
    /* Returns followed from inside a walk go deeper than it: what is above stays right. */
    w->sets[top] = set;
    for (uint32_t i = node + 1; i < end;) {
        const di_vocab_node *n = &v->nodes[i];
        uint32_t next;
        bool is_known = false, goes_on;
        DI_TRY(di_acceptor_step(w->a, w->sets[n->depth - 1], n->byte, &next));
        if (next == DI_SET_DEAD)
            reject(w, i);
        else if (n->skip - i > DI_PLAIN_NODES)
            DI_TRY(take_known(w, i, next, &is_known));
        goes_on = next != DI_SET_DEAD && !is_known;
        if (goes_on && !w->is_relative && is_inside(w->a, next)) /* as most of a walk */
            accept_range(w, n->first_token, n->n_own, 0);
        else if (goes_on)
            DI_TRY(reach(w, i, next, &goes_on));
        w->sets[n->depth] = next;
        i = goes_on ? i + 1 : n->skip;
    }
    return DI_OK;
}

/* --- the root: if most of the vocabulary is one slice, start from a copy of it --- */

typedef struct root_child {
    uint32_t node, set, back;
    bool is_plain; /* what is below it */
    const di_token_static *loop;
} root_child;

static uint32_t n_tokens_at(const di_vocab *v, uint32_t node)
{
    return di_vocab_end_token(v, node) - v->nodes[node].first_token;
}

/* The slice of most tokens, if it has a quarter of all. */
static const di_token_static *find_most(const di_vocab *v, const root_child *children, uint32_t n)
{
    const di_token_static *loops[256], *most = NULL; /* neighbours often have the same one */
    uint32_t weights[256], n_loops = 0, best = v->n_tokens / 4;
    for (uint32_t i = 0; i < n; i++) {
        const di_token_static *loop = children[i].loop;
        if (!is_usable(loop))
            continue;
        uint32_t k = n_loops;
        while (k > 0 && loops[k - 1] != loop)
            k--;
        if (k == 0) {
            loops[n_loops] = loop;
            weights[n_loops++] = 0;
            k = n_loops;
        }
        weights[k - 1] += n_tokens_at(v, children[i].node);
        if (weights[k - 1] > best) {
            best = weights[k - 1];
            most = loop;
        }
    }
    return most;
}

/* Whether the set reads nearly all plain text and nothing else. */
static di_status is_nearly_plain(const di_token_walk *w, uint32_t node, uint32_t set, bool *out)
{
    di_acceptor *a = w->a;
    const di_plain_match *m;
    *out = false;
    if (a->vocab->plain_state[node] == DI_PLAIN_DEAD)
        return DI_OK;
    DI_TRY(di_plain_match_of(a, set, a->vocab->plain_state[node], &m));
    int n_ok = 0;
    for (int i = 0; i < 4; i++)
        n_ok += __builtin_popcountll(m->ok[i]);
    *out = m->matches && n_ok >= NEARLY_ALL && !(m->returns && w->returns_matter);
    return DI_OK;
}

static di_status find_child(di_token_walk *w, root_child *c)
{
    if (w->a->vocab->nodes[c->node].skip - c->node > SLICE_NODES)
        DI_TRY(find_slice(w, c->node, c->set, &c->loop, &c->back));
    if (w->is_relative || is_usable(c->loop))
        return DI_OK;
    return di_plain_below(w->a, c->node, c->set, !w->returns_matter, &c->is_plain);
}

static di_status find_children(di_token_walk *w, uint32_t place, root_child *children, uint32_t *n,
                               const di_token_static **most)
{
    const di_vocab *v = w->a->vocab;
    uint32_t n_plain = 0;
    *n = 0;
    for (uint32_t i = 1; i < v->n_nodes; i = v->nodes[i].skip) {
        root_child *c = &children[(*n)++];
        bool is_plain = false;
        *c = (root_child){.node = i};
        DI_TRY(di_acceptor_step(w->a, place, v->nodes[i].byte, &c->set));
        if (c->set == DI_SET_DEAD)
            continue;
        DI_TRY(find_child(w, c));
        if (!w->is_relative)
            DI_TRY(is_nearly_plain(w, i, c->set, &is_plain));
        n_plain += is_plain ? n_tokens_at(v, i) : 0;
    }
    *most = find_most(v, children, *n);
    w->is_plain = *most == NULL && n_plain > v->n_tokens / 4;
    return DI_OK;
}

/* Whether what returns out of a slice returns out of the place too, at once and in no other way. */
static di_status passes_on(di_token_walk *w, const root_child *c, bool *passes)
{
    uint32_t set;
    DI_TRY(di_acceptor_returned(w->a, c->back, &set));
    const di_set *s = &w->a->sets[set];
    *passes = s->n_items == 1 && w->a->items[s->first_item].state == DI_STATE_POP;
    return DI_OK;
}

/* The slice that most of the vocabulary is: its returns need no copy if they pass through. */
static di_status set_base(di_token_walk *w, const root_child *children, uint32_t n,
                          const di_token_static *most)
{
    bool passes = most->is_shared && most->base == NULL;
    for (uint32_t i = 0; i < n && passes; i++)
        if (children[i].loop == most)
            DI_TRY(passes_on(w, &children[i], &passes));
    if (!passes)
        return DI_OK;
    w->base = most;
    for (uint32_t i = 0; i < n; i++)
        if (children[i].loop != most)
            w->not_base[w->n_not_base++] = children[i].node;
    return DI_OK;
}

static di_status walk_child(di_token_walk *w, const root_child *c, const di_token_static *most)
{
    const di_vocab *v = w->a->vocab;
    const di_vocab_node *n = &v->nodes[c->node];
    if (most != NULL && c->loop != most)
        clear_tokens(w, n->first_token, di_vocab_end_token(v, c->node));
    if (c->set == DI_SET_DEAD) {
        reject(w, c->node);
        return DI_OK;
    }
    if (c->is_plain) {
        if (!w->is_plain)
            take_bits(w, c->node, v->plain);
        return DI_OK;
    }
    if (is_usable(c->loop)) {
        reject(w, c->node);
        if (c->loop != most)
            take_bits(w, c->node, c->loop->bits);
        return c->loop == w->base ? DI_OK : follow_returns(w, c->node, c->loop, c->back);
    }
    bool goes_on;
    DI_TRY(reach(w, c->node, c->set, &goes_on));
    return goes_on ? walk_below(w, c->node, c->set) : DI_OK;
}

static int by_node(const void *a, const void *b)
{
    const di_token_return *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->count > y->count) - (x->count < y->count);
}

static void sort_returns(di_token_walk *w)
{
    size_t n = 0;
    bool is_sorted = true; /* as a walk without slices leaves them */
    for (size_t i = 1; i < w->n_returns && is_sorted; i++)
        is_sorted = by_node(&w->returns[i - 1], &w->returns[i]) < 0;
    if (is_sorted)
        return;
    if (w->n_returns > 1)
        qsort(w->returns, w->n_returns, sizeof *w->returns, by_node);
    for (size_t i = 0; i < w->n_returns; i++)
        if (n == 0 || by_node(&w->returns[i], &w->returns[n - 1]) != 0)
            w->returns[n++] = w->returns[i];
    w->n_returns = n;
}

di_status di_token_walk_run(di_token_walk *w)
{
    const di_token_static *most;
    root_child children[256];
    uint32_t place, n;
    const di_item item = {w->state, w->is_relative ? DI_NODE_RELATIVE : DI_NODE_BOTTOM, 0};
    DI_TRY(di_acceptor_place(w->a, item, &place));
    DI_TRY(find_children(w, place, children, &n, &most));
    if (w->is_plain)
        memcpy(w->bits, w->a->vocab->plain, w->a->vocab->n_words * sizeof *w->bits);
    if (most != NULL) {
        memcpy(w->bits, most->bits, w->a->vocab->n_words * sizeof *w->bits);
        DI_TRY(set_base(w, children, n, most));
    }
    for (uint32_t i = 0; i < n; i++)
        DI_TRY(walk_child(w, &children[i], most));
    sort_returns(w);
    return DI_OK;
}
