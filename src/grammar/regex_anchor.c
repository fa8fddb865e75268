/* Anchors. For a node and a place (is its left end the text's start, its right end the text's end)
 * three answers are kept apart, since an anchor between two pieces holds only where the pieces
 * before or behind it are empty: `empty` - does it match the empty text there -, `some` - the other
 * texts -, and `whole`, both, which is often simpler to write down. */
#include <stdlib.h>

#include "grammar/regex_parts.h"

typedef enum di_regex_kind {
    KIND_START,
    KIND_END,
    KIND_PAIR,
    KIND_ALT,
    KIND_REPEAT,
} di_regex_kind;

typedef struct place {
    bool at_start, at_end;
} place;

enum { N_PLACES = 4, MAX_SIZE = 1 << 22 };

struct di_regex_node {
    di_regex_kind kind;
    bool uses_start, uses_end; /* `^`, `$` inside */
    bool empty[N_PLACES];
    union {
        di_regex_item pair[2];
        struct {
            const di_regex_item *items;
            size_t n;
        } alt;
        struct {
            di_regex_item body;
            uint32_t min, max;
        } repeat;
    };
    di_regex_text some[N_PLACES], whole[N_PLACES]; /* expr NULL: not asked for yet */
};

static di_status some_of(di_arena *arena, di_regex_item item, place at, di_regex_text *out);
static di_status whole_of(di_arena *arena, di_regex_item item, place at, di_regex_text *out);

static int number(place at)
{
    return at.at_start * 2 + at.at_end;
}

static place place_of(int number_of_place)
{
    return (place){.at_start = number_of_place & 2, .at_end = number_of_place & 1};
}

static bool is_nothing(di_regex_text text)
{
    return text.expr->kind == DI_EXPR_NOTHING;
}

static bool empty_of(di_regex_item item, place at)
{
    return item.node ? item.node->empty[number(at)] : item.is_nullable;
}

static bool uses_start(di_regex_item item)
{
    return item.node && item.node->uses_start;
}

static bool uses_end(di_regex_item item)
{
    return item.node && item.node->uses_end;
}

/* Only an assertion: no text but the empty one. */
static bool is_assertion(di_regex_item item)
{
    return item.node && (item.node->kind == KIND_START || item.node->kind == KIND_END);
}

static bool expr_nullable(const di_expr *expr)
{
    switch (expr->kind) {
    case DI_EXPR_EMPTY:
        return true;
    case DI_EXPR_SEQ:
        for (uint32_t i = 0; i < expr->list.n; i++)
            if (!expr_nullable(expr->list.items[i]))
                return false;
        return true;
    case DI_EXPR_ALT:
        for (uint32_t i = 0; i < expr->list.n; i++)
            if (expr_nullable(expr->list.items[i]))
                return true;
        return false;
    case DI_EXPR_REPEAT:
        return expr->repeat.min == 0 || expr_nullable(expr->repeat.body);
    default:
        return false;
    }
}

static di_status text_list(di_arena *arena, bool is_alt, const di_regex_text *texts, size_t n,
                           di_regex_text *out)
{
    const di_expr **exprs;
    DI_TRY(DI_ARENA_NEW(arena, n, &exprs));
    uint64_t size = 1;
    for (size_t i = 0; i < n; i++) {
        exprs[i] = texts[i].expr;
        size += texts[i].size;
    }
    if (size > MAX_SIZE)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "regular expression: more than %d parts once its anchors and repetitions "
                       "are resolved",
                       MAX_SIZE);
    const di_expr *expr;
    DI_TRY(is_alt ? di_expr_alt(arena, exprs, n, &expr) : di_expr_seq(arena, exprs, n, &expr));
    *out = (di_regex_text){.expr = expr, .size = size};
    return DI_OK;
}

#define SEQ_OF(arena, out, ...)                                                                    \
    text_list((arena), false, (const di_regex_text[]){__VA_ARGS__},                                \
              sizeof((const di_regex_text[]){__VA_ARGS__}) / sizeof(di_regex_text), (out))
#define ALT_OF(arena, out, ...)                                                                    \
    text_list((arena), true, (const di_regex_text[]){__VA_ARGS__},                                 \
              sizeof((const di_regex_text[]){__VA_ARGS__}) / sizeof(di_regex_text), (out))

