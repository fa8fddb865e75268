/* Response bodies of made-up results, compared as whole texts; lines of batch and results files. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/writer.h"
#include "text/encoding.h"
#include "tokenizers.h"

static di_tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    tokenizer = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    return tokenizer ? 0 : -1;
}

static int close_tokenizer(void **state)
{
    (void)state;
    di_tokenizer_close(tokenizer);
    return 0;
}

static int32_t id_of(const char *token)
{
    const int32_t id = di_tokenizer_find(tokenizer, token, strlen(token));
    if (id < 0)
        fail_msg("no token %s", token);
    return id;
}

static const di_api_response response = {.id = "x-1", .created = 1700000000, .model = "served"};

static di_result text_result(const char *text, const int32_t *ids, size_t n)
{
    return (di_result){.text = text,
                       .text_bytes = strlen(text),
                       .token_ids = ids,
                       .n_token_ids = n,
                       .finish_reason = DI_FINISH_LENGTH,
                       .seed = 9007199254740991,
                       .is_reproducible = true,
                       .error = ""};
}

static void expect(const di_api_request *request, const di_result *const *results,
                   const char *wanted)
{
    DI_BUF_AUTO out = {0};
    assert_int_equal(di_api_response_append(tokenizer, request, &response, results, &out), DI_OK);
    assert_string_equal(di_buf_str(&out), wanted);
    json_t *parsed = json_loads(di_buf_str(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(parsed);
    json_decref(parsed);
}

/* Two prompts, the first with two samples: choices numbered through, each token counted once. */
static void completions_number_choices_and_count_tokens(void **state)
{
    (void)state;
    static const int32_t ids[] = {40, 41, 42};
    static const int32_t prompt_ids[] = {0, 7};
    di_result second = text_result("b\"", ids, 3), first = text_result("a", ids, 1);
    di_result other = text_result("\xff", ids, 2);
    first.next = &second;
    first.prompt_token_ids = second.prompt_token_ids = other.prompt_token_ids = prompt_ids;
    first.n_prompt_token_ids = second.n_prompt_token_ids = 2;
    first.n_cached_tokens = second.n_cached_tokens = 1;
    second.finish_reason = DI_FINISH_STOP;
    second.is_reproducible = false;
    other.n_prompt_token_ids = 1;
    const di_request prompts[] = {{.text = "p", .text_bytes = 1}, {.text = "q", .text_bytes = 1}};
    const di_api_request request = {.endpoint = DI_API_COMPLETIONS,
                                    .prompts = prompts,
                                    .n_prompts = 2,
                                    .model = "mine",
                                    .returns_token_ids = true};
    const di_result *results[] = {&first, &other};
    expect(&request, results,
           "{\"id\": \"x-1\", \"object\": \"text_completion\", \"created\": 1700000000, \"model\": "
           "\"mine\", \"system_fingerprint\": \"deepinfer-0.1.0\", \"choices\": ["
           "{\"index\": 0, \"text\": \"a\", \"logprobs\": null, \"finish_reason\": \"length\", "
           "\"seed\": 9007199254740991, \"reproducible\": true, \"prompt_token_ids\": [0, 7], "
           "\"token_ids\": [40]}, "
           "{\"index\": 1, \"text\": \"b\\\"\", \"logprobs\": null, \"finish_reason\": \"stop\", "
           "\"seed\": 9007199254740991, \"reproducible\": false, \"prompt_token_ids\": [0, 7], "
           "\"token_ids\": [40, 41, 42]}, "
           "{\"index\": 2, \"text\": \"\xef\xbf\xbd\", \"logprobs\": null, \"finish_reason\": "
           "\"length\", \"seed\": 9007199254740991, \"reproducible\": true, \"prompt_token_ids\": "
           "[0], "
           "\"token_ids\": [40, 41]}], "
           "\"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 6, \"total_tokens\": 9, "
           "\"prompt_tokens_details\": {\"cached_tokens\": 1}}}");
}

