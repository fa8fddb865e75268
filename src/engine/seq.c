#include "engine/seq.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/seed.h"
#include "sample/params.h"
#include "text/encoding.h"

static di_status append_text(const di_runner *runner, di_seq *seq, const char *text, size_t len,
                             const di_text_span *plain, size_t n_plain)
{
    DI_IDS_AUTO ids = {0};
    DI_TRY(di_tokenizer_encode(runner->model->tokenizer, text, len, plain, n_plain, &ids));
    return di_runner_seq_append(runner, &seq->tokens, ids.data, ids.len);
}

static di_status prompt_from_text(const di_runner *runner, di_seq *seq, const di_request *request)
{
    const size_t len = request->text_bytes ? request->text_bytes : strlen(request->text);
    if (len == 0)
        return di_fail(DI_ERR_ARGUMENT, "prompt: found an empty text, wanted at least one byte");
    DI_TRY(di_runner_seq_append(runner, &seq->tokens, &runner->model->config.bos_token_id, 1));
    const di_text_span all = {0, len};
    return append_text(runner, seq, request->text, len, &all, request->parse_special ? 0 : 1);
}

static di_status prompt_from_messages(const di_runner *runner, di_seq *seq, const char *json)
{
    di_chat_prompt prompt = {.n_images = 0};
    DI_TRY(di_chat_render_text(json, strlen(json), &prompt));
    di_status status = DI_OK;
    if (prompt.n_images > 0)
        status = di_fail(DI_ERR_UNSUPPORTED,
                         "messages: found %d images, wanted none: this version "
                         "has no vision tower",
                         prompt.n_images);
    if (status == DI_OK)
        status = append_text(runner, seq, di_buf_str(&prompt.text), prompt.text.len, prompt.content,
                             prompt.n_content);
    di_chat_prompt_free(&prompt);
    return status;
}

static di_status make_prompt(const di_runner *runner, di_seq *seq, const di_request *request)
{
    const int n_given =
        (request->token_ids != NULL) + (request->text != NULL) + (request->messages_json != NULL);
    if (n_given != 1)
        return di_fail(DI_ERR_ARGUMENT,
                       "request: found %d of token_ids, text and messages_json, "
                       "wanted exactly one",
                       n_given);
    if (request->text)
        DI_TRY(prompt_from_text(runner, seq, request));
    else if (request->messages_json)
        DI_TRY(prompt_from_messages(runner, seq, request->messages_json));
    else {
        DI_TRY(di_ids_check(request->token_ids, request->n_token_ids,
                            runner->model->config.vocab_size));
        DI_TRY(
            di_runner_seq_append(runner, &seq->tokens, request->token_ids, request->n_token_ids));
    }
    seq->n_prompt = seq->tokens.tokens.len;
    if (seq->n_prompt == 0)
        return di_fail(DI_ERR_ARGUMENT, "prompt: found no tokens, wanted at least one");
    return DI_OK;
}

static di_status limit_length(const di_runner *runner, di_seq *seq)
{
    const int64_t n = (int64_t)seq->n_prompt, wanted = seq->params.max_tokens;
    const int64_t most = runner->max_context_len - (wanted != 0);
    if (n > most)
        return di_fail(DI_ERR_ARGUMENT,
                       "prompt: found %lld tokens, wanted at most %lld (context limit "
                       "%lld%s)",
                       (long long)n, (long long)most, (long long)runner->max_context_len,
                       wanted ? " less one new token" : "");
    const int64_t room = runner->max_context_len - n;
    seq->max_new_tokens = wanted < 0 ? room : di_min_i64(wanted, room);
    return DI_OK;
}

