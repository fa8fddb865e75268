#include "grammar/json_schema.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_impl.h"

di_status di_js_malformed(const di_sj_value *at, const char *wanted)
{
    DI_BUF_AUTO pointer = {0};
    DI_TRY(di_sj_pointer(at, &pointer));
    return di_fail(DI_ERR_INPUT, "JSON schema: %s: found %s, wanted %s", di_buf_str(&pointer),
                   di_sj_type_name(at), wanted);
}

/* The keyword on the way to `at`: its own key, or that of the list it stands in. */
static const char *keyword_at(const di_sj_value *at)
{
    while (at->key == NULL && at->parent != NULL)
        at = at->parent;
    return at->key != NULL ? at->key : "the schema";
}

static di_status note(di_js *js, const char *line)
{
    if (js->not_enforced == NULL || strstr(di_buf_str(js->not_enforced), line) != NULL)
        return DI_OK;
    return di_buf_puts(js->not_enforced, line);
}

di_status di_js_refuse(di_js *js, const di_sj_value *at, const char *why)
{
    DI_BUF_AUTO line = {0};
    DI_TRY(di_sj_pointer(at, &line));
    DI_TRY(di_buf_printf(&line, ": %s cannot be enforced: %s", keyword_at(at), why));
    js->is_named = !js->options->lenient;
    if (js->is_named)
        return di_fail(DI_ERR_UNSUPPORTED, "JSON schema: %s", di_buf_str(&line));
    DI_TRY(di_buf_puts(&line, "\n"));
    return note(js, di_buf_str(&line));
}

di_status di_js_refuse_failed(di_js *js, const di_sj_value *at, di_status status)
{
    DI_BUF_AUTO pointer = {0};
    if (status != DI_ERR_UNSUPPORTED && status != DI_ERR_INPUT)
        return status;
    DI_BUF_AUTO why = {0};
    DI_TRY(di_buf_puts(&why, di_last_error()));
    if (status == DI_ERR_UNSUPPORTED)
        return di_js_refuse(js, at, di_buf_str(&why));
    DI_TRY(di_sj_pointer(at, &pointer));
    return di_fail(status, "JSON schema: %s: %s", di_buf_str(&pointer), di_buf_str(&why));
}

di_status di_js_count(const di_sj_value *at, uint32_t *out)
{
    if (at->type != DI_SJ_NUMBER || !di_sj_number_is_integer(at->text) ||
        di_sj_number_compare(at->text, "0") < 0)
        return di_js_malformed(at, "an integer from 0");
    const double value = strtod(at->text, NULL);
    *out = value < (double)DI_REPEAT_INF ? (uint32_t)value : DI_REPEAT_INF - 1;
    return DI_OK;
}

bool di_js_is_exclusive(const di_sj_value *at, di_js_keyword keyword)
{
    if (keyword == DI_JS_KEY_EXCLUSIVE_MINIMUM || keyword == DI_JS_KEY_EXCLUSIVE_MAXIMUM)
        return true;
    const di_sj_value *flag = di_sj_get(
        at->parent, keyword == DI_JS_KEY_MINIMUM ? "exclusiveMinimum" : "exclusiveMaximum");
    return flag != NULL && flag->type == DI_SJ_TRUE;
}

di_status di_js_contains_counts(const di_js *js, const di_sj_value *at, uint32_t *min,
                                uint32_t *max)
{
    const di_sj_value *least = di_sj_get(at->parent, "minContains");
    const di_sj_value *most = di_sj_get(at->parent, "maxContains");
    *min = 1;
    *max = DI_REPEAT_INF;
    if (least != NULL && js->draft >= 2019)
        DI_TRY(di_js_count(least, min));
    if (most != NULL && js->draft >= 2019)
        DI_TRY(di_js_count(most, max));
    return DI_OK;
}

di_status di_js_check_work(const di_js *js)
{
    enum { MIB_MOST = 256 };
    if (js->scratch.used_bytes >> 20 >= MIB_MOST)
        return di_fail(DI_ERR_UNSUPPORTED, "it takes more than %d MiB to work out", MIB_MOST);
    return DI_OK;
}

di_js_lit di_js_negate(di_js_lit lit)
{
    if (lit == DI_JS_TRUE || lit == DI_JS_FALSE)
        return lit == DI_JS_TRUE ? DI_JS_FALSE : DI_JS_TRUE;
    return lit ^ 1;
}

const di_sj_value *di_js_schema_of(const di_js *js, di_js_lit lit)
{
    return js->document.values[lit / 2];
}

static di_status parse(di_js *js, const char *text, size_t len, uint32_t *root_rule)
{
    DI_TRY(di_sj_parse(&js->scratch, text, len, js->limits.max_depth, &js->document));
    DI_TRY(di_js_read_draft(js));
    DI_TRY(di_js_rules_create(js));
    const di_js_lit root = di_js_lit_of(js->document.root);
    const di_expr *expr;
    if (js->options->is_call)
        DI_TRY(di_js_emit_call(js, root, &expr));
    else
        DI_TRY(di_js_emit(js, &root, 1, 0, &expr));
    DI_TRY(di_js_emit_rest(js));
    return di_js_rules_define(js, expr, root_rule);
}

static di_status check_options(const di_json_schema_options *options)
{
    if (!options->fixed_layout && options->max_whitespace < DI_WHITESPACE_UNBOUNDED)
        return di_fail(DI_ERR_INPUT, "max_whitespace: found %d, wanted at least 0",
                       options->max_whitespace);
    if (options->fixed_layout && options->indent < -1)
        return di_fail(DI_ERR_INPUT, "indent: found %d, wanted at least 0, or -1 for one line",
                       options->indent);
    return DI_OK;
}

di_status di_json_schema_parse(di_grammar_builder *builder, const char *text, size_t len,
                               const di_json_schema_options *options, di_buf *not_enforced,
                               uint32_t *root_rule)
{
    DI_TRY(check_options(options));
    di_js js = {
        .builder = builder,
        .arena = di_grammar_builder_arena(builder),
        .options = options,
        .limits = di_grammar_builder_limits(builder),
        .not_enforced = not_enforced,
    };
    const di_status status = parse(&js, text, len, root_rule);
    di_js_rules_free(&js);
    free(js.emissions);
    free(js.pattern_items);
    di_strmap_free(&js.goals);
    di_strmap_free(&js.empty_goals);
    di_strmap_free(&js.patterns);
    di_strmap_free(&js.made);
    di_strmap_free(&js.known);
    free(js.known_items);
    di_arena_free(&js.scratch);
    return status;
}
