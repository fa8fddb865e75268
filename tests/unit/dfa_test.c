/* Automata against a matcher of expressions that only knows what the operators mean. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"
#include "text/utf8.h"

enum { MAX_LEN = 6, N_LETTERS = 3, N_TEXTS = 1093, MAX_STATES = 4000, ROUNDS = 400 };

static const uint32_t letters[N_LETTERS] = {'a', 'b', 0x1F600};
static const char *const spelled[N_LETTERS] = {"a", "b", "\xF0\x9F\x98\x80"};

typedef struct {
    int letters[MAX_LEN], n;
    char utf8[4 * MAX_LEN + 1];
    size_t len;
} word;

static word words[N_TEXTS];

static void make_words(void)
{
    int at = 0;
    for (int n = 0, count = 1; n <= MAX_LEN; n++, count *= N_LETTERS) {
        for (int number = 0; number < count; number++, at++) {
            word *w = &words[at];
            w->n = n;
            for (int i = 0, rest = number; i < n; i++, rest /= N_LETTERS) {
                w->letters[i] = rest % N_LETTERS;
                const size_t len = strlen(spelled[rest % N_LETTERS]);
                memcpy(w->utf8 + w->len, spelled[rest % N_LETTERS], len);
                w->len += len;
            }
        }
    }
    assert_int_equal(at, N_TEXTS);
}

/* Bit i of the result: the expression can end before letter i if it begins at a bit of `starts`. */
static unsigned ends_of(const di_expr *expr, const word *w, unsigned starts)
{
    unsigned ends = 0;
    switch (expr->kind) {
    case DI_EXPR_EMPTY:
        return starts;
    case DI_EXPR_CHARS:
        for (int i = 0; i < w->n; i++)
            if ((starts >> i & 1) != 0 && di_charset_contains(expr->chars, letters[w->letters[i]]))
                ends |= 2u << i;
        return ends;
    case DI_EXPR_SEQ:
        for (uint32_t i = 0; i < expr->list.n; i++)
            starts = ends_of(expr->list.items[i], w, starts);
        return starts;
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n; i++)
            ends |= ends_of(expr->list.items[i], w, starts);
        return ends;
    case DI_EXPR_REPEAT:
        for (uint32_t i = 0; i < expr->repeat.min; i++)
            starts = ends_of(expr->repeat.body, w, starts);
        for (uint32_t i = expr->repeat.min; i < expr->repeat.max && i < expr->repeat.min + 8u; i++)
            starts |= ends_of(expr->repeat.body, w, starts);
        return starts;
    default:
        return 0;
    }
}

static bool matches(const di_expr *expr, const word *w)
{
    return (ends_of(expr, w, 1) >> w->n & 1) != 0;
}

static unsigned pick(unsigned *seed, unsigned n)
{
    return (unsigned)rand_r(seed) % n;
}

static const di_expr *random_chars(di_arena *arena, unsigned *seed)
{
    di_charset_builder builder = {0};
    di_charset set;
    const di_expr *expr;
    for (int i = 0; i < N_LETTERS; i++)
        if (pick(seed, 2) == 0)
            assert_int_equal(di_charset_add(&builder, letters[i], letters[i] + pick(seed, 3)),
                             DI_OK);
    assert_int_equal(di_charset_finish(&builder, arena, pick(seed, 6) == 0, &set), DI_OK);
    di_charset_builder_free(&builder);
    assert_int_equal(di_expr_chars(arena, set, &expr), DI_OK);
    return expr;
}

static const di_expr *random_expr(di_arena *arena, unsigned *seed, int depth)
{
    const di_expr *items[3], *expr;
    const unsigned kind = depth == 0 ? 3 : pick(seed, 9);
    const unsigned n = 2 + pick(seed, 2);
    if (kind >= 8)
        return pick(seed, 6) == 0 ? di_expr_nothing() : di_expr_empty();
    if (kind >= 3 && kind < 5)
        return random_chars(arena, seed);
    if (kind >= 5) {
        const uint32_t min = pick(seed, 3);
        const uint32_t max = pick(seed, 2) == 0 ? DI_REPEAT_INF : min + pick(seed, 3);
        expr = random_expr(arena, seed, depth - 1);
        assert_int_equal(di_expr_repeat(arena, expr, min, max, &expr), DI_OK);
        return expr;
    }
    for (unsigned i = 0; i < n; i++)
        items[i] = random_expr(arena, seed, depth - 1);
    if (kind == 0)
        assert_int_equal(di_expr_alt(arena, items, n, &expr), DI_OK);
    else
        assert_int_equal(di_expr_seq(arena, items, n, &expr), DI_OK);
    return expr;
}