/* Token ids that end the output, EOS first. */
static di_status list_finish_ids(const di_runner *runner, di_seq *seq)
{
    const di_generation_config *g = &runner->model->generation;
    const size_t n_eos = seq->params.ignore_eos ? 0 : (size_t)g->n_eos;
    int32_t *ids;
    DI_TRY(DI_ARENA_NEW(&seq->arena, n_eos + seq->params.n_stop_ids, &ids));
    for (size_t i = 0; i < n_eos; i++)
        ids[i] = g->eos_ids[i];
    for (size_t i = 0; i < seq->params.n_stop_ids; i++)
        ids[n_eos + i] = seq->params.stop_ids[i];
    seq->finish_ids = ids;
    seq->n_finish_ids = n_eos + seq->params.n_stop_ids;
    return DI_OK;
}

static di_status init_sampling(const di_runner *runner, di_seq *seq)
{
    seq->seed = seq->params.seed;
    if (!seq->params.has_seed)
        DI_TRY(di_seed_fresh(&seq->seed));
    DI_TRY(list_finish_ids(runner, seq));
    const di_sampler_setup setup = {
        .params = &seq->params,
        .vocab_size = (int32_t)runner->model->config.vocab_size,
        .prompt = seq->tokens.tokens.data,
        .n_prompt = seq->n_prompt,
        .finish_ids = seq->finish_ids,
        .n_finish_ids = seq->n_finish_ids,
        .seed = seq->seed,
    };
    DI_TRY(di_sampler_state_init(&seq->sampler, &setup));
    seq->has_sampler = true;
    di_detokenizer_init(&seq->detokenizer, runner->model->tokenizer, true);
    return di_stop_create(seq->params.stop, seq->params.n_stop, &seq->stop);
}

static di_status init(const di_runner *runner, const di_request *request, di_seq *seq)
{
    const int32_t vocab = (int32_t)runner->model->config.vocab_size;
    DI_TRY(di_sampling_params_check(&request->sampling, vocab));
    DI_TRY(di_sampling_params_copy(&request->sampling, &seq->arena, &seq->params));
    DI_TRY(make_prompt(runner, seq, request));
    DI_TRY(limit_length(runner, seq));
    DI_TRY(init_sampling(runner, seq));
    if (seq->params.prompt_logprobs) {
        const di_position_logprobs none = {0};
        DI_TRY(di_logprob_list_add(seq, &seq->prompt_logprobs, &none)); /* of the first token */
    }
    return DI_OK;
}

di_status di_seq_create(const di_runner *runner, const di_request *request, di_seq **out)
{
    di_seq *seq = calloc(1, sizeof *seq);
    if (!seq)
        return di_fail_memory(sizeof *seq, "a request");
    seq->arena.chunk_bytes = 4096;
    seq->times.submitted_ns = di_clock_ns();
    const di_status status = init(runner, request, seq);
    if (status != DI_OK) {
        di_seq_destroy(NULL, seq);
        return status;
    }
    *out = seq;
    return DI_OK;
}

void di_seq_destroy(di_runner *runner, di_seq *seq)
{
    if (!seq)
        return;
    if (runner)
        di_runner_seq_release(runner, &seq->tokens);
    di_ids_free(&seq->tokens.tokens);
    di_ids_free(&seq->tokens.engram_ids);
    if (seq->has_sampler)
        di_sampler_state_free(&seq->sampler);
    di_stop_destroy(seq->stop);
    di_buf_free(&seq->text);
    free(seq->logprobs.data);
    free(seq->prompt_logprobs.data);
    di_arena_free(&seq->arena);
    free(seq);
}

di_status di_logprob_list_add(di_seq *seq, di_logprob_list *list,
                              const di_position_logprobs *logprobs)
{
    di_logprob *entries;
    DI_TRY(DI_GROW(&list->data, &list->cap, list->len + 1));
    DI_TRY(DI_ARENA_NEW(&seq->arena, logprobs->n_entries, &entries));
    if (logprobs->n_entries)
        memcpy(entries, logprobs->entries, logprobs->n_entries * sizeof *entries);
    list->data[list->len++] = (di_position_logprobs){entries, logprobs->n_entries};
    return DI_OK;
}
