#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/engine.h"

/* A step being built. */
typedef struct builder {
    di_engine *engine;
    di_step *step;
    int64_t history; /* tokens before a row that Engram looks at */
} builder;

static di_status copy_tokens(builder *b, const di_seq *seq, int64_t first, int64_t n,
                             const int32_t **out)
{
    int32_t *ids;
    DI_TRY(DI_ARENA_NEW(&b->step->arena, (size_t)n, &ids));
    memcpy(ids, seq->tokens.data + first, (size_t)n * sizeof *ids);
    *out = ids;
    return DI_OK;
}

static di_status take_slot(di_engine *engine, di_seq *seq)
{
    if (seq->slot)
        return DI_OK;
    const di_entry *e = seq->entry;
    const di_slot_setup setup = {
        .sampler = {.params = &e->params,
                    .vocab_size = (int32_t)engine->runner.model->config.vocab_size,
                    .prompt = seq->tokens.data,
                    .n_prompt = e->n_prompt,
                    .finish_ids = e->finish_ids,
                    .n_finish_ids = e->n_finish_ids,
                    .seed = e->seed,
                    .sample_index = (uint32_t)seq->sample_index,
                    .constraint = e->constraint},
        .max_len = e->max_len,
        .rejects = e->rejects,
    };
    DI_TRY(di_slot_take(&engine->slots, &engine->runner, &setup, &seq->slot));
    /* Only now: what later admissions find, after preemptions, the sequence itself has computed. */
    seq->n_cached = di_min_i64(seq->sched.n_cached, (int64_t)e->n_prompt);
    if (seq->sample_index == 0)
        engine->stats.cached_prompt_tokens += (uint64_t)seq->n_cached;
    return DI_OK;
}

/* Input tokens of an item. After a prefix hit the slot lacks the ids before the first row, of which
 * Engram needs the last few. */
static di_status set_tokens(builder *b, const di_sched_item *item, di_step_seq *out)
{
    if (out->decodes)
        return DI_OK;
    const bool is_after_hit = item->first > 0 && item->first == item->seq->n_cached;
    out->n_before = is_after_hit ? di_min_i64(item->first, b->history) : 0;
    return copy_tokens(b, di_seq_of(item->seq), item->first - out->n_before,
                       item->n + out->n_before, &out->token_ids);
}

/* What of the block tables the slot has not been told. */
static di_status add_table(builder *b, di_kv_seq *kv, di_slot *slot)
{
    const int n_groups = b->engine->runner.kv.layout.n_groups;
    const int64_t first = kv->n_given, n = kv->n_blocks - first;
    int32_t *ids;
    DI_TRY(DI_ARENA_NEW(&b->step->arena, (size_t)(n * n_groups), &ids));
    for (int g = 0; g < n_groups; g++)
        memcpy(ids + g * n, kv->tables[g] + first, (size_t)n * sizeof *ids);
    b->step->tables[b->step->n_tables++] = (di_step_table){slot, first, n, ids};
    kv->n_given = kv->n_blocks;
    return DI_OK;
}

static di_status add_rows(builder *b, const di_sched_item *item, bool wants_all)
{
    di_seq *seq = di_seq_of(item->seq);
    di_kv_seq *kv = &item->seq->kv;
    di_step_seq *s = &b->step->seqs[b->step->n_seqs++];
    *s = (di_step_seq){
        .seq = seq,
        .slot = di_slot_ref_of(seq->slot),
        .decodes = item->decodes,
        .first = item->first,
        .n = item->n,
        .write_floor = kv->write_floor,
        .window_floor = kv->window_floor,
        .decoder_start = kv->decoder_start,
        .n_drafts = item->n_drafts,
        .wants_all_logits = wants_all,
        .wants_last_logits = item->samples,
        .is_end = item->seq->max_len == item->seq->n_prompt &&
                  item->first + item->n == item->seq->n_prompt,
    };
    if (kv->n_given < kv->n_blocks)
        DI_TRY(add_table(b, kv, seq->slot));
    return set_tokens(b, item, s);
}

/* Drafts that a sequence may want behind the next token: the last token of all is never one. */
static int32_t new_drafts(const di_engine *engine, const di_seq *seq)
{
    const bool makes_any = seq->drafts.has_grammar || engine->speculation.is_drafting;
    const int64_t room = seq->entry->max_len - (int64_t)seq->tokens.len - 2;
    const int64_t most = di_min_i64(engine->scheduler.most_drafts, seq->sched.most_drafts);
    return makes_any ? (int32_t)di_max_i64(0, di_min_i64(most, room)) : 0;
}

/* A job with rows of the sequence that was added last. */
static di_step_job *add_job(builder *b, di_seq *seq, int64_t logit_offset, int64_t position)
{
    di_step_job *job = &b->step->jobs[b->step->n_jobs++];
    *job = (di_step_job){
        .seq = seq,
        .slot = di_slot_ref_of(seq->slot),
        .from = b->step->n_seqs - 1,
        .logit_offset = (int32_t)logit_offset,
        .position = position,
        .n_new_drafts = new_drafts(b->engine, seq),
    };
    seq->drafts.n_coming = job->n_new_drafts;
    return job;
}

/* Row `first + i` gives the logprob of token first + i + 1; rows that a preemption computes again
 * were asked before. */
