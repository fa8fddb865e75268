#define _GNU_SOURCE /* memmem */
#include "text/encoding_turns.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strmap.h"
#include "text/encoding.h"

const char *const di_chat_tasks[DI_N_CHAT_TASKS] = {"action", "query", "authority",
                                                    "domain", "title", "read_url"};

static const char *const role_names[] = {"system", "user", "assistant", "tool", "latest_reminder"};

enum { N_ROLES = sizeof role_names / sizeof *role_names, DEFAULT_EFFORT = 75 };

/* Name of a place in the request, for error texts. */
typedef struct place {
    char text[128];
} place;

static place make_place(const char *fmt, ...) DI_PRINTF(1, 2);

static place make_place(const char *fmt, ...)
{
    place p;
    va_list args;
    va_start(args, fmt);
    vsnprintf(p.text, sizeof p.text, fmt, args);
    va_end(args);
    return p;
}

static di_status fail_value(const char *where, const di_jval *found, const char *wanted)
{
    return di_fail(DI_ERR_INPUT, "%s: found %s, wanted %s", where, di_jval_describe(found).text,
                   wanted);
}

/* ------------------------------------------------------------------------------------ content */

typedef struct part_list {
    di_arena *arena;
    di_chat_part *first;
    di_chat_part *last;
} part_list;

static di_status add_part(part_list *list, di_chat_part_kind kind, di_chat_part **out)
{
    di_chat_part *part;
    DI_TRY(DI_ARENA_ZNEW(list->arena, 1, &part));
    part->kind = kind;
    if (list->last)
        list->last->next = part;
    else
        list->first = part;
    list->last = part;
    if (out)
        *out = part;
    return DI_OK;
}

static di_status check_no_placeholder(const char *where, const di_jval *text)
{
    if (memmem(text->text, text->len, DI_CHAT_IMAGE, strlen(DI_CHAT_IMAGE)))
        return di_fail(DI_ERR_INPUT,
                       "%s: found the image placeholder %s in a text, wanted images as blocks of "
                       "type image_url",
                       where, DI_CHAT_IMAGE);
    return DI_OK;
}

static di_status add_text(part_list *list, const char *where, const di_jval *text)
{
    di_chat_part *part;
    DI_TRY(check_no_placeholder(where, text));
    DI_TRY(add_part(list, DI_PART_TEXT, &part));
    part->text = text->text;
    part->len = text->len;
    return DI_OK;
}

static di_status check_image_source(const char *where, const di_jval *block)
{
    const di_jval *source = di_jval_get(block, "image_url");
    if (di_jval_is_string(di_jval_get(block, "type"), "image")) {
        static const char *const keys[] = {"source", "url", "data"};
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            if (di_jval_is_truthy(di_jval_get(block, keys[i])))
                return DI_OK;
        return di_fail(DI_ERR_INPUT,
                       "%s: found an image without a source, wanted source, url or data", where);
    }
    if (source && source->kind == DI_JOBJECT)
        source = di_jval_get(source, "url");
    if (!source || source->kind != DI_JSTRING || source->len == 0)
        return di_fail(DI_ERR_INPUT, "%s.image_url: found %s, wanted a URL or {\"url\": ...}",
                       where, di_jval_describe(di_jval_get(block, "image_url")).text);
    return DI_OK;
}

static di_status read_content(part_list *list, const char *where, const di_jval *content,
                              bool has_tool_results);

/* {"type": "tool_result", "tool_use_id": ..., "content": string or blocks} */
static di_status read_tool_result(part_list *list, const char *where, const di_jval *block)
{
    di_chat_part *part;
    DI_TRY(add_part(list, DI_PART_TOOL_RESULT, &part));
    part->call_id = di_jval_get_set(block, "tool_use_id");
    if (part->call_id && part->call_id->kind != DI_JSTRING)
        return di_fail(DI_ERR_INPUT, "%s.tool_use_id: found %s, wanted a string", where,
                       di_jval_describe(part->call_id).text);
    const di_jval *content = di_jval_get(block, "content");
    part_list inner = {.arena = list->arena};
    if (content)
        DI_TRY(read_content(&inner, make_place("%s.content", where).text, content, false));
    part->inner = inner.first;
    return DI_OK;
}

