/* What asks for structured output: OpenAI's response_format, DeepInfer's so_args, and the names
 * that vLLM gives the same. */
#include <string.h>

#include "api/reader.h"

/* The reader's constraint, begun; only one field may ask for one. */
static di_status begin(di_api_reader *r, const char *name, di_so_args **out)
{
    if (r->prompt.so_args != NULL)
        return di_fail(DI_ERR_ARGUMENT,
                       "%s: found it beside another field that asks for structured output, "
                       "wanted one of them",
                       name);
    DI_TRY(DI_ARENA_NEW(r->arena, 1, out));
    **out = (di_so_args)DI_SO_ARGS_INIT;
    r->prompt.so_args = *out;
    return DI_OK;
}

static di_status keep(di_api_reader *r, const di_buf *text, di_schema_type type, di_so_args *so)
{
    char *copy;
    DI_TRY(DI_ARENA_NEW(r->arena, text->len + 1, &copy));
    memcpy(copy, di_buf_str(text), text->len + 1);
    so->schema_type = type;
    so->schema = copy;
    so->schema_bytes = text->len;
    return DI_OK;
}

/* A schema's own text; numbers keep their digits. */
static di_status set_json(di_api_reader *r, const char *name, const di_jval *value,
                          di_schema_type type, di_so_args *so)
{
    const bool is_calls = type == DI_SCHEMA_TOOL_CALLS;
    const bool is_other =
        is_calls ? value->kind == DI_JARRAY : value->kind == DI_JTRUE || value->kind == DI_JFALSE;
    if (value->kind != DI_JOBJECT && !is_other)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted %s", name,
                       di_jval_describe(value).text,
                       is_calls ? "an array of tools or an object with one"
                                : "a JSON schema: an object or a bool");
    DI_BUF_AUTO text = {0};
    DI_TRY(di_jval_write(value, &text));
    return keep(r, &text, type, so);
}

static di_status set_text(di_api_reader *r, const char *name, const di_jval *value,
                          di_schema_type type, di_so_args *so)
{
    DI_TRY(di_api_read_text(r->arena, name, value, &so->schema));
    if (so->schema[0] == '\0')
        return di_fail(DI_ERR_ARGUMENT, "%s: found an empty text, wanted a text", name);
    so->schema_type = type;
    return DI_OK;
}

/* A schema as JSON or as a text that holds JSON. */
static di_status set_schema(di_api_reader *r, const char *name, const di_jval *value,
                            di_schema_type type, di_so_args *so)
{
    if ((type == DI_SCHEMA_JSON || type == DI_SCHEMA_TOOL_CALLS) && value->kind != DI_JSTRING)
        return set_json(r, name, value, type, so);
    return set_text(r, name, value, type, so);
}

static di_status need(const char *name, const char *member, const di_jval *value)
{
    if (value != NULL)
        return DI_OK;
    return di_fail(DI_ERR_ARGUMENT, "%s: found no \"%s\", wanted it", name, member);
}

static di_status read_json_schema(di_api_reader *r, const char *name, const di_jval *value,
                                  di_so_args *so)
{
    const di_jval *body = di_jval_get_set(value, "json_schema");
    const di_jval *schema = di_jval_get_set(body, "schema");
    const di_jval *strict = di_jval_get_set(body, "strict");
    DI_TRY(need(name, "json_schema", body));
    DI_TRY(need(name, "json_schema.schema", schema));
    if (strict != NULL)
        DI_TRY(di_api_read_bool(name, strict, &so->is_strict));
    return set_json(r, name, schema, DI_SCHEMA_JSON, so);
}

di_status di_api_read_response_format(di_api_reader *r, const char *name, const di_jval *value)
{
    const di_jval *type = di_jval_get_set(value, "type");
    di_so_args *so;
    if (di_jval_is_string(type, "text"))
        return DI_OK;
    if (di_jval_is_string(type, "json_object")) {
        DI_TRY(begin(r, name, &so));
        so->schema_type = DI_SCHEMA_JSON;
        so->schema = "{\"type\": \"object\"}";
        return DI_OK;
    }
    if (di_jval_is_string(type, "json_schema")) {
        DI_TRY(begin(r, name, &so));
        return read_json_schema(r, name, value, so);
    }
    return di_fail(DI_ERR_ARGUMENT,
                   "%s: found %s, wanted {\"type\": \"text\", \"json_object\" or "
                   "\"json_schema\"}",
                   name, di_jval_describe(type != NULL ? type : value).text);
}

