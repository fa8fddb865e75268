#include "base/checked.h"
#include "deepinfer/tools.h"
#include "engine/runner.h"

/* Logits of all rows of a pass are held at once: bounds that buffer. */
enum { MAX_LOGIT_VALUES = 64 * 1024 * 1024 };

typedef struct scorer {
    di_runner runner;
    di_runner_seq seq;
    int64_t n_prompt; /* tokens of which only the last one's logits are wanted */
    di_score_fn fn;
    void *user;
} scorer;

/* The next tokens, at most n, in one pass. */
static di_status score_rows(scorer *s, int64_t n)
{
    int64_t first = s->seq.kv.len;
    const int64_t vocab = s->runner.model->config.vocab_size, left = s->n_prompt - first;
    di_work work = {.seq = &s->seq, .n_tokens = n, .wants_all_logits = left <= 0};
    if (left > 0) {
        work.n_tokens = di_min_i64(n, left);
        work.wants_last_logits = n >= left;
        first += work.n_tokens - 1;
        n = work.wants_last_logits;
    }
    float *logits;
    DI_TRY(di_runner_forward(&s->runner, &work, 1, NULL, &logits));
    for (int64_t i = 0; i < n; i++)
        if (!s->fn(s->user, first + i, logits + i * vocab, (int32_t)vocab))
            return di_fail(DI_ERR_CANCELLED, "scoring was stopped after position %lld",
                           (long long)(first + i));
    return DI_OK;
}

static di_status score_all(scorer *s, const int32_t *ids, size_t n_ids, int64_t prefill,
                           int64_t chunk)
{
    DI_TRY(di_runner_seq_append(&s->runner, &s->seq, ids, n_ids));
    s->seq.kv.decoder_start = di_truncation_start(&s->runner.truncation, s->n_prompt);
    while (s->seq.kv.len < prefill)
        DI_TRY(score_rows(s, di_min_i64(chunk, prefill - s->seq.kv.len)));
    while (s->seq.kv.len < (int64_t)n_ids)
        DI_TRY(score_rows(s, 1));
    return DI_OK;
}

di_status di_score(di_model *model, const di_options *options, const int32_t *ids, size_t n_ids,
                   const di_score_options *score, di_score_fn fn, void *user)
{
    if (!model || (!ids && n_ids) || !fn)
        return di_fail(DI_ERR_ARGUMENT, "di_score: model, ids and fn must not be NULL");
    if (n_ids == 0)
        return di_fail(DI_ERR_ARGUMENT, "token_ids: found none, wanted at least one");
    DI_TRY(di_ids_check(ids, n_ids, model->config.vocab_size));
    scorer s = {.n_prompt = score ? score->prompt : 0, .fn = fn, .user = user};
    if (s.n_prompt < 0 || s.n_prompt > (int64_t)n_ids)
        return di_fail(DI_ERR_ARGUMENT, "prompt: found %lld tokens, wanted 0 to %zu",
                       (long long)s.n_prompt, n_ids);
    di_options plain = options ? *options : (di_options){.accelerator = NULL};
    plain.speculation = "off"; /* nothing is sampled */
    DI_TRY(di_runner_init(model, &plain, &s.runner));
    const int64_t n = (int64_t)n_ids;
    di_status status = DI_OK;
    if (n > s.runner.memplan.context_len)
        status = di_fail(DI_ERR_ARGUMENT,
                         "token_ids: found %lld tokens, wanted at most %lld, the "
                         "context limit",
                         (long long)n, (long long)s.runner.memplan.context_len);
    if (status == DI_OK) {
        int64_t prefill = n, chunk = s.runner.options.max_step_tokens;
        if (score && score->prefill >= 0 && score->prefill < n)
            prefill = score->prefill;
        if (score && score->chunk > 0)
            chunk = di_min_i64(score->chunk, chunk);
        chunk = di_min_i64(chunk, di_max_i64(1, MAX_LOGIT_VALUES / model->config.vocab_size));
        status = score_all(&s, ids, n_ids, prefill, chunk);
    }
    di_runner_seq_free(&s.runner, &s.seq);
    di_runner_free(&s.runner);
    return status;
}
