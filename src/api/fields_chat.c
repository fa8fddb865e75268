/* What only chats have: the mode, tools, and how they become the chat request of docs/chat.md. */
#include <string.h>

#include "api/reader.h"

static di_status set_mode(di_api_reader *r, const char *name, bool is_thinking)
{
    const di_api_mode mode = is_thinking ? DI_API_MODE_THINKING : DI_API_MODE_CHAT;
    if (r->mode != DI_API_MODE_UNSET && r->mode != mode)
        return di_fail(DI_ERR_ARGUMENT, "%s: found thinking %s, wanted what another field says",
                       name, is_thinking ? "on" : "off");
    r->mode = mode;
    return DI_OK;
}

di_status di_api_read_thinking(di_api_reader *reader, const char *name, const di_jval *value)
{
    const di_jval *type = di_jval_get_set(value, "type");
    if (value->kind == DI_JTRUE || di_jval_is_string(type, "enabled"))
        return set_mode(reader, name, true);
    if (value->kind == DI_JFALSE || di_jval_is_string(type, "disabled"))
        return set_mode(reader, name, false);
    return di_fail(DI_ERR_ARGUMENT,
                   "%s: found %s, wanted true, false or {\"type\": \"enabled\" or \"disabled\"}",
                   name, di_jval_describe(type ? type : value).text);
}

di_status di_api_read_thinking_mode(di_api_reader *reader, const char *name, const di_jval *value)
{
    if (di_jval_is_string(value, "thinking"))
        return set_mode(reader, name, true);
    if (di_jval_is_string(value, "chat"))
        return set_mode(reader, name, false);
    return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted chat or thinking", name,
                   di_jval_describe(value).text);
}

di_status di_api_read_template_kwargs(di_api_reader *reader, const char *name, const di_jval *value)
{
    if (value->kind != DI_JOBJECT)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an object", name,
                       di_jval_describe(value).text);
    for (const di_jval *m = value->first; m; m = m->next) {
        const bool is_mode = (m->key_len == 8 && memcmp(m->key, "thinking", 8) == 0) ||
                             (m->key_len == 15 && memcmp(m->key, "enable_thinking", 15) == 0);
        bool is_on;
        if (!is_mode)
            return di_fail(DI_ERR_ARGUMENT,
                           "%s: found \"%.*s\", wanted thinking or enable_thinking", name,
                           (int)(m->key_len < 40 ? m->key_len : 40), m->key);
        DI_TRY(di_api_read_bool(name, m, &is_on));
        DI_TRY(set_mode(reader, name, is_on));
    }
    return DI_OK;
}

/* "none" is OpenAI's word for an answer without reasoning; other efforts ask for one. */
di_status di_api_read_effort(di_api_reader *reader, const char *name, const di_jval *value)
{
    static const char *const names[] = {"low", "high", "max"};
    if (di_jval_is_string(value, "none"))
        return set_mode(reader, name, false);
    bool is_known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_known = is_known || di_jval_is_string(value, names[i]);
    int64_t number;
    if (!is_known && di_api_read_integer(name, value, 1, 100, &number) != DI_OK)
        return di_fail(DI_ERR_ARGUMENT,
                       "%s: found %s, wanted an integer from 1 to 100, none, low, high or max",
                       name, di_jval_describe(value).text);
    reader->effort = value;
    return DI_OK;
}

di_status di_api_read_tool_choice(di_api_reader *reader, const char *name, const di_jval *value)
{
    reader->hides_tools = di_jval_is_string(value, "none");
    reader->tool_choice = NULL;
    if (reader->hides_tools || di_jval_is_string(value, "auto"))
        return DI_OK;
    reader->tool_choice = value;
    const di_jval *function = di_jval_get_set(value, "function");
    const di_jval *function_name = di_jval_get(function, "name");
    if (di_jval_is_string(value, "required") ||
        (di_jval_is_string(di_jval_get(value, "type"), "function") && function_name != NULL &&
         function_name->kind == DI_JSTRING))
        return DI_OK;
    return di_fail(DI_ERR_ARGUMENT,
                   "%s: found %s, wanted auto, none, required or {\"type\": \"function\", "
                   "\"function\": {\"name\": ...}}",
                   name, di_jval_describe(value).text);
}

