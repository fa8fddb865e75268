#include "engine/seq.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/seed.h"
#include "sample/params.h"
#include "text/encoding.h"

/* Logits of every prompt row are held at once for prompt logprobs: a smaller prefill chunk. */
enum { MAX_SAMPLES = 128, PROMPT_LOGPROBS_CHUNK = 64 };

/* A prompt being made: ids go to the first sequence's tokens. */
static di_status append_text(const di_runner *runner, di_ids *ids, const char *text, size_t len,
                             const di_text_span *plain, size_t n_plain)
{
    return di_tokenizer_encode(runner->model->tokenizer, text, len, plain, n_plain, ids);
}

static di_status prompt_from_text(const di_runner *runner, di_ids *ids, const di_request *request)
{
    const size_t len = request->text_bytes ? request->text_bytes : strlen(request->text);
    if (len == 0)
        return di_fail(DI_ERR_ARGUMENT, "prompt: found an empty text, wanted at least one byte");
    DI_TRY(di_ids_push(ids, runner->model->config.bos_token_id));
    const di_text_span all = {0, len};
    return append_text(runner, ids, request->text, len, &all, request->parse_special ? 0 : 1);
}

static di_status prompt_from_messages(const di_runner *runner, di_ids *ids, const char *json)
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
        status = append_text(runner, ids, di_buf_str(&prompt.text), prompt.text.len, prompt.content,
                             prompt.n_content);
    di_chat_prompt_free(&prompt);
    return status;
}

static di_status prompt_from_ids(const di_runner *runner, di_ids *ids, const di_request *request)
{
    DI_TRY(
        di_ids_check(request->token_ids, request->n_token_ids, runner->model->config.vocab_size));
    for (size_t i = 0; i < request->n_token_ids; i++)
        DI_TRY(di_ids_push(ids, request->token_ids[i]));
    return DI_OK;
}

static di_status make_prompt(const di_runner *runner, di_ids *ids, const di_request *request)
{
    const int n_given =
        (request->token_ids != NULL) + (request->text != NULL) + (request->messages_json != NULL);
    if (n_given != 1)
        return di_fail(DI_ERR_ARGUMENT,
                       "request: found %d of token_ids, text and messages_json, "
                       "wanted exactly one",
                       n_given);
    if (request->text)
        DI_TRY(prompt_from_text(runner, ids, request));
    else if (request->messages_json)
        DI_TRY(prompt_from_messages(runner, ids, request->messages_json));
    else
        DI_TRY(prompt_from_ids(runner, ids, request));
    if (ids->len == 0)
        return di_fail(DI_ERR_ARGUMENT, "prompt: found no tokens, wanted at least one");
    return DI_OK;
}

static di_status limit_length(const di_runner *runner, di_entry *e)
{
    const int64_t n = (int64_t)e->n_prompt, wanted = e->params.max_tokens;
    const int64_t context = runner->memplan.context_len, most = context - (wanted != 0);
    if (n > most)
        return di_fail(DI_ERR_ARGUMENT,
                       "prompt: found %lld tokens, wanted at most %lld (context limit %lld%s)",
                       (long long)n, (long long)most, (long long)context,
                       wanted ? " less one new token" : "");
    e->max_len = wanted < 0 || wanted > context - n ? context : n + wanted;
    return DI_OK;
}

/* Token ids that end the output, EOS first. */
static di_status list_finish_ids(const di_runner *runner, di_entry *e)
{
    const di_generation_config *g = &runner->model->generation;
    const size_t n_eos = e->params.ignore_eos ? 0 : (size_t)g->n_eos;
    int32_t *ids;
    DI_TRY(DI_ARENA_NEW(&e->arena, n_eos + e->params.n_stop_ids, &ids));
    for (size_t i = 0; i < n_eos; i++)
        ids[i] = g->eos_ids[i];
    for (size_t i = 0; i < e->params.n_stop_ids; i++)
        ids[n_eos + i] = e->params.stop_ids[i];
    e->finish_ids = ids;
    e->n_finish_ids = n_eos + e->params.n_stop_ids;
    return DI_OK;
}

/* A thinking answer is constrained after its thoughts: its prompt ends with the token that opens
 * them. */
static int32_t first_thought_end(const di_runner *runner, const di_ids *prompt)
{
    const di_tokenizer *t = runner->model->tokenizer;
    const int32_t begin = di_tokenizer_find(t, DI_CHAT_THINK, sizeof DI_CHAT_THINK - 1);
    const int32_t end = di_tokenizer_find(t, DI_CHAT_THINK_END, sizeof DI_CHAT_THINK_END - 1);
    return begin >= 0 && prompt->data[prompt->len - 1] == begin ? end : -1;
}

static di_status set_constraint(const di_runner *runner, const di_so_args *args,
                                const di_ids *prompt, di_entry *e)
{
    const di_generation_config *g = &runner->model->generation;
    if (args == NULL)
        return DI_OK;
    if (e->params.ignore_eos)
        return di_fail(DI_ERR_ARGUMENT, "ignore_eos: found true with a structured output, which "
                                        "ends with EOS: wanted false");
    e->constraint = (di_constraint_setup){
        .begins_after = args->starts_at_once ? -1 : first_thought_end(runner, prompt),
        .eos_ids = g->eos_ids,
        .n_eos_ids = (size_t)g->n_eos,
    };
    return di_grammar_cache_get(runner->model->grammars, args, &e->constraint.acceptor);
}

/* Without drafts the rules are one, and greedily they are too. */
static bool verifies_by_rejection(const di_runner *runner, const di_entry *e)
{
    const bool has_drafts = strcmp(runner->options.speculation, "off") != 0 &&
                            (runner->n_draft_slots > 0 || e->constraint.acceptor);
    return has_drafts && e->params.verification == DI_VERIFICATION_REJECT &&
           e->params.temperature != 0.0;
}

