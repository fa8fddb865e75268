/* text/encoding.h: prompts equal to the reference's, byte for byte; what is content; what is
 * refused. */
#define _GNU_SOURCE /* memmem */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "deepinfer/tools.h"
#include "text/encoding.h"
#include "xz.h"

#define CASES DI_TEST_DATA "/cases/"
#define EFFORT                                                                                      \
    "<｜System｜>Reasoning Effort: %s (range 1-100, the higher the value, the more thorough the " \
    "reasoning)\n\n"
#define EFFORT75                                                                                    \
    "<｜System｜>Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the " \
    "reasoning)\n\n"

/* The template's own text: every content span replaced by a #. */
static void template_of(const di_chat_prompt *prompt, di_buf *out)
{
    size_t at = 0;
    for (size_t i = 0; i < prompt->n_content; i++) {
        const di_text_span *span = &prompt->content[i];
        assert_true(span->begin < span->end && span->end <= prompt->text.len);
        assert_true(i == 0 || span->begin > prompt->content[i - 1].end);
        assert_int_equal(di_buf_append(out, prompt->text.data + at, span->begin - at), DI_OK);
        assert_int_equal(di_buf_puts(out, "#"), DI_OK);
        at = span->end;
    }
    assert_int_equal(di_buf_append(out, prompt->text.data + at, prompt->text.len - at), DI_OK);
}

static void render(const char *request, di_chat_prompt *out)
{
    *out = (di_chat_prompt){0};
    if (di_chat_render_text(request, strlen(request), out) != DI_OK)
        fail_msg("%s: %s", request, di_last_error());
    assert_int_equal(strlen(out->text.data), out->text.len);
}

static void assert_prompt(const char *request, const char *wanted)
{
    di_chat_prompt prompt;
    render(request, &prompt);
    assert_string_equal(prompt.text.data, wanted);
    di_chat_prompt_free(&prompt);
}

static void assert_template(const char *request, const char *wanted)
{
    di_chat_prompt prompt;
    DI_BUF_AUTO text = {0};
    render(request, &prompt);
    template_of(&prompt, &text);
    assert_string_equal(di_buf_str(&text), wanted);
    di_chat_prompt_free(&prompt);
}

static void assert_refused(const char *request, const char *error)
{
    di_chat_prompt prompt = {0};
    assert_int_equal(di_chat_render_text(request, strlen(request), &prompt), DI_ERR_INPUT);
    assert_string_equal(di_last_error(), error);
    assert_null(prompt.text.data);
    assert_null(prompt.content);
}

/* ------------------------------------------------------------------------------ given cases */

static bool check_case(const char *line, size_t len)
{
    json_t *row;
    assert_int_equal(di_json_parse(line, len, "case", false, &row), DI_OK);
    const json_t *wanted = json_object_get(row, "prompt");
    di_chat_prompt prompt = {0}, again = {0};
    const di_status status = di_chat_render_text(line, len, &prompt);
    const bool is_right =
        json_is_true(json_object_get(row, "error"))
            ? status == DI_ERR_INPUT && di_last_error()[0] && !wanted
            : status == DI_OK && wanted && prompt.text.len == json_string_length(wanted) &&
                  memcmp(prompt.text.data, json_string_value(wanted), prompt.text.len) == 0 &&
                  prompt.n_images == json_integer_value(json_object_get(row, "n_images"));
    if (!is_right)
        print_error("%s: got %s\n", json_string_value(json_object_get(row, "id")),
                    status == DI_OK ? di_buf_str(&prompt.text) : di_last_error());
    if (status == DI_OK) {
        DI_BUF_AUTO text = {0};
        template_of(&prompt, &text);
        assert_int_equal(di_chat_render(row, &again), DI_OK);
        assert_int_equal(again.text.len, prompt.text.len);
        assert_memory_equal(again.text.data, prompt.text.data, again.text.len);
    } else {
        assert_int_equal(di_chat_render(row, &again), status);
    }
    di_chat_prompt_free(&prompt);
    di_chat_prompt_free(&again);
    json_decref(row);
    return is_right;
}

