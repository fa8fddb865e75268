#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/engine.h"

/* ------------------------------------------------------------------------------- text */

static bool is_finish_id(const di_entry *entry, int32_t id)
{
    for (size_t i = 0; i < entry->n_finish_ids; i++)
        if (entry->finish_ids[i] == id)
            return true;
    return false;
}

/* Appends a token's text; *stopped if a stop string is complete. Finish ids have no text. */
static di_status append_text(di_engine *engine, di_seq *seq, int32_t token_id, bool *stopped)
{
    *stopped = false;
    if (!seq->entry->has_stop) /* nothing can be held back */
        return di_detokenizer_push(&seq->detokenizer, token_id, &seq->text);
    di_buf *piece = &engine->piece;
    int matched = -1;
    di_buf_clear(piece);
    DI_TRY(di_detokenizer_push(&seq->detokenizer, token_id, piece));
    const bool is_enabled = (int64_t)di_seq_n_output(seq) > seq->entry->params.min_tokens;
    DI_TRY(
        di_stop_push(seq->stop, di_buf_str(piece), piece->len, is_enabled, &seq->text, &matched));
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

/* ------------------------------------------------------------------------------- outputs */

static di_status fill_logprobs(const di_seq *seq, size_t first, size_t n, di_event *event)
{
    di_position_logprobs *logprobs;
    DI_TRY(DI_ARENA_NEW(&event->arena, n, &logprobs));
    for (size_t i = 0; i < n; i++)
        DI_TRY(
            di_position_logprobs_copy(&event->arena, &seq->logprobs.data[first + i], &logprobs[i]));
    event->output.logprobs = logprobs;
    return DI_OK;
}

/* What one step added, as an output event. */
static di_status fill_event(const di_seq *seq, size_t first_token, size_t first_byte,
                            di_event *event)
{
    const size_t n = di_seq_n_output(seq) - first_token;
    const size_t n_bytes = seq->text.len - first_byte;
    int32_t *ids = &event->token_id;
    char *text = event->text, *error = NULL;
    if (n > 1)
        DI_TRY(DI_ARENA_NEW(&event->arena, n, &ids));
    if (n_bytes >= sizeof event->text)
        DI_TRY(DI_ARENA_NEW(&event->arena, n_bytes + 1, &text));
    if (seq->error)
        DI_TRY(di_arena_strdup(&event->arena, seq->error, &error));
    if (n)
        memcpy(ids, seq->tokens.data + seq->entry->n_prompt + first_token, n * sizeof *ids);
    memcpy(text, di_buf_str(&seq->text) + first_byte, n_bytes + 1);
    event->is_private = seq->entry->is_private;
    event->output = (di_output){
        .id = seq->entry->id,
        .sample_index = seq->sample_index,
        .token_ids = ids,
        .n_token_ids = n,
        .text = text,
        .text_bytes = n_bytes,
        .finish_reason = seq->finish_reason,
        .status = seq->status,
        .error = error ? error : "",
    };
    if (n == 0 || !seq->entry->has_logprobs)
        return DI_OK;
    return fill_logprobs(seq, first_token, n, event);
}

/* An emptied event: of this step's own, or all that pollers have given back. */
static di_status take_event(di_engine *engine, di_event **out)
{
    if (!engine->pending.free) {
        pthread_mutex_lock(&engine->lock);
        engine->pending.free = engine->outbox.free;
        engine->outbox.free = NULL;
        pthread_mutex_unlock(&engine->lock);
    }
    return di_outbox_take_free(&engine->pending, out);
}

/* Outputs gather in `pending` and are published together (di_engine_publish). */
static di_status push_event(di_engine *engine, di_seq *seq, size_t first_token, size_t first_byte)
{
    di_event *event;
    DI_TRY(take_event(engine, &event));
    const di_status status = fill_event(seq, first_token, first_byte, event);
    if (status == DI_OK)
        di_outbox_push(&engine->pending, event);
    else
        di_outbox_recycle(&engine->pending, event);
    return status;
}

void di_engine_publish(di_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    di_outbox_append(&engine->outbox, &engine->pending);
    for (di_entry *e = engine->pending_finished.first, *next; e; e = next) {
        next = e->next;
        di_entry_list_push(&engine->finished, e);
    }
    engine->pending_finished = (di_entry_list){NULL, NULL};
    engine->published = engine->stats;
    pthread_mutex_unlock(&engine->lock);
}

/* ------------------------------------------------------------------------------- ends */

/* The result of a request is published with its last output. */
static void publish_if_ended(di_engine *engine, di_entry *entry)
{
    if (entry->n_ended < entry->n_samples || entry->is_finished)
        return;
    entry->is_finished = true;
    di_entry_list_push(&engine->pending_finished, entry);
}

static bool is_in_flight(const di_entry *entry)
{
    for (int32_t i = 0; i < entry->n_samples; i++)
        if (entry->seqs[i].sched.n_in_flight > 0)
            return true;
    return false;
}

void di_entry_settle(di_engine *engine, di_entry *entry)
{
    if (entry->n_ended < entry->n_samples || is_in_flight(entry))
        return;
    for (int32_t i = 0; i < entry->n_samples; i++) {
        if (entry->seqs[i].slot)
            di_slot_give_back(&engine->slots, entry->seqs[i].slot);
        entry->seqs[i].slot = NULL;
    }
    di_active_remove(&engine->active, entry);
    engine->n_deadlines -= entry->timeout_ms != 0;
    pthread_mutex_lock(&engine->lock);
    entry->is_settled = true;
    const bool is_taken = entry->is_taken;
    pthread_mutex_unlock(&engine->lock);
    if (is_taken)
        di_entry_destroy(entry);
}

/* Marks a sample ended and gives its blocks back. */
static void close_seq(di_engine *engine, di_seq *seq, di_finish_reason reason, di_status status)
{
    if (status != DI_OK && di_arena_strdup(&seq->arena, di_last_error(), &seq->error) != DI_OK)
        seq->error = NULL;
    if (flush_text(seq) != DI_OK && status == DI_OK)
        status = DI_ERR_MEMORY;
    seq->finish_reason = status == DI_OK ? reason : DI_FINISH_ERROR;
    seq->status = status;
    di_scheduler_remove(&engine->scheduler, &seq->sched);
    seq->entry->n_ended++;
    engine->stats.n_finished++;
}

/* Samples that were to continue from the end of this one's prompt never begin. */
static void finish_forks_to_come(di_engine *engine, const di_seq *seq)
{
    if (seq->sample_index != 0 || seq->sched.n_samples == 1)
        return;
    for (int32_t i = 1; i < seq->entry->n_samples; i++) {
        di_error_set_text(seq->error ? seq->error : di_status_name(seq->status));
        di_seq_finish(engine, &seq->entry->seqs[i], seq->finish_reason, seq->status);
    }
}

void di_seq_finish(di_engine *engine, di_seq *seq, di_finish_reason reason, di_status status)
{
    if (seq->finish_reason != DI_FINISH_NONE)
        return;
    const size_t n_tokens = di_seq_n_output(seq), n_bytes = seq->text.len;
    close_seq(engine, seq, reason, status);
    /* Without memory for the output the result still says how it ended. */
    if (push_event(engine, seq, n_tokens, n_bytes) != DI_OK && seq->status == DI_OK)
        seq->status = DI_ERR_MEMORY;
    publish_if_ended(engine, seq->entry);
    finish_forks_to_come(engine, seq);
}

void di_entry_finish(di_engine *engine, di_entry *entry, di_finish_reason reason, di_status status)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", di_last_error());
    for (int32_t i = 0; i < entry->n_samples; i++) {
        di_error_set_text(text);
        di_seq_finish(engine, &entry->seqs[i], reason, status);
    }
    di_entry_settle(engine, entry);
}

