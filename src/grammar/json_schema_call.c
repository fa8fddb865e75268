/* Calls of tools in the chat format (docs/chat.md): an object's members are parameters, in any
 * order. Strings stand as they are, all other values as JSON. A text that has the format's mark
 * can be no string here, since nothing could tell it from a tag, and JSON writes the mark's first
 * character as an escape: what stands between two tags never looks like one. */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "grammar/json_schema_impl.h"
#include "text/encoding_tools.h"

#define STRING_TRUE  "\" string=\"true\">"
#define STRING_FALSE "\" string=\"false\">"

bool di_js_is_marked(const char *text, size_t len)
{
    return memmem(text, len, DI_CHAT_DSML, strlen(DI_CHAT_DSML)) != NULL;
}

static di_status word(di_js *js, const char *text, const di_expr **out)
{
    return di_js_literal(js, text, strlen(text), out);
}

/* ---- tags */

static di_status tag(di_js *js, const char *before, const char *after, const di_expr **out)
{
    const di_expr *first, *mark, *last;
    DI_TRY(word(js, before, &first));
    DI_TRY(di_expr_token(js->arena, DI_CHAT_DSML, strlen(DI_CHAT_DSML), &mark));
    DI_TRY(word(js, after, &last));
    return DI_EXPR_SEQ_OF(js->arena, out, first, mark, last);
}

di_status di_js_closing_tag(di_js *js, bool is_begun, const di_expr **out)
{
    return tag(js, is_begun ? "" : "</", " parameter>", out);
}

/* From the beginning of a line to the parameter's name. */
static di_status opening_tag(di_js *js, const di_expr **out)
{
    return tag(js, "<", " parameter name=\"", out);
}

/* ---- texts */

/* Any text, then `end`, then any text again if it goes on. */
static di_status texts_with(di_js *js, const char *end, bool goes_on, const di_dfa **out)
{
    const di_expr *any, *expr;
    DI_TRY(di_expr_range(js->arena, 0, DI_CODE_LAST, &any));
    DI_TRY(di_expr_repeat(js->arena, any, 0, DI_REPEAT_INF, &any));
    DI_TRY(word(js, end, &expr));
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, &expr, any, expr, goes_on ? any : di_expr_empty()));
    return di_dfa_from_expr(js->arena, expr, js->limits.max_states, out);
}

di_status di_js_unmarked(di_js *js, bool to_tag, const di_dfa **out)
{
    const uint32_t most = js->limits.max_states;
    if (js->unmarked == NULL) {
        const di_dfa *dfa;
        DI_TRY(texts_with(js, DI_CHAT_DSML, true, &dfa));
        DI_TRY(di_dfa_complement(js->arena, dfa, most, &js->unmarked));
        DI_TRY(texts_with(js, "</", false, &dfa));
        DI_TRY(di_dfa_intersect(js->arena, js->unmarked, dfa, most, &js->unmarked_to_tag));
    }
    *out = to_tag ? js->unmarked_to_tag : js->unmarked;
    return DI_OK;
}

/* A string of a list, with its closing tag; NOTHING if it has the mark. */
static di_status listed_text(di_js *js, const di_sj_value *value, const di_expr **out)
{
    const di_expr *text, *close;
    *out = di_expr_nothing();
    if (di_js_is_marked(value->text, value->len))
        return DI_OK;
    DI_TRY(di_js_literal(js, value->text, value->len, &text));
    DI_TRY(di_js_closing_tag(js, false, &close));
    return DI_EXPR_SEQ_OF(js->arena, out, text, close);
}

/* ---- the value of a parameter: strings with their closing tag, and other values */

typedef struct parts {
    const di_expr **texts, **others;
    size_t n_texts, n_others;
} parts;

static di_status add_texts(di_js *js, const di_js_view *view, parts *p)
{
    const di_sj_value **values = NULL;
    const di_expr **items;
    bool is_finite;
    size_t n, n_items = 0;
    DI_TRY(di_js_shape_values(js, view, &is_finite, &values, &n));
    if (!is_finite)
        return di_js_emit_raw_string(js, view, &p->texts[p->n_texts++]);
    DI_TRY(DI_ARENA_NEW(&js->scratch, n, &items));
    for (size_t i = 0; i < n; i++)
        if (values[i]->type == DI_SJ_STRING)
            DI_TRY(listed_text(js, values[i], &items[n_items++]));
    return di_expr_alt(js->arena, items, n_items, &p->texts[p->n_texts++]);
}