static void check_file(const char *name, int n_wanted)
{
    char path[512];
    snprintf(path, sizeof path, CASES "chat/%s.jsonl.xz", name);
    DI_BUF_AUTO text = {0};
    assert_int_equal(di_test_xz_read(path, &text), DI_OK);
    size_t at = 0, len;
    const char *line;
    int n = 0, n_right = 0;
    for (; di_test_next_line(&text, &at, &line, &len); n++)
        n_right += check_case(line, len);
    assert_int_equal(n, n_wanted);
    assert_int_equal(n_right, n_wanted);
}

static void given_conversations(void **state)
{
    (void)state;
    check_file("chat_encode", 200);
}

static void given_tasks_and_refusals(void **state)
{
    (void)state;
    check_file("chat_encode_more", 41);
}

static void given_images(void **state)
{
    (void)state;
    check_file("chat_images", 12);
}

/* --------------------------------------------------------------------------------- bug rows */

static json_t *load_bug(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, CASES "bugs/%s", name);
    json_t *rows;
    DI_BUF_AUTO text = {0};
    assert_int_equal(di_file_read(path, 1 << 20, &text), DI_OK);
    rows = json_loadb(di_buf_str(&text), text.len, JSON_ALLOW_NUL, NULL);
    assert_non_null(rows);
    return rows;
}

/* V05, one chat with "thinking" true or false: the request in our spelling. */
static json_t *v05_request(const json_t *chat)
{
    const bool is_thinking = json_is_true(json_object_get(chat, "thinking"));
    return json_pack("{s:O, s:s}", "messages", json_object_get(chat, "messages"), "thinking_mode",
                     is_thinking ? "thinking" : "chat");
}

static void v05_first_chats(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        DI_CHAT_BOS EFFORT75 "<｜User｜>hi<｜Assistant｜><think>",
        DI_CHAT_BOS "<｜User｜>hi<｜Assistant｜></think>",
        DI_CHAT_BOS EFFORT75 "S<｜User｜>u1<｜Assistant｜></think>a1" DI_CHAT_EOS
                             "<｜User｜>u2<｜Assistant｜><think>",
        DI_CHAT_BOS "<｜User｜>  keep my spaces \n<｜Assistant｜></think>",
        NULL, /* no message */
        DI_CHAT_BOS "<｜User｜><tool_result>x</tool_result><｜Assistant｜></think>",
    };
    json_t *chats = load_bug("V05/chats.json");
    assert_int_equal(json_array_size(chats), 7);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        json_t *request = v05_request(json_array_get(chats, i));
        di_chat_prompt prompt = {0};
        const di_status status = di_chat_render(request, &prompt);
        assert_int_equal(status, wanted[i] ? DI_OK : DI_ERR_INPUT);
        if (wanted[i])
            assert_string_equal(prompt.text.data, wanted[i]);
        else
            assert_string_equal(di_last_error(),
                                "messages: found an empty array, wanted at least one message");
        di_chat_prompt_free(&prompt);
        json_decref(request);
    }
    json_decref(chats);
}

static void v05_tools_keep_reasoning(void **state)
{
    (void)state;
    json_t *chats = load_bug("V05/chats.json");
    json_t *request = v05_request(json_array_get(chats, 2));
    json_object_set_new(request, "tools", json_pack("[{s:{s:s}}]", "function", "name", "f"));
    di_chat_prompt prompt = {0};
    assert_int_equal(di_chat_render(request, &prompt), DI_OK);
    assert_non_null(strstr(prompt.text.data,
                           "<｜User｜>u1<｜Assistant｜><think>r1</think>a1" DI_CHAT_EOS
                           "<｜User｜>u2<｜Assistant｜><think>"));
    di_chat_prompt_free(&prompt);
    json_decref(request);
    json_decref(chats);
}