/* ------------------------------------------------------------------------------- tokens */

static di_status add_token(di_engine *engine, di_seq *seq, int32_t token_id,
                           const di_position_logprobs *logprobs)
{
    DI_TRY(di_ids_push(&seq->tokens, token_id));
    seq->sched.tokens = seq->tokens.data;
    seq->sched.n_known++;
    if (seq->entry->has_logprobs)
        DI_TRY(di_logprob_list_add(seq, &seq->logprobs, logprobs));
    seq->times.last_token_ns = engine->commit_ns;
    if (di_seq_n_output(seq) == 1)
        seq->times.first_token_ns = seq->times.last_token_ns;
    engine->stats.generated_tokens++;
    return DI_OK;
}

/* Whether, and why, the sample ends with its newest token. */
static di_status find_end(di_engine *engine, di_seq *seq, int32_t token_id,
                          di_finish_reason *reason)
{
    bool stopped = is_finish_id(seq->entry, token_id);
    if (!stopped)
        DI_TRY(append_text(engine, seq, token_id, &stopped));
    if (stopped)
        *reason = DI_FINISH_STOP;
    else if ((int64_t)seq->tokens.len >= seq->entry->max_len)
        *reason = DI_FINISH_LENGTH;
    else
        *reason = DI_FINISH_NONE;
    return DI_OK;
}

