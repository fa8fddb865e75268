#include "stats.h"

static double share(uint64_t part, uint64_t rest)
{
    const uint64_t all = part + rest;
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static void print_passes(const di_engine_stats *s)
{
    di_app_note("passes: %llu over %llu tokens (%llu of prompts and %llu cached, %llu generated), "
                "%.3f s computing, %.3f s idle, %.3f s scheduling",
                (unsigned long long)s->n_steps, (unsigned long long)s->computed_tokens,
                (unsigned long long)s->prompt_tokens, (unsigned long long)s->cached_prompt_tokens,
                (unsigned long long)s->generated_tokens, seconds(s->busy_ns), seconds(s->idle_ns),
                seconds(s->schedule_ns));
    di_app_note("layers: %llu tokens through a layer, %.1f layers a token",
                (unsigned long long)s->computed_layer_rows,
                s->computed_tokens > 0 ? (double)s->computed_layer_rows / (double)s->computed_tokens
                                       : 0.0);
    di_app_note("KV blocks: %llu used, %llu cached, %llu free; %llu preemptions",
                (unsigned long long)s->kv_blocks_used, (unsigned long long)s->kv_blocks_cached,
                (unsigned long long)s->kv_blocks_free, (unsigned long long)s->n_preemptions);
}

/* Nothing without drafts. Slots: accepted of those that got there. */
static void print_drafts(const di_engine_stats *s)
{
    if (s->drafted_tokens == 0)
        return;
    di_app_note("drafts: %llu made, %llu verified, %llu accepted; accepted length %.2f in %llu "
                "blocks; planned %.2f rows a pass, %llu of %llu passes without drafting",
                (unsigned long long)s->drafted_tokens, (unsigned long long)s->verified_drafts,
                (unsigned long long)s->accepted_drafts, s->accepted_len,
                (unsigned long long)s->draft_blocks,
                s->draft_plans > 0 ? (double)s->draft_budget / (double)s->draft_plans : 0.0,
                (unsigned long long)s->plain_plans, (unsigned long long)s->draft_plans);
    if (s->draft_blocks == 0)
        return;
    char slots[DI_STATS_DRAFT_SLOTS * 48] = "";
    size_t n = 0;
    for (int i = 0; i < DI_STATS_DRAFT_SLOTS && s->draft_slots[i].reached > 0; i++)
        n += (size_t)snprintf(slots + n, sizeof slots - n, "%s%llu/%llu", i > 0 ? " " : "",
                              (unsigned long long)s->draft_slots[i].accepted,
                              (unsigned long long)s->draft_slots[i].reached);
    di_app_note("drafts by slot, accepted/reached: %s; calibration error %.3f, raw %.3f", slots,
                s->draft_calibration_error, s->draft_raw_error);
}

/* Bytes are for a computed token: a row of a pass, of a prompt or not. */
static void print_weights(const di_engine_stats *s)
{
    const double n_tokens = s->computed_tokens > 0 ? (double)s->computed_tokens : 1;
    di_app_note("experts: %llu uses in memory, %llu not (%.1f%% hits), %.1f MB read, %.3f MB a "
                "token, %.3f s waited",
                (unsigned long long)s->expert_hits, (unsigned long long)s->expert_misses,
                share(s->expert_hits, s->expert_misses), (double)s->weight_bytes_read * 1e-6,
                (double)s->weight_bytes_read * 1e-6 / n_tokens, seconds(s->weight_wait_ns));
}

void di_app_print_stats(di_engine *engine)
{
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    print_passes(&stats);
    print_drafts(&stats);
    print_weights(&stats);
}

void di_app_print_draft_stats(di_engine *engine)
{
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    print_drafts(&stats);
}
