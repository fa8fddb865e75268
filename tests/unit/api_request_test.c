/* Request bodies: what each field becomes, and what is refused with which words. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/reader.h"

enum { VOCAB_SIZE = 1280 };

static const di_api_setup setup = {
    .defaults = {.temperature = 0.6,
                 .top_p = 0.95,
                 .repetition_penalty = 1.0,
                 .n = 1,
                 .max_tokens = -1,
                 .n_logprobs = -1},
    .vocab_size = VOCAB_SIZE,
};

static di_api_request *parse(di_api_endpoint endpoint, const char *body)
{
    di_api_request *request = NULL;
    di_api_error error;
    if (di_api_request_parse(&setup, endpoint, body, strlen(body), &request, &error) != DI_OK)
        fail_msg("%s: %s", body, error.message);
    return request;
}

static di_api_request *parse_chat(const char *body)
{
    return parse(DI_API_CHAT_COMPLETIONS, body);
}

static di_api_request *parse_text(const char *body)
{
    return parse(DI_API_COMPLETIONS, body);
}

/* --------------------------------------------------------------------------------------- sampling
 */

static void without_fields_the_model_decides(void **state)
{
    (void)state;
    di_api_request *r = parse_text("{\"prompt\": \"x\", \"top_k\": null, \"stop\": null}");
    const di_sampling_params *p = &r->prompts[0].sampling;
    assert_int_equal(r->n_prompts, 1);
    assert_float_equal(p->temperature, 0.6, 0);
    assert_float_equal(p->top_p, 0.95, 0);
    assert_int_equal(p->max_tokens, 16);
    assert_int_equal(p->n_logprobs, -1);
    assert_false(p->has_seed);
    assert_int_equal(p->n_stop, 0);
    assert_null(r->model);
    di_api_request_free(r);

    r = parse_chat("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    assert_int_equal(r->prompts[0].sampling.max_tokens, -1);
    di_api_request_free(r);
}

static void every_sampling_field_arrives(void **state)
{
    (void)state;
    di_api_request *r = parse_text(
        "{\"model\": \"m\", \"prompt\": \"x\", \"max_tokens\": 9, \"min_tokens\": 3, "
        "\"temperature\": 0, \"top_p\": 0.5, \"top_k\": 40, \"min_p\": 0.1, "
        "\"presence_penalty\": -1, \"frequency_penalty\": 1.5, \"repetition_penalty\": 1.1, "
        "\"logit_bias\": {\"7\": -100, \"1279\": 2.5}, \"n\": 3, \"best_of\": 3, "
        "\"seed\": 18446744073709551615, \"stop\": [\"a\", \"é\"], \"stop_token_ids\": [5, 6], "
        "\"ignore_eos\": true, \"logprobs\": 4, \"echo\": true, \"priority\": -2, "
        "\"verification\": \"reject\", \"timeout\": 1.5, \"return_token_ids\": true, \"stream\": "
        "true, "
        "\"stream_options\": {\"include_usage\": true}, \"user\": \"u\", \"metadata\": {}}");
    const di_sampling_params *p = &r->prompts[0].sampling;
    assert_string_equal(r->model, "m");
    assert_int_equal(p->max_tokens, 9);
    assert_int_equal(p->min_tokens, 3);
    assert_float_equal(p->temperature, 0, 0);
    assert_float_equal(p->top_p, 0.5, 0);
    assert_int_equal(p->top_k, 40);
    assert_float_equal(p->min_p, 0.1, 0);
    assert_float_equal(p->presence_penalty, -1, 0);
    assert_float_equal(p->frequency_penalty, 1.5, 0);
    assert_float_equal(p->repetition_penalty, 1.1, 0);
    assert_int_equal(p->n_logit_bias, 2);
    assert_int_equal(p->logit_bias[0].token_id, 7);
    assert_float_equal(p->logit_bias[0].bias, -100, 0);
    assert_int_equal(p->logit_bias[1].token_id, 1279);
    assert_float_equal(p->logit_bias[1].bias, 2.5, 0);
    assert_int_equal(p->n, 3);
    assert_true(p->has_seed && p->seed == UINT64_MAX);
    assert_int_equal(p->n_stop, 2);
    assert_string_equal(p->stop[0], "a");
    assert_string_equal(p->stop[1], "é");
    assert_int_equal(p->n_stop_ids, 2);
    assert_int_equal(p->stop_ids[1], 6);
    assert_true(p->ignore_eos);
    assert_int_equal(p->verification, DI_VERIFICATION_REJECT);
    assert_int_equal(p->n_logprobs, 4);
    assert_true(p->prompt_logprobs && r->has_echo);
    assert_int_equal(r->prompts[0].priority, -2);
    assert_int_equal(r->prompts[0].timeout_ms, 1500);
    assert_true(r->returns_token_ids && r->is_stream && r->has_stream_usage);
    di_api_request_free(r);
}

static void chat_logprobs_and_lengths(void **state)
{
    (void)state;
    static const char messages[] = "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]";
    static const struct {
        const char *rest;
        int64_t max_tokens;
        int32_t n_logprobs;
    } rows[] = {
        {", \"max_completion_tokens\": 5", 5, -1},
        {", \"max_completion_tokens\": 5, \"max_tokens\": 5", 5, -1},
        {", \"max_tokens\": 6, \"logprobs\": true", 6, 0},
        {", \"logprobs\": true, \"top_logprobs\": 20", -1, 20},
        {", \"logprobs\": false", -1, -1},
        {", \"seed\": -1, \"stop\": \"end\"", -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[256];
        snprintf(body, sizeof body, "{%s%s}", messages, rows[i].rest);
        di_api_request *r = parse_chat(body);
        assert_int_equal(r->prompts[0].sampling.max_tokens, rows[i].max_tokens);
        assert_int_equal(r->prompts[0].sampling.n_logprobs, rows[i].n_logprobs);
        if (i == 5) {
            assert_true(r->prompts[0].sampling.seed == UINT64_MAX);
            assert_string_equal(r->prompts[0].sampling.stop[0], "end");
        }
        di_api_request_free(r);
    }
}

/* ---------------------------------------------------------------------------------------- prompts
 */

static void prompts_in_all_their_forms(void **state)
{
    (void)state;
    di_api_request *r = parse_text("{\"prompt\": \"a\\u0000b\", \"n\": 2}");
    assert_int_equal(r->prompts[0].text_bytes, 3);
    assert_memory_equal(r->prompts[0].text, "a\0b", 4);
    di_api_request_free(r);

    r = parse_text("{\"prompt\": [\"a\", \"bc\"], \"n\": 2}");
    assert_int_equal(r->n_prompts, 2);
    assert_string_equal(r->prompts[1].text, "bc");
    assert_int_equal(r->prompts[1].sampling.n, 2);
    di_api_request_free(r);

    static const char *const ids[] = {"{\"prompt\": [3, 1279]}", "{\"prompt\": [[3, 1279]]}",
                                      "{\"prompt_token_ids\": [3, 1279]}"};
    for (size_t i = 0; i < 3; i++) {
        r = parse_text(ids[i]);
        assert_int_equal(r->n_prompts, 1);
        assert_null(r->prompts[0].text);
        assert_int_equal(r->prompts[0].n_token_ids, 2);
        assert_int_equal(r->prompts[0].token_ids[1], 1279);
        di_api_request_free(r);
    }

    r = parse_text("{\"prompt\": [[1], [2, 3]]}");
    assert_int_equal(r->n_prompts, 2);
    assert_int_equal(r->prompts[1].token_ids[1], 3);
    di_api_request_free(r);
}

static void chats_become_chat_requests(void **state)
{
    (void)state;
    static const struct {
        const char *body, *messages;
        bool is_thinking;
    } rows[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"thinking_mode\": \"chat\"}",
         false},
        {"{\"messages\": [{\"content\": \"s\", \"role\": \"developer\"}, {\"role\": \"user\"}], "
         "\"thinking\": true}",
         "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\"}], "
         "\"thinking_mode\": \"thinking\"}",
         true},
        {"{\"messages\": [{\"role\": \"user\"}], \"reasoning_effort\": \"low\", "
         "\"drop_thinking\": false}",
         "{\"messages\": [{\"role\": \"user\"}], \"thinking_mode\": \"thinking\", "
         "\"reasoning_effort\": \"low\", \"drop_thinking\": false}",
         true},
        {"{\"messages\": [{\"role\": \"user\"}], \"thinking\": {\"type\": \"disabled\"}, "
         "\"reasoning_effort\": 30}",
         "{\"messages\": [{\"role\": \"user\"}], \"thinking_mode\": \"chat\", "
         "\"reasoning_effort\": 30}",
         false},
        {"{\"messages\": [{\"role\": \"user\"}], \"chat_template_kwargs\": {\"thinking\": true}, "
         "\"thinking_mode\": \"thinking\"}",
         "{\"messages\": [{\"role\": \"user\"}], \"thinking_mode\": \"thinking\"}", true},
        {"{\"messages\": [{\"role\": \"user\"}], \"reasoning_effort\": \"none\"}",
         "{\"messages\": [{\"role\": \"user\"}], \"thinking_mode\": \"chat\"}", false},
        /* Tools are shown in a system message only. */
        {"{\"messages\": [{\"role\": \"user\"}], \"tool_choice\": \"auto\", "
         "\"tools\": [{\"max\": 18446744073709551616}], \"parallel_tool_calls\": true}",
         "{\"messages\": [{\"role\": \"system\", \"content\": \"\"}, {\"role\": \"user\"}], "
         "\"thinking_mode\": \"chat\", \"tools\": [{\"max\": 18446744073709551616}]}",
         false},
        {"{\"messages\": [{\"role\": \"system\"}], \"tools\": [{}]}",
         "{\"messages\": [{\"role\": \"system\"}], \"thinking_mode\": \"chat\", \"tools\": [{}]}",
         false},
        {"{\"messages\": [{\"role\": \"user\"}], \"tools\": [{}], \"tool_choice\": \"none\", "
         "\"response_format\": {\"type\": \"text\"}}",
         "{\"messages\": [{\"role\": \"user\"}], \"thinking_mode\": \"chat\"}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        di_api_request *r = parse_chat(rows[i].body);
        assert_int_equal(r->n_prompts, 1);
        assert_string_equal(r->prompts[0].messages_json, rows[i].messages);
        assert_int_equal(r->is_thinking, rows[i].is_thinking);
        di_api_request_free(r);
    }
}

/* Whatever the order of the fields; calls that nothing asks for leave the answer free. */
static void forced_calls_become_a_constraint(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *schema; /* NULL: no constraint */
    } rows[] = {
        {"\"tool_choice\": \"required\", \"tools\": [{\"a\": 1}]",
         "{\"tools\": [{\"a\": 1}], \"tool_choice\": \"required\", \"parallel_tool_calls\": true}"},
        {"\"parallel_tool_calls\": false, \"tools\": [{}], \"tool_choice\": {\"type\": "
         "\"function\", \"function\": {\"name\": \"f\"}}",
         "{\"tools\": [{}], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": "
         "\"f\"}}, \"parallel_tool_calls\": false}"},
        {"\"tools\": [{}], \"tool_choice\": \"auto\"", NULL},
        {"\"tools\": [{}], \"tool_choice\": \"none\", \"parallel_tool_calls\": false", NULL},
        {"\"so_args\": {\"schema_type\": \"tool_calls\", \"schema\": [{}], \"lenient\": true}",
         "[{}]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[512];
        snprintf(body, sizeof body, "{\"messages\": [{\"role\": \"user\"}], %s}", rows[i].fields);
        di_api_request *r = parse_chat(body);
        const di_so_args *so = r->prompts[0].so_args;
        if (rows[i].schema == NULL) {
            assert_null(so);
        } else {
            assert_int_equal(so->schema_type, DI_SCHEMA_TOOL_CALLS);
            assert_string_equal(so->schema, rows[i].schema);
            assert_int_equal(so->schema_bytes, strlen(so->schema));
        }
        di_api_request_free(r);
    }
}

/* ----------------------------------------------------------------------------------------- errors
 */

typedef struct refusal {
    const char *body, *message, *param, *code;
} refusal;

static void check_refusals(di_api_endpoint endpoint, const char *start, const refusal *rows,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char body[512];
        snprintf(body, sizeof body, "%s%s", start, rows[i].body);
        di_api_request *request = NULL;
        di_api_error error = {0};
        if (di_api_request_parse(&setup, endpoint, body, strlen(body), &request, &error) == DI_OK)
            fail_msg("taken: %s", body);
        assert_null(request);
        assert_string_equal(error.message, rows[i].message);
        assert_string_equal(error.param, rows[i].param);
        assert_string_equal(error.code, rows[i].code);
        assert_string_equal(error.type, "invalid_request_error");
        assert_int_equal(error.http_status, 400);
    }
}

static void bad_fields_are_refused_by_name(void **state)
{
    (void)state;
    static const refusal rows[] = {
        {"\"temperature\": -1}", "temperature: found -1, wanted a number from 0 to 1.79769e+308",
         "temperature", "invalid_value"},
        {"\"temperature\": \"hot\"}",
         "temperature: found \"hot\", wanted a number from 0 to 1.79769e+308", "temperature",
         "invalid_value"},
        {"\"top_p\": 1.5}", "top_p: found 1.5, wanted a number from 0 to 1", "top_p",
         "invalid_value"},
        {"\"n\": 0}", "n: found 0, wanted an integer from 1 to 128", "n", "invalid_value"},
        {"\"n\": 1.0}", "n: found 1.0, wanted an integer from 1 to 128", "n", "invalid_value"},
        {"\"max_tokens\": 99999999999999999999}",
         "max_tokens: found 99999999999999999999, wanted an integer, -1 or more", "max_tokens",
         "invalid_value"},
        {"\"min_tokens\": 17}", "min_tokens: found 17, wanted max_tokens (16) at most",
         "min_tokens", "invalid_value"},
        {"\"logit_bias\": {\"191222\": -100}}",
         "logit_bias: found the key \"191222\", wanted a token id from 0 to 1279", "logit_bias",
         "invalid_value"},
        {"\"logit_bias\": {\"-1\": 5}}",
         "logit_bias: found the key \"-1\", wanted a token id from 0 to 1279", "logit_bias",
         "invalid_value"},
        {"\"logit_bias\": {\"abc\": 5}}",
         "logit_bias: found the key \"abc\", wanted a token id from 0 to 1279", "logit_bias",
         "invalid_value"},
        {"\"logit_bias\": {\"07\": 5}}",
         "logit_bias: found the key \"07\", wanted a token id from 0 to 1279", "logit_bias",
         "invalid_value"},
        {"\"logit_bias\": {\"7\": 1e39}}",
         "logit_bias: found 1e+39 for \"7\", wanted a finite number", "logit_bias",
         "invalid_value"},
        {"\"logit_bias\": [7]}",
         "logit_bias: found an array, wanted an object of token ids and numbers", "logit_bias",
         "invalid_value"},
        {"\"stop\": [\"a\", \"\"]}", "stop[1]: found an empty text, wanted a text", "stop",
         "invalid_value"},
        {"\"stop\": \"a\\u0000\"}", "stop: found a NUL character in it, wanted a text without",
         "stop", "invalid_value"},
        {"\"stop_token_ids\": [1280]}",
         "stop_token_ids[0]: found 1280, wanted a token id from 0 to 1279", "stop_token_ids",
         "invalid_value"},
        {"\"seed\": 18446744073709551616}",
         "seed: found 18446744073709551616, wanted an integer of 64 bits", "seed", "invalid_value"},
        {"\"verification\": \"maybe\"}",
         "verification: found \"maybe\", wanted \"match\" or \"reject\"", "verification",
         "invalid_value"},
        {"\"verification\": true}", "verification: found true, wanted \"match\" or \"reject\"",
         "verification", "invalid_value"},
        {"\"logprobs\": true}", "logprobs: found true, wanted an integer from 0 to 1280",
         "logprobs", "invalid_value"},
        {"\"best_of\": 4}", "best_of: found 4, wanted n (1): this version ranks no samples",
         "best_of", "unsupported_value"},
        {"\"suffix\": \"x\"}", "suffix: found \"x\", wanted none: the model continues texts only",
         "suffix", "unsupported_value"},
        {"\"echo\": 1}", "echo: found 1, wanted true or false", "echo", "invalid_value"},
        {"\"timeout\": 0}", "timeout: found 0, wanted a number from 0.001 to 1e+09", "timeout",
         "invalid_value"},
        {"\"temprature\": 1}", "temprature: found a field that /v1/completions does not have",
         "temprature", "unknown_parameter"},
        {"\"messages\": []}", "messages: found a field that /v1/completions does not have",
         "messages", "unknown_parameter"},
        {"\"n\": 1, \"n\": 2}", "body: line 1, column 25: not valid JSON: duplicate key", "",
         "invalid_value"},
    };
    check_refusals(DI_API_COMPLETIONS, "{\"prompt\": \"x\", ", rows, sizeof rows / sizeof *rows);
}

static void bad_prompts_are_refused(void **state)
{
    (void)state;
    static const refusal rows[] = {
        {"{}", "prompt: found none, wanted one of prompt and prompt_token_ids", "prompt",
         "invalid_value"},
        {"{\"prompt\": \"a\", \"prompt_token_ids\": [1]}",
         "prompt: found both, wanted one of prompt and prompt_token_ids", "prompt",
         "invalid_value"},
        {"{\"prompt\": \"\"}", "prompt: found an empty text, wanted at least one byte", "prompt",
         "invalid_value"},
        {"{\"prompt\": []}", "prompt: found an empty array, wanted at least one entry", "prompt",
         "invalid_value"},
        {"{\"prompt\": [\"\"]}", "prompt: found an empty text, wanted at least one byte", "prompt",
         "invalid_value"},
        {"{\"prompt_token_ids\": []}", "prompt_token_ids: found no tokens, wanted at least one",
         "prompt_token_ids", "invalid_value"},
        {"{\"prompt\": [[1], []]}", "prompt: found no tokens, wanted at least one", "prompt",
         "invalid_value"},
        {"{\"prompt\": [1, \"a\"]}", "prompt[1]: found \"a\", wanted a token id from 0 to 1279",
         "prompt", "invalid_value"},
        {"{\"prompt\": [\"a\", 1]}", "prompt[1]: found 1, wanted a string as the first one",
         "prompt", "invalid_value"},
        {"{\"prompt\": [-1]}", "prompt[0]: found -1, wanted a token id from 0 to 1279", "prompt",
         "invalid_value"},
        {"{\"prompt\": 7}",
         "prompt: found 7, wanted a string, an array of strings, an array of token ids or an array "
         "of such arrays",
         "prompt", "invalid_value"},
        {"[1]", "body: found an array, wanted an object", "", "invalid_value"},
        {"{\"prompt\"", "body: line 1, column 10: not valid JSON: wanted ':'", "", "invalid_value"},
    };
    check_refusals(DI_API_COMPLETIONS, "", rows, sizeof rows / sizeof *rows);
}

static void bad_chats_are_refused(void **state)
{
    (void)state;
    static const refusal rows[] = {
        {"\"messages\": []}", "messages: found none, wanted an array of at least one message",
         "messages", "invalid_value"},
        {"\"n\": 1}", "messages: found none, wanted an array of messages", "messages",
         "invalid_value"},
        {"\"messages\": [{}], \"top_logprobs\": 2}",
         "top_logprobs: found it without logprobs, wanted \"logprobs\": true with it",
         "top_logprobs", "invalid_value"},
        {"\"messages\": [{}], \"max_tokens\": 3, \"max_completion_tokens\": 4}",
         "max_completion_tokens: found 4, wanted max_tokens (3) or only one of them",
         "max_completion_tokens", "invalid_value"},
        {"\"messages\": [{}], \"tool_choice\": \"required\"}",
         "tool_choice: found \"required\" without tools, wanted tools to call", "tool_choice",
         "invalid_value"},
        {"\"messages\": [{}], \"tools\": [], \"tool_choice\": {\"type\": \"function\", "
         "\"function\": {\"name\": \"f\"}}}",
         "tool_choice: found an object without tools, wanted tools to call", "tool_choice",
         "invalid_value"},
        {"\"messages\": [{}], \"tools\": [{}], \"tool_choice\": {\"type\": \"allowed_tools\"}}",
         "tool_choice: found an object, wanted auto, none, required or {\"type\": \"function\", "
         "\"function\": {\"name\": ...}}",
         "tool_choice", "invalid_value"},
        {"\"messages\": [{}], \"tools\": [{}], \"tool_choice\": \"required\", "
         "\"response_format\": {\"type\": \"json_object\"}}",
         "tool_choice: found it beside another field that asks for structured output, wanted one "
         "of them",
         "tool_choice", "invalid_value"},
        {"\"messages\": [{}], \"so_args\": {\"schema_type\": \"tool_calls\", \"schema\": 1}}",
         "so_args: found 1, wanted an array of tools or an object with one", "so_args",
         "invalid_value"},
        {"\"messages\": [{}], \"response_format\": {\"type\": \"json_schema\"}}",
         "response_format: found no \"json_schema\", wanted it", "response_format",
         "invalid_value"},
        {"\"messages\": [{}], \"response_format\": {\"type\": \"xml\"}}",
         "response_format: found \"xml\", wanted {\"type\": \"text\", \"json_object\" or "
         "\"json_schema\"}",
         "response_format", "invalid_value"},
        {"\"messages\": [{}], \"guided_regex\": \"a\", \"guided_json\": {}}",
         "guided_json: found it beside another field that asks for structured output, wanted one "
         "of them",
         "guided_json", "invalid_value"},
        {"\"messages\": [{}], \"so_args\": {\"schema_type\": \"xml\", \"schema\": \"a\"}}",
         "so_args: found schema_type \"xml\", wanted regex, json_schema, ebnf or tool_calls",
         "so_args", "invalid_value"},
        {"\"messages\": [{}], \"so_args\": {\"schema_type\": \"regex\", \"schema\": \"a\", "
         "\"frob\": 1}}",
         "so_args: found \"frob\", wanted schema_type, schema, root, strict, any_order, lenient, "
         "max_whitespace, fixed_layout, indent, item_separator, key_separator or starts_at_once",
         "so_args", "invalid_value"},
        {"\"messages\": [{}], \"reasoning_effort\": \"medium\"}",
         "reasoning_effort: found \"medium\", wanted an integer from 1 to 100, none, low, high or "
         "max",
         "reasoning_effort", "invalid_value"},
        {"\"messages\": [{}], \"thinking\": true, \"reasoning_effort\": \"none\"}",
         "reasoning_effort: found thinking off, wanted what another field says", "reasoning_effort",
         "invalid_value"},
        {"\"messages\": [{}], \"parallel_tool_calls\": false}",
         "parallel_tool_calls: found false, wanted true or a tool_choice that asks for calls: "
         "those that the model may choose to make are not limited",
         "parallel_tool_calls", "unsupported_value"},
        {"\"messages\": [{}], \"prompt\": \"x\"}",
         "prompt: found a field that /v1/chat/completions does not have", "prompt",
         "unknown_parameter"},
    };
    check_refusals(DI_API_CHAT_COMPLETIONS, "{", rows, sizeof rows / sizeof *rows);
}

static void failures_become_error_objects(void **state)
{
    (void)state;
    static const struct {
        di_status status;
        const char *text;
        int http_status;
        const char *json;
    } rows[] = {
        {DI_ERR_ARGUMENT, "prompt: found 9 tokens, wanted 8", 400,
         "{\"error\": {\"message\": \"prompt: found 9 tokens, wanted 8\", \"type\": "
         "\"invalid_request_error\", \"param\": \"prompt\", \"code\": \"invalid_value\"}}"},
        {DI_ERR_INPUT, "messages[3].role: found \"x\"", 400,
         "{\"error\": {\"message\": \"messages[3].role: found \\\"x\\\"\", \"type\": "
         "\"invalid_request_error\", \"param\": \"messages\", \"code\": \"invalid_value\"}}"},
        {DI_ERR_RUNTIME, "prompt: non-finite logits", 500,
         "{\"error\": {\"message\": \"prompt: non-finite logits\", \"type\": \"server_error\", "
         "\"param\": null, \"code\": \"internal_error\"}}"},
        {DI_ERR_CANCELLED, "", 408,
         "{\"error\": {\"message\": \"cancelled\", \"type\": \"timeout_error\", \"param\": null, "
         "\"code\": \"timeout\"}}"},
        {DI_ERR_MEMORY, "no room", 503,
         "{\"error\": {\"message\": \"no room\", \"type\": \"server_error\", \"param\": null, "
         "\"code\": \"out_of_memory\"}}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        di_api_error error;
        char *json;
        size_t bytes;
        di_api_error_set(rows[i].status, rows[i].text, &error);
        assert_int_equal(error.http_status, rows[i].http_status);
        assert_int_equal(di_api_error_write(&error, &json, &bytes), DI_OK);
        assert_string_equal(json, rows[i].json);
        assert_int_equal(bytes, strlen(json));
        di_free(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_fields_the_model_decides),
        cmocka_unit_test(every_sampling_field_arrives),
        cmocka_unit_test(chat_logprobs_and_lengths),
        cmocka_unit_test(prompts_in_all_their_forms),
        cmocka_unit_test(chats_become_chat_requests),
        cmocka_unit_test(forced_calls_become_a_constraint),
        cmocka_unit_test(bad_fields_are_refused_by_name),
        cmocka_unit_test(bad_prompts_are_refused),
        cmocka_unit_test(bad_chats_are_refused),
        cmocka_unit_test(failures_become_error_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
