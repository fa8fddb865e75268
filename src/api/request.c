/* A request body, from its text to the prompts to submit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reader.h"
#include "sample/params.h"

typedef struct request_box {
    di_api_request request; /* first: di_api_request_free gets its address */
    di_arena arena;
} request_box;

/* ------------------------------------------------------------------------------------- completions
 */

static di_status set_text_prompt(di_api_reader *r, const char *name, size_t index,
                                 const di_jval *value, di_request *out)
{
    if (value->kind != DI_JSTRING)
        return di_fail(DI_ERR_ARGUMENT, "%s[%zu]: found %s, wanted a string as the first one", name,
                       index, di_jval_describe(value).text);
    if (value->len == 0)
        return di_fail(DI_ERR_ARGUMENT, "%s: found an empty text, wanted at least one byte", name);
    char *copy;
    DI_TRY(DI_ARENA_NEW(r->arena, value->len + 1, &copy));
    memcpy(copy, value->text, value->len);
    copy[value->len] = '\0';
    out->text = copy;
    out->text_bytes = value->len;
    return DI_OK;
}

static di_status set_ids_prompt(di_api_reader *r, const char *name, const di_jval *value,
                                di_request *out)
{
    DI_TRY(di_api_read_ids(r, name, value, &out->token_ids, &out->n_token_ids));
    if (out->n_token_ids == 0)
        return di_fail(DI_ERR_ARGUMENT, "%s: found no tokens, wanted at least one", name);
    return DI_OK;
}

/* A text, a list of texts, a list of ids, or a list of lists of ids. */
static di_status set_prompts(di_api_reader *r, const char *name, const di_jval *value)
{
    const bool is_array = value->kind == DI_JARRAY;
    const di_jval *first = is_array ? value->first : value;
    if (is_array && !first)
        return di_fail(DI_ERR_ARGUMENT, "%s: found an empty array, wanted at least one entry",
                       name);
    const bool is_one = !is_array || first->kind == DI_JINT;
    const size_t n = is_one ? 1 : di_api_count(value);
    if (n > DI_API_MAX_PROMPTS)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %zu prompts, wanted at most %d", name, n,
                       DI_API_MAX_PROMPTS);
    if (first->kind != DI_JSTRING && !(is_array && first->kind == DI_JARRAY) &&
        !(is_array && is_one))
        return di_fail(DI_ERR_ARGUMENT,
                       "%s: found %s%s, wanted a string, an array of strings, an array of token "
                       "ids or an array of such arrays",
                       name, is_array ? "an array of which the first is " : "",
                       di_jval_describe(first).text);
    di_request *prompts;
    DI_TRY(DI_ARENA_NEW(r->arena, n, &prompts));
    const di_jval *item = is_one ? value : first;
    for (size_t i = 0; i < n; i++, item = item->next) {
        prompts[i] = r->prompt;
        DI_TRY(first->kind == DI_JSTRING ? set_text_prompt(r, name, i, item, &prompts[i])
                                         : set_ids_prompt(r, name, item, &prompts[i]));
    }
    r->request->prompts = prompts;
    r->request->n_prompts = n;
    return DI_OK;
}

static di_status completion_prompts(di_api_reader *r)
{
    if (!r->prompts == !r->prompt_ids)
        return di_fail(DI_ERR_ARGUMENT,
                       "prompt: found %s, wanted one of prompt and prompt_token_ids",
                       r->prompts ? "both" : "none");
    if (r->prompts)
        return set_prompts(r, "prompt", r->prompts);
    di_request *prompt;
    DI_TRY(DI_ARENA_NEW(r->arena, 1, &prompt));
    *prompt = r->prompt;
    r->request->prompts = prompt;
    r->request->n_prompts = 1;
    return set_ids_prompt(r, "prompt_token_ids", r->prompt_ids, prompt);
}

/* ------------------------------------------------------------------------------------ the whole */