static di_status add_shape(di_js *js, const di_js_lits *lits, di_js_shape shape, parts *p)
{
    const uint32_t types = shape.types;
    di_js_view view;
    if ((types & DI_JS_STRING) != 0) {
        shape.types = DI_JS_STRING;
        DI_TRY(di_js_view_of(js, lits->items, lits->n, &shape, &view));
        DI_TRY(add_texts(js, &view, p));
    }
    shape.types = types & ~(uint32_t)DI_JS_STRING;
    if (shape.types == 0)
        return DI_OK;
    DI_TRY(di_js_view_of(js, lits->items, lits->n, &shape, &view));
    return di_js_emit_shape(js, &view, &p->others[p->n_others++]);
}

static di_status add_shapes(di_js *js, const di_js_lits *lits, parts *p)
{
    di_js_shapes shapes;
    DI_TRY(di_js_expand(js, lits->items, lits->n, &shapes));
    *p = (parts){0};
    DI_TRY(DI_ARENA_NEW(&js->scratch, shapes.n, &p->texts));
    DI_TRY(DI_ARENA_NEW(&js->scratch, shapes.n, &p->others));
    for (size_t i = 0; i < shapes.n; i++)
        DI_TRY(add_shape(js, lits, shapes.items[i], p));
    return DI_OK;
}

static di_status emit_value(di_js *js, const di_js_lits *lits, const di_expr **texts,
                            const di_expr **others)
{
    const di_js_lits none = {0};
    di_js_lits simple;
    bool is_referred, is_false;
    uint32_t types;
    parts p;
    *texts = *others = di_expr_nothing();
    DI_TRY(di_js_simplify(js, lits->items, lits->n, &simple, &is_referred, &is_false));
    if (is_false)
        return DI_OK;
    DI_TRY(di_js_types_left(js, simple.items, simple.n, DI_JS_ANY, &types));
    if ((types & DI_JS_STRING) == 0)
        return di_js_emit(js, simple.items, simple.n, 0, others);
    di_status status = add_shapes(js, &simple, &p);
    if (status == DI_ERR_UNSUPPORTED && !js->is_named && simple.n > 0) {
        DI_TRY(di_js_refuse_failed(js, di_js_schema_of(js, simple.items[0]), status));
        status = add_shapes(js, &none, &p);
    }
    DI_TRY(status);
    DI_TRY(di_expr_alt(js->arena, p.texts, p.n_texts, texts));
    return di_expr_alt(js->arena, p.others, p.n_others, others);
}

/* ---- parameters: from the name to the closing tag */

static di_status parameter(di_js *js, const di_expr *name, const di_expr *text, const di_expr *json,
                           const di_expr **out)
{
    const di_expr *yes, *no, *close;
    DI_TRY(word(js, STRING_TRUE, &yes));
    DI_TRY(word(js, STRING_FALSE, &no));
    DI_TRY(di_js_closing_tag(js, false, &close));
    DI_TRY(di_js_share(js, "value", json, &json)); /* its own rule: JSON has escapes */
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, &yes, yes, text));
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, &no, no, json, close));
    DI_TRY(DI_EXPR_ALT_OF(js->arena, out, yes, no));
    return DI_EXPR_SEQ_OF(js->arena, out, name, *out);
}

static bool can_be_name(di_js_name name)
{
    return !di_js_is_marked(name.text, name.len) && memchr(name.text, 0, name.len) == NULL &&
           memmem(name.text, name.len, STRING_TRUE, strlen(STRING_TRUE)) == NULL &&
           memmem(name.text, name.len, STRING_FALSE, strlen(STRING_FALSE)) == NULL;
}

di_status di_js_parameter(di_js *js, di_js_name name, const di_sj_value *at, const di_js_lits *lits,
                          const di_expr **out)
{
    const di_expr *key, *texts, *others;
    *out = di_expr_nothing();
    if (!can_be_name(name))
        return di_js_refuse(js, at != NULL ? at : js->document.root,
                            "the name of a parameter would end the tag that it stands in");
    DI_TRY(emit_value(js, lits, &texts, &others));
    DI_TRY(di_js_literal(js, name.text, name.len, &key));
    return parameter(js, key, texts, others, out);
}

/* Names without quotes, NUL and the mark's first character. */
di_status di_js_free_parameter(di_js *js, const di_dfa *names, const di_js_lits *lits,
                               const di_expr **out)
{
    static const di_code_range plain[] = {
        {1, '"' - 1}, {'"' + 1, DI_JS_MARK - 1}, {DI_JS_MARK + 1, DI_CODE_LAST}};
    const di_expr *key, *texts, *others;
    const di_dfa *dfa;
    di_charset set;
    DI_TRY(di_charset_intersect(js->arena, (di_charset){.ranges = plain, .n = 3}, di_charset_all(),
                                &set));
    DI_TRY(di_expr_chars(js->arena, set, &key));
    DI_TRY(di_expr_repeat(js->arena, key, 0, DI_REPEAT_INF, &key));
    DI_TRY(di_dfa_from_expr(js->arena, key, js->limits.max_states, &dfa));
    DI_TRY(di_dfa_intersect(js->arena, names, dfa, js->limits.max_states, &dfa));
    DI_TRY(di_expr_from_dfa(js->arena, (di_expr_dfa){.dfa = dfa, .max_len = DI_REPEAT_INF}, &key));
    DI_TRY(emit_value(js, lits, &texts, &others));
    return parameter(js, key, texts, others, out);
}