static di_status add_scores(builder *b, const di_sched_item *item)
{
    di_seq *seq = di_seq_of(item->seq);
    const int64_t from = di_max_i64(item->first, seq->n_scored);
    const int64_t to = di_min_i64(item->first + item->n, (int64_t)seq->entry->n_prompt - 1);
    if (from >= to)
        return DI_OK;
    di_step_job *job = add_job(b, seq, from - item->first, from + 1);
    job->n_scored = to - from;
    seq->n_scored = to;
    return copy_tokens(b, seq, from + 1, to - from, &job->scored_tokens);
}

/* A further sample of the prompt that this item completes: shares its blocks and its logits. */
static di_status add_fork(builder *b, di_seq *from, di_seq *to, int64_t logit_offset)
{
    di_engine *engine = b->engine;
    to->sched.order = ++engine->last_order;
    DI_TRY(di_scheduler_fork(&engine->scheduler, &from->sched, &to->sched));
    DI_TRY(take_slot(engine, to));
    to->times.prefill_ns = from->times.prefill_ns;
    to->sched.n_tokens++;
    to->sched.n_in_flight++;
    b->step->forks[b->step->n_forks++] = (di_step_fork){
        to, di_slot_ref_of(from->slot), di_slot_ref_of(to->slot), (int64_t)from->entry->n_prompt};
    add_job(b, to, logit_offset, (int64_t)from->entry->n_prompt);
    return DI_OK;
}

/* The samples that wait for the end of the prompt, as many as the item says. */
static void begin_others(builder *b, di_seq *seq, int64_t logit_offset)
{
    di_entry *e = seq->entry;
    for (int32_t i = 1; i < e->n_samples && seq->sched.n_samples > 1; i++) {
        if (e->seqs[i].finish_reason != DI_FINISH_NONE)
            continue;
        const di_status status = add_fork(b, seq, &e->seqs[i], logit_offset);
        if (status != DI_OK)
            di_seq_finish(b->engine, &e->seqs[i], DI_FINISH_ERROR, status);
    }
}

static di_status add_item(builder *b, const di_sched_item *item)
{
    di_seq *seq = di_seq_of(item->seq);
    if (!seq->times.prefill_ns)
        seq->times.prefill_ns = di_clock_ns();
    DI_TRY(take_slot(b->engine, seq));
    const bool wants_all =
        item->first < item->seq->n_prompt - 1 && seq->entry->params.prompt_logprobs;
    const int32_t n_jobs = b->step->n_jobs;
    DI_TRY(add_rows(b, item, wants_all));
    if (wants_all)
        DI_TRY(add_scores(b, item));
    if (item->samples) {
        const int64_t logit_offset = wants_all ? item->n - 1 : 0;
        add_job(b, seq, logit_offset, item->first + item->n);
        if (item->n_to_begin > 0 && item->first + item->n == item->seq->n_prompt)
            begin_others(b, seq, logit_offset);
    }
    b->step->seqs[b->step->n_seqs - 1].n_jobs = b->step->n_jobs - n_jobs;
    return DI_OK;
}

/* Rows, without drafts, and, at most, forks of the step. */
static void count(const di_engine *engine, int32_t n_items, int64_t *n_rows, size_t *n_forks)
{
    *n_rows = 0;
    *n_forks = 0;
    for (int32_t i = 0; i < n_items; i++) {
        const di_sched_item *item = &engine->items[i];
        *n_rows += item->n;
        *n_forks += (size_t)item->n_to_begin;
    }
}

static bool has_prefills(const di_engine *engine, int32_t n_items)
{
    for (int32_t i = 0; i < n_items; i++)
        if (!engine->items[i].decodes)
            return true;
    return false;
}

static di_status alloc_step(builder *b, size_t n_items)
{
    di_step *step = b->step;
    size_t n_forks;
    count(b->engine, (int32_t)n_items, &step->n_rows, &n_forks);
    step->n_draft_rows = b->engine->scheduler.n_draft_rows;
    step->n_rows += step->n_draft_rows;
    step->uses_drafter = b->engine->speculation.is_drafting;
    step->writes_taps =
        b->engine->speculation.writes_taps || has_prefills(b->engine, (int32_t)n_items);
    step->calibration = b->engine->speculation.confidence.calibration;
    DI_TRY(DI_ARENA_NEW(&step->arena, n_items, &step->entries));
    DI_TRY(DI_ARENA_NEW(&step->arena, n_items, &step->seqs));
    DI_TRY(DI_ARENA_NEW(&step->arena, n_items, &step->tables));
    DI_TRY(DI_ARENA_NEW(&step->arena, 2 * n_items + n_forks, &step->jobs)); /* scores, a sample */
    DI_TRY(DI_ARENA_NEW(&step->arena, n_forks, &step->forks));
    return di_batch_begin(&b->engine->runner.kv, (size_t)step->n_rows, n_items, &step->arena,
                          &step->made);
}

static di_status take_copies(builder *b)
{
    di_kv_cache *kv = &b->engine->runner.kv;
    di_step *step = b->step;
    DI_TRY(DI_ARENA_NEW(&step->arena, kv->n_copies, &step->copies));
    if (kv->n_copies)
        memcpy(step->copies, kv->copies, kv->n_copies * sizeof *step->copies);
    step->n_copies = kv->n_copies;
    kv->n_copies = 0;
    return DI_OK;
}

di_status di_step_build(di_engine *engine, int32_t n_items, di_step *step)
{
    builder b = {
        .engine = engine,
        .step = step,
        .history = engine->runner.model->config.engram_max_ngram_size,
    };
    DI_TRY(alloc_step(&b, (size_t)n_items));
    DI_TRY(take_copies(&b));
    for (int32_t i = 0; i < n_items; i++)
        DI_TRY(add_item(&b, &engine->items[i]));
    return DI_OK;
}