static di_status settle_max_tokens(di_api_reader *r)
{
    di_sampling_params *p = &r->prompt.sampling;
    if (r->has_max_tokens && r->has_max_completion_tokens &&
        p->max_tokens != r->max_completion_tokens)
        return di_fail(DI_ERR_ARGUMENT,
                       "max_completion_tokens: found %lld, wanted max_tokens (%lld) or only one of "
                       "them",
                       (long long)r->max_completion_tokens, (long long)p->max_tokens);
    if (r->has_max_completion_tokens)
        p->max_tokens = r->max_completion_tokens;
    else if (!r->has_max_tokens && r->request->endpoint == DI_API_COMPLETIONS)
        p->max_tokens = DI_API_DEFAULT_COMPLETION_TOKENS;
    return DI_OK;
}

/* What several fields say together. */
static di_status settle(di_api_reader *r)
{
    di_sampling_params *p = &r->prompt.sampling;
    DI_TRY(settle_max_tokens(r));
    if (r->top_logprobs >= 0 && !r->has_logprobs)
        return di_fail(DI_ERR_ARGUMENT, "top_logprobs: found it without logprobs, wanted "
                                        "\"logprobs\": true with it");
    if (r->request->endpoint == DI_API_CHAT_COMPLETIONS && r->has_logprobs)
        p->n_logprobs = r->top_logprobs >= 0 ? r->top_logprobs : 0;
    if (r->request->has_echo && r->has_logprobs)
        p->prompt_logprobs = true;
    if (r->best_of && r->best_of != p->n)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "best_of: found %lld, wanted n (%d): this version ranks no samples",
                       (long long)r->best_of, (int)p->n);
    return di_sampling_params_check(p, r->vocab_size);
}

static di_status read_body(di_api_reader *r, const char *body, size_t bytes)
{
    di_arena scratch = {0};
    const di_jval *root;
    di_status status = di_jval_parse(&scratch, body, bytes, DI_JSTRICT, &root);
    if (status != DI_OK)
        status = di_fail_within(status, "body");
    else if (root->kind != DI_JOBJECT)
        status =
            di_fail(DI_ERR_INPUT, "body: found %s, wanted an object", di_jval_describe(root).text);
    if (status == DI_OK)
        status = di_api_fields_read(r, root);
    if (status == DI_OK)
        status = settle(r);
    if (status == DI_OK)
        status = r->request->endpoint == DI_API_CHAT_COMPLETIONS ? di_api_chat_prompt(r)
                                                                 : completion_prompts(r);
    di_arena_free(&scratch);
    return status;
}

di_status di_api_request_parse(const di_api_setup *setup, di_api_endpoint endpoint,
                               const char *body, size_t bytes, di_api_request **out,
                               di_api_error *error)
{
    request_box *box = calloc(1, sizeof *box);
    if (!box) {
        const di_status status = di_fail_memory(sizeof *box, "an API request");
        di_api_error_set(status, di_last_error(), error);
        return status;
    }
    box->arena.chunk_bytes = 4096;
    box->request.endpoint = endpoint;
    di_api_reader reader = {.arena = &box->arena,
                            .vocab_size = setup->vocab_size,
                            .request = &box->request,
                            .prompt = {.sampling = setup->defaults},
                            .top_logprobs = -1};
    const di_status status = read_body(&reader, body, bytes);
    if (status != DI_OK) {
        di_api_error_set(status, di_last_error(), error);
        if (reader.unknown[0]) {
            error->code = "unknown_parameter";
            snprintf(error->param, sizeof error->param, "%s", reader.unknown);
        }
        di_api_request_free(&box->request);
        return status;
    }
    *out = &box->request;
    return DI_OK;
}

di_status di_api_request_read(const di_model *model, di_api_endpoint endpoint, const char *body,
                              size_t bytes, di_api_request **out, di_api_error *error)
{
    if (!model || (!body && bytes) || !out || !error)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_api_request_read: found NULL, wanted a model, a body and outputs");
    di_api_setup setup = {.vocab_size = di_model_vocab_size(model)};
    di_model_sampling_defaults(model, &setup.defaults);
    return di_api_request_parse(&setup, endpoint, body, bytes, out, error);
}

void di_api_request_free(di_api_request *request)
{
    if (!request)
        return;
    request_box *box = (request_box *)request;
    di_arena_free(&box->arena);
    free(box);
}
