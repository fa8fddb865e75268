/* TagDispatch: free text in which no tag comes up; after a tag its rule. */
#include "grammar/dfa.h"
#include "grammar/ebnf_parts.h"

/* Code points of all tags and excluded strings together; of them and of the overlapping tags, each
 * of which has an automaton over all of them. */
enum { MAX_CODES = 10000, MAX_OVERLAP = 20000 };

typedef struct dispatch {
    di_ebnf_parser *p;
    const di_ebnf_tag *tags;
    size_t n_tags;
    const di_ebnf_string *excludes;
    size_t n_excludes;
    uint32_t max_states;
    size_t n_codes;
    const di_dfa *early;  /* text in which a word ends before the end; NULL: not asked for yet */
    const di_expr *words; /* any tag or excluded string */
    const di_expr *any, *free_text; /* any text; text without `words` */
} dispatch;

/* The strings that free text must not contain: first the tags. */
static di_ebnf_string word(const dispatch *d, size_t i)
{
    return i < d->n_tags ? d->tags[i].tag : d->excludes[i - d->n_tags];
}

static bool is_prefix(di_ebnf_string a, di_ebnf_string of)
{
    for (size_t i = 0; i < a.n; i++)
        if (i >= of.n || a.code[i] != of.code[i])
            return false;
    return true;
}

/* Whether the last n code points before a_end and b_end are equal. */
static bool ends_alike(const uint32_t *a_end, const uint32_t *b_end, size_t n)
{
    for (size_t i = 1; i <= n; i++)
        if (a_end[-(ptrdiff_t)i] != b_end[-(ptrdiff_t)i])
            return false;
    return true;
}

/* Whether some free text before the tag could make a word end inside the tag, before its end. */
static bool can_end_inside(const dispatch *d, di_ebnf_string tag)
{
    for (size_t end = 1; end < tag.n; end++)
        for (size_t i = 0; i < d->n_tags + d->n_excludes; i++) {
            const di_ebnf_string w = word(d, i);
            if (ends_alike(tag.code + end, w.code + w.n, end < w.n ? end : w.n))
                return true;
        }
    return false;
}

static di_status check_words(dispatch *d)
{
    for (size_t i = 0; i < d->n_tags + d->n_excludes; i++)
        d->n_codes += word(d, i).n;
    if (d->n_codes > MAX_CODES)
        return di_ebnf_fail(d->p, DI_ERR_UNSUPPORTED, word(d, 0).at,
                            "found tags of %zu characters together, wanted %d at most", d->n_codes,
                            (int)MAX_CODES);
    for (size_t i = 0; i < d->n_excludes; i++)
        for (size_t j = 0; j < d->n_tags; j++)
            if (is_prefix(d->excludes[i], d->tags[j].tag))
                return di_ebnf_fail(d->p, DI_ERR_INPUT, d->excludes[i].at,
                                    "found an excluded string that a tag begins with");
    return DI_OK;
}

static di_status make_words(dispatch *d)
{
    di_arena *arena = d->p->arena;
    const size_t n = d->n_tags + d->n_excludes;
    const di_expr **items;
    DI_TRY(DI_ARENA_NEW(arena, n, &items));
    for (size_t i = 0; i < n; i++)
        DI_TRY(di_ebnf_codes(d->p, word(d, i), &items[i]));
    DI_TRY(di_expr_alt(arena, items, n, &d->words));
    DI_TRY(di_expr_chars(arena, di_charset_all(), &d->any));
    return di_expr_repeat(arena, d->any, 0, DI_REPEAT_INF, &d->any);
}

static di_status make_free_text(dispatch *d)
{
    di_arena *arena = d->p->arena;
    const di_expr *expr;
    di_expr_dfa free_text = {.max_len = DI_REPEAT_INF};
    DI_TRY(DI_EXPR_SEQ_OF(arena, &expr, d->any, d->words, d->any));
    DI_TRY(di_dfa_from_expr(arena, expr, d->max_states, &free_text.dfa));
    DI_TRY(di_dfa_complement(arena, free_text.dfa, d->max_states, &free_text.dfa));
    return di_expr_from_dfa(arena, free_text, &d->free_text);
}

/* Texts that end with the tag and in which no word ends before: for tags that overlap with words,
 * where free text and then the tag would be too much. */