static void v05_efforts(void **state)
{
    (void)state;
    static const char *const numbers[] = {"50", "75", "100", NULL, NULL};
    json_t *chats = load_bug("V05/chats.json");
    const json_t *chat = json_array_get(chats, 6),
                 *efforts = json_object_get(chat, "reasoning_effort");
    assert_int_equal(json_array_size(efforts), 5);
    for (size_t i = 0; i < 5; i++) {
        json_t *request = v05_request(chat);
        json_object_set(request, "reasoning_effort", json_array_get(efforts, i));
        di_chat_prompt prompt = {0};
        const di_status status = di_chat_render(request, &prompt);
        assert_int_equal(status, numbers[i] ? DI_OK : DI_ERR_INPUT);
        if (numbers[i]) {
            char wanted[512];
            snprintf(wanted, sizeof wanted, DI_CHAT_BOS EFFORT "<｜User｜>hi<｜Assistant｜><think>",
                     numbers[i]);
            assert_string_equal(prompt.text.data, wanted);
        }
        di_chat_prompt_free(&prompt);
        json_decref(request);
    }
    assert_string_equal(di_last_error(),
                        "reasoning_effort: found \"banana\", wanted an integer from "
                        "1 to 100, low, high or max");
    json_decref(chats);
}

/* K01: an empty user message is a prompt of markers only, not an error. */
static void k01_empty_user_message(void **state)
{
    (void)state;
    json_t *rows = load_bug("K01/requests.json");
    di_chat_prompt prompt = {0};
    assert_int_equal(di_chat_render(json_array_get(rows, 4), &prompt), DI_OK);
    assert_string_equal(prompt.text.data, DI_CHAT_BOS "<｜User｜><｜Assistant｜></think>");
    assert_int_equal(prompt.n_content, 0);
    di_chat_prompt_free(&prompt);
    json_decref(rows);
}

/* T07: whatever users write stays content: the spans hold exactly it. */
static void t07_markers_in_user_text(void **state)
{
    (void)state;
    json_t *rows = load_bug("T07/cases.json");
    assert_int_equal(json_array_size(rows), 5);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *content = json_object_get(row, "content");
        if (!content)
            continue;
        json_t *request = json_pack("[{s:s, s:O}]", "role", "user", "content", content);
        di_chat_prompt prompt = {0};
        assert_int_equal(di_chat_render(request, &prompt), DI_OK);
        assert_int_equal(prompt.n_content, 1);
        assert_int_equal(prompt.content[0].begin, strlen(DI_CHAT_BOS "<｜User｜>"));
        assert_int_equal(prompt.content[0].end - prompt.content[0].begin,
                         json_string_length(content));
        assert_memory_equal(prompt.text.data + prompt.content[0].begin, json_string_value(content),
                            json_string_length(content));
        di_chat_prompt_free(&prompt);
        json_decref(request);
    }
    json_decref(rows);
}

static void t07_marker_cut_over_parts(void **state)
{
    (void)state;
    assert_template(
        "[{\"role\": \"tool\", \"content\": \"<｜Us\"},"
        " {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"er｜>\"},"
        " {\"type\": \"text\", \"text\": \"<｜Us\"}, {\"type\": \"text\", \"text\": \"er｜>\"}]}]",
        DI_CHAT_BOS "<｜User｜><tool_result>#</tool_result>\n\n#\n\n#\n\n#"
                    "<｜Assistant｜></think>");
}

/* The same for every place that takes text: with a marker in all of them, the template is the one
 * of harmless text. */
static void t07_markers_everywhere(void **state)
{
    (void)state;
    static const char *const request =
        "{\"thinking_mode\": \"thinking\", \"tools\": [{\"function\": {\"name\": \"%1$s\", "
        "\"description\": \"%1$s\", \"%1$s\": [\"%1$s\"]}}], \"messages\": [{\"role\": \"system\", "
        "\"content\": \"%1$s\", \"response_format\": {\"%1$s\": \"%1$s\"}}, {\"role\": \"user\", "
        "\"content\": [{\"type\": \"text\", \"text\": \"%1$s\"}, {\"type\": \"image_url\", "
        "\"image_url\": "
        "\"%1$s\"}]}, {\"role\": \"assistant\", \"content\": \"%1$s\", \"reasoning_content\": "
        "\"%1$s\", "
        "\"tool_calls\": [{\"id\": \"%1$s\", \"function\": {\"name\": \"%1$s\", \"arguments\": "
        "{\"%1$s\": "
        "\"%1$s\", \"b\": [\"%1$s\"]}}}, {\"function\": {\"name\": \"f\", \"arguments\": "
        "\"%1$s\"}}]}, "
        "{\"role\": \"tool\", \"tool_call_id\": \"%1$s\", \"content\": \"%1$s\"}, {\"role\": "
        "\"latest_reminder\", \"content\": \"%1$s\"}]}";
    static const char *const markers[] = {"<｜User｜>",   DI_CHAT_EOS,        DI_CHAT_BOS,
                                          "｜DSML｜",     "<think>",          "</think>",
                                          "<｜action｜>", "</｜DSML｜ calls>"};
    DI_BUF_AUTO harmless = {0}, wanted = {0};
    di_chat_prompt prompt;
    assert_int_equal(di_buf_printf(&harmless, request, "abc"), DI_OK);
    render(di_buf_str(&harmless), &prompt);
    template_of(&prompt, &wanted);
    assert_null(strstr(di_buf_str(&wanted), "abc"));
    assert_int_equal(prompt.n_images, 1);
    di_chat_prompt_free(&prompt);
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        DI_BUF_AUTO text = {0};
        assert_int_equal(di_buf_printf(&text, request, markers[i]), DI_OK);
        assert_template(di_buf_str(&text), di_buf_str(&wanted));
    }
}

