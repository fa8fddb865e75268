#define _GNU_SOURCE /* memmem */
#include "text/encoding_tools.h"

#include <stdio.h>
#include <string.h>

enum { WHERE_BYTES = 96 };

static const char tools_head[] =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by "
    "writing a \"<" DI_DSML_CALLS ">\" block like the following:\n\n"
    "<" DI_DSML_CALLS ">\n"
    "<" DI_DSML_INVOKE " name=\"$TOOL_NAME\">\n"
    "<" DI_DSML_PARAMETER " name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</" DI_DSML_PARAMETER ">\n"
    "...\n"
    "</" DI_DSML_INVOKE ">\n"
    "<" DI_DSML_INVOKE " name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</" DI_DSML_INVOKE ">\n"
    "</" DI_DSML_CALLS ">\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by " DI_CHAT_THINK "), you MUST output your complete "
    "reasoning inside " DI_CHAT_THINK "..." DI_CHAT_THINK_END " BEFORE any tool calls or final "
    "response.\n\n"
    "Otherwise, output directly after " DI_CHAT_THINK_END " with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";

static const char tools_tail[] =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
    "calls.\n";

/* --------------------------------------------------------------------------------- tool names */

static size_t find_separator(const char *s, size_t len)
{
    const char *found = memmem(s, len, "::", 2);
    return found ? (size_t)(found - s) : len;
}

di_status di_tool_name_split(const char *name, size_t len, const char *where, size_t *space_len,
                             size_t *name_begin)
{
    const size_t at = find_separator(name, len);
    const size_t begin = at < len ? at + 2 : 0;
    if (find_separator(name + begin, len - begin) < len - begin)
        return di_fail(DI_ERR_INPUT, "%s: found a tool name with two \"::\", wanted at most one",
                       where);
    *space_len = begin ? at : 0;
    *name_begin = begin;
    return DI_OK;
}

/* A tool name with its namespace, which is written in the name or beside it. */
typedef struct tool_name {
    const char *space;
    size_t space_len;
    bool has_space;
    const char *name;
    size_t len;
} tool_name;

static di_status read_tool_name(const di_jval *function, const di_jval *space, const char *where,
                                tool_name *out)
{
    const di_jval *name = di_jval_get(function, "name");
    if (!name || name->kind != DI_JSTRING)
        return di_fail(DI_ERR_INPUT, "%s.function.name: found %s, wanted a string", where,
                       di_jval_describe(name).text);
    if (space && space->kind != DI_JSTRING)
        return di_fail(DI_ERR_INPUT, "%s.namespace: found %s, wanted a name", where,
                       di_jval_describe(space).text);
    size_t space_len, begin;
    DI_TRY(di_tool_name_split(name->text, name->len, where, &space_len, &begin));
    *out = (tool_name){.space = name->text,
                       .space_len = space_len,
                       .has_space = begin > 0,
                       .name = name->text + begin,
                       .len = name->len - begin};
    if (!space)
        return DI_OK;
    if (find_separator(space->text, space->len) < space->len)
        return di_fail(DI_ERR_INPUT, "%s.namespace: found \"::\" in it", where);
    if (begin && (space->len != space_len || memcmp(space->text, name->text, space_len) != 0))
        return di_fail(DI_ERR_INPUT, "%s: found namespace %s beside the tool name %s", where,
                       di_jval_describe(space).text, di_jval_describe(name).text);
    out->space = space->text;
    out->space_len = space->len;
    out->has_space = true;
    return DI_OK;
}

static di_status write_tool_name(const tool_name *name, di_buf *out)
{
    if (name->has_space) {
        DI_TRY(di_buf_append(out, name->space, name->space_len));
        DI_TRY(di_buf_puts(out, "::"));
    }
    return di_buf_append(out, name->name, name->len);
}

/* ------------------------------------------------------------------------------- tool section */

static di_status write_name_member(const tool_name *name, di_buf *out)
{
    DI_BUF_AUTO full = {0};
    DI_TRY(write_tool_name(name, &full));
    return di_json_write_string(di_buf_str(&full), full.len, out);
}

