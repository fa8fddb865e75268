#include "grammar/plain.h"

#include <stdlib.h>
#include <string.h>

/* Within a character: one, two or three more bytes of any value; then those whose next byte has
 * bounds, against long forms, surrogates and what is beyond U+10FFFF (Unicode, table 3-7). */
enum { LAST = 1, LAST_2, LAST_3, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 };

typedef struct continuation {
    uint8_t first, last, next;
} continuation;

static const continuation continuations[DI_PLAIN_STATES] = {
    [LAST] = {0x80, 0xBF, DI_PLAIN_BETWEEN}, [LAST_2] = {0x80, 0xBF, LAST},
    [LAST_3] = {0x80, 0xBF, LAST_2},         [AFTER_E0] = {0xA0, 0xBF, LAST},
    [AFTER_ED] = {0x80, 0x9F, LAST},         [AFTER_F0] = {0x90, 0xBF, LAST_2},
    [AFTER_F4] = {0x80, 0x8F, LAST_2},       [DI_PLAIN_DEAD] = {1, 0, 0}};

static uint8_t begin_char(uint8_t byte)
{
    if (byte < 0x80)
        return byte < 0x20 || byte == '"' || byte == '\\' ? DI_PLAIN_DEAD : DI_PLAIN_BETWEEN;
    if (byte < 0xC2 || byte > 0xF4)
        return DI_PLAIN_DEAD;
    if (byte < 0xE0)
        return LAST;
    if (byte < 0xF0)
        return byte == 0xE0 ? AFTER_E0 : byte == 0xED ? AFTER_ED : LAST_2;
    return byte == 0xF0 ? AFTER_F0 : byte == 0xF4 ? AFTER_F4 : LAST_3;
}

uint8_t di_plain_step(uint8_t state, uint8_t byte)
{
    if (state == DI_PLAIN_BETWEEN)
        return begin_char(byte);
    const continuation *c = &continuations[state];
    return c->first <= byte && byte <= c->last ? c->next : DI_PLAIN_DEAD;
}

/* --- of a vocabulary --- */

static bool is_wide(const di_vocab *v, uint32_t node)
{
    return v->nodes[node].skip - node > DI_PLAIN_NODES;
}

static di_status new_arrays(di_vocab *v)
{
    uint32_t n_wide = 0;
    for (uint32_t i = 0; i < v->n_nodes; i++)
        n_wide += is_wide(v, i);
    v->plain_state = malloc((size_t)v->n_nodes + 1);
    v->wide = malloc(v->n_nodes * sizeof *v->wide);
    v->wide_bytes = calloc(n_wide + 1, sizeof *v->wide_bytes);
    v->plain = calloc(v->n_words + 1, sizeof *v->plain);
    if (v->plain_state == NULL || v->wide == NULL || v->wide_bytes == NULL || v->plain == NULL)
        return di_fail_memory(v->n_nodes * sizeof *v->wide, "the tokens of a vocabulary");
    n_wide = 0;
    for (uint32_t i = 0; i < v->n_nodes; i++)
        v->wide[i] = is_wide(v, i) ? n_wide++ : UINT32_MAX;
    return DI_OK;
}

di_status di_vocab_find_plain(di_vocab *v)
{
    uint32_t *path = malloc(((size_t)v->max_len + 1) * sizeof *path);
    if (path == NULL)
        return di_fail_memory(v->max_len * sizeof *path, "the tokens of a vocabulary");
    const di_status status = new_arrays(v);
    if (status != DI_OK) {
        free(path);
        return status;
    }
    path[0] = 0;
    v->plain_state[0] = DI_PLAIN_BETWEEN;
    for (uint32_t i = 1; i < v->n_nodes; i++) {
        const di_vocab_node *n = &v->nodes[i];
        path[n->depth] = i;
        v->plain_state[i] = di_plain_step(v->plain_state[path[n->depth - 1]], n->byte);
        for (uint32_t d = 0; d < n->depth && v->wide[path[d]] != UINT32_MAX; d++)
            v->wide_bytes[v->wide[path[d]]][n->byte / 64] |= (uint64_t)1 << (n->byte % 64);
        for (uint32_t k = 0; v->plain_state[i] != DI_PLAIN_DEAD && k < n->n_own; k++) {
            const uint32_t id = v->sorted[n->first_token + k];
            v->plain[id / 64] |= (uint64_t)1 << (id % 64);
        }
    }
    free(path);
    return DI_OK;
}

/* --- of a set --- */

typedef struct char_walk {
    di_acceptor *a;
    uint32_t back; /* the set after each character */
    bool returns;
} char_walk;

/* Whether every character that goes on from here is read by the set, leads back, and no other one
 * is read. */