static di_status read_block(part_list *list, const char *where, const di_jval *block,
                            bool has_tool_results)
{
    if (block->kind != DI_JOBJECT)
        return fail_value(where, block, "an object with a type");
    const di_jval *type = di_jval_get(block, "type");
    if (di_jval_is_string(type, "text")) {
        const di_jval *text = di_jval_get(block, "text");
        if (!text || text->kind != DI_JSTRING)
            return di_fail(DI_ERR_INPUT, "%s.text: found %s, wanted a string", where,
                           di_jval_describe(text).text);
        return add_text(list, where, text);
    }
    if (di_jval_is_string(type, "image_url") || di_jval_is_string(type, "image")) {
        DI_TRY(check_image_source(where, block));
        return add_part(list, DI_PART_IMAGE, NULL);
    }
    if (has_tool_results && di_jval_is_string(type, "tool_result"))
        return read_tool_result(list, where, block);
    return di_fail(DI_ERR_INPUT, "%s.type: found %s, wanted text, image_url%s", where,
                   di_jval_describe(type).text,
                   has_tool_results ? ", image or tool_result" : " or image");
}

static di_status read_content(part_list *list, const char *where, const di_jval *content,
                              bool has_tool_results)
{
    if (content->kind == DI_JSTRING)
        return add_text(list, where, content);
    if (content->kind != DI_JARRAY)
        return fail_value(where, content, "a string or an array of blocks");
    size_t i = 0;
    for (const di_jval *block = content->first; block; block = block->next, i++) {
        DI_TRY(read_block(list, make_place("%s[%zu]", where, i).text, block, has_tool_results));
    }
    return DI_OK;
}

/* The member that holds the content: content_blocks, the reference's own form, goes before content
 * in user messages and stands in for it in others. */
static const di_jval *content_of(const di_jval *message, di_chat_role role)
{
    const di_jval *content = di_jval_get(message, "content");
    const di_jval *blocks = di_jval_get_set(message, "content_blocks");
    const bool is_string = content && content->kind == DI_JSTRING;
    return blocks && (role == DI_ROLE_USER || !is_string) ? blocks : content;
}

static di_status read_message_content(di_arena *arena, const di_jval *message, size_t index,
                                      di_chat_role role, part_list *out)
{
    static const di_jval empty = {.kind = DI_JSTRING, .text = ""};
    const place where = make_place("messages[%zu].content", index);
    *out = (part_list){.arena = arena};
    const di_jval *content = content_of(message, role);
    const bool may_be_null = role == DI_ROLE_SYSTEM || role == DI_ROLE_ASSISTANT;
    if (may_be_null && (!content || content->kind == DI_JNULL))
        return DI_OK;
    if (!content && role != DI_ROLE_LATEST_REMINDER)
        content = &empty;
    if (!content)
        return fail_value(where.text, content, "a string or an array of blocks");
    return read_content(out, where.text, content, role == DI_ROLE_USER);
}

/* ------------------------------------------------------------------------------------- turns */

static di_status read_role(const di_jval *message, size_t index, di_chat_role *out)
{
    const di_jval *role = di_jval_get(message, "role");
    for (int i = 0; i < N_ROLES; i++) {
        if (di_jval_is_string(role, role_names[i])) {
            *out = (di_chat_role)i;
            return DI_OK;
        }
    }
    return di_fail(DI_ERR_INPUT,
                   "messages[%zu].role: found %s, wanted system, user, assistant, tool or "
                   "latest_reminder",
                   index, di_jval_describe(role).text);
}

static di_status read_task(const di_jval *message, size_t index, int *out)
{
    const di_jval *task = di_jval_get_set(message, "task");
    *out = -1;
    if (!task)
        return DI_OK;
    for (int i = 0; i < DI_N_CHAT_TASKS; i++)
        if (di_jval_is_string(task, di_chat_tasks[i]))
            *out = i;
    if (*out >= 0)
        return DI_OK;
    return di_fail(
        DI_ERR_INPUT,
        "messages[%zu].task: found %s, wanted action, query, authority, domain, title or "
        "read_url",
        index, di_jval_describe(task).text);
}

static di_status read_tools(const char *where, const di_jval *tools, const di_jval **out)
{
    if (tools && tools->kind != DI_JARRAY && tools->kind != DI_JNULL)
        return fail_value(where, tools, "an array of tools");
    *out = di_jval_is_truthy(tools) ? tools : NULL;
    return DI_OK;
}