/* The description behind that of the namespace. */
static di_status write_description_member(const di_jval *space_text, const di_jval *own,
                                          const char *where, di_buf *out)
{
    DI_BUF_AUTO full = {0};
    if (space_text->kind != DI_JSTRING || (di_jval_is_truthy(own) && own->kind != DI_JSTRING))
        return di_fail(DI_ERR_INPUT, "%s: found a description that is no string", where);
    DI_TRY(di_buf_append(&full, space_text->text, space_text->len));
    DI_TRY(di_buf_puts(&full, "\n"));
    if (di_jval_is_truthy(own))
        DI_TRY(di_buf_append(&full, own->text, own->len));
    return di_json_write_string(di_buf_str(&full), full.len, out);
}

/* The function object as JSON, its name and description completed by its namespace's. */
static di_status write_schema(const di_jval *function, const tool_name *name,
                              const di_jval *space_text, const char *where, di_buf *out)
{
    const char *separator = "{";
    for (const di_jval *m = function->first; m; m = m->next) {
        const bool is_description = m->key_len == 11 && memcmp(m->key, "description", 11) == 0;
        if (m->key_len == 9 && memcmp(m->key, "namespace", 9) == 0)
            continue;
        DI_TRY(di_buf_puts(out, separator));
        DI_TRY(di_json_write_string(m->key, m->key_len, out));
        DI_TRY(di_buf_puts(out, ": "));
        if (m->key_len == 4 && memcmp(m->key, "name", 4) == 0)
            DI_TRY(write_name_member(name, out));
        else if (is_description && space_text)
            DI_TRY(write_description_member(space_text, m, where, out));
        else
            DI_TRY(di_jval_write(m, out));
        separator = ", ";
    }
    if (space_text && !di_jval_get(function, "description")) {
        DI_TRY(di_buf_puts(out, ", \"description\": "));
        DI_TRY(write_description_member(space_text, NULL, where, out));
    }
    return di_buf_puts(out, "}");
}

/* *space_text: the description of its namespace, or NULL. */
static di_status read_tool(const di_jval *tool, const char *where, const di_jval **function,
                           tool_name *name, const di_jval **space_text)
{
    const di_jval *found = di_jval_get(tool, "function");
    if (!found || found->kind != DI_JOBJECT)
        return di_fail(DI_ERR_INPUT, "%s.function: found %s, wanted an object with a name", where,
                       di_jval_describe(found).text);
    const di_jval *space = di_jval_get_set(tool, "namespace");
    if (!space)
        space = di_jval_get_set(found, "namespace");
    *space_text = NULL;
    if (space && space->kind == DI_JOBJECT) {
        *space_text = di_jval_get(space, "description");
        if (!di_jval_is_truthy(*space_text))
            *space_text = NULL;
        space = di_jval_get(space, "name");
        if (!space)
            return di_fail(DI_ERR_INPUT, "%s.namespace: found an object without a name", where);
    }
    *function = found;
    return read_tool_name(found, space, where, name);
}

di_status di_chat_tool_name(const di_jval *tool, const char *where, const di_jval **function,
                            di_buf *name)
{
    tool_name full;
    const di_jval *space_text;
    DI_TRY(read_tool(tool, where, function, &full, &space_text));
    return write_tool_name(&full, name);
}

static di_status write_tool(const di_jval *tool, const char *where, di_buf *out)
{
    tool_name name;
    const di_jval *function, *space_text;
    DI_TRY(read_tool(tool, where, &function, &name, &space_text));
    return write_schema(function, &name, space_text, where, out);
}

di_status di_chat_write_tools(const di_jval *tools, const char *where, di_chat_prompt *prompt)
{
    DI_TRY(di_chat_put_template(prompt, tools_head));
    size_t i = 0;
    for (const di_jval *tool = tools->first; tool; tool = tool->next, i++) {
        char tool_where[WHERE_BYTES];
        snprintf(tool_where, sizeof tool_where, "%s[%zu]", where, i);
        DI_BUF_AUTO schema = {0};
        DI_TRY(write_tool(tool, tool_where, &schema));
        if (i > 0)
            DI_TRY(di_chat_put_template(prompt, "\n"));
        DI_TRY(di_chat_put_content(prompt, di_buf_str(&schema), schema.len));
    }
    return di_chat_put_template(prompt, tools_tail);
}

