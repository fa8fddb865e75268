/* Results as a response body. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/writer.h"
#include "base/seed.h"
#include "base/strmap.h"
#include "engine/model.h"
#include "text/encoding_json.h"

typedef struct writer {
    const di_tokenizer *tokenizer;
    const di_api_request *request;
    const di_api_response *response;
    di_buf *out;
    size_t n_choices;
    size_t prompt_tokens, cached_tokens, completion_tokens;
} writer;

di_status di_api_random_digits(di_buf *out)
{
    uint64_t a, b;
    DI_TRY(di_seed_fresh(&a));
    DI_TRY(di_seed_fresh(&b));
    return di_buf_printf(out, "%014llx%014llx", (unsigned long long)a, (unsigned long long)b);
}

di_status di_api_response_begin(const di_api_request *request, const char *model,
                                di_api_response *out)
{
    if (!request || !out)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_api_response_begin: found NULL, wanted a request and an output");
    DI_BUF_AUTO id = {0};
    DI_TRY(di_buf_puts(&id, request->endpoint == DI_API_CHAT_COMPLETIONS ? "chatcmpl-" : "cmpl-"));
    DI_TRY(di_api_random_digits(&id));
    *out = (di_api_response){.created = (int64_t)time(NULL), .model = model};
    memcpy(out->id, id.data, id.len + 1);
    return DI_OK;
}

/* --------------------------------------------------------------------------------------- choices
 */

static di_status write_ids(const int32_t *ids, size_t n, di_buf *out)
{
    DI_TRY(di_buf_puts(out, "["));
    for (size_t i = 0; i < n; i++)
        DI_TRY(di_buf_printf(out, "%s%d", i ? ", " : "", (int)ids[i]));
    return di_buf_puts(out, "]");
}

static di_status write_finish(const writer *w, const di_result *result, bool has_calls)
{
    const char *reason = has_calls && result->finish_reason == DI_FINISH_STOP
                             ? "tool_calls"
                             : di_finish_reason_name(result->finish_reason);
    DI_TRY(di_buf_printf(
        w->out, ", \"finish_reason\": \"%s\", \"seed\": %llu, \"reproducible\": %s", reason,
        (unsigned long long)result->seed, result->is_reproducible ? "true" : "false"));
    if (w->request->returns_token_ids) {
        DI_TRY(di_buf_puts(w->out, ", \"prompt_token_ids\": "));
        DI_TRY(write_ids(result->prompt_token_ids, result->n_prompt_token_ids, w->out));
        DI_TRY(di_buf_puts(w->out, ", \"token_ids\": "));
        DI_TRY(write_ids(result->token_ids, result->n_token_ids, w->out));
    }
    return di_buf_puts(w->out, "}");
}

static di_status write_chat_choice(const writer *w, const di_result *result)
{
    const uint64_t salt[] = {di_hash_bytes(w->response->id, strlen(w->response->id)), w->n_choices};
    bool has_calls;
    DI_TRY(di_buf_puts(w->out, "\"message\": "));
    DI_TRY(di_api_message_append(result, w->request->is_thinking, di_hash_bytes(salt, sizeof salt),
                                 &has_calls, w->out));
    DI_TRY(di_buf_puts(w->out, ", \"logprobs\": "));
    DI_TRY(result->logprobs ? di_api_chat_logprobs_append(w->tokenizer, result, w->out)
                            : di_buf_puts(w->out, "null"));
    return write_finish(w, result, has_calls);
}

static di_status append_prompt_text(const writer *w, const di_request *prompt, di_buf *text)
{
    if (prompt->text)
        return di_buf_append(text, prompt->text, prompt->text_bytes);
    return di_tokenizer_decode(w->tokenizer, prompt->token_ids, prompt->n_token_ids, false, text);
}

