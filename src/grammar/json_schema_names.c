/* Sets of texts: all names of a list, all but those of a list. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_impl.h"
#include "text/utf8.h"

typedef struct trie {
    struct trie_node {
        uint32_t first, last; /* names below it: [first, last) */
        uint32_t at;          /* bytes of them that are read */
        bool is_tail;         /* the rest of one name, after others have parted */
    } * nodes;
    size_t n_nodes, cap_nodes;
    di_dfa_edge *edges;
    size_t n_edges, cap_edges;
    di_dfa_state *states;
    size_t cap_states;
    const di_js_name *names;
    bool is_complement; /* state 1 is everything */
} trie;

static int by_text(const void *a, const void *b)
{
    const di_js_name *x = a, *y = b;
    const uint32_t n = x->len < y->len ? x->len : y->len;
    const int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static di_status add_edge(trie *t, uint32_t first, uint32_t last, uint32_t target)
{
    DI_TRY(DI_GROW(&t->edges, &t->cap_edges, t->n_edges + 1));
    t->edges[t->n_edges++] = (di_dfa_edge){first, last, target};
    return DI_OK;
}

/* From first to last, without surrogates, to the state of every text. */
static di_status add_gap(trie *t, uint32_t first, uint32_t last)
{
    const di_charset all = di_charset_all();
    for (uint32_t i = 0; t->is_complement && i < all.n; i++) {
        const uint32_t from = first > all.ranges[i].first ? first : all.ranges[i].first;
        const uint32_t to = last < all.ranges[i].last ? last : all.ranges[i].last;
        if (from <= to)
            DI_TRY(add_edge(t, from, to, 1));
    }
    return DI_OK;
}

static di_status add_node(trie *t, struct trie_node node)
{
    DI_TRY(DI_GROW(&t->nodes, &t->cap_nodes, t->n_nodes + 1));
    t->nodes[t->n_nodes++] = node;
    return DI_OK;
}

static di_status expand_node(trie *t, size_t number)
{
    struct trie_node node = t->nodes[number];
    const uint32_t node_n = node.last - node.first;
    uint32_t next = 0; /* code points below it have their edges */
    DI_TRY(DI_GROW(&t->states, &t->cap_states, number + 1));
    di_dfa_state *state = &t->states[number];
    *state = (di_dfa_state){.first_edge = (uint32_t)t->n_edges, .is_final = t->is_complement};
    while (node.first < node.last && t->names[node.first].len == node.at) {
        state->is_final = !t->is_complement;
        node.first++;
    }
    while (node.first < node.last) {
        const di_js_name name = t->names[node.first];
        uint32_t code, end = node.first + 1;
        const uint32_t n = (uint32_t)di_utf8_decode(name.text + node.at, name.len - node.at, &code);
        while (end < node.last && t->names[end].len >= node.at + n &&
               memcmp(t->names[end].text + node.at, name.text + node.at, n) == 0)
            end++;
        if (code > next)
            DI_TRY(add_gap(t, next, code - 1));
        DI_TRY(add_edge(t, code, code, (uint32_t)t->n_nodes));
        DI_TRY(add_node(t, (struct trie_node){node.first, end, node.at + n,
                                              end - node.first == 1 && node_n > 1}));
        next = code + 1;
        node.first = end;
    }
    if (next <= DI_CODE_LAST)
        DI_TRY(add_gap(t, next, DI_CODE_LAST));
    state->n_edges = (uint32_t)t->n_edges - state->first_edge;
    return DI_OK;
}

static di_status build_trie(di_js *js, trie *t, uint32_t n_names)
{
    DI_TRY(add_node(t, (struct trie_node){0, n_names, 0, false}));
    if (t->is_complement)
        DI_TRY(add_node(t, (struct trie_node){0, 0, 0, false}));
    for (size_t i = 0; i < t->n_nodes; i++) {
        if (t->n_nodes > js->limits.max_states)
            return di_fail(DI_ERR_UNSUPPORTED, "more than %u states", js->limits.max_states);
        DI_TRY(expand_node(t, i));
    }
    return DI_OK;
}

static di_status trie_dfa(di_js *js, const trie *t, const di_dfa **out)
{
    di_dfa *dfa;
    di_dfa_state *states;
    di_dfa_edge *edges;
    DI_TRY(DI_ARENA_NEW(js->arena, 1, &dfa));
    DI_TRY(DI_ARENA_NEW(js->arena, t->n_nodes, &states));
    DI_TRY(DI_ARENA_NEW(js->arena, t->n_edges, &edges));
    memcpy(states, t->states, t->n_nodes * sizeof *states);
    if (t->n_edges > 0)
        memcpy(edges, t->edges, t->n_edges * sizeof *edges);
    *dfa = (di_dfa){.states = states,
                    .edges = edges,
                    .n_states = (uint32_t)t->n_nodes,
                    .n_edges = (uint32_t)t->n_edges};
    *out = dfa;
    return DI_OK;
}

/* Builds the trie of names that are sorted first. */
static di_status start_trie(di_js *js, const di_js_name *names, size_t n, trie *t)
{
    di_js_name *sorted;
    DI_TRY(DI_ARENA_NEW(&js->scratch, n, &sorted));
    if (n > 0) {
        memcpy(sorted, names, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, by_text);
    }
    t->names = sorted;
    return build_trie(js, t, (uint32_t)n);
}

static void free_trie(trie *t)
{
    free(t->nodes);
    free(t->edges);
    free(t->states);
}

static di_status trie_of(di_js *js, const di_js_name *names, size_t n, bool is_complement,
                         const di_dfa **out)
{
    trie t = {.is_complement = is_complement};
    di_status status = start_trie(js, names, n, &t);
    if (status == DI_OK)
        status = trie_dfa(js, &t, out);
    free_trie(&t);
    return status;
}

di_status di_js_all_but(di_js *js, const di_js_name *names, size_t n, const di_dfa **out)
{
    return trie_of(js, names, n, true, out);
}

di_status di_js_only(di_js *js, const di_js_name *names, size_t n, const di_dfa **out)
{
    static const di_dfa none;
    if (n == 0) {
        *out = &none;
        return DI_OK;
    }
    return trie_of(js, names, n, false, out);
}

di_status di_js_all_texts(di_js *js, const di_dfa **out)
{
    return trie_of(js, NULL, 0, true, out);
}

/* ---- the same as an expression, spelled as in JSON: what leaves the names behind are rules */

/* A code point that is none of those on n edges of a node, and any text after it with the closing
 * quote. */
static di_status other_rest(di_js *js, const di_dfa_edge *edges, uint32_t n, const di_expr **out)
{
    enum { ASCII = 128 };
    const di_expr *rest, *others = di_expr_nothing();
    di_charset_builder builder = {0};
    di_charset set;
    bool is_simple = true;
    di_status status = DI_OK;
    for (uint32_t i = 0; i < n && status == DI_OK; i++) {
        if (edges[i].target == 1)
            continue;
        is_simple &= edges[i].first < ASCII && edges[i].first >= ' ' && edges[i].first != '"' &&
                     edges[i].first != '\\';
        status = di_charset_add(&builder, edges[i].first, edges[i].last);
    }
    if (status == DI_OK)
        status = di_charset_finish(&builder, js->arena, true, &set);
    di_charset_builder_free(&builder);
    DI_TRY(status);
    DI_TRY(di_js_rest_of_string(js, &rest));
    if (is_simple) {
        static const di_code_range plain[] = {{' ', '!'}, {'#', '['}, {']', ASCII - 1}};
        DI_TRY(di_charset_intersect(js->arena, set, (di_charset){.ranges = plain, .n = 3}, &set));
        DI_TRY(di_js_not_ascii_rest(js, &others));
    }
    DI_TRY(di_expr_chars(js->arena, set, out));
    if (!is_simple)
        DI_TRY(di_expr_json_string(js->arena, *out, out));
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, out, *out, rest));
    return DI_EXPR_ALT_OF(js->arena, out, *out, others);
}