static uint32_t walk(const di_dfa *dfa, uint32_t state, uint32_t code)
{
    for (uint32_t i = 0; i < dfa->states[state].n_edges; i++) {
        const di_dfa_edge edge = dfa->edges[dfa->states[state].first_edge + i];
        if (edge.first <= code && code <= edge.last)
            return edge.target;
    }
    return dfa->n_states; /* dead */
}

/* Marks pairs (also with the dead state) that some text tells apart, by what one code point does,
 * until nothing changes. */
static void assert_distinguishable(const di_dfa *dfa)
{
    const uint32_t n = dfa->n_states + 1;
    bool *apart = calloc((size_t)n * n, sizeof *apart);
    assert_non_null(apart);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            apart[i * n + k] =
                (i + 1 < n && dfa->states[i].is_final) != (k + 1 < n && dfa->states[k].is_final);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < n * n; i++) {
            const uint32_t x = i / n, y = i % n;
            for (uint32_t e = 0; e < 2 * dfa->n_edges && !apart[i] && x + 1 < n; e++) {
                const di_dfa_edge edge = dfa->edges[e / 2];
                const uint32_t code = e % 2 == 0 ? edge.first : edge.last;
                const uint32_t to_y = y + 1 < n ? walk(dfa, y, code) : n - 1;
                if (apart[walk(dfa, x, code) * n + to_y])
                    changed = apart[i] = apart[y * n + x] = true;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = i + 1; k < n; k++)
            assert_true(apart[i * n + k]); /* from the dead one: each state reaches a final one */
    free(apart);
}

static void assert_minimal(const di_dfa *dfa)
{
    uint32_t seen = 0;
    for (uint32_t state = 0, at = 0; state < dfa->n_states; state++) {
        assert_int_equal(dfa->states[state].first_edge, at);
        for (uint32_t i = 0; i < dfa->states[state].n_edges; i++, at++) {
            const di_dfa_edge edge = dfa->edges[at];
            assert_true(edge.first <= edge.last);
            assert_true(i == 0 || edge.first > dfa->edges[at - 1].last);
            /* Breadth-first numbers: a state not seen yet has the next one. */
            assert_true(edge.target <= seen + 1);
            if (edge.target > seen)
                seen = edge.target;
            if (i > 0 && edge.target == dfa->edges[at - 1].target)
                assert_true(edge.first > dfa->edges[at - 1].last + 1);
        }
    }
    assert_true(dfa->n_states == 0 || seen == dfa->n_states - 1);
    if (dfa->n_states <= 40)
        assert_distinguishable(dfa);
}

static bool dfa_matches(const di_dfa *dfa, const word *w)
{
    return di_dfa_matches(dfa, w->utf8, w->len);
}

typedef struct {
    const di_dfa *both, *either, *minus, *none, *bounded;
    uint32_t min, max;
} results;

static void combine(di_arena *arena, unsigned *seed, const di_dfa *a, const di_dfa *b, results *r)
{
    r->min = pick(seed, 5);
    r->max = pick(seed, 3) == 0 ? DI_REPEAT_INF : pick(seed, 7);
    assert_int_equal(di_dfa_intersect(arena, a, b, MAX_STATES, &r->both), DI_OK);
    assert_int_equal(di_dfa_union(arena, a, b, MAX_STATES, &r->either), DI_OK);
    assert_int_equal(di_dfa_minus(arena, a, b, MAX_STATES, &r->minus), DI_OK);
    assert_int_equal(di_dfa_complement(arena, a, MAX_STATES, &r->none), DI_OK);
    assert_int_equal(di_dfa_bound_length(arena, a, r->min, r->max, MAX_STATES, &r->bounded), DI_OK);
    assert_minimal(r->both);
    assert_minimal(r->either);
    assert_minimal(r->minus);
    assert_minimal(r->none);
    assert_minimal(r->bounded);
}

