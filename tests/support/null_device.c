#include "null_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "engine/step_run.h"

/* What stands in an entry instead of keys: codes hold at least 16 bytes. */
typedef struct null_entry {
    uint64_t history; /* up to and with the entry's last token */
    int32_t token_id;
} null_entry;

enum { ENTRY_BYTES = sizeof(uint64_t) + sizeof(int32_t) };

static di_null_device *current;

/* The device may find something while the host launches: the first to write wins, unsynchronised
 * only if both find something at once. */
#define problem(device, ...)                                                                       \
    do {                                                                                           \
        if (!(device)->problem[0] && !(device)->is_doomed)                                         \
            snprintf((device)->problem, sizeof(device)->problem, __VA_ARGS__);                     \
    } while (0)

static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t di_null_history(uint64_t before, int32_t token_id)
{
    return scramble(before * 0x9e3779b97f4a7c15u + (uint64_t)token_id + 1);
}

void di_null_logits(uint64_t history, float *logits, int32_t vocab_size)
{
    uint32_t x = (uint32_t)(history ^ history >> 32);
    for (int32_t i = 0; i < vocab_size; i++) {
        x = x * 1664525u + 1013904223u;
        logits[i] = (float)(int32_t)(x >> 8) * (8.0f / (1 << 24)) - 4.0f;
    }
}

/* ------------------------------------------------------------------------------- entries */

/* A layer with a store in the group; stores of the others are not used. */
static int layer_of_group(const di_kv_cache *kv, int group)
{
    for (int layer = 0; group > 0 && layer < DI_MAX_LAYERS; layer++)
        if (kv->layout.group_of_layer[layer] == group && kv->layout.place_in_group[layer] >= 0)
            return layer;
    return 0;
}

static uint8_t *entry_at(const di_kv_cache *kv, int group, di_kv_store store, int64_t slot)
{
    const di_paged_out out = di_kv_cache_store(kv, layer_of_group(kv, group), store);
    return out.data + slot / out.block_len * out.block_bytes +
           slot % out.block_len * out.code_bytes;
}

static null_entry read_entry(const uint8_t *at)
{
    null_entry e;
    memcpy(&e.history, at, sizeof e.history);
    memcpy(&e.token_id, at + sizeof e.history, sizeof e.token_id);
    return e;
}

static void write_entry(uint8_t *at, null_entry e)
{
    memcpy(at, &e.history, sizeof e.history);
    memcpy(at + sizeof e.history, &e.token_id, sizeof e.token_id);
}

/* The entry of a group that ends at `position`; histories of unset table entries are 0. */
static null_entry find_entry(const di_kv_cache *kv, const di_batch_seq *seq, int group,
                             int64_t position)
{
    const int32_t block = seq->block_tables[group][position / DI_KV_BLOCK_TOKENS];
    if (block < 0 || block >= kv->pools[group].n_blocks)
        return (null_entry){0, -1};
    const di_kv_group *g = &kv->layout.groups[group];
    const int64_t slot = di_paged_slot(seq->block_tables[group], g->block_len, position / g->ratio);
    return read_entry(entry_at(kv, group, g->is_window ? DI_KV_WINDOW : DI_KV_COMPRESSED, slot));
}

static null_entry find_index_entry(const di_kv_cache *kv, const di_batch_seq *seq, int group,
                                   int64_t position)
{
    const di_kv_group *g = &kv->layout.groups[group];
    const int64_t slot = di_paged_slot(seq->block_tables[group], g->block_len, position / g->ratio);
    return read_entry(entry_at(kv, group, DI_KV_INDEX, slot));
}

/* ------------------------------------------------------------------------------- a pass */

typedef struct null_pass {
    di_null_device *device;
    const di_kv_cache *kv;
    const di_batch *batch;
    uint64_t *histories; /* [n_rows] */
} null_pass;

static int group_of_ratio_one(const di_kv_cache *kv)
{
    for (int g = 1; g < kv->layout.n_groups; g++)
        if (kv->layout.groups[g].ratio == 1)
            return g;
    return -1;
}

/* The entries before `first`: a chain of ratio 1 from the first token on, the others beside it.
 * Returns the history before `first`. */