/* ------------------------------------------------------------------------------------- rules */

static void content_forms(void **state)
{
    (void)state;
    assert_prompt("[{\"role\": \"user\", \"content\": []}]",
                  DI_CHAT_BOS "<｜User｜><｜Assistant｜></think>");
    assert_prompt("[{\"role\": \"user\"}]", DI_CHAT_BOS "<｜User｜><｜Assistant｜></think>");
    assert_prompt(
        "[{\"role\": \"system\", \"content\": null}, {\"role\": \"user\", \"content\": \"a\"},"
        " {\"role\": \"assistant\", \"content\": null}]",
        DI_CHAT_BOS "<｜System｜><｜User｜>a<｜Assistant｜></think>" DI_CHAT_EOS);
    assert_prompt(
        "[{\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
        "\"image\", \"data\": \"x\"}]}]",
        DI_CHAT_BOS "<｜User｜><tool_result>a\n\n" DI_CHAT_IMAGE
                    "</tool_result><｜Assistant｜></think>");
    assert_prompt(
        "[{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"content\": \"r\"}, "
        "{\"type\": \"text\", \"text\": \"t\"}]}]",
        DI_CHAT_BOS "<｜User｜><tool_result>r</tool_result>\n\nt<｜Assistant｜></think>");
    assert_prompt(
        "[{\"role\": \"user\", \"content\": \"x\", \"content_blocks\": [{\"type\": \"text\", "
        "\"text\": \"b\"}]}]",
        DI_CHAT_BOS "<｜User｜>b<｜Assistant｜></think>");
    assert_prompt("[{\"role\": \"assistant\", \"content\": \"x\", \"content_blocks\": [{\"type\": "
                  "\"text\", \"text\": \"b\"}]}]",
                  DI_CHAT_BOS "x" DI_CHAT_EOS);
}

static void nul_in_text(void **state)
{
    (void)state;
    static const char request[] = "[{\"role\": \"user\", \"content\": \"a\\u0000b\"}]";
    static const char wanted[] = DI_CHAT_BOS "<｜User｜>a\0b<｜Assistant｜></think>";
    di_chat_prompt prompt = {0};
    assert_int_equal(di_chat_render_text(request, strlen(request), &prompt), DI_OK);
    assert_int_equal(prompt.text.len, sizeof wanted - 1);
    assert_memory_equal(prompt.text.data, wanted, sizeof wanted);
    di_chat_prompt_free(&prompt);
}

static void results_in_order_of_calls(void **state)
{
    (void)state;
    assert_prompt(
        "[{\"role\": \"assistant\", \"tool_calls\": ["
        "{\"id\": \"a\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}},"
        "{\"id\": \"b\", \"function\": {\"name\": \"g\", \"arguments\": \"{}\"}}]},"
        " {\"role\": \"tool\", \"tool_call_id\": \"b\", \"content\": \"B\"},"
        " {\"role\": \"user\", \"content\": \"between\"},"
        " {\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"A\"},"
        " {\"role\": \"tool\", \"tool_call_id\": \"?\", \"content\": \"unknown\"}]",
        DI_CHAT_BOS
        "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n"
        "<｜DSML｜ invoke name=\"g\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>" DI_CHAT_EOS
        "<｜User｜><tool_result>A</tool_result>\n\nbetween\n\n<tool_result>unknown"
        "</tool_result>\n\n<tool_result>B</tool_result><｜Assistant｜></think>");
}

