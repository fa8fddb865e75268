#include "grammar/token_static.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/mask.h"

enum {
    WIDE_BYTES = 32, /* a state that reads so many bytes is worth sharing between grammars */
    MAX_SHARED_BYTES = 64 << 20,
    MAX_NESTING = 32,
    NO_NEED = UINT16_MAX,
};

/* Stands for the tokens of a state whose walk is under way, so that none waits for itself. */
static di_token_static in_progress = {.is_shared = true};

typedef struct static_walk {
    di_acceptor *a;
    uint32_t state;
    bool is_relative;
    bool returns_matter; /* something can follow the rule */
    uint64_t *bits;      /* accepted */
    uint16_t *needs;     /* relative: counts a token needs, NO_NEED */
    uint32_t *sets;      /* by depth */
    di_token_return *returns;
    size_t n_returns, cap_returns;
    const di_token_static *base; /* as in di_token_static */
    uint32_t not_base[256], n_not_base;
} static_walk;

void di_token_static_free(di_token_static *t)
{
    if (t == NULL)
        return;
    free(t->bits);
    free(t->ids);
    free(t->needs);
    free(t->returns);
    free(t->not_base);
    free(t);
}

void di_statics_free(di_acceptor *a)
{
    for (uint32_t i = 0; a->statics != NULL && i < a->grammar->n_states; i++)
        if (a->statics[i] != NULL && !a->statics[i]->is_shared)
            di_token_static_free(a->statics[i]);
    free(a->statics);
    a->statics = NULL;
}

/* --- what a set means to the walk --- */

