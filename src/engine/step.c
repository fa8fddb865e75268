/* The step: the engine's table of contents. */
#include "base/checked.h"
#include "base/clock.h"
#include "engine/engine.h"

/* Logits of every prompt row are held at once for prompt logprobs: a smaller prefill chunk. */
enum { PROMPT_LOGPROBS_CHUNK = 64 };

static bool take_cancelled(di_engine *engine, di_request_id *id)
{
    pthread_mutex_lock(&engine->lock);
    const bool found = engine->n_cancelled > 0;
    if (found)
        *id = engine->cancelled[--engine->n_cancelled];
    pthread_mutex_unlock(&engine->lock);
    return found;
}

static di_seq *take_waiting(di_engine *engine, di_request_id id)
{
    pthread_mutex_lock(&engine->lock);
    di_seq *first = engine->waiting.first;
    di_seq *seq = first ? di_seq_list_take(&engine->waiting, id ? id : first->id) : NULL;
    pthread_mutex_unlock(&engine->lock);
    return seq;
}

/* Ends the requests that were cancelled since the last step. Ids no longer here are ignored. */
static void drain_cancelled(di_engine *engine)
{
    di_request_id id;
    while (take_cancelled(engine, &id)) {
        di_seq *seq = engine->running && engine->running->id == id ? engine->running
                                                                   : take_waiting(engine, id);
        if (seq)
            di_engine_finish(engine, seq, DI_FINISH_CANCELLED, DI_OK);
    }
}

/* Makes the oldest waiting request the running one. */
static void admit(di_engine *engine)
{
    while (!engine->running) {
        di_seq *seq = take_waiting(engine, 0);
        if (!seq)
            return;
        const di_status status = di_runner_seq_begin(&engine->runner, &seq->tokens);
        if (status != DI_OK)
            di_engine_finish(engine, seq, DI_FINISH_ERROR, status);
        else if (seq->max_new_tokens == 0 && !seq->params.prompt_logprobs)
            di_engine_finish(engine, seq, DI_FINISH_LENGTH, DI_OK);
        else
            engine->running = seq;
    }
}

static di_work schedule(const di_engine *engine, di_seq *seq)
{
    const int64_t left = (int64_t)seq->tokens.tokens.len - seq->tokens.kv.len;
    const bool is_prompt = di_seq_n_output(seq) == 0;
    int64_t budget = engine->runner.options.max_step_tokens;
    if (is_prompt && seq->params.prompt_logprobs)
        budget = di_min_i64(budget, PROMPT_LOGPROBS_CHUNK);
    if (!seq->times.prefill_ns)
        seq->times.prefill_ns = di_clock_ns();
    return (di_work){
        .seq = &seq->tokens,
        .n_tokens = di_min_i64(left, budget),
        .wants_all_logits = is_prompt && seq->params.prompt_logprobs,
        .wants_last_logits = left <= budget,
    };
}

/* Logprobs of the prompt tokens that follow the rows first .. first + n - 1. */
static di_status collect_prompt_logprobs(di_engine *engine, di_seq *seq, int64_t first, int64_t n,
                                         const float *logits)
{
    const int64_t vocab = engine->sampler.vocab_size;
    const int32_t n_logprobs = seq->params.n_logprobs < 0 ? 0 : seq->params.n_logprobs;
    for (int64_t i = 0; i < n && first + i + 1 < (int64_t)seq->n_prompt; i++) {
        di_position_logprobs logprobs;
        DI_TRY(di_sample_given(&engine->sampler, logits + i * vocab, first + i + 1,
                               seq->tokens.tokens.data[first + i + 1], n_logprobs, &logprobs));
        DI_TRY(di_logprob_list_add(seq, &seq->prompt_logprobs, &logprobs));
    }
    return DI_OK;
}

/* Samples the next token if the pass reached the end of the sequence's tokens. */
static di_status sample_next(di_engine *engine, di_seq *seq, const di_work *work,
                             const float *logits)
{
    if (!work->wants_last_logits)
        return DI_OK;
    if (seq->max_new_tokens == 0) {
        di_engine_finish(engine, seq, DI_FINISH_LENGTH, DI_OK);
        return DI_OK;
    }
    const int64_t last = work->wants_all_logits ? work->n_tokens - 1 : 0;
    di_sample_out sampled;
    DI_TRY(di_sample(&engine->sampler, &seq->sampler, logits + last * engine->sampler.vocab_size,
                     (int64_t)seq->tokens.tokens.len, &sampled));
    return di_engine_commit(engine, seq, sampled.token_id, &sampled.logprobs);
}

static di_status run_one(di_engine *engine, di_seq *seq)
{
    const di_work work = schedule(engine, seq);
    const int64_t first = seq->tokens.kv.len;
    float *logits;
    DI_TRY(di_runner_forward(&engine->runner, &work, 1, NULL, &logits));
    if (work.wants_all_logits)
        DI_TRY(collect_prompt_logprobs(engine, seq, first, work.n_tokens, logits));
    return sample_next(engine, seq, &work, logits);
}

static bool has_work(di_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    const bool waits = engine->waiting.first != NULL;
    pthread_mutex_unlock(&engine->lock);
    return waits || engine->running;
}

di_status di_engine_step(di_engine *engine, bool *has_more)
{
    if (!engine)
        return di_fail(DI_ERR_ARGUMENT, "di_engine_step: engine must not be NULL");
    pthread_mutex_lock(&engine->step_lock);
    drain_cancelled(engine);
    admit(engine);
    di_seq *seq = engine->running;
    const di_status status = seq ? run_one(engine, seq) : DI_OK;
    if (status != DI_OK) /* concerns this request alone */
        di_engine_finish(engine, seq, DI_FINISH_ERROR, status);
    if (has_more)
        *has_more = has_work(engine);
    pthread_mutex_unlock(&engine->step_lock);
    return DI_OK;
}
