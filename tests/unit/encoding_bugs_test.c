/* text/encoding.h against the prompts of known bugs (tests/cases/bugs). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "deepinfer/tools.h"
#include "text/encoding.h"
#include "prompt_check.h"

#define CASES DI_TEST_DATA "/cases/"
#define EFFORT                                                                                      \
    "<｜System｜>Reasoning Effort: %s (range 1-100, the higher the value, the more thorough the " \
    "reasoning)\n\n"
#define EFFORT75                                                                                    \
    "<｜System｜>Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the " \
    "reasoning)\n\n"

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
    di_assert_prompt_template(
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
    di_prompt_render(di_buf_str(&harmless), &prompt);
    di_prompt_template(&prompt, &wanted);
    assert_null(strstr(di_buf_str(&wanted), "abc"));
    assert_int_equal(prompt.n_images, 1);
    di_chat_prompt_free(&prompt);
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        DI_BUF_AUTO text = {0};
        assert_int_equal(di_buf_printf(&text, request, markers[i]), DI_OK);
        di_assert_prompt_template(di_buf_str(&text), di_buf_str(&wanted));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v05_first_chats),
        cmocka_unit_test(v05_tools_keep_reasoning),
        cmocka_unit_test(v05_efforts),
        cmocka_unit_test(k01_empty_user_message),
        cmocka_unit_test(t07_markers_in_user_text),
        cmocka_unit_test(t07_marker_cut_over_parts),
        cmocka_unit_test(t07_markers_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