static di_regex_text text_nothing(void)
{
    return (di_regex_text){.expr = di_expr_nothing(), .size = 1};
}

static di_regex_text text_empty(void)
{
    return (di_regex_text){.expr = di_expr_empty(), .size = 1};
}

static di_status text_repeat(di_arena *arena, di_regex_text body, uint32_t min, uint32_t max,
                             di_regex_text *out)
{
    *out = (di_regex_text){.size = body.size + 1};
    return di_expr_repeat(arena, body.expr, min, max, &out->expr);
}

static uint32_t minus(uint32_t count, uint32_t less)
{
    return count == DI_REPEAT_INF ? count : count > less ? count - less : 0;
}

static uint64_t expr_size(const di_expr *expr)
{
    uint64_t size = 1;
    if (expr->kind == DI_EXPR_SEQ || expr->kind == DI_EXPR_ALT)
        for (uint32_t i = 0; i < expr->list.n; i++)
            size += expr_size(expr->list.items[i]);
    if (expr->kind == DI_EXPR_REPEAT)
        size += expr_size(expr->repeat.body);
    return size;
}

static di_status nonempty(di_arena *arena, const di_expr *expr, di_regex_text *out);

/* Halves, so that no suffix is written out more than log n times. */
static di_status nonempty_seq(di_arena *arena, const di_expr *const *items, size_t n,
                              di_regex_text *out)
{
    if (n == 1)
        return nonempty(arena, items[0], out);
    const size_t half = n / 2;
    const di_expr *left, *right;
    di_regex_text some_left, some_right, both;
    DI_TRY(di_expr_seq(arena, items, half, &left));
    DI_TRY(di_expr_seq(arena, items + half, n - half, &right));
    if (!expr_nullable(left) || !expr_nullable(right))
        return SEQ_OF(arena, out, {left, expr_size(left)}, {right, expr_size(right)});
    DI_TRY(nonempty_seq(arena, items, half, &some_left));
    DI_TRY(nonempty_seq(arena, items + half, n - half, &some_right));
    DI_TRY(SEQ_OF(arena, &both, some_left, {right, expr_size(right)}));
    return ALT_OF(arena, out, both, some_right);
}

/* The texts of an expression but the empty one. */
static di_status nonempty(di_arena *arena, const di_expr *expr, di_regex_text *out)
{
    *out = (di_regex_text){.expr = expr, .size = expr_size(expr)};
    if (!expr_nullable(expr))
        return DI_OK;
    di_regex_text body, *texts;
    switch (expr->kind) {
    case DI_EXPR_SEQ:
        return nonempty_seq(arena, expr->list.items, expr->list.n, out);
    case DI_EXPR_ALT:
        DI_TRY(DI_ARENA_NEW(arena, expr->list.n, &texts));
        for (uint32_t i = 0; i < expr->list.n; i++)
            DI_TRY(nonempty(arena, expr->list.items[i], &texts[i]));
        return text_list(arena, true, texts, expr->list.n, out);
    case DI_EXPR_REPEAT:
        DI_TRY(nonempty(arena, expr->repeat.body, &body));
        return text_repeat(arena, body, 1, expr->repeat.max, out);
    default:
        *out = text_nothing();
        return DI_OK;
    }
}

/* A position inside the text, seen from the left and from the right piece. */
static place left_of_inside(place at)
{
    return (place){.at_start = at.at_start, .at_end = false};
}

static place right_of_inside(place at)
{
    return (place){.at_start = false, .at_end = at.at_end};
}

static const place inside = {.at_start = false, .at_end = false};

static di_status pair_some(di_arena *arena, const di_regex_node *node, place at, di_regex_text *out)
{
    const di_regex_item a = node->pair[0], b = node->pair[1];
    di_regex_text left, right, both;
    di_regex_text only_b = text_nothing(), only_a = text_nothing();
    DI_TRY(some_of(arena, a, left_of_inside(at), &left));
    DI_TRY(some_of(arena, b, right_of_inside(at), &right));
    DI_TRY(SEQ_OF(arena, &both, left, right));
    if (empty_of(a, left_of_inside(at)))
        DI_TRY(some_of(arena, b, at, &only_b));
    if (empty_of(b, right_of_inside(at)))
        DI_TRY(some_of(arena, a, at, &only_a));
    return ALT_OF(arena, out, both, only_b, only_a);
}