static di_status write_text_choice(const writer *w, const di_request *prompt,
                                   const di_result *result)
{
    DI_BUF_AUTO text = {0};
    if (w->request->has_echo)
        DI_TRY(append_prompt_text(w, prompt, &text));
    DI_TRY(di_buf_append(&text, result->text, result->text_bytes));
    DI_TRY(di_buf_puts(w->out, "\"text\": "));
    DI_TRY(di_json_write_string(di_buf_str(&text), text.len, w->out));
    DI_TRY(di_buf_puts(w->out, ", \"logprobs\": "));
    const di_api_logprobs_form form = {.has_echo = w->request->has_echo,
                                       .begins_with_bos = prompt->text != NULL};
    DI_TRY(result->logprobs ? di_api_text_logprobs_append(w->tokenizer, result, form, w->out)
                            : di_buf_puts(w->out, "null"));
    return write_finish(w, result, false);
}

static di_status write_choices(writer *w, const di_request *prompt, const di_result *first)
{
    for (const di_result *r = first; r; r = r->next) {
        DI_TRY(
            di_buf_printf(w->out, "%s{\"index\": %zu, ", w->n_choices ? ", " : "", w->n_choices));
        DI_TRY(w->request->endpoint == DI_API_CHAT_COMPLETIONS ? write_chat_choice(w, r)
                                                               : write_text_choice(w, prompt, r));
        w->n_choices++;
        w->completion_tokens += r->n_token_ids;
    }
    w->prompt_tokens += first->n_prompt_token_ids;
    w->cached_tokens += first->n_cached_tokens;
    return DI_OK;
}

/* ------------------------------------------------------------------------------------- the whole
 */

static di_status write_head(const writer *w)
{
    const bool is_chat = w->request->endpoint == DI_API_CHAT_COMPLETIONS;
    const char *model = w->request->model ? w->request->model : w->response->model;
    if (!model)
        model = "";
    DI_TRY(di_buf_printf(
        w->out,
        "{\"id\": \"%s\", \"object\": \"%s\", \"created\": %lld, \"model\": ", w->response->id,
        is_chat ? "chat.completion" : "text_completion", (long long)w->response->created));
    DI_TRY(di_json_write_string(model, strlen(model), w->out));
    return di_buf_printf(w->out, ", \"system_fingerprint\": \"deepinfer-%s\", \"choices\": [",
                         di_version());
}

static di_status write_usage(const writer *w)
{
    return di_buf_printf(w->out,
                         "], \"usage\": {\"prompt_tokens\": %zu, \"completion_tokens\": %zu, "
                         "\"total_tokens\": %zu, \"prompt_tokens_details\": {\"cached_tokens\": "
                         "%zu}}}",
                         w->prompt_tokens, w->completion_tokens,
                         w->prompt_tokens + w->completion_tokens, w->cached_tokens);
}

/* The status of the first sample that failed. */
static di_status check_results(const di_api_request *request, const di_result *const *results)
{
    for (size_t i = 0; i < request->n_prompts; i++)
        for (const di_result *r = results[i]; r; r = r->next)
            if (r->finish_reason == DI_FINISH_ERROR)
                return di_fail(r->status != DI_OK ? r->status : DI_ERR_RUNTIME, "%s",
                               r->error && *r->error ? r->error : di_status_name(r->status));
    return DI_OK;
}

di_status di_api_response_append(const di_tokenizer *tokenizer, const di_api_request *request,
                                 const di_api_response *response, const di_result *const *results,
                                 di_buf *out)
{
    writer w = {.tokenizer = tokenizer, .request = request, .response = response, .out = out};
    DI_TRY(check_results(request, results));
    DI_TRY(write_head(&w));
    for (size_t i = 0; i < request->n_prompts; i++)
        DI_TRY(write_choices(&w, &request->prompts[i], results[i]));
    return write_usage(&w);
}

di_status di_api_response_write(const di_model *model, const di_api_request *request,
                                const di_api_response *response, const di_result *const *results,
                                char **json, size_t *bytes)
{
    if (!model || !request || !response || !results || !json || !bytes)
        return di_fail(DI_ERR_ARGUMENT, "di_api_response_write: found NULL, wanted none");
    di_buf out = {0};
    const di_status status =
        di_api_response_append(model->tokenizer, request, response, results, &out);
    return di_api_give_out(status, &out, json, bytes);
}