/* What may follow at a node, up to the closing quote; those after it in the list are done. */
static di_status node_key(di_js *js, const trie *t, size_t number, const di_expr *const *nodes,
                          const di_expr **out)
{
    const di_dfa_state *state = &t->states[number];
    const di_dfa_edge *edges = t->edges + state->first_edge;
    const di_expr **parts;
    size_t n = 0;
    DI_TRY(DI_ARENA_NEW(&js->scratch, (size_t)state->n_edges + 2, &parts));
    if (state->is_final)
        DI_TRY(di_js_literal(js, "\"", 1, &parts[n++]));
    for (uint32_t i = 0; i < state->n_edges; i++) {
        const di_expr *c;
        if (edges[i].target == 1)
            continue;
        DI_TRY(di_js_json_char(js, edges[i].first, &c));
        DI_TRY(DI_EXPR_SEQ_OF(js->arena, &parts[n++], c, nodes[edges[i].target]));
    }
    DI_TRY(other_rest(js, edges, state->n_edges, &parts[n++]));
    return di_expr_alt(js->arena, parts, n, out);
}

/* The rest of one name that many objects may declare: one rule for all. */
static di_status tail_key(const trie *t, size_t number, di_buf *key)
{
    const struct trie_node node = t->nodes[number];
    const di_js_name name = t->names[node.first];
    DI_TRY(di_buf_puts(key, "t"));
    return di_buf_append(key, name.text + node.at, name.len - node.at);
}

