#include "sched/scheduler.h"

#include <stdlib.h>

#include "base/checked.h"

/* Prefills that share a step's budget, more of them wait; and the part of a pool that a small
 * sequence takes at most. */
enum { MAX_PREFILLS = 16, SMALL_PART = 16 };

di_status di_scheduler_init(di_scheduler *scheduler, di_kv_cache *kv, di_prefix_cache *prefix,
                            const di_sched_limits *limits)
{
    di_sched_seq **scratch = calloc((size_t)limits->max_seqs, sizeof *scratch);
    if (!scratch)
        return di_fail_memory(limits->max_seqs * sizeof *scratch, "the scheduler");
    *scheduler = (di_scheduler){
        .kv = kv,
        .prefix = prefix,
        .limits = *limits,
        .scratch = scratch,
    };
    return DI_OK;
}

void di_scheduler_free(di_scheduler *scheduler)
{
    free(scheduler->scratch);
    *scheduler = (di_scheduler){.kv = NULL};
}

/* ------------------------------------------------------------------------------- lists */

static bool comes_before(const di_sched_seq *a, const di_sched_seq *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->order < b->order;
}

static void insert(di_sched_list *list, di_sched_seq *seq)
{
    di_sched_seq *after = list->last; /* most arrive in order */
    while (after && comes_before(seq, after))
        after = after->prev;
    seq->prev = after;
    seq->next = after ? after->next : list->first;
    if (seq->prev)
        seq->prev->next = seq;
    else
        list->first = seq;
    if (seq->next)
        seq->next->prev = seq;
    else
        list->last = seq;
    list->n++;
}

static void take_out(di_sched_list *list, di_sched_seq *seq)
{
    if (seq->prev)
        seq->prev->next = seq->next;
    else
        list->first = seq->next;
    if (seq->next)
        seq->next->prev = seq->prev;
    else
        list->last = seq->prev;
    seq->prev = seq->next = NULL;
    list->n--;
}

static void start_waiting(di_scheduler *s, di_sched_seq *seq)
{
    seq->is_waiting = true;
    insert(&s->waiting, seq);
}

static void stop_waiting(di_scheduler *s, di_sched_seq *seq)
{
    seq->is_waiting = false;
    take_out(&s->waiting, seq);
}

static void start_running(di_scheduler *s, di_sched_seq *seq)
{
    seq->is_running = true;
    insert(&s->running, seq);
    s->n_reserved += seq->n_samples;
}

static void stop_running(di_scheduler *s, di_sched_seq *seq)
{
    seq->is_running = false;
    take_out(&s->running, seq);
    s->n_reserved -= seq->n_samples;
}

/* ------------------------------------------------------------------------------- blocks */

/* Full blocks of known tokens that passes have been given. */
static void register_blocks(di_scheduler *s, di_sched_seq *seq, bool is_end)
{
    const int64_t n = di_min_i64(seq->kv.len, seq->n_known);
    /* Without memory the prefix cache knows less; nothing else depends on it. */
    (void)!di_prefix_cache_register(s->prefix, &seq->kv, seq->tokens, n, seq->n_prompt, is_end);
}

static void release(di_scheduler *s, di_sched_seq *seq)
{
    if (!seq->has_kv)
        return;
    register_blocks(s, seq, true);
    di_kv_seq_release(s->kv, &seq->kv);
    seq->has_kv = false;
}

static void preempt(di_scheduler *s, di_sched_seq *seq)
{
    stop_running(s, seq);
    release(s, seq);
    seq->n_preemptions++;
    seq->is_pinned = seq->n_preemptions >= s->limits.max_preemptions;
    s->stats.n_preemptions++;
    start_waiting(s, seq);
}

/* The last running sequence that may be preempted for `seq`: not part of this step, not pinned, and
 * after it in order unless seq is pinned; NULL if there is none. */
static di_sched_seq *find_victim(const di_scheduler *s, const di_sched_seq *seq)
{
    for (di_sched_seq *v = s->running.last; v; v = v->prev) {
        if (v == seq && !seq->is_pinned)
            return NULL;
        if (v != seq && !v->is_pinned && v->planned_step != s->step)
            return v;
    }
    return NULL;
}

/* Blocks of a group that a sequence has yet to take for its present tokens, at any one time: passes
 * give window blocks back as they go. */
