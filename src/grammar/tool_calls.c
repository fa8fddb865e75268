#define _GNU_SOURCE /* memmem */
#include "grammar/tool_calls.h"

#include <stdio.h>
#include <string.h>

#include "text/encoding_tools.h"

enum { WHERE_BYTES = 96 };

typedef struct calls {
    di_grammar_builder *builder;
    di_arena *arena; /* of the builder */
    const di_json_schema_options *options;
    di_buf *not_enforced;
    const di_jval *tools;
    const di_jval *wanted; /* name of the only tool to call; NULL: any */
    bool has_many;         /* more than one call */
} calls;

/* ---- what is asked for */

static di_status read_choice(const di_jval *choice, calls *c)
{
    const di_jval *function = di_jval_get_set(choice, "function");
    if (choice == NULL || di_jval_is_string(choice, "required"))
        return DI_OK;
    if (choice->kind == DI_JOBJECT && di_jval_is_string(di_jval_get(choice, "type"), "function"))
        c->wanted = di_jval_get(function, "name");
    if (c->wanted != NULL && c->wanted->kind == DI_JSTRING)
        return DI_OK;
    return di_fail(DI_ERR_INPUT,
                   "tool_choice: found %s, wanted \"required\" or {\"type\": \"function\", "
                   "\"function\": {\"name\": ...}}",
                   di_jval_describe(choice).text);
}

static di_status read_request(const di_jval *root, calls *c)
{
    c->tools = root->kind == DI_JARRAY ? root : di_jval_get_set(root, "tools");
    c->has_many = true;
    if (c->tools == NULL || c->tools->kind != DI_JARRAY || c->tools->first == NULL)
        return di_fail(DI_ERR_INPUT, "tools: found %s, wanted an array with a tool to call",
                       c->tools != NULL && c->tools->kind == DI_JARRAY
                           ? "an empty array"
                           : di_jval_describe(c->tools).text);
    const di_jval *parallel = di_jval_get_set(root, "parallel_tool_calls");
    if (parallel != NULL && parallel->kind != DI_JTRUE && parallel->kind != DI_JFALSE)
        return di_fail(DI_ERR_INPUT, "parallel_tool_calls: found %s, wanted true or false",
                       di_jval_describe(parallel).text);
    c->has_many = parallel == NULL || parallel->kind == DI_JTRUE;
    return read_choice(di_jval_get_set(root, "tool_choice"), c);
}

/* The name in the choice is the tool's, with its namespace or as the tool has it. */
static bool is_wanted(const calls *c, const di_jval *function, const di_buf *name)
{
    const di_jval *own = di_jval_get(function, "name"), *wanted = c->wanted;
    if (wanted == NULL)
        return true;
    return (wanted->len == name->len && memcmp(wanted->text, di_buf_str(name), name->len) == 0) ||
           (wanted->len == own->len && memcmp(wanted->text, own->text, own->len) == 0);
}

static di_status check_name(const char *where, const di_buf *name)
{
    const char *text = di_buf_str(name);
    if (name->len > 0 && memchr(text, 0, name->len) == NULL &&
        memmem(text, name->len, DI_CHAT_DSML, strlen(DI_CHAT_DSML)) == NULL)
        return DI_OK;
    return di_fail(DI_ERR_INPUT,
                   "%s.function.name: found %s, wanted a name without NUL and without the mark "
                   "of tags",
                   where,
                   name->len == 0 ? "an empty name" : "one that no call can be written with");
}

/* ---- one tool */

/* Lines of keywords that are not enforced, each with its tool. */
static di_status add_lines(const char *where, const char *lines, di_buf *out)
{
    while (*lines != '\0') {
        const size_t n = strcspn(lines, "\n");
        DI_TRY(di_buf_printf(out, "%s.function.parameters: %.*s\n", where, (int)n, lines));
        lines += n + (lines[n] == '\n');
    }
    return DI_OK;
}

static di_status parse_parameters(const calls *c, const char *where, const di_jval *function,
                                  uint32_t *rule)
{
    const di_jval *parameters = di_jval_get_set(function, "parameters");
    const di_jval *strict = di_jval_get_set(function, "strict");
    di_json_schema_options options = *c->options;
    if (strict != NULL && strict->kind != DI_JTRUE && strict->kind != DI_JFALSE)
        return di_fail(DI_ERR_INPUT, "%s.function.strict: found %s, wanted true or false", where,
                       di_jval_describe(strict).text);
    options.is_call = true;
    options.strict = options.strict || (strict != NULL && strict->kind == DI_JTRUE);
    DI_BUF_AUTO schema = {0};
    DI_BUF_AUTO lines = {0};
    if (parameters == NULL)
        DI_TRY(di_buf_puts(&schema, "{}"));
    else
        DI_TRY(di_jval_write(parameters, &schema));
    const di_status status =
        di_json_schema_parse(c->builder, di_buf_str(&schema), schema.len, &options, &lines, rule);
    if (status != DI_OK)
        return di_fail_within(status, "%s.function.parameters", where);
    return add_lines(where, di_buf_str(&lines), c->not_enforced);
}

/* From the name to the last parameter: NAME"> and a newline, then the parameters. */
static di_status parse_tool(const calls *c, const char *where, const di_jval *function,
                            const di_buf *name, const di_expr **out)
{
    const di_expr *head, *end, *parameters;
    uint32_t rule;
    DI_TRY(parse_parameters(c, where, function, &rule));
    DI_TRY(di_expr_literal(c->arena, di_buf_str(name), name->len, &head));
    DI_TRY(di_expr_literal(c->arena, "\">\n", 3, &end));
    DI_TRY(di_expr_rule(c->arena, rule, &parameters));
    return DI_EXPR_SEQ_OF(c->arena, out, head, end, parameters);
}

