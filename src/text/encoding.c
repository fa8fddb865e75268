#define _GNU_SOURCE /* memmem */
#include "text/encoding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/encoding_tools.h"
#include "text/encoding_turns.h"

#define SYSTEM_TOKEN    "<｜System｜>"
#define USER_TOKEN      "<｜User｜>"
#define ASSISTANT_TOKEN "<｜Assistant｜>"
#define REMINDER_TOKEN  "<｜latest_reminder｜>"

enum { TASK_ACTION = 0, WHERE_BYTES = 96 };

di_status di_chat_put_template(di_chat_prompt *prompt, const char *text)
{
    return di_buf_puts(&prompt->text, text);
}

di_status di_chat_put_content(di_chat_prompt *prompt, const char *text, size_t len)
{
    const size_t begin = prompt->text.len;
    if (len == 0)
        return DI_OK;
    DI_TRY(di_buf_append(&prompt->text, text, len));
    if (prompt->n_content && prompt->content[prompt->n_content - 1].end == begin) {
        prompt->content[prompt->n_content - 1].end =
            begin + len; /* two contents without a marker */
        return DI_OK;
    }
    DI_TRY(DI_GROW(&prompt->content, &prompt->content_cap, prompt->n_content + 1));
    prompt->content[prompt->n_content++] = (di_text_span){.begin = begin, .end = begin + len};
    return DI_OK;
}

static di_status render_parts(const di_chat_part *first, di_chat_prompt *prompt)
{
    for (const di_chat_part *p = first; p; p = p->next) {
        if (p != first)
            DI_TRY(di_chat_put_template(prompt, "\n\n"));
        switch (p->kind) {
        case DI_PART_TEXT:
            DI_TRY(di_chat_put_content(prompt, p->text, p->len));
            break;
        case DI_PART_IMAGE:
            DI_TRY(di_chat_put_template(prompt, DI_CHAT_IMAGE));
            prompt->n_images++;
            break;
        case DI_PART_TOOL_RESULT:
            DI_TRY(di_chat_put_template(prompt, "<tool_result>"));
            DI_TRY(render_parts(p->inner, prompt)); /* one level: no results within results */
            DI_TRY(di_chat_put_template(prompt, "</tool_result>"));
            break;
        }
    }
    return DI_OK;
}

static di_status render_system(const di_chat_turn *turn, di_chat_prompt *prompt)
{
    DI_TRY(render_parts(turn->first, prompt));
    if (turn->tools) {
        const bool is_own = turn->tools == di_jval_get(turn->message, "tools");
        char where[WHERE_BYTES];
        snprintf(where, sizeof where, is_own ? "messages[%zu].tools" : "tools", turn->index);
        DI_TRY(di_chat_put_template(prompt, "\n\n"));
        DI_TRY(di_chat_write_tools(turn->tools, where, prompt));
    }
    const di_jval *format = di_jval_get(turn->message, "response_format");
    if (!di_jval_is_truthy(format))
        return DI_OK;
    DI_TRY(di_chat_put_template(prompt,
                                "\n\n## Response Format:\n\nYou MUST strictly adhere to the "
                                "following schema to reply:\n"));
    DI_BUF_AUTO json = {0};
    DI_TRY(di_jval_write(format, &json));
    return di_chat_put_content(prompt, di_buf_str(&json), json.len);
}

/* What was thought, with the end mark: kept after the last user turn, or everywhere when nothing is
 * dropped, but never behind a task token. */
static di_status render_reasoning(const di_chat_request *request, size_t i, size_t last_user,
                                  di_chat_prompt *prompt)
{
    const di_chat_turn *turn = &request->turns[i];
    const di_jval *reasoning = di_jval_get_set(turn->message, "reasoning_content");
    if (reasoning && reasoning->kind != DI_JSTRING)
        return di_fail(DI_ERR_INPUT, "messages[%zu].reasoning_content: found %s, wanted a string",
                       turn->index, di_jval_describe(reasoning).text);
    if (reasoning && memmem(reasoning->text, reasoning->len, DI_CHAT_IMAGE, strlen(DI_CHAT_IMAGE)))
        return di_fail(DI_ERR_INPUT,
                       "messages[%zu].reasoning_content: found the image placeholder %s in a text",
                       turn->index, DI_CHAT_IMAGE);
    const bool is_behind_task = i > 0 && request->turns[i - 1].task >= 0;
    const bool is_kept = !request->drops_reasoning || last_user == SIZE_MAX || i > last_user;
    if (!request->is_thinking || is_behind_task || !is_kept)
        return DI_OK;
    if (reasoning)
        DI_TRY(di_chat_put_content(prompt, reasoning->text, reasoning->len));
    return di_chat_put_template(prompt, DI_CHAT_THINK_END);
}

static di_status render_assistant(const di_chat_request *request, size_t i, size_t last_user,
                                  di_chat_prompt *prompt)
{
    const di_chat_turn *turn = &request->turns[i];
    DI_TRY(render_reasoning(request, i, last_user, prompt));
    DI_TRY(render_parts(turn->first, prompt));
    const di_jval *calls = di_jval_get(turn->message, "tool_calls");
    if (di_jval_is_truthy(calls)) {
        char where[WHERE_BYTES];
        snprintf(where, sizeof where, "messages[%zu].tool_calls", turn->index);
        DI_TRY(di_chat_write_calls(calls, where, prompt));
    }
    if (di_jval_is_truthy(di_jval_get(turn->message, "wo_eos")))
        return DI_OK;
    return di_chat_put_template(prompt, DI_CHAT_EOS);
}