static int64_t blocks_to_come(const di_scheduler *s, const di_sched_seq *seq, int group)
{
    const int64_t needed = di_kv_seq_blocks_needed(s->kv, &seq->kv, group, seq->n_tokens);
    if (!s->kv->layout.groups[group].is_window)
        return needed;
    const int64_t owned = seq->kv.n_blocks - seq->kv.first_block[group];
    const int64_t live = s->kv->window_len + s->limits.max_step_tokens + s->limits.most_uncertain;
    const int64_t most = di_ceil_div(live, DI_KV_BLOCK_TOKENS) + 1;
    return di_min_i64(needed, di_max_i64(0, most - owned));
}

/* Whether the pools hold a sequence's present tokens, beside those of all that run: then none of
 * them has to wait because of it. A small one may take what the others do not need yet, unless one
 * of them has been found waiting for blocks. */
static bool has_blocks(const di_scheduler *s, const di_sched_seq *seq)
{
    const bool is_short = s->step <= s->short_step + 1;
    for (int g = 0; g < s->kv->layout.n_groups; g++) {
        const di_block_pool *pool = &s->kv->pools[g];
        const int64_t own = blocks_to_come(s, seq, g);
        int64_t left = di_block_pool_available(pool) - own;
        const bool is_small = own <= pool->n_blocks / SMALL_PART && !is_short;
        for (const di_sched_seq *r = s->running.first; r && left >= 0 && !is_small; r = r->next)
            left -= blocks_to_come(s, r, g);
        if (left < 0)
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------- one step */

typedef struct plan {
    di_sched_item *items;
    int32_t n_items;
    int64_t budget, n_drafts;
    bool runs_prefills; /* running sequences may have more than one token left */
} plan;

static int64_t tokens_left(const di_sched_seq *seq)
{
    /* The last token of a sequence is never computed: nothing is sampled after it. */
    if (seq->n_tokens >= seq->max_len && seq->n_tokens > seq->n_prompt)
        return 0;
    return seq->n_tokens - seq->kv.len;
}

/* Drafts that a sequence may take along: as many tokens fewer than may still come, since the last
 * one is sampled in any case. */
static int32_t drafts_of(const di_scheduler *s, const di_sched_seq *seq, bool decodes)
{
    const int64_t most = di_min_i64(s->most_drafts, seq->most_drafts);
    return decodes ? (int32_t)di_max_i64(0, di_min_i64(most, seq->max_len - seq->n_tokens - 1)) : 0;
}

/* Gives n tokens of a sequence their places, and n_drafts more; false if a pool is too empty. */
static bool try_extend(di_scheduler *s, di_sched_seq *seq, int64_t n, int32_t n_drafts)
{
    if (di_kv_seq_extend(s->kv, &seq->kv, seq->kv.len + n + n_drafts) != DI_OK)
        return false;
    seq->kv.n_uncertain += n_drafts;
    return true;
}

/* Adds n tokens of a sequence to the plan, with their places; without drafts, if there is only room
 * for that; false if a pool is too empty. */
static bool try_add(di_scheduler *s, di_sched_seq *seq, int64_t n, plan *p)
{
    const int64_t first = seq->kv.len;
    const bool samples = first + n == seq->n_tokens && seq->n_tokens < seq->max_len;
    const bool decodes = samples && n == 1 && first >= seq->n_prompt;
    int32_t n_drafts = drafts_of(s, seq, decodes);
    if (!try_extend(s, seq, n, n_drafts)) {
        if (n_drafts == 0 || !try_extend(s, seq, n, 0))
            return false;
        n_drafts = 0;
    }
    seq->n_tokens += samples ? 1 + n_drafts : 0;
    p->n_drafts += n_drafts;
    seq->n_in_flight++;
    seq->planned_step = s->step;
    p->items[p->n_items++] = (di_sched_item){
        .seq = seq,
        .first = first,
        .n = n,
        .decodes = decodes,
        .n_drafts = n_drafts,
        .samples = samples,
        .fills_block = di_min_i64(seq->kv.len, seq->n_known) >=
                       (seq->kv.n_registered + 1) * DI_KV_BLOCK_TOKENS,
        .n_to_begin = seq->n_samples - 1,
    };
    p->budget -= n;
    return true;
}

static void add(di_scheduler *s, di_sched_seq *seq, int64_t n, plan *p)
{
    while (!try_add(s, seq, n, p)) {
        di_sched_seq *victim = find_victim(s, seq);
        if (!victim) { /* waits with what it has */
            s->short_step = s->step;
            return;
        }
        preempt(s, victim);
    }
}

static int32_t list_running(const di_scheduler *s, bool decodes, int32_t most, di_sched_seq **out)
{
    int32_t n = 0;
    for (di_sched_seq *seq = s->running.first; seq && n < most; seq = seq->next) {
        const int64_t left = tokens_left(seq);
        if (left > 0 && (left == 1) == decodes && seq->planned_step != s->step)
            out[n++] = seq;
    }
    return n;
}

/* Decodes, if the budget is enough for all that run. */
static void schedule_all_decodes(di_scheduler *s, plan *p)
{
    for (di_sched_seq *seq = s->running.first; seq; seq = seq->next) { /* what follows may change */
        const int64_t left = tokens_left(seq);
        if (left == 1)
            add(s, seq, 1, p);
        p->runs_prefills |= left > 1;
    }
}

/* Decodes: each wants one token. If they are more than the budget, another one starts each step. */
static void schedule_decodes(di_scheduler *s, plan *p)
{
    const int64_t most_kept = di_max_i64(1, p->budget / 8); /* for prefills */
    if (s->running.n <= p->budget - most_kept) {
        schedule_all_decodes(s, p);
        return;
    }
    const int32_t n = list_running(s, true, s->limits.max_seqs, s->scratch);
    const bool has_prefills = s->waiting.n > 0 || s->running.n > n;
    const int64_t kept = has_prefills && p->budget > 1 ? most_kept : 0;
    int32_t at = n > p->budget - kept ? (int32_t)(s->step % (uint64_t)n) : 0;
    p->runs_prefills = s->running.n > n;
    for (int32_t i = 0; i < n && p->budget > kept; i++) {
        di_sched_seq *seq = s->scratch[at];
        at = at + 1 < n ? at + 1 : 0;
        if (seq->is_running) /* not preempted by one before it */
            add(s, seq, 1, p);
    }
}

/* Takes KV places for a waiting sequence, with what the prefix cache has; false if it must wait. */
static bool admit(di_scheduler *s, di_sched_seq *seq)
{
    if (seq->n_in_flight > 0 || s->n_reserved + seq->n_samples > s->limits.max_seqs)
        return false;
    for (const di_sched_seq *r = s->running.first; seq->is_pinned && r; r = r->next)
        if (r->is_pinned)
            return false;
    seq->kv = (di_kv_seq){.len = 0, .decoder_start = seq->decoder_start};
    di_prefix_hit hit = {0, 0};
    if (!seq->is_cold &&
        di_prefix_cache_adopt(s->prefix, &seq->kv, seq->tokens, seq->n_tokens, &hit) != DI_OK)
        hit = (di_prefix_hit){0, 0};
    if (!has_blocks(s, seq)) {
        di_kv_seq_release(s->kv, &seq->kv);
        return false;
    }
    seq->has_kv = true;
    seq->n_cached = hit.replay_from;
    s->stats.admitted_tokens += (uint64_t)seq->n_tokens;
    s->stats.cached_tokens += (uint64_t)hit.replay_from;
    s->stats.replayed_tokens += (uint64_t)(hit.n_tokens - hit.replay_from);
    stop_waiting(s, seq);
    start_running(s, seq);
    return true;
}

/* Prefills of this step: running ones, then waiting ones that can be admitted, in order; the first
 * that cannot stops the line, so that none is passed for ever. */
static int32_t gather_prefills(di_scheduler *s, bool has_running, di_sched_seq **out)
{
    int32_t n = has_running ? list_running(s, false, MAX_PREFILLS, out) : 0;
    for (di_sched_seq *seq = s->waiting.first; seq && n < MAX_PREFILLS; seq = s->waiting.first) {
        if (!admit(s, seq))
            break;
        out[n++] = seq;
    }
    return n;
}

/* Shares the budget equally, from the shortest on: what one does not need is for the longer ones.
 */
static void schedule_prefills(di_scheduler *s, plan *p)
{
    if (p->budget <= 0)
        return;
    di_sched_seq *list[MAX_PREFILLS];
    const int32_t n = gather_prefills(s, p->runs_prefills, list);
    for (int32_t i = 1; i < n; i++) {
        for (int32_t j = i; j > 0 && tokens_left(list[j]) < tokens_left(list[j - 1]); j--) {
            di_sched_seq *t = list[j];
            list[j] = list[j - 1];
            list[j - 1] = t;
        }
    }
    for (int32_t i = 0; i < n && p->budget > 0; i++) {
        const int64_t share = di_ceil_div(p->budget, n - i);
        const int64_t most = list[i]->max_chunk ? list[i]->max_chunk : share;
        if (list[i]->is_running)
            add(s, list[i], di_min_i64(tokens_left(list[i]), di_min_i64(share, most)), p);
    }
}

/* Rows for the drafts of the decodes; prefills keep an eighth of the budget. */
static void schedule_drafts(di_scheduler *s, plan *p)
{
    const bool has_prefills = s->waiting.n > 0 || p->runs_prefills;
    const int64_t kept = has_prefills ? s->limits.max_step_tokens / 8 : 0;
    const int64_t n = di_min_i64(p->n_drafts, di_min_i64(s->most_draft_rows, p->budget - kept));
    s->n_draft_rows = (int32_t)di_max_i64(0, n);
    p->budget -= s->n_draft_rows;
}

int32_t di_scheduler_next(di_scheduler *scheduler, di_sched_item *items)
{
    plan p = {.items = items, .budget = scheduler->limits.max_step_tokens};
    scheduler->step++;
    schedule_decodes(scheduler, &p);
    schedule_drafts(scheduler, &p);
    schedule_prefills(scheduler, &p);
    /* Only now: what this pass computes is for later passes. */
    for (int32_t i = 0; i < p.n_items; i++)
        if (items[i].fills_block)
            register_blocks(scheduler, items[i].seq, false);
    return p.n_items;
}

void di_scheduler_settle(di_sched_seq *seq, int32_t n_drafts, int32_t n_tokens)
{
    const int32_t n_less = 1 + n_drafts - n_tokens;
    seq->n_tokens -= n_less;
    if (!seq->has_kv) /* preempted since */
        return;
    seq->kv.len -= n_less;
    seq->kv.n_uncertain -= n_drafts;
}

/* ------------------------------------------------------------------------------- in and out */

void di_scheduler_add(di_scheduler *scheduler, di_sched_seq *seq)
{
    start_waiting(scheduler, seq);
}

di_status di_scheduler_fork(di_scheduler *scheduler, di_sched_seq *from, di_sched_seq *to)
{
    from->n_samples--; /* its place is given up even if it cannot be taken */
    scheduler->n_reserved--;
    DI_TRY(di_kv_seq_fork(scheduler->kv, &from->kv, &to->kv));
    to->has_kv = true;
    to->n_cached = from->n_cached;
    start_running(scheduler, to);
    return DI_OK;
}

void di_scheduler_remove(di_scheduler *scheduler, di_sched_seq *seq)
{
    if (seq->is_waiting)
        stop_waiting(scheduler, seq);
    if (seq->is_running)
        stop_running(scheduler, seq);
    release(scheduler, seq);
}

static bool list_is_sound(const di_sched_list *list, bool is_running)
{
    int32_t n = 0;
    for (const di_sched_seq *seq = list->first; seq; seq = seq->next, n++)
        if (seq->is_running != is_running || seq->is_waiting == is_running ||
            seq->has_kv != is_running || (seq->next && !comes_before(seq, seq->next)) ||
            (seq->next ? seq->next->prev : list->last) != (seq->next ? seq : seq))
            return false;
    return n == list->n;
}

bool di_scheduler_is_sound(const di_scheduler *scheduler)
{
    int32_t n_reserved = 0;
    for (const di_sched_seq *seq = scheduler->running.first; seq; seq = seq->next)
        n_reserved += seq->n_samples;
    return list_is_sound(&scheduler->waiting, false) && list_is_sound(&scheduler->running, true) &&
           n_reserved == scheduler->n_reserved && n_reserved <= scheduler->limits.max_seqs;
}