di_status di_api_read_guided(di_api_reader *r, const char *name, const di_jval *value)
{
    static const struct {
        const char *name;
        di_schema_type type;
    } names[] = {{"guided_json", DI_SCHEMA_JSON},
                 {"guided_regex", DI_SCHEMA_REGEX},
                 {"guided_grammar", DI_SCHEMA_EBNF}};
    size_t i = 0;
    while (strcmp(names[i].name, name) != 0)
        i++;
    di_so_args *so;
    DI_TRY(begin(r, name, &so));
    return set_schema(r, name, value, names[i].type, so);
}

/* --- so_args --- */

static bool is_key(const di_jval *member, const char *key)
{
    return member->key_len == strlen(key) && memcmp(member->key, key, member->key_len) == 0;
}

static di_status read_number(const char *name, const di_jval *value, int32_t high, int32_t *out)
{
    int64_t number;
    DI_TRY(di_api_read_integer(name, value, -1, high, &number));
    *out = (int32_t)number;
    return DI_OK;
}

/* A member of so_args that is an option; *known tells whether it is. */
static di_status read_option(di_api_reader *r, const char *name, const di_jval *m, di_so_args *so,
                             bool *known)
{
    const struct {
        const char *key;
        bool *flag;
        int32_t *number;
        const char **text;
    } options[] = {
        {.key = "strict", .flag = &so->is_strict},
        {.key = "any_order", .flag = &so->any_order},
        {.key = "lenient", .flag = &so->lenient},
        {.key = "fixed_layout", .flag = &so->is_fixed_layout},
        {.key = "starts_at_once", .flag = &so->starts_at_once},
        {.key = "max_whitespace", .number = &so->max_whitespace},
        {.key = "indent", .number = &so->indent},
        {.key = "root", .text = &so->root},
        {.key = "item_separator", .text = &so->item_separator},
        {.key = "key_separator", .text = &so->key_separator},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (!is_key(m, options[i].key))
            continue;
        *known = true;
        if (options[i].flag != NULL)
            return di_api_read_bool(name, m, options[i].flag);
        if (options[i].number != NULL)
            return read_number(name, m, 1000000, options[i].number);
        return di_api_read_text(r->arena, name, m, options[i].text);
    }
    *known = false;
    return DI_OK;
}

static di_status read_options(di_api_reader *r, const char *name, const di_jval *value,
                              di_so_args *so)
{
    for (const di_jval *m = value->first; m != NULL; m = m->next) {
        bool known;
        if (is_key(m, "schema_type") || is_key(m, "schema"))
            continue;
        DI_TRY(read_option(r, name, m, so, &known));
        if (!known)
            return di_fail(DI_ERR_ARGUMENT,
                           "%s: found \"%.*s\", wanted schema_type, schema, root, strict, "
                           "any_order, lenient, max_whitespace, fixed_layout, indent, "
                           "item_separator, key_separator or starts_at_once",
                           name, (int)(m->key_len < 40 ? m->key_len : 40), m->key);
    }
    so->is_fixed_layout = so->is_fixed_layout || so->indent >= 0;
    return DI_OK;
}

di_status di_api_read_so_args(di_api_reader *r, const char *name, const di_jval *value)
{
    di_so_args *so;
    const char *type_name;
    if (value->kind != DI_JOBJECT)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an object", name,
                       di_jval_describe(value).text);
    const di_jval *type = di_jval_get(value, "schema_type"), *schema = di_jval_get(value, "schema");
    DI_TRY(need(name, "schema_type", type));
    DI_TRY(need(name, "schema", schema));
    DI_TRY(di_api_read_text(r->arena, name, type, &type_name));
    const di_schema_type kind = di_schema_type_from_name(type_name);
    if (kind == DI_SCHEMA_NONE)
        return di_fail(DI_ERR_ARGUMENT,
                       "%s: found schema_type \"%.40s\", wanted regex, json_schema, ebnf or "
                       "tool_calls",
                       name, type_name);
    DI_TRY(begin(r, name, &so));
    DI_TRY(set_schema(r, name, schema, kind, so));
    return read_options(r, name, value, so);
}

/* --- calls that tool_choice asks for --- */

di_status di_api_set_tool_calls(di_api_reader *r)
{
    const char *const name = "tool_choice";
    di_so_args *so;
    if (r->tools == NULL)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s without tools, wanted tools to call", name,
                       di_jval_describe(r->tool_choice).text);
    DI_TRY(begin(r, name, &so));
    DI_BUF_AUTO text = {0};
    DI_TRY(di_buf_puts(&text, "{\"tools\": "));
    DI_TRY(di_jval_write(r->tools, &text));
    DI_TRY(di_buf_puts(&text, ", \"tool_choice\": "));
    DI_TRY(di_jval_write(r->tool_choice, &text));
    DI_TRY(di_buf_printf(&text, ", \"parallel_tool_calls\": %s}",
                         r->wants_one_call ? "false" : "true"));
    return keep(r, &text, DI_SCHEMA_TOOL_CALLS, so);
}
