#include "expr_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"
#include "text/utf8.h"

enum { MAX_MEMBERS = 12 }; /* in any order: a set of positions for each set of members */

typedef uint64_t *position_set; /* bit i: before code point i */

typedef struct oracle {
    di_arena arena;
    uint32_t *code; /* [n] */
    size_t n, n_words;
    const di_expr *const *bodies;
    position_set *ends; /* [rule * (n + 1) + start]; NULL: not asked for yet */
    uint64_t *asked;    /* indices into ends, in order */
    size_t n_asked, asked_cap;
} oracle;

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static position_set new_set(oracle *o)
{
    position_set set;
    check(DI_ARENA_ZNEW(&o->arena, o->n_words, &set) == DI_OK);
    return set;
}

static bool has(const uint64_t *set, size_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void add(uint64_t *set, size_t i)
{
    set[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Whether that added something. */
static bool add_all(const oracle *o, uint64_t *set, const uint64_t *other)
{
    uint64_t fresh = 0;
    for (size_t i = 0; i < o->n_words; i++) {
        fresh |= other[i] & ~set[i];
        set[i] |= other[i];
    }
    return fresh != 0;
}

static bool is_equal(const oracle *o, const uint64_t *a, const uint64_t *b)
{
    return memcmp(a, b, o->n_words * sizeof *a) == 0;
}

static bool is_empty(const oracle *o, const uint64_t *set)
{
    for (size_t i = 0; i < o->n_words; i++)
        if (set[i])
            return false;
    return true;
}

/* Where texts of expr end that start at one of `from`. */
static position_set after(oracle *o, const di_expr *expr, const uint64_t *from);

static position_set after_repeat(oracle *o, const di_expr *expr, const uint64_t *from)
{
    position_set set = new_set(o), all = new_set(o);
    add_all(o, set, from);
    for (uint32_t i = 0; i < expr->repeat.min; i++) {
        position_set next = after(o, expr->repeat.body, set);
        const bool is_stable = is_equal(o, next, set);
        set = next;
        if (is_stable || is_empty(o, set))
            break;
    }
    add_all(o, all, set);
    for (uint32_t i = expr->repeat.min; i < expr->repeat.max; i++) {
        set = after(o, expr->repeat.body, set);
        if (!add_all(o, all, set))
            break;
    }
    return all;
}

static position_set after_rule(oracle *o, uint32_t rule, const uint64_t *from)
{
    position_set all = new_set(o);
    for (size_t i = 0; i <= o->n; i++) {
        if (!has(from, i))
            continue;
        const uint64_t index = (uint64_t)rule * (o->n + 1) + i;
        if (!o->ends[index]) {
            o->ends[index] = calloc(o->n_words, sizeof **o->ends);
            check(o->ends[index] && DI_GROW(&o->asked, &o->asked_cap, o->n_asked + 1) == DI_OK);
            o->asked[o->n_asked++] = index;
        }
        add_all(o, all, o->ends[index]);
    }
    return all;
}

/* The code point at `at` as the inside of a JSON string spells it; where it ends, 0 if nowhere. */
static size_t json_char(const oracle *o, size_t at, uint32_t *code)
{
    static const char short_escapes[] = "\"\"\\\\b\bf\fn\nr\rt\t";
    if (o->code[at] != '\\') {
        *code = o->code[at];
        return *code < 0x20 || *code == '"' ? 0 : at + 1;
    }
    if (at + 1 >= o->n)
        return 0;
    for (size_t i = 0; short_escapes[i]; i += 2)
        if (o->code[at + 1] == (uint32_t)short_escapes[i]) {
            *code = (uint32_t)short_escapes[i + 1];
            return at + 2;
        }
    if (at + 5 >= o->n || o->code[at + 1] != 'u')
        return 0;
    *code = 0;
    for (size_t i = at + 2; i < at + 6; i++) {
        const uint32_t c = o->code[i], lower = c | 0x20;
        if (!((c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f')))
            return 0;
        *code = *code * 16 + (c <= '9' ? c - '0' : lower - 'a' + 10);
    }
    return *code < 0x20 && !strchr("\b\f\n\r\t", (int)*code) ? at + 6 : 0;
}

static uint32_t dfa_step(const di_dfa *dfa, uint32_t state, uint32_t code)
{
    const di_dfa_state *s = &dfa->states[state];
    for (uint32_t i = s->first_edge; i < s->first_edge + s->n_edges; i++)
        if (dfa->edges[i].first <= code && code <= dfa->edges[i].last)
            return dfa->edges[i].target;
    return UINT32_MAX;
}

static position_set after_dfa(oracle *o, const di_expr_dfa *e, const uint64_t *from)
{
    position_set all = new_set(o);
    for (size_t start = 0; start <= o->n && e->dfa->n_states > 0; start++) {
        uint32_t state = has(from, start) ? 0 : UINT32_MAX;
        size_t at = start;
        for (uint32_t count = 0; state != UINT32_MAX; count++) {
            if (e->dfa->states[state].is_final && count >= e->min_len && count <= e->max_len)
                add(all, at);
            if (at == o->n)
                break;
            uint32_t code = o->code[at];
            at = e->as_json ? json_char(o, at, &code) : at + 1;
            state = at == 0 ? UINT32_MAX : dfa_step(e->dfa, state, code);
        }
    }
    return all;
}

/* Sets of positions after the same number of members: [mask of written members], others_only. */
typedef struct member_sets {
    position_set by_mask[1 << MAX_MEMBERS];
    position_set in_others[1 << MAX_MEMBERS];
} member_sets;

static void add_to(oracle *o, position_set *slot, const uint64_t *set)
{
    if (!*slot)
        *slot = new_set(o);
    add_all(o, *slot, set);
}

/* One member more. */
static void one_member(oracle *o, const di_expr_members *m, uint32_t mask, const uint64_t *from,
                       bool is_in_others, member_sets *next)
{
    for (uint32_t i = 0; i < m->n && !is_in_others; i++) {
        const bool is_late = !m->any_order && mask >> i != 0;
        if (!is_late && !(mask >> i & 1))
            add_to(o, &next->by_mask[mask | 1u << i], after(o, m->members[i].text, from));
    }
    if (m->others)
        add_to(o, m->any_order ? &next->by_mask[mask] : &next->in_others[mask],
               after(o, m->others, from));
}

static bool has_required(const di_expr_members *m, uint32_t mask)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->members[i].is_required && !(mask >> i & 1))
            return false;
    return true;
}

static position_set after_members(oracle *o, const di_expr_members *m, const uint64_t *from)
{
    position_set all = new_set(o);
    check(m->n <= MAX_MEMBERS);
    member_sets *now = calloc(1, sizeof *now), *next = calloc(1, sizeof *next);
    check(now && next);
    add_to(o, &now->by_mask[0], from);
    for (uint32_t count = 0; count <= m->max_n && count <= o->n + m->n + 1; count++) {
        memset(next, 0, sizeof *next);
        for (uint32_t slot = 0; slot < 2u << m->n; slot++) {
            const uint32_t mask = slot / 2;
            const uint64_t *set = slot % 2 ? now->in_others[mask] : now->by_mask[mask];
            if (!set || is_empty(o, set))
                continue;
            if (count >= m->min_n && has_required(m, mask))
                add_all(o, all, set);
            if (count > 0)
                set = after(o, m->separator, set);
            one_member(o, m, mask, set, slot % 2, next);
        }
        member_sets *swap = now;
        now = next;
        next = swap;
    }
    free(now);
    free(next);
    return all;
}

static position_set after_text(oracle *o, const char *text, size_t len, const uint64_t *from)
{
    position_set set = new_set(o);
    for (size_t start = 0; start < o->n; start++) {
        size_t at = 0, i = start;
        for (uint32_t code; has(from, start) && at < len && i < o->n && at < SIZE_MAX; i++) {
            const size_t n_bytes = di_utf8_decode(text + at, len - at, &code);
            at = code == o->code[i] ? at + n_bytes : SIZE_MAX;
        }
        if (at == len)
            add(set, i);
    }
    return set;
}

static position_set after(oracle *o, const di_expr *expr, const uint64_t *from)
{
    position_set set = new_set(o);
    if (is_empty(o, from))
        return set;
    switch (expr->kind) {
    case DI_EXPR_NOTHING:
        break;
    case DI_EXPR_EMPTY:
        add_all(o, set, from);
        break;
    case DI_EXPR_CHARS:
        for (size_t i = 0; i < o->n; i++)
            if (has(from, i) && di_charset_contains(expr->chars, o->code[i]))
                add(set, i + 1);
        break;
    case DI_EXPR_SEQ:
        add_all(o, set, from);
        for (uint32_t i = 0; i < expr->list.n; i++)
            set = after(o, expr->list.items[i], set);
        break;
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n; i++)
            add_all(o, set, after(o, expr->list.items[i], from));
        break;
    case DI_EXPR_REPEAT:
        return after_repeat(o, expr, from);
    case DI_EXPR_RULE:
        return after_rule(o, expr->rule, from);
    case DI_EXPR_DFA:
        return after_dfa(o, &expr->dfa, from);
    case DI_EXPR_MEMBERS:
        return after_members(o, &expr->members, from);
    case DI_EXPR_TOKEN:
        return after_text(o, expr->token.text, expr->token.len, from);
    }
    return set;
}

/* Until no rule at no start ends anywhere else. */
static bool run(oracle *o, const di_expr *expr)
{
    bool is_changed, is_match;
    do {
        const di_arena_mark mark = di_arena_save(&o->arena);
        position_set start = new_set(o);
        add(start, 0);
        const size_t n_before = o->n_asked;
        is_match = has(after(o, expr, start), o->n);
        is_changed = o->n_asked > n_before;
        for (size_t i = 0; i < o->n_asked; i++) {
            const uint64_t index = o->asked[i];
            position_set from = new_set(o);
            add(from, index % (o->n + 1));
            const size_t n_asked = o->n_asked;
            is_changed |= add_all(o, o->ends[index], after(o, o->bodies[index / (o->n + 1)], from));
            is_changed |= o->n_asked > n_asked;
        }
        di_arena_rewind(&o->arena, mark);
    } while (is_changed && !is_match); /* sets only grow */
    return is_match;
}

bool di_expr_oracle(const di_expr *expr, const di_expr *const *bodies, uint32_t n, const char *text,
                    size_t len)
{
    oracle o = {.bodies = bodies};
    check(DI_ARENA_NEW(&o.arena, len, &o.code) == DI_OK);
    for (size_t at = 0; at < len;) {
        const size_t n_bytes = di_utf8_decode(text + at, len - at, &o.code[o.n++]);
        if (n_bytes == 0) {
            di_arena_free(&o.arena);
            return false;
        }
        at += n_bytes;
    }
    o.n_words = o.n / 64 + 1;
    const size_t n_ends = n * (o.n + 1);
    o.ends = calloc(n_ends + 1, sizeof *o.ends);
    check(o.ends != NULL);
    const bool is_match = run(&o, expr);
    for (size_t i = 0; i < n_ends; i++)
        free(o.ends[i]);
    free(o.ends);
    free(o.asked);
    di_arena_free(&o.arena);
    return is_match;
}