/* Laws that hold number by number, as all automata are minimal. */
static void check_laws(di_arena *arena, const di_dfa *a, const di_dfa *b, const results *r)
{
    const di_dfa *x, *y, *z;
    assert_int_equal(di_dfa_complement(arena, r->none, MAX_STATES, &x), DI_OK);
    assert_true(di_dfa_equal(x, a));
    assert_int_equal(di_dfa_union(arena, r->minus, r->both, MAX_STATES, &x), DI_OK);
    assert_true(di_dfa_equal(x, a));
    assert_int_equal(di_dfa_complement(arena, b, MAX_STATES, &y), DI_OK);
    assert_int_equal(di_dfa_union(arena, r->none, y, MAX_STATES, &x), DI_OK);
    assert_int_equal(di_dfa_complement(arena, r->both, MAX_STATES, &z), DI_OK);
    assert_true(di_dfa_equal(x, z));
    assert_false(di_dfa_equal(r->none, a));
    assert_int_equal(di_dfa_intersect(arena, a, r->none, MAX_STATES, &x), DI_OK);
    assert_true(di_dfa_is_empty(x));
}

static void operations(void **state)
{
    (void)state;
    di_arena arena = {0};
    unsigned seed = 1;
    make_words();
    for (int round = 0; round < ROUNDS; round++) {
        const di_expr *p = random_expr(&arena, &seed, 4), *q = random_expr(&arena, &seed, 4);
        const di_dfa *a, *b;
        results r;
        assert_int_equal(di_dfa_from_expr(&arena, p, MAX_STATES, &a), DI_OK);
        assert_int_equal(di_dfa_from_expr(&arena, q, MAX_STATES, &b), DI_OK);
        assert_minimal(a);
        combine(&arena, &seed, a, b, &r);
        check_laws(&arena, a, b, &r);
        for (int i = 0; i < N_TEXTS; i++) {
            const word *w = &words[i];
            const bool in_a = matches(p, w), in_b = matches(q, w);
            const bool fits = (uint32_t)w->n >= r.min && (uint32_t)w->n <= r.max;
            assert_int_equal(dfa_matches(a, w), in_a);
            assert_int_equal(dfa_matches(r.both, w), in_a && in_b);
            assert_int_equal(dfa_matches(r.either, w), in_a || in_b);
            assert_int_equal(dfa_matches(r.minus, w), in_a && !in_b);
            assert_int_equal(dfa_matches(r.none, w), !in_a);
            assert_int_equal(dfa_matches(r.bounded, w), in_a && fits);
        }
        di_arena_reset(&arena);
    }
    di_arena_free(&arena);
}

/* An automaton as a part of an expression. */
static void embedded(void **state)
{
    (void)state;
    di_arena arena = {0};
    unsigned seed = 2;
    int n = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const di_expr *p = random_expr(&arena, &seed, 2), *q = random_expr(&arena, &seed, 2);
        const di_expr *part, *with_part, *plain;
        const di_dfa *inner, *a, *b;
        assert_int_equal(di_dfa_from_expr(&arena, p, MAX_STATES, &inner), DI_OK);
        assert_int_equal(
            di_expr_from_dfa(&arena, (di_expr_dfa){.dfa = inner, .max_len = DI_REPEAT_INF}, &part),
            DI_OK);
        assert_int_equal(DI_EXPR_SEQ_OF(&arena, &with_part, part, q, part), DI_OK);
        assert_int_equal(di_expr_repeat(&arena, with_part, 0, DI_REPEAT_INF, &with_part), DI_OK);
        assert_int_equal(DI_EXPR_SEQ_OF(&arena, &plain, p, q, p), DI_OK);
        assert_int_equal(di_expr_repeat(&arena, plain, 0, DI_REPEAT_INF, &plain), DI_OK);
        const di_status status = di_dfa_from_expr(&arena, with_part, MAX_STATES, &a);
        if (status == DI_OK) {
            assert_int_equal(di_dfa_from_expr(&arena, plain, MAX_STATES, &b), DI_OK);
            assert_true(di_dfa_equal(a, b));
            n++;
        } else { /* some of them have that many states */
            assert_int_equal(status, DI_ERR_UNSUPPORTED);
        }
        di_arena_reset(&arena);
    }
    assert_in_range(n, ROUNDS * 9 / 10, ROUNDS);
    di_arena_free(&arena);
}