static di_status some_and_empty(di_arena *arena, di_regex_node *node, place at, di_regex_text *out)
{
    di_regex_text some;
    DI_TRY(some_of(arena, (di_regex_item){.node = node}, at, &some));
    if (!node->empty[number(at)]) {
        *out = some;
        return DI_OK;
    }
    return ALT_OF(arena, out, text_empty(), some);
}

static di_status pair_whole(di_arena *arena, di_regex_node *node, place at, di_regex_text *out)
{
    const di_regex_item a = node->pair[0], b = node->pair[1];
    di_regex_text left, right;
    if (is_assertion(a) && empty_of(a, at) == empty_of(a, left_of_inside(at))) {
        *out = text_nothing();
        return empty_of(a, at) ? whole_of(arena, b, at, out) : DI_OK;
    }
    if (is_assertion(b) && empty_of(b, at) == empty_of(b, right_of_inside(at))) {
        *out = text_nothing();
        return empty_of(b, at) ? whole_of(arena, a, at, out) : DI_OK;
    }
    if (uses_end(a) || uses_start(b))
        return some_and_empty(arena, node, at, out);
    DI_TRY(whole_of(arena, a, at, &left));
    DI_TRY(whole_of(arena, b, at, &right));
    return SEQ_OF(arena, out, left, right);
}

/* Rounds that match the empty text matter only if too few others are there to reach the minimum:
 * they fit before the first or behind the last. */
static di_status repeat_some(di_arena *arena, const di_regex_node *node, place at,
                             di_regex_text *out)
{
    const di_regex_item body = node->repeat.body;
    const bool has_empty =
        empty_of(body, left_of_inside(at)) || empty_of(body, right_of_inside(at));
    const uint32_t max = node->repeat.max;
    const uint32_t min = has_empty || node->repeat.min == 0 ? 1 : node->repeat.min;
    di_regex_text one = text_nothing(), more = text_nothing(), first, middle, last;
    if (max == 0) {
        *out = one;
        return DI_OK;
    }
    DI_TRY(some_of(arena, body, left_of_inside(at), &first));
    DI_TRY(some_of(arena, body, inside, &middle));
    DI_TRY(some_of(arena, body, right_of_inside(at), &last));
    if (!node->uses_start || !node->uses_end) {
        DI_TRY(text_repeat(arena, middle, minus(min, 1), minus(max, 1), &more));
        return node->uses_start ? SEQ_OF(arena, out, first, more) : SEQ_OF(arena, out, more, last);
    }
    if (min == 1)
        DI_TRY(some_of(arena, body, at, &one));
    if (max >= 2) {
        DI_TRY(text_repeat(arena, middle, minus(min, 2), minus(max, 2), &more));
        DI_TRY(SEQ_OF(arena, &more, first, more, last));
    }
    return ALT_OF(arena, out, one, more);
}

static di_status alt_of(di_arena *arena, const di_regex_node *node, place at, bool with_empty,
                        di_regex_text *out)
{
    di_regex_text *texts;
    DI_TRY(DI_ARENA_NEW(arena, node->alt.n, &texts));
    for (size_t i = 0; i < node->alt.n; i++)
        DI_TRY(with_empty ? whole_of(arena, node->alt.items[i], at, &texts[i])
                          : some_of(arena, node->alt.items[i], at, &texts[i]));
    return text_list(arena, true, texts, node->alt.n, out);
}

/* A node that does not ask where its end is has one answer for both. */
static place seen_by(const di_regex_node *node, place at)
{
    return (place){.at_start = node->uses_start && at.at_start,
                   .at_end = node->uses_end && at.at_end};
}

static di_status some_of(di_arena *arena, di_regex_item item, place at, di_regex_text *out)
{
    if (!item.node) {
        *out = item.plain;
        return item.is_nullable ? nonempty(arena, item.plain.expr, out) : DI_OK;
    }
    at = seen_by(item.node, at);
    di_regex_text *memo = &item.node->some[number(at)];
    if (!memo->expr) {
        di_regex_text text = text_nothing();
        if (item.node->kind == KIND_PAIR)
            DI_TRY(pair_some(arena, item.node, at, &text));
        else if (item.node->kind == KIND_ALT)
            DI_TRY(alt_of(arena, item.node, at, false, &text));
        else if (item.node->kind == KIND_REPEAT)
            DI_TRY(repeat_some(arena, item.node, at, &text));
        *memo = text;
    }
    *out = *memo;
    return DI_OK;
}