static bool is_asking(const di_chat_request *request, size_t i)
{
    const di_chat_role role = request->turns[i].role;
    return role == DI_ROLE_USER || (role == DI_ROLE_SYSTEM && i > 0);
}

/* Index of the last turn that an answer may follow; SIZE_MAX if there is none. */
static size_t find_last_user(const di_chat_request *request)
{
    for (size_t i = request->n_turns; i-- > 0;)
        if (is_asking(request, i))
            return i;
    return SIZE_MAX;
}

/* What makes the model speak: a task token or the assistant's header. */
static di_status render_transition(const di_chat_request *request, size_t i, size_t last_user,
                                   di_chat_prompt *prompt)
{
    const di_chat_turn *turn = &request->turns[i];
    if (i + 1 < request->n_turns) {
        const di_chat_role next = request->turns[i + 1].role;
        if (next != DI_ROLE_ASSISTANT && next != DI_ROLE_LATEST_REMINDER)
            return DI_OK;
    }
    if (turn->task < 0 && !is_asking(request, i))
        return DI_OK;
    if (turn->task < 0 || turn->task == TASK_ACTION) {
        const bool is_dropped =
            turn->task < 0 && request->drops_reasoning && last_user != SIZE_MAX && i < last_user;
        DI_TRY(di_chat_put_template(prompt, ASSISTANT_TOKEN));
        DI_TRY(di_chat_put_template(
            prompt, request->is_thinking && !is_dropped ? DI_CHAT_THINK : DI_CHAT_THINK_END));
    }
    if (turn->task < 0)
        return DI_OK;
    char token[32];
    snprintf(token, sizeof token, "<｜%s｜>", di_chat_tasks[turn->task]);
    return di_chat_put_template(prompt, token);
}

static di_status render_turn(const di_chat_request *request, size_t i, size_t last_user,
                             di_chat_prompt *prompt)
{
    const di_chat_turn *turn = &request->turns[i];
    const bool has_effort = i == 0 && request->is_thinking;
    if (has_effort || turn->role == DI_ROLE_SYSTEM)
        DI_TRY(di_chat_put_template(prompt, SYSTEM_TOKEN));
    if (has_effort)
        DI_TRY(di_buf_printf(&prompt->text,
                             "Reasoning Effort: %d (range 1-100, the higher the value, the more "
                             "thorough the reasoning)\n\n",
                             request->effort));
    switch (turn->role) {
    case DI_ROLE_SYSTEM:
        return render_system(turn, prompt);
    case DI_ROLE_ASSISTANT:
        return render_assistant(request, i, last_user, prompt);
    case DI_ROLE_USER:
    case DI_ROLE_TOOL:
        DI_TRY(di_chat_put_template(prompt, USER_TOKEN));
        break;
    case DI_ROLE_LATEST_REMINDER:
        DI_TRY(di_chat_put_template(prompt, REMINDER_TOKEN));
        break;
    }
    return render_parts(turn->first, prompt);
}

static di_status render_request(di_arena *arena, const char *text, size_t len,
                                di_chat_prompt *prompt)
{
    const di_jval *root;
    di_chat_request request;
    if (di_jval_parse(arena, text, len, DI_JSTRICT, &root) != DI_OK)
        return di_fail_within(DI_ERR_INPUT, "request");
    DI_TRY(di_chat_request_read(arena, root, &request));
    const size_t last_user = find_last_user(&request);
    DI_TRY(di_chat_put_template(prompt, DI_CHAT_BOS));
    for (size_t i = 0; i < request.n_turns; i++) {
        DI_TRY(render_turn(&request, i, last_user, prompt));
        DI_TRY(render_transition(&request, i, last_user, prompt));
    }
    return DI_OK;
}

di_status di_chat_render_text(const char *request, size_t len, di_chat_prompt *out)
{
    di_arena arena = {0};
    di_chat_prompt prompt = {0};
    const di_status status = render_request(&arena, request, len, &prompt);
    di_arena_free(&arena);
    if (status != DI_OK) {
        di_chat_prompt_free(&prompt);
        return status;
    }
    *out = prompt;
    return DI_OK;
}

di_status di_chat_render(const json_t *request, di_chat_prompt *out)
{
    char *text = json_dumps(request, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return di_fail(DI_ERR_INPUT, "request: not a JSON value that can be written");
    const di_status status = di_chat_render_text(text, strlen(text), out);
    free(text);
    return status;
}

void di_chat_prompt_free(di_chat_prompt *prompt)
{
    di_buf_free(&prompt->text);
    free(prompt->content);
    *prompt = (di_chat_prompt){0};
}

di_status di_chat_mode_parse(const char *thinking_mode, bool *is_thinking)
{
    const bool is_chat = thinking_mode && strcmp(thinking_mode, "chat") == 0;
    if (!is_chat && (!thinking_mode || strcmp(thinking_mode, "thinking") != 0))
        return di_fail(DI_ERR_ARGUMENT, "thinking_mode: found \"%s\", wanted chat or thinking",
                       thinking_mode ? thinking_mode : "");
    *is_thinking = !is_chat;
    return DI_OK;
}
