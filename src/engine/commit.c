#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/engine.h"

static bool is_finish_id(const di_seq *seq, int32_t id)
{
    for (size_t i = 0; i < seq->n_finish_ids; i++)
        if (seq->finish_ids[i] == id)
            return true;
    return false;
}

/* Appends a token's text; *stopped if a stop string is complete. Finish ids have no text. */
static di_status append_text(di_seq *seq, int32_t token_id, bool *stopped)
{
    DI_BUF_AUTO piece = {0};
    int matched = -1;
    DI_TRY(di_detokenizer_push(&seq->detokenizer, token_id, &piece));
    const bool is_enabled = di_seq_n_output(seq) > seq->params.min_tokens;
    DI_TRY(
        di_stop_push(seq->stop, di_buf_str(&piece), piece.len, is_enabled, &seq->text, &matched));
    *stopped = matched >= 0;
    return DI_OK;
}

/* The end of the text: a cut character, and what was held back as a possible stop string. */
static di_status flush_text(di_seq *seq)
{
    DI_BUF_AUTO piece = {0};
    int matched;
    DI_TRY(di_detokenizer_finish(&seq->detokenizer, &piece));
    DI_TRY(di_stop_push(seq->stop, di_buf_str(&piece), piece.len, false, &seq->text, &matched));
    return di_stop_finish(seq->stop, &seq->text);
}

/* What one step added, as an output event. */
static di_status fill_event(const di_seq *seq, size_t first_token, size_t first_byte,
                            di_event *event)
{
    di_output *o = &event->output;
    const size_t n = (size_t)di_seq_n_output(seq) - first_token;
    int32_t *ids;
    char *text, *error = NULL;
    DI_TRY(DI_ARENA_NEW(&event->arena, n, &ids));
    DI_TRY(DI_ARENA_NEW(&event->arena, seq->text.len - first_byte + 1, &text));
    if (seq->error)
        DI_TRY(di_arena_strdup(&event->arena, seq->error, &error));
    if (n)
        memcpy(ids, seq->tokens.tokens.data + seq->n_prompt + first_token, n * sizeof *ids);
    memcpy(text, di_buf_str(&seq->text) + first_byte, seq->text.len - first_byte + 1);
    *o = (di_output){
        .id = seq->id,
        .token_ids = ids,
        .n_token_ids = n,
        .text = text,
        .text_bytes = seq->text.len - first_byte,
        .finish_reason = seq->finish_reason,
        .status = seq->status,
        .error = error ? error : "",
    };
    if (n == 0 || seq->params.n_logprobs < 0)
        return DI_OK;
    di_position_logprobs *logprobs;
    DI_TRY(DI_ARENA_NEW(&event->arena, n, &logprobs));
    for (size_t i = 0; i < n; i++) {
        const di_position_logprobs *from = &seq->logprobs.data[first_token + i];
        di_logprob *entries;
        DI_TRY(DI_ARENA_NEW(&event->arena, from->n_entries, &entries));
        memcpy(entries, from->entries, from->n_entries * sizeof *entries);
        logprobs[i] = (di_position_logprobs){entries, from->n_entries};
    }
    o->logprobs = logprobs;
    return DI_OK;
}

static di_status push_event(di_engine *engine, di_seq *seq, size_t first_token, size_t first_byte)
{
    di_event *event;
    pthread_mutex_lock(&engine->lock);
    di_status status = di_outbox_take_free(&engine->outbox, &event);
    pthread_mutex_unlock(&engine->lock);
    if (status != DI_OK)
        return status;
    event->is_private = seq->is_private;
    status = fill_event(seq, first_token, first_byte, event);
    pthread_mutex_lock(&engine->lock);
    if (status == DI_OK)
        di_outbox_push(&engine->outbox, event);
    else
        di_outbox_recycle(&engine->outbox, event);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

/* Marks a sequence finished; text held back comes out unless a stop string ended it. */
static void close_seq(di_engine *engine, di_seq *seq, di_finish_reason reason, di_status status)
{
    if (status != DI_OK && di_arena_strdup(&seq->arena, di_last_error(), &seq->error) != DI_OK)
        seq->error = NULL;
    if (flush_text(seq) != DI_OK && status == DI_OK)
        status = DI_ERR_MEMORY;
    seq->finish_reason = status == DI_OK ? reason : DI_FINISH_ERROR;
    seq->status = status;
    di_runner_seq_release(&engine->runner, &seq->tokens);
    if (engine->running == seq)
        engine->running = NULL;
}

static void publish_finished(di_engine *engine, di_seq *seq)
{
    pthread_mutex_lock(&engine->lock);
    di_seq_list_push(&engine->finished, seq);
    pthread_mutex_unlock(&engine->lock);
}

void di_engine_finish(di_engine *engine, di_seq *seq, di_finish_reason reason, di_status status)
{
    const size_t n_tokens = (size_t)di_seq_n_output(seq), n_bytes = seq->text.len;
    close_seq(engine, seq, reason, status);
    /* Without memory for the output the result still says how it ended. */
    if (push_event(engine, seq, n_tokens, n_bytes) != DI_OK && seq->status == DI_OK)
        seq->status = DI_ERR_MEMORY;
    publish_finished(engine, seq);
}

static di_status add_token(di_engine *engine, di_seq *seq, int32_t token_id,
                           const di_position_logprobs *logprobs)
{
    DI_TRY(di_runner_seq_append(&engine->runner, &seq->tokens, &token_id, 1));
    di_sampler_state_append(&seq->sampler, token_id);
    if (seq->params.n_logprobs >= 0)
        DI_TRY(di_logprob_list_add(seq, &seq->logprobs, logprobs));
    seq->times.last_token_ns = di_clock_ns();
    if (di_seq_n_output(seq) == 1)
        seq->times.first_token_ns = seq->times.last_token_ns;
    return DI_OK;
}

/* Whether, and why, the sequence ends with its newest token. */
static di_status find_end(di_seq *seq, int32_t token_id, di_finish_reason *reason)
{
    bool stopped = is_finish_id(seq, token_id);
    if (!stopped)
        DI_TRY(append_text(seq, token_id, &stopped));
    if (stopped)
        *reason = DI_FINISH_STOP;
    else if (di_seq_n_output(seq) >= seq->max_new_tokens)
        *reason = DI_FINISH_LENGTH;
    else
        *reason = DI_FINISH_NONE;
    return DI_OK;
}

di_status di_engine_commit(di_engine *engine, di_seq *seq, int32_t token_id,
                           const di_position_logprobs *logprobs)
{
    const size_t n_tokens = (size_t)di_seq_n_output(seq), n_bytes = seq->text.len;
    di_finish_reason reason;
    DI_TRY(add_token(engine, seq, token_id, logprobs));
    DI_TRY(find_end(seq, token_id, &reason));
    if (reason != DI_FINISH_NONE)
        close_seq(engine, seq, reason, DI_OK);
    const di_status status = push_event(engine, seq, n_tokens, n_bytes);
    if (reason != DI_FINISH_NONE) {
        publish_finished(engine, seq);
        return DI_OK; /* the result is whole even if its last output could not be queued */
    }
    return status;
}