static void empty_values_count_as_missing(void **state)
{
    (void)state;
    static const char *const empty[] = {"null", "false", "0", "0.0", "\"\"", "[]", "{}"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        DI_BUF_AUTO request = {0};
        assert_int_equal(di_buf_printf(&request,
                                       "[{\"role\": \"system\", \"response_format\": %s}, "
                                       "{\"role\": \"assistant\", \"wo_eos\": %s}]",
                                       empty[i], empty[i]),
                         DI_OK);
        assert_prompt(di_buf_str(&request), DI_CHAT_BOS "<｜System｜>" DI_CHAT_EOS);
    }
    assert_prompt("[{\"role\": \"assistant\", \"content\": \"a\", \"wo_eos\": 1}]",
                  DI_CHAT_BOS "a");
}

static void tool_namespaces(void **state)
{
    (void)state;
    di_chat_prompt prompt;
    render(
        "{\"messages\": [{\"role\": \"system\"}, {\"role\": \"assistant\", \"tool_calls\": "
        "[{\"namespace\":"
        " \"web\", \"function\": {\"name\": \"get\", \"arguments\": {}}}]}], \"tools\": "
        "[{\"namespace\":"
        " {\"name\": \"web\", \"description\": \"Net.\"}, \"function\": {\"name\": \"get\", "
        "\"description\": \"Gets\"}}, {\"function\": {\"namespace\": \"fs\", \"name\": \"rm\"}}]}",
        &prompt);
    assert_non_null(strstr(prompt.text.data,
                           "\n{\"name\": \"web::get\", \"description\": \"Net.\\nGets\"}\n"
                           "{\"name\": \"fs::rm\"}\n"));
    assert_non_null(strstr(prompt.text.data, "<｜DSML｜ invoke name=\"web::get\">\n\n"));
    di_chat_prompt_free(&prompt);
    assert_refused(
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"namespace\": \"a\", \"function\": "
        "{\"name\":"
        " \"b::c\", \"arguments\": {}}}]}]",
        "messages[0].tool_calls[0]: found namespace \"a\" beside the tool name \"b::c\"");
    assert_refused(
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"a::b::c\", "
        "\"arguments\": {}}}]}]",
        "messages[0].tool_calls[0]: found a tool name with two \"::\", wanted at most one");
}

static void tasks_and_reminders(void **state)
{
    (void)state;
    /* a task token ends the prompt; the answer to it has no reasoning */
    assert_prompt(
        "{\"thinking_mode\": \"thinking\", \"messages\": [{\"role\": \"user\", \"content\": \"q\", "
        "\"task\": \"action\"}, {\"role\": \"assistant\", \"content\": \"Search\", "
        "\"reasoning_content\": \"r\"}, {\"role\": \"assistant\", \"content\": \"\", \"task\": "
        "\"title\"}]}",
        DI_CHAT_BOS EFFORT75 "<｜User｜>q<｜Assistant｜><think><｜action｜>Search" DI_CHAT_EOS
                             "</think>" DI_CHAT_EOS "<｜title｜>");
    /* a user message with a task takes no further text, only results */
    assert_prompt(
        "[{\"role\": \"user\", \"content\": \"a\", \"task\": \"query\"}, {\"role\": \"user\", "
        "\"content\": \"b\"}]",
        DI_CHAT_BOS "<｜User｜>a<｜User｜>b<｜Assistant｜></think>");
    assert_prompt(
        "[{\"role\": \"user\", \"content\": \"a\", \"task\": \"query\"}, {\"role\": \"tool\", "
        "\"content\": \"b\"}]",
        DI_CHAT_BOS "<｜User｜>a\n\n<tool_result>b</tool_result><｜query｜>");
    /* a reminder after a user message: the header comes before it */
    assert_prompt(
        "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"latest_reminder\", \"content\": "
        "\"d\"}]",
        DI_CHAT_BOS "<｜User｜>q<｜Assistant｜></think><｜latest_reminder｜>d");
}

/* -------------------------------------------------------------------------------- refusals */

