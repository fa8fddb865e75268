/* text/encoding.h: prompts equal to the reference's, byte for byte; what is content; what is
 * refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "deepinfer/tools.h"
#include "text/encoding.h"
#include "prompt_check.h"
#include "xz.h"

#define CASES DI_TEST_DATA "/cases/"
#define EFFORT75                                                                                    \
    "<｜System｜>Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the " \
    "reasoning)\n\n"

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
        di_prompt_template(&prompt, &text);
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

/* ------------------------------------------------------------------------------------- rules */

static void content_forms(void **state)
{
    (void)state;
    di_assert_prompt("[{\"role\": \"user\", \"content\": []}]",
                     DI_CHAT_BOS "<｜User｜><｜Assistant｜></think>");
    di_assert_prompt("[{\"role\": \"user\"}]", DI_CHAT_BOS "<｜User｜><｜Assistant｜></think>");
    di_assert_prompt(
        "[{\"role\": \"system\", \"content\": null}, {\"role\": \"user\", \"content\": \"a\"},"
        " {\"role\": \"assistant\", \"content\": null}]",
        DI_CHAT_BOS "<｜System｜><｜User｜>a<｜Assistant｜></think>" DI_CHAT_EOS);
    di_assert_prompt(
        "[{\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
        "\"image\", \"data\": \"x\"}]}]",
        DI_CHAT_BOS "<｜User｜><tool_result>a\n\n" DI_CHAT_IMAGE
                    "</tool_result><｜Assistant｜></think>");
    di_assert_prompt(
        "[{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"content\": \"r\"}, "
        "{\"type\": \"text\", \"text\": \"t\"}]}]",
        DI_CHAT_BOS "<｜User｜><tool_result>r</tool_result>\n\nt<｜Assistant｜></think>");
    di_assert_prompt(
        "[{\"role\": \"user\", \"content\": \"x\", \"content_blocks\": [{\"type\": \"text\", "
        "\"text\": \"b\"}]}]",
        DI_CHAT_BOS "<｜User｜>b<｜Assistant｜></think>");
    di_assert_prompt(
        "[{\"role\": \"assistant\", \"content\": \"x\", \"content_blocks\": [{\"type\": "
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
    di_assert_prompt(
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
        di_assert_prompt(di_buf_str(&request), DI_CHAT_BOS "<｜System｜>" DI_CHAT_EOS);
    }
    di_assert_prompt("[{\"role\": \"assistant\", \"content\": \"a\", \"wo_eos\": 1}]",
                     DI_CHAT_BOS "a");
}

static void tool_namespaces(void **state)
{
    (void)state;
    di_chat_prompt prompt;
    di_prompt_render(
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
    di_assert_prompt_refused(
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"namespace\": \"a\", \"function\": "
        "{\"name\":"
        " \"b::c\", \"arguments\": {}}}]}]",
        "messages[0].tool_calls[0]: found namespace \"a\" beside the tool name \"b::c\"");
    di_assert_prompt_refused(
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"a::b::c\", "
        "\"arguments\": {}}}]}]",
        "messages[0].tool_calls[0]: found a tool name with two \"::\", wanted at most one");
}

static void tasks_and_reminders(void **state)
{
    (void)state;
    /* a task token ends the prompt; the answer to it has no reasoning */
    di_assert_prompt(
        "{\"thinking_mode\": \"thinking\", \"messages\": [{\"role\": \"user\", \"content\": \"q\", "
        "\"task\": \"action\"}, {\"role\": \"assistant\", \"content\": \"Search\", "
        "\"reasoning_content\": \"r\"}, {\"role\": \"assistant\", \"content\": \"\", \"task\": "
        "\"title\"}]}",
        DI_CHAT_BOS EFFORT75 "<｜User｜>q<｜Assistant｜><think><｜action｜>Search" DI_CHAT_EOS
                             "</think>" DI_CHAT_EOS "<｜title｜>");
    /* a user message with a task takes no further text, only results */
    di_assert_prompt(
        "[{\"role\": \"user\", \"content\": \"a\", \"task\": \"query\"}, {\"role\": \"user\", "
        "\"content\": \"b\"}]",
        DI_CHAT_BOS "<｜User｜>a<｜User｜>b<｜Assistant｜></think>");
    di_assert_prompt(
        "[{\"role\": \"user\", \"content\": \"a\", \"task\": \"query\"}, {\"role\": \"tool\", "
        "\"content\": \"b\"}]",
        DI_CHAT_BOS "<｜User｜>a\n\n<tool_result>b</tool_result><｜query｜>");
    /* a reminder after a user message: the header comes before it */
    di_assert_prompt(
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
        di_assert_prompt_refused(cases[i][0], cases[i][1]);
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