static di_status whole_of(di_arena *arena, di_regex_item item, place at, di_regex_text *out)
{
    if (!item.node) {
        *out = item.plain;
        return DI_OK;
    }
    at = seen_by(item.node, at);
    di_regex_text *memo = &item.node->whole[number(at)];
    if (!memo->expr) {
        di_regex_text text;
        if (item.node->kind == KIND_PAIR)
            DI_TRY(pair_whole(arena, item.node, at, &text));
        else if (item.node->kind == KIND_ALT)
            DI_TRY(alt_of(arena, item.node, at, true, &text));
        else
            DI_TRY(some_and_empty(arena, item.node, at, &text));
        *memo = text;
    }
    *out = *memo;
    return DI_OK;
}

di_regex_item di_regex_item_plain(const di_expr *expr)
{
    return (di_regex_item){.plain = {.expr = expr, .size = 1},
                           .is_nullable = expr->kind == DI_EXPR_EMPTY};
}

static di_status new_node(di_arena *arena, di_regex_kind kind, di_regex_item *out)
{
    *out = (di_regex_item){.node = NULL};
    DI_TRY(DI_ARENA_ZNEW(arena, 1, &out->node));
    out->node->kind = kind;
    return DI_OK;
}

di_status di_regex_item_anchor(di_arena *arena, bool is_end, di_regex_item *out)
{
    DI_TRY(new_node(arena, is_end ? KIND_END : KIND_START, out));
    out->node->uses_start = !is_end;
    out->node->uses_end = is_end;
    for (int i = 0; i < N_PLACES; i++)
        out->node->empty[i] = is_end ? place_of(i).at_end : place_of(i).at_start;
    return DI_OK;
}

static di_status plain_list(di_arena *arena, bool is_alt, const di_regex_item *items, size_t n,
                            di_regex_item *out)
{
    di_regex_text *texts;
    bool is_nullable = !is_alt;
    DI_TRY(DI_ARENA_NEW(arena, n, &texts));
    for (size_t i = 0; i < n; i++) {
        texts[i] = items[i].plain;
        is_nullable =
            is_alt ? is_nullable || items[i].is_nullable : is_nullable && items[i].is_nullable;
    }
    *out = (di_regex_item){.is_nullable = is_nullable};
    return text_list(arena, is_alt, texts, n, &out->plain);
}

/* Items of which the plain neighbours are one already: a balanced tree of pairs. */
static di_status pairs(di_arena *arena, const di_regex_item *items, size_t n, di_regex_item *out)
{
    if (n == 1) {
        *out = items[0];
        return DI_OK;
    }
    di_regex_item a, b;
    DI_TRY(pairs(arena, items, n / 2, &a));
    DI_TRY(pairs(arena, items + n / 2, n - n / 2, &b));
    DI_TRY(new_node(arena, KIND_PAIR, out));
    di_regex_node *node = out->node;
    node->pair[0] = a;
    node->pair[1] = b;
    node->uses_start = uses_start(a) || uses_start(b);
    node->uses_end = uses_end(a) || uses_end(b);
    for (int i = 0; i < N_PLACES; i++)
        node->empty[i] = empty_of(a, place_of(i)) && empty_of(b, place_of(i));
    return DI_OK;
}

di_status di_regex_item_seq(di_arena *arena, const di_regex_item *items, size_t n,
                            di_regex_item *out)
{
    di_regex_item *joined;
    size_t n_joined = 0;
    DI_TRY(DI_ARENA_NEW(arena, n + 1, &joined));
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && !items[end].node; end++)
            ;
        if (end > i) {
            DI_TRY(plain_list(arena, false, items + i, end - i, &joined[n_joined++]));
        } else {
            joined[n_joined++] = items[i];
            end = i + 1;
        }
    }
    if (n_joined == 0)
        joined[n_joined++] = di_regex_item_plain(di_expr_empty());
    return pairs(arena, joined, n_joined, out);
}