/* What a pass sampled, up to the end if it has one: what was sampled behind a stop string is as if
 * it had never been. */
static di_status commit_tokens(di_engine *engine, di_seq *seq, const di_step_job *job)
{
    const size_t n_tokens = di_seq_n_output(seq), n_bytes = seq->text.len;
    di_finish_reason reason = DI_FINISH_NONE;
    for (int32_t i = 0; i < job->n_tokens && reason == DI_FINISH_NONE; i++) {
        DI_TRY(add_token(engine, seq, job->token_ids[i], &job->logprobs[i]));
        DI_TRY(find_end(engine, seq, job->token_ids[i], &reason));
    }
    if (reason != DI_FINISH_NONE)
        close_seq(engine, seq, reason, DI_OK);
    const di_status status = push_event(engine, seq, n_tokens, n_bytes);
    if (reason == DI_FINISH_NONE)
        return status;
    publish_if_ended(engine, seq->entry); /* whole even if its last output could not be queued */
    return DI_OK;
}

static di_status commit_scores(di_seq *seq, const di_step_job *job)
{
    for (int64_t i = 0; i < job->n_scored; i++)
        DI_TRY(di_logprob_list_add(seq, &seq->prompt_logprobs, &job->logprobs[i]));
    return DI_OK;
}

static void commit_job(di_engine *engine, const di_step_job *job)
{
    di_seq *seq = job->seq;
    engine->stats.drafted_tokens += (uint64_t)job->n_drafted;
    if (seq->finish_reason != DI_FINISH_NONE) {
        engine->stats.wasted_rows += job->scored_tokens ? 0 : 1 + (uint64_t)job->n_verified;
        return;
    }
    di_status status = DI_OK;
    if (job->n_tokens > 0)
        status = commit_tokens(engine, seq, job);
    else if (job->scored_tokens && job->status == DI_OK)
        status = commit_scores(seq, job);
    if (status == DI_OK && job->status != DI_OK && seq->finish_reason == DI_FINISH_NONE) {
        status = job->status;
        di_error_set_text(job->error ? job->error : di_status_name(status));
    }
    if (status != DI_OK)
        di_seq_finish(engine, seq, DI_FINISH_ERROR, status);
}

/* How far a decode has come is known now. */
static void settle_decode(di_engine *engine, const di_step_seq *s, const di_step_job *job)
{
    di_scheduler_settle(&s->seq->sched, s->n_drafts, job->n_tokens);
    if (engine->runner.forced_accepted_len <= 0.0) /* else it would learn nothing true */
        di_speculation_observe_job(&engine->speculation, &s->seq->drafts, job);
    engine->stats.verified_drafts += (uint64_t)job->n_verified;
    engine->stats.accepted_drafts += (uint64_t)di_max_i64(0, job->n_tokens - 1);
}

/* ------------------------------------------------------------------------------- a step */

/* What a sequence that goes on has computed may be known anew. */
static void register_anew(di_engine *engine)
{
    for (di_sched_seq *s = engine->scheduler.running.first; s; s = s->next) {
        s->kv.n_registered = 0;
        s->kv.chain = 0;
    }
}

void di_lost_fail(di_engine *engine, di_status status)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", di_last_error());
    for (di_entry *e = engine->active.first, *next; e; e = next) {
        next = e->active_next;
        for (int32_t i = 0; i < e->n_samples; i++) {
            if (!e->seqs[i].is_lost)
                continue;
            di_error_set_text(text);
            di_seq_finish(engine, &e->seqs[i], DI_FINISH_ERROR, status);
        }
        di_entry_settle(engine, e);
    }
    di_prefix_cache_flush(&engine->prefix);
    register_anew(engine);
}