static di_status ends_match(char_walk *w, uint32_t set, uint8_t state, bool *matches)
{
    uint32_t last_set = DI_SET_UNKNOWN;
    uint8_t last_state = DI_PLAIN_DEAD;
    w->returns = w->returns || di_acceptor_has_returned(w->a, set);
    *matches = true;
    for (unsigned byte = 0x80; byte <= 0xBF && *matches; byte++) {
        uint32_t next;
        const uint8_t next_state = di_plain_step(state, (uint8_t)byte);
        DI_TRY(di_acceptor_step(w->a, set, (uint8_t)byte, &next));
        if (next == last_set && next_state == last_state)
            continue;
        if (next_state == DI_PLAIN_DEAD || next == DI_SET_DEAD)
            *matches = next == DI_SET_DEAD && next_state == DI_PLAIN_DEAD;
        else if (next_state == DI_PLAIN_BETWEEN)
            *matches = next == w->back;
        else
            DI_TRY(ends_match(w, next, next_state, matches));
        last_set = next;
        last_state = next_state;
    }
    return DI_OK;
}

/* The set after some character that goes on from here. */
static di_status some_end(di_acceptor *a, uint32_t set, uint8_t state, uint32_t *out)
{
    while (state != DI_PLAIN_BETWEEN && set != DI_SET_DEAD) {
        const uint8_t byte = continuations[state].first;
        DI_TRY(di_acceptor_step(a, set, byte, &set));
        state = di_plain_step(state, byte);
    }
    *out = set;
    return DI_OK;
}

/* A set that reads some text and stays: worth a closer look. */
static di_status stays(di_acceptor *a, uint32_t set, bool *out)
{
    *out = false;
    for (const char *c = "a0A "; *c != '\0' && !*out; c++) {
        uint32_t next;
        DI_TRY(di_acceptor_step(a, set, (uint8_t)*c, &next));
        *out = next == set;
    }
    return DI_OK;
}

static di_status match_chars(char_walk *w, uint64_t *ok)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t next;
        bool matches = true;
        const uint8_t state = begin_char((uint8_t)byte);
        DI_TRY(di_acceptor_step(w->a, w->back, (uint8_t)byte, &next));
        if (state == DI_PLAIN_DEAD || next == DI_SET_DEAD)
            matches = state == DI_PLAIN_DEAD && next == DI_SET_DEAD;
        else if (state == DI_PLAIN_BETWEEN)
            matches = next == w->back;
        else
            DI_TRY(ends_match(w, next, state, &matches));
        ok[byte / 64] |= (uint64_t)matches << (byte % 64);
    }
    return DI_OK;
}

static di_status compute(di_acceptor *a, di_plain_match *m)
{
    char_walk w = {.a = a};
    bool is_loop = false;
    DI_TRY(some_end(a, m->set, m->state, &w.back));
    if (w.back != DI_SET_DEAD)
        DI_TRY(stays(a, w.back, &is_loop));
    if (!is_loop)
        return DI_OK;
    m->matches = true;
    if (m->state != DI_PLAIN_BETWEEN)
        DI_TRY(ends_match(&w, m->set, m->state, &m->matches));
    if (!m->matches)
        return DI_OK;
    w.returns = w.returns || di_acceptor_has_returned(a, w.back);
    DI_TRY(match_chars(&w, m->ok));
    m->returns = w.returns;
    return DI_OK;
}

di_status di_plain_match_of(di_acceptor *a, uint32_t set, uint8_t state,
                            const di_plain_match **match)
{
    if (a->plain == NULL) {
        a->plain = calloc(DI_PLAIN_MATCHES, sizeof *a->plain);
        if (a->plain == NULL)
            return di_fail_memory(DI_PLAIN_MATCHES * sizeof *a->plain, "a token mask");
    }
    di_plain_match *m = &a->plain[(set + state * 7u) % DI_PLAIN_MATCHES];
    if (m->set != set || m->state != state) {
        di_plain_match fresh = {.set = set, .state = state};
        DI_TRY(compute(a, &fresh));
        *m = fresh;
    }
    *match = m;
    return DI_OK;
}

di_status di_plain_below(di_acceptor *a, uint32_t node, uint32_t set, bool may_return,
                         bool *is_plain)
{
    const di_vocab *v = a->vocab;
    const di_plain_match *m;
    *is_plain = false;
    if (v->wide[node] == UINT32_MAX || v->plain_state[node] == DI_PLAIN_DEAD)
        return DI_OK;
    DI_TRY(di_plain_match_of(a, set, v->plain_state[node], &m));
    if (!m->matches || (m->returns && !may_return))
        return DI_OK;
    const uint64_t *bytes = v->wide_bytes[v->wide[node]];
    *is_plain = ((bytes[0] & ~m->ok[0]) | (bytes[1] & ~m->ok[1]) | (bytes[2] & ~m->ok[2]) |
                 (bytes[3] & ~m->ok[3])) == 0;
    return DI_OK;
}
