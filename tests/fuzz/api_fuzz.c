/* Bytes as a request body (first byte: bit 0 the endpoint) and as a line of a batch file and of a
 * results file. What is taken must be within its bounds, and what is refused must say why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/reader.h"
#include "sample/params.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { VOCAB_SIZE = 1280 };

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void check_error(const di_api_error *error)
{
    char *json;
    size_t bytes;
    check(error->http_status >= 400 && error->message[0] && error->type);
    check(di_api_error_write(error, &json, &bytes) == DI_OK);
    check(strlen(json) == bytes && !strchr(json, '\n'));
    di_free(json);
}

static void check_prompt(const di_request *prompt)
{
    const int n_given =
        (prompt->text != NULL) + (prompt->token_ids != NULL) + (prompt->messages_json != NULL);
    check(n_given == 1);
    check(di_sampling_params_check(&prompt->sampling, VOCAB_SIZE) == DI_OK);
    check(prompt->timeout_ms >= 0);
    if (prompt->text)
        check(prompt->text_bytes > 0 && prompt->text[prompt->text_bytes] == '\0');
    for (size_t i = 0; i < prompt->n_token_ids; i++)
        check(prompt->token_ids[i] >= 0 && prompt->token_ids[i] < VOCAB_SIZE);
    if (!prompt->messages_json)
        return;
    di_arena arena = {0};
    const di_jval *chat;
    check(di_jval_parse(&arena, prompt->messages_json, strlen(prompt->messages_json), DI_JSTRICT,
                        &chat) == DI_OK);
    check(di_jval_get(chat, "messages")->first != NULL);
    di_arena_free(&arena);
}

static void fuzz_body(di_api_endpoint endpoint, const char *body, size_t bytes)
{
    const di_api_setup setup = {.defaults = DI_SAMPLING_PARAMS_INIT, .vocab_size = VOCAB_SIZE};
    di_api_request *request;
    di_api_error error;
    if (di_api_request_parse(&setup, endpoint, body, bytes, &request, &error) != DI_OK) {
        check_error(&error);
        return;
    }
    check(request->n_prompts > 0);
    for (size_t i = 0; i < request->n_prompts; i++)
        check_prompt(&request->prompts[i]);
    di_api_request_free(request);
}

static void fuzz_line(const char *text, size_t bytes)
{
    di_api_batch_line *line;
    check(di_api_batch_line_read(text, bytes, &line) == DI_OK);
    if (line->is_bad)
        check_error(&line->error);
    else
        fuzz_body(line->endpoint, line->body, line->body_bytes);

    const di_api_batch_result result = {.custom_id = line->custom_id,
                                        .line = 1,
                                        .hash = line->hash,
                                        .http_status = line->is_bad ? 400 : 200,
                                        .body = "{}",
                                        .body_bytes = 2,
                                        .error = line->is_bad ? &line->error : NULL};
    di_api_batch_result again;
    char *json;
    size_t n;
    check(di_api_batch_result_write(&result, &json, &n) == DI_OK);
    check(memchr(json, '\n', n) == json + n - 1);
    check(di_api_batch_result_read(json, n - 1, &again) == DI_OK);
    check(again.hash == line->hash && !again.custom_id == !line->custom_id);
    di_free((void *)again.custom_id);
    di_free(json);
    di_api_batch_line_free(line);
    if (di_api_batch_result_read(text, bytes, &again) == DI_OK)
        di_free((void *)again.custom_id);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (size == 0)
        return 0;
    const di_api_endpoint endpoint = data[0] & 1 ? DI_API_COMPLETIONS : DI_API_CHAT_COMPLETIONS;
    const char *text = (const char *)data + 1;
    fuzz_body(endpoint, text, size - 1);
    fuzz_line(text, size - 1);
    return 0;
}