static json_t *chat(const char *text, bool is_thinking, di_finish_reason reason)
{
    const int32_t ids[] = {40};
    di_result result = text_result(text, ids, 1);
    result.finish_reason = reason;
    const di_request prompt = {.messages_json = "[]"};
    const di_api_request request = {.endpoint = DI_API_CHAT_COMPLETIONS,
                                    .prompts = &prompt,
                                    .n_prompts = 1,
                                    .is_thinking = is_thinking};
    const di_result *results[] = {&result};
    DI_BUF_AUTO out = {0};
    assert_int_equal(di_api_response_append(tokenizer, &request, &response, results, &out), DI_OK);
    json_t *body = json_loads(di_buf_str(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(body);
    assert_string_equal(json_string_value(json_object_get(body, "object")), "chat.completion");
    assert_string_equal(json_string_value(json_object_get(body, "model")), "served");
    json_t *choice = json_incref(json_array_get(json_object_get(body, "choices"), 0));
    json_decref(body);
    return choice;
}

static void chats_have_their_parts(void **state)
{
    (void)state;
    static const char call[] = "ok\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ "
                               "parameter name=\"x\" string=\"false\">3</｜DSML｜ parameter>\n"
                               "</｜DSML｜ invoke>\n</｜DSML｜ calls>";
    static const struct {
        const char *text;
        bool is_thinking;
        di_finish_reason reason;
        const char *message, *finish;
    } rows[] = {
        {"hello", false, DI_FINISH_STOP, "{\"role\": \"assistant\", \"content\": \"hello\"}",
         "stop"},
        {"why</think>so", true, DI_FINISH_LENGTH,
         "{\"role\": \"assistant\", \"content\": \"so\", \"reasoning_content\": \"why\"}",
         "length"},
        {"cut off", true, DI_FINISH_LENGTH,
         "{\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"cut off\"}",
         "length"},
        {call, false, DI_FINISH_STOP,
         "{\"role\": \"assistant\", \"content\": \"ok\", \"tool_calls\": [{\"id\": \"*\", "
         "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": "
         "3}\"}}]}",
         "tool_calls"},
        {call + 2, false, DI_FINISH_LENGTH,
         "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"*\", "
         "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": "
         "3}\"}}]}",
         "length"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *choice = chat(rows[i].text, rows[i].is_thinking, rows[i].reason);
        json_t *message = json_object_get(choice, "message");
        json_t *first = json_array_get(json_object_get(message, "tool_calls"), 0);
        if (first) {
            const char *id = json_string_value(json_object_get(first, "id"));
            assert_int_equal(strlen(id), 21);
            assert_memory_equal(id, "call_", 5);
            json_object_set_new(first, "id", json_string("*"));
        }
        json_t *wanted = json_loads(rows[i].message, 0, NULL);
        assert_non_null(wanted);
        if (!json_equal(message, wanted))
            fail_msg("row %zu: %s", i, json_dumps(message, 0));
        assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")),
                            rows[i].finish);
        assert_true(json_is_null(json_object_get(choice, "logprobs")));
        json_decref(wanted);
        json_decref(choice);
    }
}

/* The two bytes of "é" as two tokens; a token that can never be; the chosen one in the list too. */
static void logprobs_in_both_forms(void **state)
{
    (void)state;
    const int32_t c3 = id_of("Ã"), a9 = id_of("©"), a = id_of("a"), bos = id_of(DI_CHAT_BOS);
    const int32_t ids[] = {c3, a9}, prompt_ids[] = {bos, a};
    const di_logprob first[] = {{c3, -0.5f, 1}, {c3, -0.5f, 1}, {a, -1.5f, 2}};
    const di_logprob second[] = {{a9, -INFINITY, 9}, {c3, 0.0f, 1}, {a, -2.0f, 2}};
    const di_logprob prompt_a[] = {{a, -3.0f, 4}, {c3, -0.25f, 1}, {a9, -1.0f, 2}};
    const di_position_logprobs logprobs[] = {{first, 3}, {second, 3}};
    const di_position_logprobs prompt_logprobs[] = {{NULL, 0}, {prompt_a, 3}};
    di_result result = text_result("é", ids, 2);
    result.logprobs = logprobs;
    result.prompt_logprobs = prompt_logprobs;
    result.prompt_token_ids = prompt_ids;
    result.n_prompt_token_ids = 2;

    DI_BUF_AUTO out = {0};
    assert_int_equal(di_api_chat_logprobs_append(tokenizer, &result, &out), DI_OK);
    assert_string_equal(
        di_buf_str(&out),
        "{\"content\": [{\"token\": \"\xef\xbf\xbd\", \"logprob\": -0.5, \"bytes\": [195], "
        "\"top_logprobs\": [{\"token\": \"\xef\xbf\xbd\", \"logprob\": -0.5, \"bytes\": [195]}, "
        "{\"token\": \"a\", \"logprob\": -1.5, \"bytes\": [97]}]}, "
        "{\"token\": \"\xef\xbf\xbd\", \"logprob\": -9999.0, \"bytes\": [169], "
        "\"top_logprobs\": [{\"token\": \"\xef\xbf\xbd\", \"logprob\": 0.0, \"bytes\": [195]}, "
        "{\"token\": \"a\", \"logprob\": -2.0, \"bytes\": [97]}]}], \"refusal\": null}");

    di_buf_clear(&out);
    assert_int_equal(
        di_api_text_logprobs_append(tokenizer, &result, (di_api_logprobs_form){0}, &out), DI_OK);
    assert_string_equal(
        di_buf_str(&out),
        "{\"tokens\": [\"bytes:\\\\xc3\", \"bytes:\\\\xa9\"], \"token_logprobs\": [-0.5, -9999.0], "
        "\"top_logprobs\": [{\"bytes:\\\\xc3\": -0.5, \"a\": -1.5}, {\"bytes:\\\\xa9\": -9999.0, "
        "\"bytes:\\\\xc3\": 0.0, \"a\": -2.0}], \"text_offset\": [0, 1]}");

    di_buf_clear(&out);
    const di_api_logprobs_form echo = {.has_echo = true, .begins_with_bos = true};
    assert_int_equal(di_api_text_logprobs_append(tokenizer, &result, echo, &out), DI_OK);
    assert_string_equal(
        di_buf_str(&out),
        "{\"tokens\": [\"" DI_CHAT_BOS "\", \"a\", \"bytes:\\\\xc3\", \"bytes:\\\\xa9\"], "
        "\"token_logprobs\": [null, -3.0, -0.5, -9999.0], \"top_logprobs\": [null, {\"a\": -3.0, "
        "\"bytes:\\\\xc3\": -0.25, \"bytes:\\\\xa9\": -1.0}, {\"bytes:\\\\xc3\": -0.5, \"a\": "
        "-1.5}, {\"bytes:\\\\xa9\": -9999.0, \"bytes:\\\\xc3\": 0.0, \"a\": -2.0}], "
        "\"text_offset\": [0, 0, 1, 2]}");
}

static void echo_puts_the_prompt_in_front(void **state)
{
    (void)state;
    const int32_t ids[] = {id_of("a")}, prompt_ids[] = {id_of(DI_CHAT_BOS), id_of("a")};
    static const char *const wanted[] = {"\"text\": \"p€b\"", "\"text\": \"" DI_CHAT_BOS "ab\""};
    const di_request prompts[] = {{.text = "p€", .text_bytes = 4},
                                  {.token_ids = prompt_ids, .n_token_ids = 2}};
    const di_result result = text_result("b", ids, 1), *results[] = {&result};
    for (size_t i = 0; i < 2; i++) {
        const di_api_request request = {.endpoint = DI_API_COMPLETIONS,
                                        .prompts = &prompts[i],
                                        .n_prompts = 1,
                                        .has_echo = true};
        DI_BUF_AUTO out = {0};
        assert_int_equal(di_api_response_append(tokenizer, &request, &response, results, &out),
                         DI_OK);
        assert_non_null(strstr(di_buf_str(&out), wanted[i]));
    }
}

static void a_failed_sample_fails_the_response(void **state)
{
    (void)state;
    di_result second = text_result("", NULL, 0), first = text_result("a", NULL, 0);
    first.next = &second;
    second.finish_reason = DI_FINISH_ERROR;
    second.status = DI_ERR_RUNTIME;
    second.error = "non-finite logits";
    const di_request prompt = {.text = "p", .text_bytes = 1};
    const di_api_request request = {
        .endpoint = DI_API_COMPLETIONS, .prompts = &prompt, .n_prompts = 1};
    const di_result *results[] = {&first};
    DI_BUF_AUTO out = {0};
    assert_int_equal(di_api_response_append(tokenizer, &request, &response, results, &out),
                     DI_ERR_RUNTIME);
    assert_string_equal(di_last_error(), "non-finite logits");
    assert_int_equal(out.len, 0);
}

static void ids_are_fresh(void **state)
{
    (void)state;
    const di_api_request request = {.endpoint = DI_API_CHAT_COMPLETIONS};
    di_api_response a, b;
    assert_int_equal(di_api_response_begin(&request, "m", &a), DI_OK);
    assert_int_equal(di_api_response_begin(&request, "m", &b), DI_OK);
    assert_memory_equal(a.id, "chatcmpl-", 9);
    assert_int_equal(strlen(a.id), 37);
    assert_string_not_equal(a.id, b.id);
    assert_true(a.created > 1700000000);
}

/* ------------------------------------------------------------------------------------ batch files
 */

static void batch_lines_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *line, *custom_id, *body, *error;
    } rows[] = {
        {"{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
         "{\"n\":1e0}}",
         "a", "{\"n\": 1.0}", NULL},
        {"{\"body\": {}, \"url\": \"/v1/chat/completions\", \"method\": \"POST\", \"custom_id\": "
         "\"a\"}\r",
         "a", "{}", NULL},
        {"{\"custom_id\": \"a\", \"method\": \"GET\", \"url\": \"/v1/completions\", \"body\": {}}",
         "a", NULL, "method: found \"GET\", wanted POST"},
        {"{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/embeddings\", \"body\": {}}",
         "a", NULL,
         "url: found \"/v1/embeddings\", wanted /v1/chat/completions or /v1/completions"},
        {"{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\"}", "a", NULL,
         "body: found nothing, wanted an object"},
        {"{\"custom_id\": \"a\", \"methd\": \"POST\"}", "a", NULL,
         "methd: found a field that a batch line does not have, wanted custom_id, method, url and "
         "body"},
        {"{\"custom_id\": 7}", NULL, NULL, "custom_id: found 7, wanted a string"},
        {"{}", NULL, NULL, "custom_id: found none, wanted a string"},
        {"{\"custom_id\": \"a\"", NULL, NULL,
         "line 1, column 18: not valid JSON: wanted ',' or '}'"},
        {"[]", NULL, NULL, "found an array, wanted an object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        di_api_batch_line *line;
        assert_int_equal(di_api_batch_line_read(rows[i].line, strlen(rows[i].line), &line), DI_OK);
        assert_int_equal(line->is_bad, rows[i].error != NULL);
        if (rows[i].custom_id)
            assert_string_equal(line->custom_id, rows[i].custom_id);
        else
            assert_null(line->custom_id);
        if (rows[i].error) {
            assert_string_equal(line->error.message, rows[i].error);
            assert_string_equal(line->error.code, "invalid_line");
        } else {
            assert_string_equal(line->body, rows[i].body);
            assert_int_equal(line->body_bytes, strlen(rows[i].body));
            assert_int_equal(line->endpoint, i ? DI_API_CHAT_COMPLETIONS : DI_API_COMPLETIONS);
        }
        di_api_batch_line_free(line);
    }
}

static uint64_t hash_of(const char *url, const char *body)
{
    char text[256];
    di_api_batch_line *line;
    snprintf(text, sizeof text,
             "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"%s\", \"body\": %s}", url,
             body);
    assert_int_equal(di_api_batch_line_read(text, strlen(text), &line), DI_OK);
    assert_false(line->is_bad);
    const uint64_t hash = line->hash;
    di_api_batch_line_free(line);
    return hash;
}

static void the_hash_is_that_of_the_request(void **state)
{
    (void)state;
    const uint64_t hash = hash_of("/v1/completions", "{\"prompt\": \"x\", \"n\": 1}");
    assert_true(hash == hash_of("/v1/completions", "{ \"prompt\":\"\\u0078\",\"n\":1 }"));
    assert_true(hash != hash_of("/v1/completions", "{\"prompt\": \"x\", \"n\": 2}"));
    assert_true(hash != hash_of("/v1/chat/completions", "{\"prompt\": \"x\", \"n\": 1}"));
}

static void results_are_written_and_read_again(void **state)
{
    (void)state;
    di_api_error error;
    di_api_error_set(DI_ERR_ARGUMENT, "n: found 0", &error);
    const di_api_batch_result rows[] = {
        {.custom_id = "a\n\"",
         .line = 3,
         .hash = 0x0123456789abcdef,
         .http_status = 200,
         .body = "{\"x\": 1}",
         .body_bytes = 8},
        {.custom_id = "b", .line = 4, .hash = 1, .http_status = 400, .error = &error},
        {.line = 5, .hash = UINT64_MAX, .http_status = 400, .error = &error},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text;
        size_t bytes;
        di_api_batch_result read;
        assert_int_equal(di_api_batch_result_write(&rows[i], &text, &bytes), DI_OK);
        assert_int_equal(strlen(text), bytes);
        assert_ptr_equal(strchr(text, '\n'), text + bytes - 1);
        assert_memory_equal(text, DI_API_BATCH_RESULT_START, strlen(DI_API_BATCH_RESULT_START));
        assert_int_equal(di_api_batch_result_read(text, bytes - 1, &read), DI_OK);
        assert_int_equal(read.line, rows[i].line);
        assert_true(read.hash == rows[i].hash);
        assert_int_equal(read.http_status, rows[i].http_status);
        if (rows[i].custom_id)
            assert_string_equal(read.custom_id, rows[i].custom_id);
        else
            assert_null(read.custom_id);
        json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        json_t *problem = json_object_get(line, "error");
        json_t *answer = json_object_get(line, "response");
        assert_int_equal(json_is_null(problem), i == 0);
        assert_int_equal(json_is_null(answer), i == 2);
        if (i == 0)
            assert_int_equal(
                json_integer_value(json_object_get(json_object_get(answer, "body"), "x")), 1);
        else
            assert_string_equal(json_string_value(json_object_get(problem, "message")),
                                "n: found 0");
        json_decref(line);
        di_free((void *)read.custom_id);
        /* Cut anywhere, it is no result. */
        for (size_t n = 0; n < bytes - 1; n++)
            assert_int_not_equal(di_api_batch_result_read(text, n, &read), DI_OK);
        di_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_number_choices_and_count_tokens),
        cmocka_unit_test(chats_have_their_parts),
        cmocka_unit_test(logprobs_in_both_forms),
        cmocka_unit_test(echo_puts_the_prompt_in_front),
        cmocka_unit_test(a_failed_sample_fails_the_response),
        cmocka_unit_test(ids_are_fresh),
        cmocka_unit_test(batch_lines_are_read),
        cmocka_unit_test(the_hash_is_that_of_the_request),
        cmocka_unit_test(results_are_written_and_read_again),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