/* A tool message as the one part that it adds to a user turn. */
static di_status wrap_tool_result(di_arena *arena, const di_jval *message, size_t index,
                                  part_list *parts)
{
    part_list wrapped = {.arena = arena};
    di_chat_part *part;
    DI_TRY(add_part(&wrapped, DI_PART_TOOL_RESULT, &part));
    part->inner = parts->first;
    part->call_id = di_jval_get_set(message, "tool_call_id");
    if (part->call_id && part->call_id->kind != DI_JSTRING)
        return di_fail(DI_ERR_INPUT, "messages[%zu].tool_call_id: found %s, wanted a string", index,
                       di_jval_describe(part->call_id).text);
    *parts = wrapped;
    return DI_OK;
}

static void append_parts(di_chat_turn *turn, const part_list *parts)
{
    if (!parts->first)
        return;
    if (turn->last)
        turn->last->next = parts->first;
    else
        turn->first = parts->first;
    turn->last = parts->last;
}

static di_status read_message(di_arena *arena, const di_jval *message, size_t index,
                              di_chat_request *request)
{
    if (message->kind != DI_JOBJECT)
        return fail_value(make_place("messages[%zu]", index).text, message,
                          "an object with role and content");
    di_chat_turn fresh = {.index = index, .message = message};
    part_list parts;
    DI_TRY(read_role(message, index, &fresh.role));
    DI_TRY(read_task(message, index, &fresh.task));
    DI_TRY(read_message_content(arena, message, index, fresh.role, &parts));
    DI_TRY(read_tools(make_place("messages[%zu].tools", index).text, di_jval_get(message, "tools"),
                      &fresh.tools));
    const bool is_tool = fresh.role == DI_ROLE_TOOL;
    if (is_tool) {
        DI_TRY(wrap_tool_result(arena, message, index, &parts));
        fresh.role = DI_ROLE_USER;
        fresh.message = NULL;
        fresh.tools = NULL;
        fresh.task = -1;
    }
    di_chat_turn *last = request->n_turns ? &request->turns[request->n_turns - 1] : NULL;
    const bool is_merged = fresh.role == DI_ROLE_USER && last && last->role == DI_ROLE_USER &&
                           (is_tool || last->task < 0);
    if (!is_merged) {
        last = &request->turns[request->n_turns++];
        *last = fresh;
    }
    append_parts(last, &parts);
    return DI_OK;
}

/* ------------------------------------------------------------- tool results in order of calls */

static di_status read_call_order(const di_chat_turn *turn, di_strmap *order)
{
    const di_jval *calls = di_jval_get_set(turn->message, "tool_calls");
    if (calls && calls->kind != DI_JARRAY)
        return di_fail(DI_ERR_INPUT, "messages[%zu].tool_calls: found %s, wanted an array",
                       turn->index, di_jval_describe(calls).text);
    if (!di_jval_is_truthy(calls))
        return DI_OK;
    di_strmap_free(order);
    int64_t i = 0;
    for (const di_jval *call = calls->first; call; call = call->next, i++) {
        const di_jval *id = di_jval_get(call, "id");
        if (!di_jval_is_truthy(id))
            id = di_jval_get_set(di_jval_get(call, "function"), "id");
        if (id && id->kind != DI_JSTRING)
            return di_fail(DI_ERR_INPUT,
                           "messages[%zu].tool_calls[%lld].id: found %s, wanted a string",
                           turn->index, (long long)i, di_jval_describe(id).text);
        if (id && id->len)
            DI_TRY(di_strmap_put(order, id->text, id->len, i, NULL));
    }
    return DI_OK;
}

typedef struct placed_result {
    int64_t call; /* results of unknown calls count as the first call's */
    size_t at;
    di_chat_part part;
} placed_result;