di_status di_js_parameters(di_js *js, const di_expr_members *members, uint32_t n_free,
                           bool may_empty, const di_expr **out)
{
    di_expr_members all = *members;
    const di_expr *open, *line;
    *out = di_expr_nothing();
    if (n_free > 0 && all.n < all.min_n) {
        DI_TRY(di_js_refuse(js, js->document.root,
                            "a call has one parameter at most of each kind that it does not name"));
        all.min_n = all.n;
    }
    all.min_n = all.min_n > 0 ? all.min_n : 1;
    DI_TRY(opening_tag(js, &open));
    DI_TRY(word(js, "\n", &line));
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, &all.separator, line, open));
    if (all.max_n > 0 && all.n > 0 && all.n >= all.min_n)
        DI_TRY(di_expr_from_members(js->arena, &all, out));
    DI_TRY(DI_EXPR_SEQ_OF(js->arena, out, open, *out));
    return may_empty ? di_expr_repeat(js->arena, *out, 0, 1, out) : DI_OK;
}

/* ---- the whole call */

/* One object of a list: its members as parameters in their order. */
static di_status listed_object(di_js *js, const di_sj_value *object, const di_expr **out)
{
    const di_expr **items, *line;
    size_t n = 0;
    DI_TRY(DI_ARENA_NEW(&js->scratch, 3 * (size_t)object->n + 1, &items));
    DI_TRY(word(js, "\n", &line));
    for (uint32_t i = 0; i < object->n; i++) {
        const di_sj_value *value = &object->items[i];
        const di_expr *key, *text = di_expr_nothing(), *json = di_expr_nothing();
        DI_BUF_AUTO written = {0};
        if (!can_be_name((di_js_name){value->key, value->key_len}))
            return di_js_refuse(js, object, "the name of a parameter would end its tag");
        DI_TRY(di_sj_write(value, &written));
        if (value->type == DI_SJ_STRING)
            DI_TRY(listed_text(js, value, &text));
        else
            DI_TRY(di_js_literal(js, di_buf_str(&written), written.len, &json));
        if (i > 0)
            items[n++] = line;
        DI_TRY(opening_tag(js, &items[n++]));
        DI_TRY(di_js_literal(js, value->key, value->key_len, &key));
        DI_TRY(parameter(js, key, text, json, &items[n++]));
    }
    return di_expr_seq(js->arena, items, n, out);
}

static di_status call_shape(di_js *js, const di_js_lits *lits, const di_js_shape *shape,
                            const di_expr **out)
{
    const di_sj_value **values = NULL;
    const di_expr **items;
    di_js_view view;
    bool is_finite;
    size_t n, n_items = 0;
    DI_TRY(di_js_view_of(js, lits->items, lits->n, shape, &view));
    view.is_call = true;
    DI_TRY(di_js_shape_values(js, &view, &is_finite, &values, &n));
    if (!is_finite)
        return di_js_emit_object(js, &view, out);
    DI_TRY(DI_ARENA_NEW(&js->scratch, n, &items));
    for (size_t i = 0; i < n; i++) {
        items[n_items] = di_expr_nothing();
        DI_TRY(listed_object(js, values[i], &items[n_items++]));
    }
    return di_expr_alt(js->arena, items, n_items, out);
}

static di_status emit_shapes(di_js *js, const di_js_lits *lits, const di_expr **out)
{
    const di_expr **items;
    di_js_shapes shapes;
    DI_TRY(di_js_expand(js, lits->items, lits->n, &shapes));
    di_js_restrict(&shapes, DI_JS_OBJECT);
    DI_TRY(DI_ARENA_NEW(&js->scratch, shapes.n, &items));
    for (size_t i = 0; i < shapes.n; i++)
        DI_TRY(call_shape(js, lits, &shapes.items[i], &items[i]));
    return di_expr_alt(js->arena, items, shapes.n, out);
}

di_status di_js_emit_call(di_js *js, di_js_lit root, const di_expr **out)
{
    di_js_lits lits;
    bool is_referred, is_false;
    DI_TRY(di_js_simplify(js, &root, 1, &lits, &is_referred, &is_false));
    *out = di_expr_nothing();
    if (is_false)
        return DI_OK;
    const di_status status = emit_shapes(js, &lits, out);
    if (status != DI_ERR_UNSUPPORTED || js->is_named)
        return status;
    return di_fail_within(status, "JSON schema: #");
}