/* What only calls that are asked for can keep to. */
static di_status settle_calls(di_api_reader *r)
{
    if (r->tool_choice != NULL)
        return di_api_set_tool_calls(r);
    if (r->wants_one_call && !r->hides_tools)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "parallel_tool_calls: found false, wanted true or a tool_choice that asks "
                       "for calls: those that the model may choose to make are not limited");
    return DI_OK;
}

/* ------------------------------------------------------------------------------------ the prompt
 */

/* "developer" is OpenAI's newer name of the system role. */
static di_status write_message(const di_jval *message, di_buf *out)
{
    if (!di_jval_is_string(di_jval_get(message, "role"), "developer"))
        return di_jval_write(message, out);
    DI_TRY(di_buf_puts(out, "{\"role\": \"system\""));
    for (const di_jval *m = message->first; m; m = m->next) {
        if (m->key_len == 4 && memcmp(m->key, "role", 4) == 0)
            continue;
        DI_TRY(di_buf_puts(out, ", "));
        DI_TRY(di_json_write_string(m->key, m->key_len, out));
        DI_TRY(di_buf_puts(out, ": "));
        DI_TRY(di_jval_write(m, out));
    }
    return di_buf_puts(out, "}");
}

static di_status write_messages(const di_api_reader *r, bool has_tools, di_buf *out)
{
    const di_jval *role = di_jval_get(r->messages->first, "role");
    const bool has_system =
        di_jval_is_string(role, "system") || di_jval_is_string(role, "developer");
    /* The template shows tools in a system message only. */
    const bool needs_system = has_tools && !has_system;
    DI_TRY(di_buf_puts(out, needs_system ? "{\"role\": \"system\", \"content\": \"\"}" : ""));
    for (const di_jval *m = r->messages->first; m; m = m->next) {
        DI_TRY(di_buf_puts(out, m != r->messages->first || needs_system ? ", " : ""));
        DI_TRY(write_message(m, out));
    }
    return DI_OK;
}

static di_status write_member(const char *name, const di_jval *value, di_buf *out)
{
    if (!value)
        return DI_OK;
    DI_TRY(di_buf_printf(out, ", \"%s\": ", name));
    return di_jval_write(value, out);
}

static di_status write_chat(const di_api_reader *r, di_buf *out)
{
    const di_jval *tools = r->hides_tools ? NULL : r->tools;
    DI_TRY(di_buf_puts(out, "{\"messages\": ["));
    DI_TRY(write_messages(r, tools != NULL, out));
    DI_TRY(di_buf_printf(out, "], \"thinking_mode\": \"%s\"",
                         r->request->is_thinking ? "thinking" : "chat"));
    DI_TRY(write_member("reasoning_effort", r->effort, out));
    DI_TRY(write_member("drop_thinking", r->drop_thinking, out));
    DI_TRY(write_member("tools", tools, out));
    return di_buf_puts(out, "}");
}

di_status di_api_chat_prompt(di_api_reader *reader)
{
    if (!reader->messages)
        return di_fail(DI_ERR_ARGUMENT, "messages: found none, wanted an array of messages");
    reader->request->is_thinking = reader->mode == DI_API_MODE_THINKING ||
                                   (reader->mode == DI_API_MODE_UNSET && reader->effort != NULL);
    DI_TRY(settle_calls(reader));
    DI_BUF_AUTO text = {0};
    DI_TRY(write_chat(reader, &text));
    char *messages;
    DI_TRY(di_arena_strdup(reader->arena, di_buf_str(&text), &messages));
    di_request *prompt;
    DI_TRY(DI_ARENA_NEW(reader->arena, 1, &prompt));
    *prompt = reader->prompt;
    prompt->messages_json = messages;
    reader->request->prompts = prompt;
    reader->request->n_prompts = 1;
    return DI_OK;
}