static int compare_results(const void *a, const void *b)
{
    const placed_result *x = a, *y = b;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The places of tool results among the other parts stay; what stands in them is sorted. */
static di_status sort_results(di_arena *arena, di_chat_turn *turn, const di_strmap *order)
{
    size_t n = 0;
    for (const di_chat_part *p = turn->first; p; p = p->next)
        n += p->kind == DI_PART_TOOL_RESULT;
    if (n < 2 || order->n == 0)
        return DI_OK;
    placed_result *results;
    DI_TRY(DI_ARENA_ZNEW(arena, n, &results));
    size_t i = 0;
    for (const di_chat_part *p = turn->first; p; p = p->next) {
        if (p->kind != DI_PART_TOOL_RESULT)
            continue;
        results[i] = (placed_result){.at = i, .part = *p};
        if (p->call_id)
            di_strmap_get(order, p->call_id->text, p->call_id->len, &results[i].call);
        i++;
    }
    qsort(results, n, sizeof *results, compare_results);
    i = 0;
    for (di_chat_part *p = turn->first; p; p = p->next) {
        if (p->kind != DI_PART_TOOL_RESULT)
            continue;
        p->inner = results[i].part.inner;
        p->call_id = results[i++].part.call_id;
    }
    return DI_OK;
}

static di_status order_results(di_arena *arena, di_chat_request *request)
{
    di_strmap order = {0};
    di_status status = DI_OK;
    for (size_t i = 0; i < request->n_turns && status == DI_OK; i++) {
        di_chat_turn *turn = &request->turns[i];
        if (turn->role == DI_ROLE_ASSISTANT)
            status = read_call_order(turn, &order);
        else if (turn->role == DI_ROLE_USER)
            status = sort_results(arena, turn, &order);
    }
    di_strmap_free(&order);
    return status;
}

/* ----------------------------------------------------------------------------------- request */

static di_status read_effort(const di_jval *root, int *out)
{
    static const struct {
        const char *name;
        int effort;
    } names[] = {{"low", 50}, {"high", 75}, {"max", 100}};
    const di_jval *effort = di_jval_get_set(root, "reasoning_effort");
    *out = DEFAULT_EFFORT;
    if (!effort)
        return DI_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (di_jval_is_string(effort, names[i].name)) {
            *out = names[i].effort;
            return DI_OK;
        }
    }
    int n = 0;
    if (effort->kind == DI_JINT && effort->len <= 3 && effort->text[0] != '-')
        for (size_t i = 0; i < effort->len; i++)
            n = n * 10 + (effort->text[i] - '0');
    if (n < 1 || n > 100)
        return fail_value("reasoning_effort", effort, "an integer from 1 to 100, low, high or max");
    *out = n;
    return DI_OK;
}

static di_status read_options(const di_jval *root, di_chat_request *out)
{
    const di_jval *mode = di_jval_get_set(root, "thinking_mode");
    out->is_thinking = di_jval_is_string(mode, "thinking");
    if (mode && !out->is_thinking && !di_jval_is_string(mode, "chat"))
        return fail_value("thinking_mode", mode, "chat or thinking");
    const di_jval *drop = di_jval_get_set(root, "drop_thinking");
    if (drop && drop->kind != DI_JTRUE && drop->kind != DI_JFALSE)
        return fail_value("drop_thinking", drop, "true or false");
    out->drops_reasoning = !drop || drop->kind == DI_JTRUE;
    return read_effort(root, &out->effort);
}

/* Tools of the request belong to its first message. */
static di_status add_request_tools(const di_jval *root, di_chat_request *request)
{
    const di_jval *tools = di_jval_get_set(root, "tools");
    if (tools && request->turns[0].message)
        DI_TRY(read_tools("tools", tools, &request->turns[0].tools));
    for (size_t i = 0; i < request->n_turns; i++)
        if (request->turns[i].tools)
            request->drops_reasoning = false;
    return DI_OK;
}

di_status di_chat_request_read(di_arena *arena, const di_jval *root, di_chat_request *out)
{
    if (root->kind != DI_JARRAY && root->kind != DI_JOBJECT)
        return fail_value("request", root, "an array of messages or an object with messages");
    di_chat_request request = {0};
    DI_TRY(read_options(root, &request));
    const di_jval *messages = root->kind == DI_JARRAY ? root : di_jval_get(root, "messages");
    if (!messages || messages->kind != DI_JARRAY)
        return fail_value("messages", messages, "an array");
    if (!messages->first)
        return di_fail(DI_ERR_INPUT, "messages: found an empty array, wanted at least one message");
    size_t n = 0;
    for (const di_jval *m = messages->first; m; m = m->next)
        n++;
    DI_TRY(DI_ARENA_ZNEW(arena, n, &request.turns));
    size_t i = 0;
    for (const di_jval *m = messages->first; m; m = m->next, i++)
        DI_TRY(read_message(arena, m, i, &request));
    DI_TRY(order_results(arena, &request));
    DI_TRY(add_request_tools(root, &request));
    *out = request;
    return DI_OK;
}