static di_status check_samples(const di_runner *runner, const di_sampling_params *params)
{
    const int32_t most = (int32_t)di_min_i64(MAX_SAMPLES, runner->options.max_seqs);
    if (params->n < 1 || params->n > most)
        return di_fail(DI_ERR_ARGUMENT, "n: found %d, wanted 1 to %d", params->n, most);
    return DI_OK;
}

static di_status init_seq(const di_runner *runner, di_entry *e, int32_t index,
                          const di_request *request, const di_ids *prompt)
{
    di_seq *seq = &e->seqs[index];
    seq->entry = e;
    seq->sample_index = index;
    seq->arena.chunk_bytes = 4096;
    for (size_t i = 0; i < prompt->len; i++)
        DI_TRY(di_ids_push(&seq->tokens, prompt->data[i]));
    di_detokenizer_init(&seq->detokenizer, runner->model->tokenizer, true);
    DI_TRY(di_stop_create(e->params.stop, e->params.n_stop, &seq->stop));
    if (e->params.prompt_logprobs) {
        const di_position_logprobs none = {0};
        DI_TRY(di_logprob_list_add(seq, &seq->prompt_logprobs, &none)); /* of the first token */
    }
    seq->drafts.has_grammar = e->constraint.acceptor != NULL;
    seq->drafts.has_drafter = runner->n_draft_slots > 0;
    seq->drafts.rejects = e->rejects;
    seq->sched = (di_sched_seq){
        .priority = request->priority,
        .tokens = seq->tokens.data,
        .n_known = (int64_t)prompt->len,
        .n_tokens = (int64_t)prompt->len,
        .n_prompt = (int64_t)prompt->len,
        .max_len = e->max_len,
        .most_drafts = seq->drafts.has_drafter || seq->drafts.has_grammar ? DI_MAX_DRAFTS : 0,
        .n_samples = index == 0 ? e->n_samples : 1,
        .max_chunk = e->params.prompt_logprobs ? PROMPT_LOGPROBS_CHUNK : 0,
        .is_cold = e->params.prompt_logprobs,
        .decoder_start = e->params.prompt_logprobs
                             ? 0
                             : di_truncation_start(&runner->truncation, (int64_t)prompt->len),
    };
    return DI_OK;
}

static di_status init_entry(const di_runner *runner, const di_request *request,
                            const di_ids *prompt, di_entry *e)
{
    DI_TRY(di_sampling_params_copy(&request->sampling, &e->arena, &e->params));
    e->n_prompt = prompt->len;
    e->has_stop = e->params.n_stop > 0;
    e->has_logprobs = e->params.n_logprobs >= 0;
    DI_TRY(limit_length(runner, e));
    e->seed = e->params.seed;
    if (!e->params.has_seed)
        DI_TRY(di_seed_fresh(&e->seed));
    DI_TRY(list_finish_ids(runner, e));
    DI_TRY(set_constraint(runner, request->so_args, prompt, e));
    e->rejects = verifies_by_rejection(runner, e);
    const int32_t n = e->params.max_tokens == 0 ? 1 : e->params.n;
    e->seqs = calloc((size_t)n, sizeof *e->seqs);
    if (!e->seqs)
        return di_fail_memory(n * sizeof *e->seqs, "a request's samples");
    e->n_samples = n;
    for (int32_t i = 0; i < n; i++)
        DI_TRY(init_seq(runner, e, i, request, prompt));
    return DI_OK;
}

static di_status check(const di_runner *runner, const di_request *request)
{
    DI_TRY(di_sampling_params_check(&request->sampling, (int32_t)runner->model->config.vocab_size));
    DI_TRY(check_samples(runner, &request->sampling));
    if (request->timeout_ms < 0)
        return di_fail(DI_ERR_ARGUMENT, "timeout_ms: found %lld, wanted 0 (none) or more",
                       (long long)request->timeout_ms);
    return DI_OK;
}

di_status di_entry_create(const di_runner *runner, const di_request *request, di_entry **out)
{
    DI_IDS_AUTO prompt = {0};
    DI_TRY(check(runner, request));
    DI_TRY(make_prompt(runner, &prompt, request));
    di_entry *e = calloc(1, sizeof *e);
    if (!e)
        return di_fail_memory(sizeof *e, "a request");
    e->arena.chunk_bytes = 1024;
    e->submitted_ns = di_clock_ns();
    const di_status status = init_entry(runner, request, &prompt, e);
    if (status != DI_OK) {
        di_entry_destroy(e);
        return status;
    }
    *out = e;
    return DI_OK;
}

void di_entry_destroy(di_entry *entry)
{
    if (!entry)
        return;
    for (int32_t i = 0; i < entry->n_samples; i++) {
        di_seq *seq = &entry->seqs[i];
        di_ids_free(&seq->tokens);
        di_stop_destroy(seq->stop);
        di_buf_free(&seq->text);
        free(seq->logprobs.data);
        free(seq->prompt_logprobs.data);
        di_arena_free(&seq->arena);
    }
    free(entry->seqs);
    di_acceptor_unref(entry->constraint.acceptor);
    di_arena_free(&entry->arena);
    free(entry);
}

di_status di_logprob_list_add(di_seq *seq, di_logprob_list *list,
                              const di_position_logprobs *logprobs)
{
    DI_TRY(DI_GROW(&list->data, &list->cap, list->len + 1));
    DI_TRY(di_position_logprobs_copy(&seq->arena, logprobs, &list->data[list->len]));
    list->len++;
    return DI_OK;
}