static di_status text_to_tag(dispatch *d, di_ebnf_string tag, const di_expr **out)
{
    di_arena *arena = d->p->arena;
    const di_expr *ends, *too_early, *one;
    di_expr_dfa text = {.max_len = DI_REPEAT_INF};
    if (!d->early) {
        DI_TRY(di_expr_chars(arena, di_charset_all(), &one));
        DI_TRY(DI_EXPR_SEQ_OF(arena, &too_early, d->any, d->words, one, d->any));
        DI_TRY(di_dfa_from_expr(arena, too_early, d->max_states, &d->early));
    }
    DI_TRY(di_ebnf_codes(d->p, tag, &ends));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &ends, d->any, ends));
    DI_TRY(di_dfa_from_expr(arena, ends, d->max_states, &text.dfa));
    DI_TRY(di_dfa_minus(arena, text.dfa, d->early, d->max_states, &text.dfa));
    return di_expr_from_dfa(arena, text, out);
}

/* A tag that occurs again: the same text, for another rule. */
static const di_expr *known_text(const dispatch *d, const di_expr *const *texts, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (d->tags[j].tag.n == d->tags[i].tag.n && is_prefix(d->tags[j].tag, d->tags[i].tag))
            return texts[j];
    return NULL;
}

/* The dispatches behind free text (tag and rule), and those that bring their own. */
static di_status make_dispatches(dispatch *d, const di_expr **behind, const di_expr **whole)
{
    di_arena *arena = d->p->arena;
    const di_expr **simple, **others, **texts, *both;
    size_t n_simple = 0, n_others = 0, n_overlap = 0;
    DI_TRY(DI_ARENA_NEW(arena, d->n_tags, &simple));
    DI_TRY(DI_ARENA_NEW(arena, d->n_tags, &others));
    DI_TRY(DI_ARENA_NEW(arena, d->n_tags, &texts));
    for (size_t i = 0; i < d->n_tags; i++) {
        const di_ebnf_tag *tag = &d->tags[i];
        const bool is_simple = !can_end_inside(d, tag->tag);
        texts[i] = known_text(d, texts, i);
        if (!texts[i] && !is_simple && (n_overlap += d->n_codes) > MAX_OVERLAP)
            return di_ebnf_fail(d->p, DI_ERR_UNSUPPORTED, tag->tag.at,
                                "found too many tags that overlap with others (about %d "
                                "characters in all)",
                                (int)MAX_OVERLAP);
        if (!texts[i])
            DI_TRY(is_simple ? di_ebnf_codes(d->p, tag->tag, &texts[i])
                             : text_to_tag(d, tag->tag, &texts[i]));
        DI_TRY(DI_EXPR_SEQ_OF(arena, &both, texts[i], tag->rule));
        *(is_simple ? &simple[n_simple++] : &others[n_others++]) = both;
    }
    DI_TRY(di_expr_alt(arena, simple, n_simple, behind));
    return di_expr_alt(arena, others, n_others, whole);
}

static di_status expand(dispatch *d, bool is_loop, const di_expr **out)
{
    di_arena *arena = d->p->arena;
    const uint32_t max = is_loop ? DI_REPEAT_INF : 1;
    const di_expr *behind, *whole, *round;
    DI_TRY(check_words(d));
    DI_TRY(make_words(d));
    DI_TRY(make_free_text(d));
    DI_TRY(make_dispatches(d, &behind, &whole));
    if (whole->kind == DI_EXPR_NOTHING) { /* one free text at a time: fewer ways to read a text */
        round = behind;
        if (is_loop)
            DI_TRY(DI_EXPR_SEQ_OF(arena, &round, behind, d->free_text));
        DI_TRY(di_expr_repeat(arena, round, 0, max, &round));
        return DI_EXPR_SEQ_OF(arena, out, d->free_text, round);
    }
    DI_TRY(DI_EXPR_SEQ_OF(arena, &behind, d->free_text, behind));
    DI_TRY(DI_EXPR_ALT_OF(arena, &round, behind, whole));
    if (!is_loop)
        return DI_EXPR_ALT_OF(arena, out, d->free_text, round);
    DI_TRY(di_expr_repeat(arena, round, 0, max, &round));
    return DI_EXPR_SEQ_OF(arena, out, round, d->free_text);
}

di_status di_ebnf_dispatch(di_ebnf_parser *p, const di_ebnf_tag *tags, size_t n_tags,
                           const di_ebnf_string *excludes, size_t n_excludes, bool is_loop,
                           const di_expr **out)
{
    dispatch d = {
        .p = p,
        .tags = tags,
        .n_tags = n_tags,
        .excludes = excludes,
        .n_excludes = n_excludes,
        .max_states = di_grammar_builder_limits(p->builder).max_states,
    };
    return expand(&d, is_loop, out);
}
