/* What passes and drafts cost, measured when an engine is made: a few of each on a sequence that
 * nobody sees. Passes that run correct it later. */
#include "base/checked.h"
#include "base/clock.h"
#include "engine/speculate.h"

/* A model whose passes take longer (read from a disk, or simply large) is not made to wait: its
 * costs are learned from the passes it runs. */
enum { MOST_FIRST_NS = 100000000, MOST_NS = 150000000, N_CONTEXT = 8 };

static const int32_t row_counts[] = {1, 2, 4, 6, 8, 16};
static const int32_t seq_counts[] = {1, 2, 4, 8};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts, N_SEQ_COUNTS = 4, MOST_SEQS = 8 };

typedef struct profiler {
    di_runner *runner;
    di_runner_seq seq;
    int64_t began_ns;
} profiler;

/* One pass of n tokens. */
static di_status run_pass(profiler *p, int32_t n, int64_t *ns)
{
    const int64_t vocab = p->runner->model->config.vocab_size;
    for (int32_t i = 0; i < n; i++) {
        const int32_t id = (int32_t)((7919 * (int64_t)(p->seq.tokens.len + 1)) % vocab);
        DI_TRY(di_runner_seq_append(p->runner, &p->seq, &id, 1));
    }
    const di_work work = {.seq = &p->seq, .n_tokens = n, .wants_all_logits = true};
    float *logits;
    const int64_t from = di_clock_ns();
    DI_TRY(di_runner_forward(p->runner, &work, 1, NULL, &logits));
    *ns = di_clock_ns() - from;
    return DI_OK;
}

/* One draft of n sequences: all the same one. */
static di_status run_draft(profiler *p, int32_t n, int32_t draft_len, int64_t *ns)
{
    int32_t prev[MOST_SEQS], positions[MOST_SEQS];
    const int32_t *tables[MOST_SEQS];
    float confidences[MOST_SEQS], *logits;
    for (int32_t i = 0; i < n; i++) {
        prev[i] = p->seq.tokens.data[(size_t)i % p->seq.tokens.len];
        positions[i] = (int32_t)p->seq.kv.len;
        tables[i] = p->seq.kv.tables[0];
    }
    const int64_t from = di_clock_ns(), vocab = p->runner->model->config.vocab_size;
    di_pass pass;
    di_runner_draft_pass(p->runner, &pass);
    DI_TRY(DI_ARENA_NEW(&p->runner->scratch, (size_t)(n * vocab), &logits));
    const di_draft_batch batch = {.n_seqs = n,
                                  .n_slots = draft_len,
                                  .anchors = prev,
                                  .positions = positions,
                                  .window_tables = tables};
    DI_TRY(p->runner->draft_begin(&pass, &batch));
    for (int32_t slot = 0; slot < draft_len; slot++)
        p->runner->draft_logits(&pass, slot, prev, logits, confidences);
    *ns = di_clock_ns() - from;
    return DI_OK;
}

static bool is_late(const profiler *p)
{
    return di_clock_ns() - p->began_ns > MOST_NS;
}

static di_status profile(profiler *p, di_speculation *s)
{
    int64_t ns;
    const int32_t most_rows = p->runner->options.max_step_tokens;
    DI_TRY(run_pass(p, di_min_i64(N_CONTEXT, most_rows), &ns));
    for (int i = 0; i < N_ROW_COUNTS && row_counts[i] <= most_rows && !is_late(p); i++)
        for (int k = 0; k < DI_PROFILE_RUNS; k++) {
            DI_TRY(run_pass(p, row_counts[i], &ns));
            if (ns > MOST_FIRST_NS)
                return DI_OK;
            di_speculation_learn_verify(s, row_counts[i], ns);
        }
    const int32_t slots = di_min_i64(s->draft_len, p->runner->n_draft_slots);
    for (int i = 0; i < N_SEQ_COUNTS && !is_late(p); i++)
        for (int k = 0; k < DI_PROFILE_RUNS; k++) {
            DI_TRY(run_draft(p, seq_counts[i], slots, &ns));
            di_speculation_learn_draft(s, seq_counts[i], ns);
        }
    return DI_OK;
}

void di_speculation_profile(di_speculation *s, di_runner *runner)
{
    if (!s->has_drafter || !runner->options.has_varlen)
        return;
    profiler p = {.runner = runner, .began_ns = di_clock_ns()};
    /* What cannot be measured now is learned from passes, or fails there by name. */
    (void)!profile(&p, s);
    di_runner_seq_free(runner, &p.seq);
    runner->kv.n_copies = 0;
}