di_status di_regex_item_alt(di_arena *arena, const di_regex_item *items, size_t n,
                            di_regex_item *out)
{
    if (n == 1) {
        *out = items[0];
        return DI_OK;
    }
    size_t n_plain = 0;
    for (size_t i = 0; i < n; i++)
        n_plain += items[i].node == NULL;
    if (n_plain == n)
        return plain_list(arena, true, items, n, out);
    DI_TRY(new_node(arena, KIND_ALT, out));
    di_regex_node *node = out->node;
    di_regex_item *copy;
    DI_TRY(DI_ARENA_NEW(arena, n, &copy));
    for (size_t i = 0; i < n; i++) {
        copy[i] = items[i];
        node->uses_start |= uses_start(items[i]);
        node->uses_end |= uses_end(items[i]);
        for (int j = 0; j < N_PLACES; j++)
            node->empty[j] |= empty_of(items[i], place_of(j));
    }
    node->alt.items = copy;
    node->alt.n = n;
    return DI_OK;
}

di_status di_regex_item_repeat(di_arena *arena, di_regex_item body, uint32_t min, uint32_t max,
                               di_regex_item *out)
{
    if (!body.node) {
        *out = (di_regex_item){.is_nullable = min == 0 || body.is_nullable};
        return text_repeat(arena, body.plain, min, max, &out->plain);
    }
    DI_TRY(new_node(arena, KIND_REPEAT, out));
    di_regex_node *node = out->node;
    node->repeat.body = body;
    node->repeat.min = min;
    node->repeat.max = max;
    node->uses_start = uses_start(body);
    node->uses_end = uses_end(body);
    for (int i = 0; i < N_PLACES; i++)
        node->empty[i] = min == 0 || empty_of(body, place_of(i));
    return DI_OK;
}

/* Texts of which a part is matched by the item. */
static di_status search(di_arena *arena, di_regex_item item, di_regex_text *out)
{
    di_regex_text any = {.size = 1}, maybe, some, found[N_PLACES];
    DI_TRY(di_expr_chars(arena, di_charset_all(), &any.expr));
    DI_TRY(text_repeat(arena, any, 0, DI_REPEAT_INF, &maybe));
    DI_TRY(text_repeat(arena, any, 1, DI_REPEAT_INF, &some));
    size_t n = 0;
    for (int i = 0; i < N_PLACES; i++) {
        const place at = place_of(i);
        if ((at.at_start && !uses_start(item)) || (at.at_end && !uses_end(item)))
            continue;
        di_regex_text text;
        DI_TRY(whole_of(arena, item, at, &text));
        if (is_nothing(text))
            continue;
        const di_regex_text before = at.at_start ? text_empty() : uses_start(item) ? some : maybe;
        const di_regex_text behind = at.at_end ? text_empty() : uses_end(item) ? some : maybe;
        DI_TRY(SEQ_OF(arena, &found[n++], before, text, behind));
    }
    return text_list(arena, true, found, n, out);
}

/* Alternatives without anchors are searched for together, each of the others alone. */
static di_status search_alt(di_arena *arena, const di_regex_node *node, di_regex_text *out)
{
    di_regex_text *texts;
    di_regex_item *plain, item;
    size_t n = 0, n_plain = 0;
    DI_TRY(DI_ARENA_NEW(arena, node->alt.n + 1, &texts));
    DI_TRY(DI_ARENA_NEW(arena, node->alt.n, &plain));
    for (size_t i = 0; i < node->alt.n; i++) {
        if (node->alt.items[i].node)
            DI_TRY(search(arena, node->alt.items[i], &texts[n++]));
        else
            plain[n_plain++] = node->alt.items[i];
    }
    if (n_plain > 0) {
        DI_TRY(di_regex_item_alt(arena, plain, n_plain, &item));
        DI_TRY(search(arena, item, &texts[n++]));
    }
    return text_list(arena, true, texts, n, out);
}

di_status di_regex_item_language(di_arena *arena, di_regex_item item, di_regex_mode mode,
                                 const di_expr **out)
{
    di_regex_text text;
    if (mode == DI_REGEX_FULL)
        DI_TRY(whole_of(arena, item, (place){.at_start = true, .at_end = true}, &text));
    else if (item.node && item.node->kind == KIND_ALT)
        DI_TRY(search_alt(arena, item.node, &text));
    else
        DI_TRY(search(arena, item, &text));
    *out = text.expr;
    return DI_OK;
}