static void refusals(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "request: line 1, column 1: not valid JSON: wanted a value"},
        {"7", "request: found 7, wanted an array of messages or an object with messages"},
        {"{}", "messages: found nothing, wanted an array"},
        {"{\"messages\": {}}", "messages: found an object, wanted an array"},
        {"[3]", "messages[0]: found 3, wanted an object with role and content"},
        {"[{\"role\": \"user\"}, {\"content\": \"x\"}]",
         "messages[1].role: found nothing, wanted system, user, assistant, tool or "
         "latest_reminder"},
        {"[{\"role\": \"developer\", \"content\": \"x\"}]",
         "messages[0].role: found \"developer\", wanted system, user, assistant, tool or "
         "latest_reminder"},
        {"[{\"role\": \"user\", \"content\": null}]",
         "messages[0].content: found null, wanted a string or an array of blocks"},
        {"[{\"role\": \"latest_reminder\"}]",
         "messages[0].content: found nothing, wanted a string or an array of blocks"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]",
         "messages[0].content[0].text: found nothing, wanted a string"},
        {"[{\"role\": \"user\", \"content\": [\"x\"]}]",
         "messages[0].content[0]: found \"x\", wanted an object with a type"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"video_url\"}]}]",
         "messages[0].content[0].type: found \"video_url\", wanted text, image_url, image or "
         "tool_result"},
        {"[{\"role\": \"tool\", \"content\": [{\"type\": \"tool_result\"}]}]",
         "messages[0].content[0].type: found \"tool_result\", wanted text, image_url or image"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"content\": [{\"type\": "
         "\"text\", \"text\": 5}]}]}]",
         "messages[0].content[0].content[0].text: found 5, wanted a string"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": "
         "\"\"}}]}]",
         "messages[0].content[0].image_url: found an object, wanted a URL or {\"url\": ...}"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]",
         "messages[0].content[0]: found an image without a source, wanted source, url or data"},
        {"[{\"role\": \"assistant\", \"reasoning_content\": \"<｜deepseek_image｜>\"}]",
         "messages[0].reasoning_content: found the image placeholder <｜deepseek_image｜> in a "
         "text"},
        {"[{\"role\": \"assistant\", \"reasoning_content\": []}]",
         "messages[0].reasoning_content: found an array, wanted a string"},
        {"[{\"role\": \"assistant\", \"tool_calls\": {}}]",
         "messages[0].tool_calls: found an object, wanted an array"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{}]}]",
         "messages[0].tool_calls[0].function: found nothing, wanted an object with name and "
         "arguments"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": 3, \"function\": {}}]}]",
         "messages[0].tool_calls[0].id: found 3, wanted a string"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}]",
         "messages[0].tool_calls[0].function.arguments: found nothing, wanted JSON in a string"},
        {"[{\"role\": \"system\", \"tools\": [{\"name\": \"f\"}]}]",
         "messages[0].tools[0].function: found nothing, wanted an object with a name"},
        {"{\"messages\": [{\"role\": \"system\"}], \"tools\": [{\"function\": {\"name\": 1}}]}",
         "tools[0].function.name: found 1, wanted a string"},
        {"[{\"role\": \"system\", \"tools\": [{\"namespace\": 5, \"function\": {\"name\": "
         "\"f\"}}]}]",
         "messages[0].tools[0].namespace: found 5, wanted a name"},
        {"[{\"role\": \"system\", \"tools\": [{\"namespace\": {}, \"function\": {\"name\": "
         "\"f\"}}]}]",
         "messages[0].tools[0].namespace: found an object without a name"},
        {"[{\"role\": \"system\", \"tools\": [{\"namespace\": \"a::b\", \"function\": {\"name\": "
         "\"f\"}}]}]",
         "messages[0].tools[0].namespace: found \"::\" in it"},
        {"[{\"role\": \"system\", \"tools\": [{\"namespace\": {\"name\": \"a\", \"description\": "
         "1}, "
         "\"function\": {\"name\": \"f\"}}]}]",
         "messages[0].tools[0]: found a description that is no string"},
        {"[{\"role\": \"tool\", \"tool_call_id\": 7, \"content\": \"\"}]",
         "messages[0].tool_call_id: found 7, wanted a string"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": {}}]}]",
         "messages[0].content[0].tool_use_id: found an object, wanted a string"},
        {"[] []", "request: line 1, column 4: not valid JSON: text after the value"},
        {"{\"messages\": [{\"role\": \"system\"}], \"tools\": \"f\"}",
         "tools: found \"f\", wanted an array of tools"},
        {"{\"messages\": [{\"role\": \"user\"}], \"drop_thinking\": 1}",
         "drop_thinking: found 1, wanted true or false"},
        {"{\"messages\": [{\"role\": \"user\"}], \"reasoning_effort\": true}",
         "reasoning_effort: found true, wanted an integer from 1 to 100, low, high or max"},
        {"{\"messages\": [{\"role\": \"user\"}], \"thinking_mode\": \"deep\"}",
         "thinking_mode: found \"deep\", wanted chat or thinking"},
        {"[{\"role\": \"user\", \"task\": \"nonsense\"}]",
         "messages[0].task: found \"nonsense\", wanted action, query, authority, domain, title or "
         "read_url"},
        {"[{\"role\": \"user\",\n \"role\": \"user\"}]",
         "request: line 2, column 2: not valid JSON: duplicate key"},
        {"[{\"role\": \"user\", \"content\": \"\\ud83d\"}]",
         "request: line 1, column 31: not valid JSON: half of a surrogate pair"},
        {"[{\"role\": \"user\", \"content\": \"\xff\"}]",
         "request: line 1, column 31: not valid JSON: not UTF-8"},
        {"[1e400]", "request: line 1, column 2: not valid JSON: number out of range"},
        {"[NaN]", "request: line 1, column 2: not valid JSON: not a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i][0], cases[i][1]);
}