static uint64_t check_entries(const null_pass *p, const di_batch_seq *seq, int64_t first)
{
    const int one = group_of_ratio_one(p->kv);
    uint64_t history = DI_NULL_HISTORY;
    for (int64_t t = 0; t < first; t++) {
        const null_entry e = find_entry(p->kv, seq, one, t);
        history = di_null_history(history, e.token_id);
        if (history != e.history)
            problem(p->device, "entry of position %lld of %lld is not after those before it",
                    (long long)t, (long long)first);
        for (int g = 0; g < p->kv->layout.n_groups; g++) {
            const di_kv_group *group = &p->kv->layout.groups[g];
            const int64_t from = group->is_window ? first - p->kv->window_len + 1 : 0;
            if ((t + 1) % group->ratio || t < from || (group->is_window && t < seq->window_floor))
                continue;
            if (find_entry(p->kv, seq, g, t).history != history)
                problem(p->device, "group %d: position %lld of %lld holds another history", g,
                        (long long)t, (long long)first);
            if (!group->is_window && find_index_entry(p->kv, seq, g, t).history != history)
                problem(p->device, "group %d: index key of position %lld is of another history", g,
                        (long long)t);
        }
    }
    return history;
}

static float *pending_at(const null_pass *p, const di_batch_seq *seq, int64_t position)
{
    return seq->compressor_state + position / 2 % DI_PENDING_PAIRS * 2 * p->kv->head_dim;
}

/* Before an odd first row the compressor holds the token before it. */
static void check_compressor(const null_pass *p, const di_batch_seq *seq, int64_t first,
                             uint64_t history)
{
    if (first % 2 == 0 || p->kv->layout.n_compressors == 0)
        return;
    uint64_t pending;
    memcpy(&pending, pending_at(p, seq, first - 1), sizeof pending);
    if (pending != history)
        problem(p->device, "compressor state before position %lld is of another history",
                (long long)first);
}

static void check_engram(const null_pass *p, const di_batch_seq *seq, int64_t first, int32_t row,
                         int32_t n)
{
    const di_model *model = p->device->engine->runner.model;
    const int one = group_of_ratio_one(p->kv);
    if (!model->token_map)
        return;
    for (int64_t t = first - model->config.engram_max_ngram_size + 1; t < first + n; t++) {
        if (t < 0)
            continue;
        const int32_t token = t < first ? find_entry(p->kv, seq, one, t).token_id
                                        : p->batch->token_ids[row + (t - first)];
        if (token < 0 || token >= model->config.vocab_size)
            problem(p->device, "position %lld has token %d", (long long)t, token);
        else if (seq->engram_ids[t] != model->token_map[token])
            problem(p->device, "engram id of position %lld (of %lld) is of another token",
                    (long long)t, (long long)first);
    }
}

static void check_seq(const null_pass *p, int32_t s)
{
    const di_batch_seq *seq = &p->batch->seqs[s];
    const int32_t row = p->batch->cu_seqlens_q[s], n = p->batch->cu_seqlens_q[s + 1] - row;
    const int64_t first = p->batch->positions[row];
    uint64_t history = check_entries(p, seq, first);
    check_compressor(p, seq, first, history);
    check_engram(p, seq, first, row, n);
    for (int32_t i = 0; i < n; i++) {
        if (p->batch->positions[row + i] != first + i || p->batch->row_seq[row + i] != s)
            problem(p->device, "row %d is not where it belongs", row + i);
        history = di_null_history(history, p->batch->token_ids[row + i]);
        p->histories[row + i] = history;
    }
}

static void write_row(const null_pass *p, int32_t row)
{
    const di_batch_seq *seq = &p->batch->seqs[p->batch->row_seq[row]];
    const int64_t position = p->batch->positions[row];
    const null_entry e = {p->histories[row], p->batch->token_ids[row]};
    for (int g = 0; g < p->kv->layout.n_groups; g++) {
        const di_kv_group *group = &p->kv->layout.groups[g];
        const int64_t slot = p->batch->slots[g][row];
        if ((position + 1) % group->ratio) {
            if (slot >= 0)
                problem(p->device, "group %d: position %lld has a slot", g, (long long)position);
        } else if (slot < 0) { /* kept: it must hold the same already */
            if (group->is_window || find_entry(p->kv, seq, g, position).history != e.history)
                problem(p->device, "group %d: position %lld is kept, and holds another history", g,
                        (long long)position);
        } else {
            const int32_t block = seq->block_tables[g][position / DI_KV_BLOCK_TOKENS];
            if (slot / group->block_len != block)
                problem(p->device, "group %d: the slot of position %lld is in another block", g,
                        (long long)position);
            write_entry(
                entry_at(p->kv, g, group->is_window ? DI_KV_WINDOW : DI_KV_COMPRESSED, slot), e);
            if (!group->is_window)
                write_entry(entry_at(p->kv, g, DI_KV_INDEX, slot), e);
        }
    }
    if (position % 2 == 0 && p->kv->layout.n_compressors > 0)
        memcpy(pending_at(p, seq, position), &e.history, sizeof e.history);
}