/* --------------------------------------------------------------------------------- tool calls */

static di_status write_parameter(const char *key, size_t key_len, const di_jval *value,
                                 di_chat_prompt *prompt)
{
    const bool is_string = value->kind == DI_JSTRING;
    DI_TRY(di_chat_put_template(prompt, "<" DI_DSML_PARAMETER " name=\""));
    DI_TRY(di_chat_put_content(prompt, key, key_len));
    DI_TRY(
        di_chat_put_template(prompt, is_string ? "\" string=\"true\">" : "\" string=\"false\">"));
    if (is_string) {
        DI_TRY(di_chat_put_content(prompt, value->text, value->len));
    } else {
        DI_BUF_AUTO json = {0};
        DI_TRY(di_jval_write(value, &json));
        DI_TRY(di_chat_put_content(prompt, di_buf_str(&json), json.len));
    }
    return di_chat_put_template(prompt, "</" DI_DSML_PARAMETER ">");
}

static di_status write_arguments(di_arena *arena, const di_jval *given, di_chat_prompt *prompt)
{
    /* JSON in a string, as the API has it; some clients encode it twice. */
    const di_jval *arguments = given;
    for (int i = 0; i < 2 && arguments->kind == DI_JSTRING; i++)
        if (di_jval_parse(arena, arguments->text, arguments->len, DI_JPYTHON, &arguments) != DI_OK)
            break;
    if (arguments->kind != DI_JOBJECT)
        return write_parameter("arguments", strlen("arguments"), given, prompt);
    for (const di_jval *m = arguments->first; m; m = m->next) {
        if (m != arguments->first)
            DI_TRY(di_chat_put_template(prompt, "\n"));
        DI_TRY(write_parameter(m->key, m->key_len, m, prompt));
    }
    return DI_OK;
}

static di_status write_call(const di_jval *call, const char *where, di_chat_prompt *prompt)
{
    const di_jval *function = di_jval_get(call, "function");
    const di_jval *arguments = di_jval_get(function, "arguments");
    if (!function || function->kind != DI_JOBJECT)
        return di_fail(DI_ERR_INPUT,
                       "%s.function: found %s, wanted an object with name and arguments", where,
                       di_jval_describe(function).text);
    if (!arguments)
        return di_fail(DI_ERR_INPUT,
                       "%s.function.arguments: found nothing, wanted JSON in a string", where);
    const di_jval *space = di_jval_get(call, "namespace");
    if (!di_jval_is_truthy(space))
        space = di_jval_get(function, "namespace");
    tool_name name;
    DI_TRY(read_tool_name(function, di_jval_is_truthy(space) ? space : NULL, where, &name));
    DI_BUF_AUTO full = {0};
    DI_TRY(write_tool_name(&name, &full));
    DI_TRY(di_chat_put_template(prompt, "<" DI_DSML_INVOKE " name=\""));
    DI_TRY(di_chat_put_content(prompt, di_buf_str(&full), full.len));
    DI_TRY(di_chat_put_template(prompt, "\">\n"));
    di_arena arena = {.chunk_bytes = 4096};
    const di_status status = write_arguments(&arena, arguments, prompt);
    di_arena_free(&arena);
    DI_TRY(status);
    return di_chat_put_template(prompt, "\n</" DI_DSML_INVOKE ">");
}

di_status di_chat_write_calls(const di_jval *calls, const char *where, di_chat_prompt *prompt)
{
    DI_TRY(di_chat_put_template(prompt, "\n\n<" DI_DSML_CALLS ">\n"));
    size_t i = 0;
    for (const di_jval *call = calls->first; call; call = call->next, i++) {
        char call_where[WHERE_BYTES];
        snprintf(call_where, sizeof call_where, "%s[%zu]", where, i);
        if (i > 0)
            DI_TRY(di_chat_put_template(prompt, "\n"));
        DI_TRY(write_call(call, call_where, prompt));
    }
    return di_chat_put_template(prompt, "\n</" DI_DSML_CALLS ">");
}