/* Marks [group][block] what the rows of a step write. */
static di_status mark_written(const di_engine *engine, di_step *step, bool **written)
{
    const di_kv_cache *kv = &engine->runner.kv;
    const di_batch *batch = &step->made.batch;
    for (int g = 0; g < kv->layout.n_groups; g++) {
        DI_TRY(DI_ARENA_ZNEW(&step->arena, (size_t)kv->pools[g].n_blocks, &written[g]));
        for (int32_t row = 0; row < batch->n_rows; row++)
            if (batch->slots[g][row] >= 0)
                written[g][batch->slots[g][row] / kv->layout.groups[g].block_len] = true;
    }
    return DI_OK;
}

/* Whether a sequence took one of the blocks from the prefix cache. */
static bool has_adopted(const di_engine *engine, const di_kv_seq *seq, bool *const *written)
{
    const int64_t n_adopted = seq->write_floor / DI_KV_BLOCK_TOKENS;
    for (int g = 0; g < engine->runner.kv.layout.n_groups; g++)
        for (int64_t b = seq->first_block[g]; b < di_min_i64(n_adopted, seq->n_blocks); b++)
            if (written[g][seq->tables[g][b]])
                return true;
    return false;
}

/* Of the running sequences: those that were given entries which the pass should have computed.
 * Nobody can have taken over what the pass after it wrote, since it is in flight still. */
static void mark_dependents(di_engine *engine, di_step *step)
{
    bool *written[DI_MAX_KV_GROUPS] = {NULL};
    const bool is_known = step->is_laid_out && mark_written(engine, step, written) == DI_OK;
    for (di_sched_seq *s = engine->scheduler.running.first; s; s = s->next)
        if (!is_known || has_adopted(engine, &s->kv, written))
            di_seq_of(s)->is_lost = true;
}

/* Samples that begin with the pass in flight share what the failed one should have computed. */
static void mark_forks_in_flight(di_engine *engine)
{
    for (int i = 0; i < engine->n_in_flight; i++) {
        const di_step *step = engine->in_flight[i];
        for (int32_t k = 0; k < step->n_forks; k++) {
            di_seq *to = step->forks[k].seq;
            to->is_lost |= to->entry->seqs[0].is_lost;
        }
    }
}

/* The pass failed as a whole. Its sequences, preempted ones among them, are in flight: they settle
 * later. */
static void fail_all(di_engine *engine, di_step *step)
{
    for (int32_t i = 0; i < step->n_seqs; i++)
        step->seqs[i].seq->is_lost = true;
    for (int32_t i = 0; i < step->n_forks; i++)
        step->forks[i].seq->is_lost = true;
    mark_dependents(engine, step);
    mark_forks_in_flight(engine);
    di_error_set_text(step->error ? step->error : di_status_name(step->status));
    di_lost_fail(engine, step->status);
}

/* The sequence is no longer in this flight. A request that has settled may be taken and gone at
 * once: those that may are listed, and looked at once, at the end. */
static void land(di_step *step, di_seq *seq)
{
    seq->sched.n_in_flight--;
    if (seq->finish_reason == DI_FINISH_NONE || seq->entry->is_listed)
        return;
    seq->entry->is_listed = true;
    step->entries[step->n_entries++] = seq->entry;
}

static void settle_listed(di_engine *engine, const di_step *step)
{
    for (int32_t i = 0; i < step->n_entries; i++) {
        step->entries[i]->is_listed = false;
        di_entry_settle(engine, step->entries[i]);
    }
}

void di_step_commit(di_engine *engine, di_step *step)
{
    const bool is_ok = step->status == DI_OK;
    engine->commit_ns = di_clock_ns();
    if (!is_ok)
        fail_all(engine, step);
    const di_step_job *job = step->jobs;
    for (int32_t i = 0; i < step->n_seqs; i++) {
        const di_step_seq *s = &step->seqs[i];
        if (is_ok && s->decodes)
            settle_decode(engine, s, job);
        for (const di_step_job *end = job + s->n_jobs; job < end; job++)
            if (is_ok)
                commit_job(engine, job);
        if (is_ok && s->is_end)
            di_seq_finish(engine, s->seq, DI_FINISH_LENGTH, DI_OK);
        land(step, s->seq);
    }
    for (int32_t i = 0; i < step->n_forks; i++)
        land(step, step->forks[i].seq);
    settle_listed(engine, step);
}