/* possible[state * n_counts + k]: a final state is exactly k code points away. */
static bool *count_ways(const di_dfa *dfa, uint32_t n_counts)
{
    bool *possible = calloc((size_t)dfa->n_states * n_counts + 1, sizeof *possible);
    assert_non_null(possible);
    for (uint32_t k = 0; k < n_counts; k++) {
        for (uint32_t s = 0; s < dfa->n_states; s++) {
            bool is_possible = k == 0 && dfa->states[s].is_final;
            for (uint32_t i = 0; k > 0 && i < dfa->states[s].n_edges; i++)
                is_possible |=
                    possible[dfa->edges[dfa->states[s].first_edge + i].target * n_counts + k - 1];
            possible[s * n_counts + k] = is_possible;
        }
    }
    return possible;
}

static bool check_distances(const di_dfa *dfa)
{
    /* A way without a cycle has less than n_states code points. */
    const uint32_t n_counts = 3 * dfa->n_states + 2;
    bool *possible = count_ways(dfa, n_counts), has_all, all = true;
    di_dfa_distance distances[MAX_STATES];
    assert_int_equal(di_dfa_distances(dfa, distances, &has_all), DI_OK);
    for (uint32_t s = 0; s < dfa->n_states; s++) {
        const bool *counts = possible + (size_t)s * n_counts;
        uint32_t shortest = 0, longest = n_counts - 1;
        while (!counts[shortest])
            shortest++;
        while (!counts[longest])
            longest--;
        assert_int_equal(distances[s].shortest, shortest);
        assert_int_equal(distances[s].longest, longest < dfa->n_states ? longest : DI_REPEAT_INF);
        const uint32_t end = longest < dfa->n_states ? longest : n_counts - 1;
        for (uint32_t k = shortest; k <= end; k++)
            all = all && counts[k];
    }
    assert_int_equal(has_all, all);
    free(possible);
    return all;
}

static void distances(void **state)
{
    (void)state;
    di_arena arena = {0};
    unsigned seed = 3;
    int n_all = 0, n = 0;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        const di_dfa *dfa;
        const di_expr *expr = random_expr(&arena, &seed, 4);
        assert_int_equal(di_dfa_from_expr(&arena, expr, MAX_STATES, &dfa), DI_OK);
        if (dfa->n_states <= 60 && dfa->n_states > 1) {
            n_all += check_distances(dfa);
            n++;
        }
        di_arena_reset(&arena);
    }
    assert_in_range(n_all, n / 10, n - n / 10);
    di_arena_free(&arena);
}

static const di_expr *any_of_two(di_arena *arena)
{
    const di_expr *expr;
    assert_int_equal(di_expr_range(arena, 'a', 'b', &expr), DI_OK);
    return expr;
}