static void take_time(int64_t ns)
{
    if (ns > 0)
        nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static di_status null_forward(di_pass *pass, float *logits)
{
    null_pass p = {.device = current, .kv = pass->kv, .batch = pass->batch};
    di_null_device *device = current;
    take_time(device->pass_ns);
    if (++device->n_passes == device->failed_pass)
        return di_fail(DI_ERR_RUNTIME, "the null device fails pass %llu",
                       (unsigned long long)device->failed_pass);
    DI_TRY(DI_ARENA_NEW(pass->arena, (size_t)pass->batch->n_rows, &p.histories));
    /* A pass that was in flight as the one before it failed runs for nothing. */
    device->is_doomed = device->failed_pass && device->n_passes == device->failed_pass + 1 &&
                        device->engine->max_in_flight > 1;
    for (int32_t s = 0; s < p.batch->n_seqs; s++)
        check_seq(&p, s);
    for (int32_t row = 0; row < p.batch->n_rows; row++)
        write_row(&p, row);
    device->is_doomed = false;
    const int32_t vocab_size = (int32_t)device->engine->runner.model->config.vocab_size;
    for (int32_t i = 0; i < p.batch->n_logit_rows; i++) {
        const int32_t row = p.batch->logit_rows[i];
        float *out = logits + (int64_t)i * vocab_size;
        di_null_logits(p.histories[row], out, vocab_size);
        if (device->bend)
            device->bend(device->user, p.histories[row], p.batch->positions[row] + 1, out);
    }
    return DI_OK;
}

/* ------------------------------------------------------------------------------- drafting */

static struct {
    int32_t n;
    uint64_t history[DI_DRAFT_SEQS]; /* up to and with the token before the draft */
} drafts;

/* The window's entries are those of the tokens before the anchor. */
static di_status null_draft_begin(di_pass *pass, const di_draft_batch *batch)
{
    drafts.n = batch->n_seqs;
    for (int32_t i = 0; i < batch->n_seqs; i++) {
        di_batch_seq seq = {.block_tables = {batch->window_tables[i]}};
        drafts.history[i] = find_entry(pass->kv, &seq, 0, batch->positions[i] - 1).history;
    }
    return DI_OK;
}

static void null_draft_logits(const di_pass *pass, int slot, const int32_t *prev, float *logits,
                              float *confidences)
{
    (void)pass;
    const int32_t vocab_size = (int32_t)current->engine->runner.model->config.vocab_size;
    for (int32_t i = 0; i < drafts.n; i++) {
        drafts.history[i] = di_null_history(drafts.history[i], prev[i]);
        const bool is_wrong =
            scramble(drafts.history[i] + (uint64_t)slot) % 16 < (uint64_t)current->wrong_drafts;
        float *out = logits + (int64_t)i * vocab_size;
        di_null_logits(is_wrong ? scramble(drafts.history[i] + 1) : drafts.history[i], out,
                       vocab_size);
        if (current->bend && !is_wrong)
            current->bend(current->user, drafts.history[i], 0, out);
        confidences[i] = is_wrong ? -1.0f : 2.0f;
    }
}

/* ------------------------------------------------------------------------------- launching */

static void count_uses(di_null_device *device, const di_step *step, int group, int32_t by)
{
    for (int32_t i = 0; i < step->n_seqs; i++) {
        const di_kv_seq *seq = &step->seqs[i].seq->sched.kv;
        for (int64_t b = seq->first_block[group]; b < seq->n_blocks; b++)
            device->n_uses[group][seq->tables[group][b]] += by;
    }
}

/* Owners of the blocks that a sequence writes: itself, and the samples that begin after the pass.
 */
static int32_t owners_of_written(const di_step *step, const di_step_seq *seq)
{
    int32_t n = 1;
    for (int32_t i = 0; i < step->n_forks; i++)
        n += step->forks[i].from.slot == seq->slot.slot;
    return n;
}

/* Blocks that a sequence's rows go to, wherever a decode may stand, have one owner. */
static void check_written(di_null_device *device, const di_step *step, const di_step_seq *s)
{
    const di_kv_cache *kv = &device->engine->runner.kv;
    const di_kv_seq *seq = &s->seq->sched.kv;
    const int32_t n_owners = owners_of_written(step, s);
    const int64_t from = s->decodes ? seq->len - seq->n_uncertain - 1 : s->first;
    for (int g = 0; g < kv->layout.n_groups; g++) {
        for (int64_t t = from; t < seq->len; t++) {
            const int64_t slot = di_kv_seq_slot(kv, seq, g, t);
            if (slot < 0)
                continue;
            const int32_t n = kv->pools[g].blocks[slot / kv->layout.groups[g].block_len].n_owners;
            if (n != n_owners)
                problem(device, "group %d: a pass writes to a block of %d owners", g, n);
        }
    }
}

/* Written blocks have one owner; blocks that several sequences use have as many. */
static void check_owners(di_null_device *device, const di_step *step)
{
    const di_kv_cache *kv = &device->engine->runner.kv;
    for (int32_t i = 0; i < step->n_seqs; i++)
        check_written(device, step, &step->seqs[i]);
    for (int g = 0; g < kv->layout.n_groups; g++) {
        const di_block *blocks = kv->pools[g].blocks;
        count_uses(device, step, g, 1);
        for (int64_t b = 0; b < kv->pools[g].n_blocks; b++)
            if (device->n_uses[g][b] > blocks[b].n_owners)
                problem(device, "group %d: %d sequences use a block of %d owners", g,
                        device->n_uses[g][b], blocks[b].n_owners);
        count_uses(device, step, g, -1);
    }
    for (int32_t i = 0; i < step->n_seqs; i++)
        if (step->seqs[i].slot.generation != step->seqs[i].slot.slot->generation)
            problem(device, "a step is launched with a stale slot");
}

static di_position_logprobs no_logprobs;

static void run_bare(di_step *step)
{
    step->started_ns = di_clock_ns();
    for (int32_t i = 0; i < step->n_jobs; i++) {
        di_step_job *job = &step->jobs[i];
        if (step->seqs[job->from].decodes)
            job->position = step->seqs[job->from].first + 1;
        job->token_ids[job->n_tokens++] = (int32_t)(3 + job->position % 1000);
        job->logprobs = &no_logprobs;
    }
    step->finished_ns = di_clock_ns();
}

static void run_oldest(di_null_device *device)
{
    di_step *step = device->waiting[0];
    device->waiting[0] = device->waiting[1];
    device->n_waiting--;
    device->inner.launch(device->inner.self, step);
}

static void launch(void *self, di_step *step)
{
    di_null_device *device = self;
    if (device->pace == DI_NULL_BARE) {
        run_bare(step);
        return;
    }
    device->most_rows = step->n_rows > device->most_rows ? step->n_rows : device->most_rows;
    device->most_seqs = step->n_seqs > device->most_seqs ? step->n_seqs : device->most_seqs;
    check_owners(device, step);
    device->waiting[device->n_waiting++] = step;
    const int n_late = device->pace == DI_NULL_AT_NEXT_LAUNCH ? 1
                       : device->pace == DI_NULL_AT_COLLECT   ? DI_MAX_IN_FLIGHT
                                                              : 0;
    while (device->n_waiting > n_late)
        run_oldest(device);
}

static void collect(void *self, di_step *step)
{
    di_null_device *device = self;
    if (device->pace == DI_NULL_BARE)
        return;
    if (device->n_waiting > 0 && device->waiting[0] == step)
        run_oldest(device);
    device->inner.collect(device->inner.self, step);
}

static void destroy(void *self)
{
    di_null_device *device = self;
    if (device->inner.destroy)
        device->inner.destroy(device->inner.self);
    for (int g = 0; g < DI_MAX_KV_GROUPS; g++)
        free(device->n_uses[g]);
    current = NULL;
}

static di_status connect(di_null_device *device, di_engine *engine)
{
    device->engine = engine;
    engine->runner.forward = null_forward;
    engine->speculation.has_drafter = device->wrong_drafts > 0;
    engine->runner.n_draft_slots = device->wrong_drafts ? 5 : 0;
    engine->runner.draft_begin = null_draft_begin;
    engine->runner.draft_logits = null_draft_logits;
    for (int g = 0; g < engine->runner.kv.layout.n_groups; g++) {
        const size_t n = (size_t)engine->runner.kv.pools[g].n_blocks;
        device->n_uses[g] = calloc(n, sizeof *device->n_uses[g]);
        if (!device->n_uses[g])
            return di_fail_memory(n * sizeof *device->n_uses[g], "the null device");
    }
    return di_cpu_executor_create(&engine->runner, device->pace == DI_NULL_THREADED,
                                  &device->inner);
}

di_status di_null_engine_create(di_null_device *device, di_model *model, const di_options *options,
                                di_engine **out)
{
    const di_executor executor = {device, launch, collect, destroy};
    di_engine *engine;
    current = device;
    DI_TRY(di_engine_create_with(model, options, &executor, &engine));
    const di_status status = connect(device, engine);
    if (status != DI_OK) {
        di_engine_destroy(engine);
        return status;
    }
    *out = engine;
    return DI_OK;
}