/* Every cut of a request is refused; so is nesting without end. */
static void cut_and_deep_requests(void **state)
{
    (void)state;
    static const char request[] = "{\"messages\": [{\"role\": \"user\", \"content\": "
                                  "\"é\\n\\ud83d\\ude42\", \"n\": -1.5e+3}]}";
    di_chat_prompt prompt = {0};
    for (size_t len = 0; len < strlen(request); len++)
        assert_int_equal(di_chat_render_text(request, len, &prompt), DI_ERR_INPUT);
    assert_int_equal(di_chat_render_text(request, strlen(request), &prompt), DI_OK);
    di_chat_prompt_free(&prompt);
    enum { DEPTH = 100000 };
    char *deep = malloc(DEPTH);
    assert_non_null(deep);
    memset(deep, '[', DEPTH);
    assert_int_equal(di_chat_render_text(deep, DEPTH, &prompt), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "nested more than 500 deep"));
    free(deep);
}

static void public_function(void **state)
{
    (void)state;
    static const char request[] = "[{\"role\": \"user\", \"content\": \"What is 2+2?\"}]";
    char *prompt = NULL;
    size_t len = 0;
    assert_int_equal(di_chat_encode_json(request, strlen(request), &prompt, &len), DI_OK);
    assert_string_equal(prompt, DI_CHAT_BOS "<｜User｜>What is 2+2?<｜Assistant｜></think>");
    assert_int_equal(len, strlen(prompt));
    free(prompt);
    assert_int_equal(di_chat_encode_json(NULL, 0, &prompt, &len), DI_ERR_ARGUMENT);
    assert_int_equal(di_chat_encode_json("[]", 2, &prompt, &len), DI_ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_conversations),
        cmocka_unit_test(given_tasks_and_refusals),
        cmocka_unit_test(given_images),
        cmocka_unit_test(v05_first_chats),
        cmocka_unit_test(v05_tools_keep_reasoning),
        cmocka_unit_test(v05_efforts),
        cmocka_unit_test(k01_empty_user_message),
        cmocka_unit_test(t07_markers_in_user_text),
        cmocka_unit_test(t07_marker_cut_over_parts),
        cmocka_unit_test(t07_markers_everywhere),
        cmocka_unit_test(content_forms),
        cmocka_unit_test(nul_in_text),
        cmocka_unit_test(results_in_order_of_calls),
        cmocka_unit_test(empty_values_count_as_missing),
        cmocka_unit_test(tool_namespaces),
        cmocka_unit_test(tasks_and_reminders),
        cmocka_unit_test(refusals),
        cmocka_unit_test(cut_and_deep_requests),
        cmocka_unit_test(public_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