static di_status read_tool(const di_jval *tool, const char *where, const di_jval **function,
                           di_buf *name)
{
    const di_jval *type = di_jval_get_set(tool, "type");
    if (type != NULL && !di_jval_is_string(type, "function"))
        return di_fail(DI_ERR_INPUT, "%s.type: found %s, wanted function", where,
                       di_jval_describe(type).text);
    DI_TRY(di_chat_tool_name(tool, where, function, name));
    return check_name(where, name);
}

static bool has_name(const di_buf *names, const di_buf *name)
{
    return memmem(di_buf_str(names), names->len, di_buf_str(name), name->len + 1) != NULL;
}

/* The tools to choose from. `names`: of all so far, between NULs. */
static di_status parse_tools(const calls *c, di_buf *names, const di_expr **out)
{
    size_t n = 0, i = 0;
    const di_expr **items;
    for (const di_jval *tool = c->tools->first; tool != NULL; tool = tool->next)
        n++;
    DI_TRY(DI_ARENA_NEW(c->arena, n, &items));
    n = 0;
    for (const di_jval *tool = c->tools->first; tool != NULL; tool = tool->next, i++) {
        char where[WHERE_BYTES];
        const di_jval *function;
        DI_BUF_AUTO name = {0};
        DI_BUF_AUTO key = {0};
        snprintf(where, sizeof where, "tools[%zu]", i);
        DI_TRY(read_tool(tool, where, &function, &name));
        DI_TRY(di_buf_printf(&key, "%c%s", 1, di_buf_str(&name)));
        if (has_name(names, &key))
            return di_fail(DI_ERR_INPUT, "%s.function.name: found \"%s\" twice, wanted it once",
                           where, di_buf_str(&name));
        DI_TRY(di_buf_append(names, di_buf_str(&key), key.len + 1));
        if (is_wanted(c, function, &name))
            DI_TRY(parse_tool(c, where, function, &name, &items[n++]));
    }
    if (n == 0)
        return di_fail(DI_ERR_INPUT, "tool_choice: found %s, wanted the name of one of the tools",
                       di_jval_describe(c->wanted).text);
    if (n > 1 && c->wanted != NULL)
        return di_fail(DI_ERR_INPUT,
                       "tool_choice: found %s, which %zu tools have, wanted it "
                       "behind its namespace and ::",
                       di_jval_describe(c->wanted).text, n);
    return di_expr_alt(c->arena, items, n, out);
}

/* ---- the block */

static di_status tag(const calls *c, const char *before, const char *after, const di_expr **out)
{
    const di_expr *first, *mark, *last;
    DI_TRY(di_expr_literal(c->arena, before, strlen(before), &first));
    DI_TRY(di_expr_token(c->arena, DI_CHAT_DSML, strlen(DI_CHAT_DSML), &mark));
    DI_TRY(di_expr_literal(c->arena, after, strlen(after), &last));
    return DI_EXPR_SEQ_OF(c->arena, out, first, mark, last);
}

/* As the encoder writes calls behind an empty answer. */
static di_status parse_block(const calls *c, const di_expr **out)
{
    const di_expr *begin, *invoke, *tools, *invoke_end, *call, *end;
    uint32_t rule;
    DI_BUF_AUTO names = {0};
    DI_TRY(parse_tools(c, &names, &tools));
    DI_TRY(tag(c, "\n\n<", " calls>", &begin));
    DI_TRY(tag(c, "\n<", " invoke name=\"", &invoke));
    DI_TRY(tag(c, "\n</", " invoke>", &invoke_end));
    DI_TRY(tag(c, "\n</", " calls>", &end));
    DI_TRY(DI_EXPR_SEQ_OF(c->arena, &call, invoke, tools, invoke_end));
    DI_TRY(di_grammar_rule(c->builder, "call", &rule));
    DI_TRY(di_grammar_define(c->builder, rule, call));
    DI_TRY(di_expr_rule(c->arena, rule, &call));
    DI_TRY(di_expr_repeat(c->arena, call, 1, c->has_many ? DI_REPEAT_INF : 1, &call));
    return DI_EXPR_SEQ_OF(c->arena, out, begin, call, end);
}

static di_status parse(calls *c, di_arena *scratch, const char *text, size_t len, uint32_t *root)
{
    const di_jval *request;
    const di_expr *block;
    const di_status status = di_jval_parse(scratch, text, len, DI_JSTRICT, &request);
    if (status != DI_OK)
        return di_fail_within(status, "tool calls");
    if (request->kind != DI_JOBJECT && request->kind != DI_JARRAY)
        return di_fail(DI_ERR_INPUT, "tool calls: found %s, wanted an object with tools",
                       di_jval_describe(request).text);
    DI_TRY(read_request(request, c));
    DI_TRY(parse_block(c, &block));
    DI_TRY(di_grammar_rule(c->builder, "tool calls", root));
    return di_grammar_define(c->builder, *root, block);
}

di_status di_tool_calls_parse(di_grammar_builder *builder, const char *text, size_t len,
                              const di_json_schema_options *options, di_buf *not_enforced,
                              uint32_t *root_rule)
{
    calls c = {.builder = builder,
               .arena = di_grammar_builder_arena(builder),
               .options = options,
               .not_enforced = not_enforced};
    di_arena scratch = {0};
    const di_status status = parse(&c, &scratch, text, len, root_rule);
    di_arena_free(&scratch);
    return status;
}