static void limits(void **state)
{
    (void)state;
    di_arena arena = {0};
    const di_expr *ab = any_of_two(&arena), *a, *star, *deep = ab, *tail, *blowup, *exact;
    const di_dfa *dfa, *bounded;
    for (int i = 0; i < 6; i++)
        assert_int_equal(di_expr_repeat(&arena, deep, 1000, 4000000000u, &deep), DI_OK);
    assert_int_equal(di_dfa_from_expr(&arena, deep, 100000, &dfa), DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(di_last_error(), "400001"));

    /* The 21st letter from the end: 2^21 states. */
    assert_int_equal(di_expr_range(&arena, 'a', 'a', &a), DI_OK);
    assert_int_equal(di_expr_repeat(&arena, ab, 0, DI_REPEAT_INF, &star), DI_OK);
    assert_int_equal(di_expr_repeat(&arena, ab, 20, 20, &tail), DI_OK);
    assert_int_equal(DI_EXPR_SEQ_OF(&arena, &blowup, star, a, tail), DI_OK);
    assert_int_equal(di_dfa_from_expr(&arena, blowup, 1000, &dfa), DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(di_last_error(), "1000"));

    /* Sets of 50000 states, but one of them only; and many of them: refused for the work. */
    assert_int_equal(di_expr_repeat(&arena, star, 0, 50000, &deep), DI_OK);
    assert_int_equal(di_dfa_from_expr(&arena, deep, 100000, &dfa), DI_OK);
    assert_int_equal(dfa->n_states, 1);
    assert_int_equal(di_expr_repeat(&arena, ab, 0, 100, &deep), DI_OK);
    assert_int_equal(di_expr_repeat(&arena, a, 0, 1, &tail), DI_OK);
    assert_int_equal(DI_EXPR_SEQ_OF(&arena, &deep, deep, tail), DI_OK);
    assert_int_equal(di_expr_repeat(&arena, deep, 0, 100, &deep), DI_OK);
    assert_int_equal(di_dfa_from_expr(&arena, deep, 6000, &dfa), DI_ERR_UNSUPPORTED);

    assert_int_equal(di_expr_repeat(&arena, ab, 99, 99, &exact), DI_OK);
    assert_int_equal(di_dfa_from_expr(&arena, exact, 99, &dfa), DI_ERR_UNSUPPORTED);
    assert_int_equal(di_dfa_from_expr(&arena, exact, 100, &dfa), DI_OK);
    assert_int_equal(dfa->n_states, 100);
    assert_int_equal(di_dfa_complement(&arena, dfa, 100, &dfa), DI_ERR_UNSUPPORTED);
    assert_int_equal(di_dfa_complement(&arena, dfa, 101, &dfa), DI_OK);

    assert_int_equal(di_dfa_from_expr(&arena, star, 100, &dfa), DI_OK);
    assert_int_equal(dfa->n_states, 1);
    assert_int_equal(di_dfa_bound_length(&arena, dfa, 0, 100, 100, &bounded), DI_ERR_UNSUPPORTED);
    assert_int_equal(di_dfa_bound_length(&arena, dfa, 0, 4000000000u, 100, &bounded),
                     DI_ERR_UNSUPPORTED);
    assert_int_equal(di_dfa_bound_length(&arena, dfa, 5, 4, 100, &bounded), DI_OK);
    assert_true(di_dfa_is_empty(bounded));
    assert_int_equal(di_dfa_bound_length(&arena, dfa, 7, 99, 100, &bounded), DI_OK);
    assert_int_equal(bounded->n_states, 100);
    /* A bound beyond the longest text costs nothing. */
    assert_int_equal(di_dfa_bound_length(&arena, bounded, 7, 4000000000u, 100, &dfa), DI_OK);
    assert_true(di_dfa_equal(dfa, bounded));
    di_arena_free(&arena);
}

static void refused(void **state)
{
    (void)state;
    di_arena arena = {0};
    const di_expr *rule, *counted, *ab = any_of_two(&arena);
    const di_dfa *dfa;
    assert_int_equal(di_expr_rule(&arena, 0, &rule), DI_OK);
    assert_int_equal(DI_EXPR_SEQ_OF(&arena, &rule, ab, rule), DI_OK);
    assert_int_equal(di_dfa_from_expr(&arena, rule, 100, &dfa), DI_ERR_INPUT);
    assert_int_equal(di_dfa_from_expr(&arena, ab, 100, &dfa), DI_OK);
    assert_int_equal(di_expr_from_dfa(&arena, (di_expr_dfa){.dfa = dfa, .max_len = 5}, &counted),
                     DI_OK);
    assert_int_equal(di_dfa_from_expr(&arena, counted, 100, &dfa), DI_ERR_INPUT);
    assert_false(di_dfa_matches(dfa, "\xFF", 1));
    assert_false(di_dfa_matches(dfa, "a\xF0\x9F", 3));
    assert_true(di_dfa_matches(dfa, "a", 1));
    di_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations), cmocka_unit_test(embedded), cmocka_unit_test(distances),
        cmocka_unit_test(limits),     cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