/* The fewest counts of the bottom rule with which one of the items can still end. */
static uint32_t needed(const di_acceptor *a, const di_item *items, uint32_t n, int nesting)
{
    uint32_t least = NO_NEED;
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

static void accept_range(static_walk *w, uint32_t first, uint32_t n, uint32_t need)
{
    const di_vocab *v = w->a->vocab;
    for (uint32_t i = first; i < first + n; i++) {
        const uint32_t id = v->sorted[i];
        di_mask_set(w->bits, id);
        if (w->is_relative && need < w->needs[id])
            w->needs[id] = (uint16_t)need;
    }
}

static di_status add_return(static_walk *w, uint32_t node, uint32_t count)
{
    DI_TRY(DI_GROW(&w->returns, &w->cap_returns, w->n_returns + 1));
    w->returns[w->n_returns++] = (di_token_return){node, count};
    return DI_OK;
}

/* A trie node is reached with a set: takes its own tokens, notes returns. *goes_on: tokens below
 * may be accepted without returning. */
static di_status reach(static_walk *w, uint32_t node, uint32_t set, bool *goes_on)
{
    di_acceptor *a = w->a;
    const di_vocab_node *n = &a->vocab->nodes[node];
    const di_item *items = a->items + a->sets[set].first_item;
    const uint32_t n_items = a->sets[set].n_items;
    const bool has_below = n->skip > node + 1;
    uint32_t n_returned = 0;
    for (uint32_t i = 0; i < n_items; i++) {
        if (items[i].state != DI_STATE_POP)
            continue;
        n_returned++;
        if (w->is_relative || (has_below && w->returns_matter))
            DI_TRY(add_return(w, node, items[i].reg));
    }
    *goes_on = n_returned < n_items;
    if (*goes_on || !w->is_relative) {
        const uint32_t need = w->is_relative ? needed(a, items, n_items, 0) : 0;
        accept_range(w, n->first_token, n->n_own, need);
    }
    return DI_OK;
}

static bool has_returned(const di_acceptor *a, uint32_t set)
{
    for (uint32_t i = 0; i < a->sets[set].n_items; i++)
        if (a->items[a->sets[set].first_item + i].state == DI_STATE_POP)
            return true;
    return false;
}

/* Nothing has returned: items are sorted by state. */
static bool is_inside(const di_acceptor *a, uint32_t set)
{
    const di_set *s = &a->sets[set];
    return s->n_items > 0 && a->items[s->first_item + s->n_items - 1].state < DI_STATE_POP;
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
static di_status find_slice(static_walk *w, uint32_t node, uint32_t set,
                            const di_token_static **loop, uint32_t *back)
{
    di_acceptor *a = w->a;
    const di_vocab *v = a->vocab;
    *loop = NULL;
    if (w->is_relative || a->sets[set].n_items != 1)
        return DI_OK;
    const di_item item = a->items[a->sets[set].first_item];
    if (item.state >= DI_STATE_POP || a->statics[item.state] == &in_progress ||
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

static di_status walk_below(static_walk *w, uint32_t node, uint32_t set);

/* Tokens at and below `node` that return out of the loop, read on from its callers. */
static di_status follow_returns(static_walk *w, uint32_t node, const di_token_static *loop,
                                uint32_t back)
{
    const uint32_t skip = w->a->vocab->nodes[node].skip;
    uint32_t set;
    bool goes_on;
    DI_TRY(di_acceptor_returned(w->a, back, &set));
    const bool returns_on = has_returned(w->a, set);
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

static void take_bits(static_walk *w, uint32_t node, const di_token_static *loop)
{
    const di_vocab *v = w->a->vocab;
    const uint32_t end = di_vocab_end_token(v, node);
    for (uint32_t i = v->nodes[node].first_token; loop->bits != NULL && i < end; i++)
        if (di_mask_has(loop->bits, v->sorted[i]))
            di_mask_set(w->bits, v->sorted[i]);
}

static bool is_usable(const di_token_static *loop)
{
    return loop != NULL && loop->bits != NULL && loop->base == NULL;
}

static di_status walk_below(static_walk *w, uint32_t node, uint32_t set)
{
    const di_vocab *v = w->a->vocab;
    const uint32_t end = v->nodes[node].skip, top = v->nodes[node].depth;
    /* Returns followed from inside a walk go deeper than it: what is above stays right. */
    w->sets[top] = set;
    for (uint32_t i = node + 1; i < end;) {
        const di_vocab_node *n = &v->nodes[i];
        uint32_t next;
        DI_TRY(di_acceptor_walk(w->a, w->sets[n->depth - 1], n->byte, &next));
        if (next == DI_SET_DEAD) {
            i = n->skip;
            continue;
        }
        const di_token_static *loop = NULL;
        uint32_t back = 0;
        if (n->skip - i > 16)
            DI_TRY(find_slice(w, i, next, &loop, &back));
        if (is_usable(loop)) {
            take_bits(w, i, loop);
            DI_TRY(follow_returns(w, i, loop, back));
            i = n->skip;
            continue;
        }
        w->sets[n->depth] = next;
        bool goes_on = true;
        if (!w->is_relative &&
            is_inside(w->a, next)) /* as most of a walk: no need to look closer */
            accept_range(w, n->first_token, n->n_own, 0);
        else
            DI_TRY(reach(w, i, next, &goes_on));
        i = goes_on ? i + 1 : n->skip;
    }
    return DI_OK;
}

/* --- the root: if most of the vocabulary is one slice, start from a copy of it --- */

typedef struct root_child {
    uint32_t node, set, back;
    const di_token_static *loop;
} root_child;

static di_status find_children(static_walk *w, uint32_t place, root_child *children, uint32_t *n,
                               const di_token_static **most)
{
    const di_vocab *v = w->a->vocab;
    uint32_t best = v->n_tokens / 4;
    *n = 0;
    *most = NULL;
    for (uint32_t i = 1; i < v->n_nodes; i = v->nodes[i].skip) {
        root_child *c = &children[(*n)++];
        *c = (root_child){.node = i};
        DI_TRY(di_acceptor_step(w->a, place, v->nodes[i].byte, &c->set));
        if (c->set != DI_SET_DEAD && v->nodes[i].skip - i > 16)
            DI_TRY(find_slice(w, i, c->set, &c->loop, &c->back));
    }
    for (uint32_t i = 0; i < *n; i++) {
        uint32_t weight = 0;
        for (uint32_t k = 0; k < *n && is_usable(children[i].loop); k++)
            if (children[k].loop == children[i].loop)
                weight += di_vocab_end_token(v, children[k].node) -
                          v->nodes[children[k].node].first_token;
        if (weight > best) {
            best = weight;
            *most = children[i].loop;
        }
    }
    return DI_OK;
}

static void clear_tokens(static_walk *w, uint32_t node)
{
    const di_vocab *v = w->a->vocab;
    const uint32_t end = di_vocab_end_token(v, node);
    for (uint32_t i = v->nodes[node].first_token; i < end; i++)
        w->bits[v->sorted[i] / 64] &= ~((uint64_t)1 << (v->sorted[i] % 64));
}

/* Whether what returns out of a slice returns out of the place too, at once and in no other way. */
static di_status passes_on(static_walk *w, const root_child *c, bool *passes)
{
    uint32_t set;
    DI_TRY(di_acceptor_returned(w->a, c->back, &set));
    const di_set *s = &w->a->sets[set];
    *passes = s->n_items == 1 && w->a->items[s->first_item].state == DI_STATE_POP;
    return DI_OK;
}

/* The slice that most of the vocabulary is: its returns need no copy if they pass through. */
static di_status set_base(static_walk *w, const root_child *children, uint32_t n,
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

static di_status walk_child(static_walk *w, const root_child *c, const di_token_static *most)
{
    if (most != NULL && c->loop != most)
        clear_tokens(w, c->node);
    if (c->set == DI_SET_DEAD)
        return DI_OK;
    if (is_usable(c->loop)) {
        if (c->loop != most)
            take_bits(w, c->node, c->loop);
        if (c->loop == w->base)
            return DI_OK;
        return follow_returns(w, c->node, c->loop, c->back);
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

static void sort_returns(static_walk *w)
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

static di_status walk(static_walk *w)
{
    const di_token_static *most;
    root_child children[256];
    uint32_t place, n;
    const di_item item = {w->state, w->is_relative ? DI_NODE_RELATIVE : DI_NODE_BOTTOM, 0};
    DI_TRY(di_acceptor_place(w->a, item, &place));
    DI_TRY(find_children(w, place, children, &n, &most));
    if (most != NULL) {
        memcpy(w->bits, most->bits, w->a->vocab->n_words * sizeof *w->bits);
        DI_TRY(set_base(w, children, n, most));
    }
    for (uint32_t i = 0; i < n; i++)
        DI_TRY(walk_child(w, &children[i], most));
    sort_returns(w);
    return DI_OK;
}

/* --- the result --- */

static di_status keep_ids(static_walk *w, di_token_static *t)
{
    const uint32_t n_words = w->a->vocab->n_words;
    const uint32_t most = w->is_relative ? w->a->vocab->n_ids : DI_MASK_LIST;
    t->n_ids = di_mask_count(w->bits, n_words, most);
    if (t->n_ids > DI_MASK_LIST) {
        t->bits = malloc(n_words * sizeof *t->bits);
        if (t->bits == NULL)
            return di_fail_memory(n_words * sizeof *t->bits, "a token mask");
        memcpy(t->bits, w->bits, n_words * sizeof *t->bits);
        t->bytes += n_words * sizeof *t->bits;
        if (!w->is_relative)
            return DI_OK;
    }
    t->ids = malloc(((size_t)t->n_ids + 1) * sizeof *t->ids);
    if (t->ids == NULL)
        return di_fail_memory(t->n_ids * sizeof *t->ids, "a token mask");
    t->bytes += t->n_ids * sizeof *t->ids;
    di_mask_ids(w->bits, n_words, t->ids);
    return DI_OK;
}

/* Sorts the ids by the counts they need. */
static di_status keep_needs(static_walk *w, di_token_static *t)
{
    for (uint32_t i = 0; i < t->n_ids; i++)
        if (w->needs[t->ids[i]] >= t->n_needs)
            t->n_needs = w->needs[t->ids[i]] + 1u;
    uint32_t *ids = malloc(((size_t)t->n_ids + 1) * sizeof *ids);
    uint32_t *next = malloc(((size_t)t->n_needs + 1) * sizeof *next);
    t->needs = calloc((size_t)t->n_needs + 1, sizeof *t->needs);
    if (ids == NULL || next == NULL || t->needs == NULL) {
        free(ids);
        free(next);
        return di_fail_memory(t->n_ids * sizeof *ids, "a token mask");
    }
    for (uint32_t i = 0; i < t->n_ids; i++)
        t->needs[w->needs[t->ids[i]] + 1]++;
    for (uint32_t k = 0; k < t->n_needs; k++)
        t->needs[k + 1] += t->needs[k];
    memcpy(next, t->needs, ((size_t)t->n_needs + 1) * sizeof *next);
    for (uint32_t i = 0; i < t->n_ids; i++)
        ids[next[w->needs[t->ids[i]]]++] = t->ids[i];
    free(next);
    free(t->ids);
    t->ids = ids;
    t->bytes += ((size_t)t->n_needs + 1) * sizeof *t->needs;
    return DI_OK;
}

static di_status keep(static_walk *w, di_token_static *t)
{
    DI_TRY(keep_ids(w, t));
    if (w->is_relative)
        DI_TRY(keep_needs(w, t));
    if (w->n_returns > 0) {
        t->returns = malloc(w->n_returns * sizeof *t->returns);
        if (t->returns == NULL)
            return di_fail_memory(w->n_returns * sizeof *t->returns, "a token mask");
        memcpy(t->returns, w->returns, w->n_returns * sizeof *t->returns);
    }
    t->n_returns = (uint32_t)w->n_returns;
    t->base = w->base;
    if (w->n_not_base > 0) {
        t->not_base = malloc(w->n_not_base * sizeof *t->not_base);
        if (t->not_base == NULL)
            return di_fail_memory(w->n_not_base * sizeof *t->not_base, "a token mask");
        memcpy(t->not_base, w->not_base, w->n_not_base * sizeof *t->not_base);
        t->n_not_base = w->n_not_base;
    }
    t->bytes += sizeof *t + w->n_returns * sizeof *t->returns;
    return DI_OK;
}

static di_status compute(static_walk *w, di_token_static *t)
{
    const di_vocab *v = w->a->vocab;
    w->bits = calloc(v->n_words + 1, sizeof *w->bits);
    w->sets = malloc(((size_t)v->max_len + 2) * sizeof *w->sets);
    if (w->is_relative)
        w->needs = malloc(((size_t)v->n_ids + 1) * sizeof *w->needs);
    if (w->bits == NULL || w->sets == NULL || (w->is_relative && w->needs == NULL))
        return di_fail_memory(v->n_words * sizeof *w->bits, "a token mask");
    if (w->is_relative)
        memset(w->needs, 0xff, v->n_ids * sizeof *w->needs);
    DI_TRY(walk(w));
    return keep(w, t);
}

static di_status make(di_acceptor *a, uint32_t state, di_token_static **out)
{
    static_walk w = {.a = a, .state = state};
    const di_rule *rule = &a->grammar->rules[a->grammar->states[state].rule];
    w.is_relative = rule->is_loop;
    w.returns_matter = rule->is_called;
    di_token_static *t = calloc(1, sizeof *t);
    if (t == NULL)
        return di_fail_memory(sizeof *t, "a token mask");
    const di_status status = compute(&w, t);
    free(w.bits);
    free(w.needs);
    free(w.sets);
    free(w.returns);
    if (status != DI_OK) {
        di_token_static_free(t);
        return status;
    }
    *out = t;
    return DI_OK;
}

/* --- sharing --- */

static bool is_wide(const di_grammar *g, uint32_t state)
{
    const di_state *s = &g->states[state];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_bytes; i++)
        n += (uint32_t)(g->edges[s->first_edge + i].last - g->edges[s->first_edge + i].first) + 1;
    return n >= WIDE_BYTES;
}

static di_token_static *find_shared(di_vocab *v, const char *key, size_t len)
{
    for (size_t i = 0; i < v->n_shared; i++)
        if (v->shared[i].len == len && memcmp(v->shared[i].key, key, len) == 0)
            return v->shared[i].tokens;
    return NULL;
}

/* Takes key; *tokens becomes the one that is kept. */
static di_status add_shared(di_vocab *v, char *key, size_t len, di_token_static **tokens)
{
    pthread_mutex_lock(&v->lock);
    di_token_static *other = find_shared(v, key, len);
    di_status status = DI_OK;
    if (other != NULL) {
        di_token_static_free(*tokens);
        *tokens = other;
    } else if (v->shared_bytes + (*tokens)->bytes <= MAX_SHARED_BYTES) {
        status = DI_GROW(&v->shared, &v->cap_shared, v->n_shared + 1);
        if (status == DI_OK) {
            (*tokens)->is_shared = true;
            v->shared[v->n_shared++] = (di_shared_static){key, len, *tokens};
            v->shared_bytes += (*tokens)->bytes;
            key = NULL;
        }
    }
    pthread_mutex_unlock(&v->lock);
    free(key);
    return status;
}

static di_status make_shared(di_acceptor *a, uint32_t state, di_token_static **out)
{
    char *key;
    size_t len;
    DI_TRY(di_state_signature(a->grammar, state, &key, &len));
    if (len == 0)
        return make(a, state, out);
    pthread_mutex_lock(&a->vocab->lock);
    di_token_static *found = find_shared(a->vocab, key, len);
    pthread_mutex_unlock(&a->vocab->lock);
    if (found != NULL) {
        free(key);
        *out = found;
        return DI_OK;
    }
    const di_status status = make(a, state, out);
    if (status != DI_OK) {
        free(key);
        return status;
    }
    return add_shared(a->vocab, key, len, out);
}

di_status di_token_static_of(di_acceptor *a, uint32_t state, const di_token_static **out)
{
    if (a->statics[state] == NULL) {
        di_token_static *tokens = NULL;
        a->statics[state] = &in_progress;
        const di_status status =
            is_wide(a->grammar, state) ? make_shared(a, state, &tokens) : make(a, state, &tokens);
        a->statics[state] = status == DI_OK ? tokens : NULL;
        DI_TRY(status);
    }
    *out = a->statics[state];
    return DI_OK;
}