/* Tails that are known already, and the nodes below them, which are not needed then. */
static di_status find_tails(const di_js *js, const trie *t, const di_expr **nodes)
{
    for (size_t i = 0; i < t->n_nodes; i++) {
        if (t->nodes[i].is_tail && nodes[i] == NULL) {
            DI_BUF_AUTO key = {0};
            DI_TRY(tail_key(t, i, &key));
            nodes[i] = di_js_known(js, &key);
        }
        const di_dfa_state *state = &t->states[i];
        for (uint32_t k = 0; nodes[i] != NULL && k < state->n_edges; k++)
            nodes[t->edges[state->first_edge + k].target] = nodes[i];
    }
    return DI_OK;
}

static di_status trie_key(di_js *js, const trie *t, const di_expr **out)
{
    enum { CHAIN = 32 }; /* rules in between: deep expressions are hard on whoever walks them */
    const di_expr **nodes;
    DI_TRY(DI_ARENA_ZNEW(&js->scratch, t->n_nodes, &nodes));
    DI_TRY(find_tails(js, t, nodes));
    for (size_t i = t->n_nodes; i-- > 0;) {
        if (i == 1 || nodes[i] != NULL)
            continue;
        DI_TRY(node_key(js, t, i, nodes, &nodes[i]));
        if (t->nodes[i].is_tail || t->nodes[i].at % CHAIN == CHAIN - 1)
            DI_TRY(di_js_share(js, "name", nodes[i], &nodes[i]));
        if (t->nodes[i].is_tail) {
            DI_BUF_AUTO key = {0};
            DI_TRY(tail_key(t, i, &key));
            DI_TRY(di_js_keep(js, &key, nodes[i]));
        }
    }
    *out = nodes[0];
    return DI_OK;
}

static di_status make_other_key(di_js *js, const di_js_name *names, size_t n, const di_expr **out)
{
    trie t = {.is_complement = true};
    di_status status = start_trie(js, names, n, &t);
    if (status == DI_OK)
        status = trie_key(js, &t, out);
    free_trie(&t);
    DI_TRY(status);
    const di_expr *quote;
    DI_TRY(di_js_literal(js, "\"", 1, &quote));
    return DI_EXPR_SEQ_OF(js->arena, out, quote, *out);
}

di_status di_js_other_key(di_js *js, const di_js_name *names, size_t n, const di_expr **out)
{
    DI_BUF_AUTO key = {0};
    DI_TRY(di_buf_puts(&key, "n"));
    for (size_t i = 0; i < n; i++) {
        DI_TRY(di_buf_append(&key, &names[i].len, sizeof names[i].len));
        DI_TRY(di_buf_append(&key, names[i].text, names[i].len));
    }
    *out = di_js_known(js, &key);
    if (*out != NULL)
        return DI_OK;
    DI_TRY(make_other_key(js, names, n, out));
    DI_TRY(di_js_share(js, "name", *out, out));
    return di_js_keep(js, &key, *out);
}
