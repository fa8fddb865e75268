/* Attention, index scores and selection: decode, a row a sequence, over long contexts. */
#include <math.h>

#include "base/checked.h"
#include "bench/cases.h"
#include "kernels/index_logits/index_logits.h"
#include "kernels/sparse_attention/sparse_attention.h"
#include "kernels/topk/topk.h"

enum {
    CONTEXT = 65536, /* entries of a sequence */
    BLOCK_LEN = 64,  /* a ratio-1 group's */
    TURNS = 16       /* different inputs of a selection, as many as an L2 holds */
};

/* ----------------------------------------------------------------------------------- attention */

/* Ascending, one of each of k equal parts of the context. */
static void select_entries(di_bench_cases *b, int64_t k, int32_t *out)
{
    const int64_t part = CONTEXT / k;
    for (int64_t i = 0; i < k; i++)
        out[i] = (int32_t)(i * part + di_bench_below(b, part));
}

static di_status attention_inputs(di_bench_cases *b, int64_t n_rows, di_sparse_attention_args *args)
{
    const di_config *c = b->config;
    di_bf16 *q;
    float *sink;
    int32_t *positions, *counts;
    DI_TRY(di_bench_bf16(b, n_rows * c->n_heads * c->head_dim, &q));
    DI_TRY(di_bench_f32(b, c->n_heads, &sink));
    DI_TRY(DI_BENCH_NEW(b, n_rows * c->n_heads * c->head_dim, &args->out));
    DI_TRY(DI_BENCH_NEW(b, n_rows, &positions));
    DI_TRY(DI_BENCH_NEW(b, n_rows, &counts));
    for (int64_t row = 0; row < n_rows; row++) {
        positions[row] = (int32_t)(c->sliding_window + row);
        counts[row] = (int32_t)c->index_topk;
    }
    args->q = q;
    args->sink = sink;
    args->positions = positions;
    args->counts = counts;
    return DI_OK;
}

/* Every turn: other entries, and the sequences one after another through the store. */
static di_status attention_case(di_bench_cases *b, const di_sparse_attention_args *base,
                                int64_t n_window_blocks, int64_t n_blocks, int64_t n_rows)
{
    const di_config *c = b->config;
    const int64_t n_turns = di_max_i64(TURNS, n_blocks * BLOCK_LEN / CONTEXT / n_rows);
    const int64_t window = 2 * (c->sliding_window + n_rows); /* entries of a window's table */
    di_sparse_attention_args args = *base;
    const di_arena_mark mark = di_arena_save(&b->arena);
    const int32_t *const *tables, *const *window_tables;
    void *turns;
    DI_TRY(attention_inputs(b, n_rows, &args));
    DI_TRY(di_bench_tables(b, n_turns * n_rows, CONTEXT, BLOCK_LEN, n_blocks, &tables));
    DI_TRY(
        di_bench_tables(b, n_turns * n_rows, window, BLOCK_LEN, n_window_blocks, &window_tables));
    DI_TRY(di_bench_turns(b, &args, sizeof args, n_turns, &turns));
    for (int64_t i = 0; i < n_turns; i++) {
        di_sparse_attention_args *turn = (di_sparse_attention_args *)turns + i;
        int32_t *indices;
        DI_TRY(DI_BENCH_NEW(b, n_rows * c->index_topk, &indices));
        for (int64_t row = 0; row < n_rows; row++)
            select_entries(b, c->index_topk, indices + row * c->index_topk);
        turn->indices = indices;
        turn->compressed_tables = tables + i * n_rows;
        turn->window_tables = window_tables + i * n_rows;
    }
    di_bench_case bench_case = {.op = DI_OP_sparse_attention,
                                .args = turns,
                                .args_bytes = sizeof args,
                                .n_turns = n_turns,
                                .n_items = n_rows * c->n_heads,
                                .n_rows = n_rows};
    DI_TRY(di_bench_emit(b, &bench_case, "%lldx%lld, %lld keys, rows=%lld", (long long)c->n_heads,
                         (long long)c->head_dim, (long long)(c->sliding_window + c->index_topk),
                         (long long)n_rows));
    di_arena_rewind(&b->arena, mark);
    return DI_OK;
}

/* The window is what the layer has just written or read: a few blocks, in the caches. */
static di_status make_window(di_bench_cases *b, di_paged *window, int64_t *n_blocks)
{
    const int64_t entry = window->code_bytes + window->scale_bytes;
    uint8_t *data;
    *n_blocks = 2 * (b->config->sliding_window / BLOCK_LEN + 2) * TURNS;
    window->scales_offset = (int64_t)BLOCK_LEN * window->code_bytes;
    window->block_bytes = BLOCK_LEN * entry;
    DI_TRY(DI_BENCH_NEW(b, *n_blocks * window->block_bytes, &data));
    for (int64_t i = 0; i < *n_blocks; i++) {
        uint8_t *block = data + i * window->block_bytes;
        di_bench_fill_weights(block, window->scales_offset, (uint64_t)i);
        di_bench_fill_scales(block + window->scales_offset,
                             window->block_bytes - window->scales_offset, (uint64_t)i);
    }
    window->data = data;
    return DI_OK;
}

di_status di_bench_cases_sparse_attention(di_bench_cases *b)
{
    const di_config *c = b->config;
    const int32_t dim = (int32_t)c->head_dim;
    di_sparse_attention_args args = {
        .n_heads = c->n_heads,
        .head_dim = c->head_dim,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
        .window = {.block_len = BLOCK_LEN, .code_bytes = dim, .scale_bytes = dim / 32},
        .window_len = c->sliding_window,
        .compressed = {.block_len = BLOCK_LEN, .code_bytes = dim / 2, .scale_bytes = dim / 16},
        .index_stride = c->index_topk,
        .scratch = b->scratch,
        .scratch_stride = b->scratch_bytes / (int64_t)sizeof(float),
    };
    int64_t n_blocks, n_window_blocks;
    DI_TRY(di_bench_store(b, &args.compressed, CONTEXT, true, &n_blocks));
    DI_TRY(make_window(b, &args.window, &n_window_blocks));
    DI_TRY(attention_case(b, &args, n_window_blocks, n_blocks, 1));
    return attention_case(b, &args, n_window_blocks, n_blocks, 16);
}

/* -------------------------------------------------------------------------------- index scores */

static di_status index_case(di_bench_cases *b, const di_index_logits_args *base, int64_t n_blocks,
                            int64_t n_keys, int64_t n_rows)
{
    const di_config *c = b->config;
    const int64_t n_turns = di_min_i64(256, di_max_i64(1, n_blocks * BLOCK_LEN / n_keys / n_rows));
    di_index_logits_args args = *base;
    const di_arena_mark mark = di_arena_save(&b->arena);
    const int32_t *const *tables;
    int32_t *n_visible;
    di_bf16 *q, *w;
    void *turns;
    DI_TRY(di_bench_q4(b, n_rows * c->index_n_heads * c->index_head_dim, &q));
    DI_TRY(di_bench_bf16(b, n_rows * c->index_n_heads, &w));
    DI_TRY(DI_BENCH_NEW(b, n_rows, &n_visible));
    DI_TRY(DI_BENCH_NEW(b, n_rows * n_keys, &args.scores));
    DI_TRY(di_bench_tables(b, n_turns * n_rows, n_keys, BLOCK_LEN, n_blocks, &tables));
    for (int64_t row = 0; row < n_rows; row++)
        n_visible[row] = (int32_t)n_keys;
    args.q = q;
    args.w = w;
    args.n_visible = n_visible;
    args.max_visible = n_keys;
    DI_TRY(di_bench_turns(b, &args, sizeof args, n_turns, &turns));
    for (int64_t i = 0; i < n_turns; i++)
        ((di_index_logits_args *)turns + i)->block_tables = tables + i * n_rows;
    di_bench_case bench_case = {.op = DI_OP_index_logits,
                                .args = turns,
                                .args_bytes = sizeof args,
                                .n_turns = n_turns,
                                .n_items = n_rows * di_ceil_div(n_keys, DI_INDEX_TILE),
                                .n_rows = n_rows};
    DI_TRY(di_bench_emit(b, &bench_case, "%lldx%lld, %lld keys, rows=%lld",
                         (long long)c->index_n_heads, (long long)c->index_head_dim,
                         (long long)n_keys, (long long)n_rows));
    di_arena_rewind(&b->arena, mark);
    return DI_OK;
}

di_status di_bench_cases_index_logits(di_bench_cases *b)
{
    const di_config *c = b->config;
    const int32_t dim = (int32_t)c->index_head_dim;
    di_index_logits_args args = {
        .w_scale = (float)(1.0 / sqrt((double)(c->index_head_dim * c->index_n_heads))),
        .keys = {.block_len = BLOCK_LEN, .code_bytes = dim / 2, .scale_bytes = dim / 32},
        .n_heads = c->index_n_heads,
        .dim = c->index_head_dim,
    };
    int64_t n_blocks;
    DI_TRY(di_bench_store(b, &args.keys, CONTEXT, false, &n_blocks));
    DI_TRY(index_case(b, &args, n_blocks, 4096, 1));
    DI_TRY(index_case(b, &args, n_blocks, 16384, 1));
    DI_TRY(index_case(b, &args, n_blocks, CONTEXT, 1));
    return index_case(b, &args, n_blocks, 4096, 16);
}

/* ----------------------------------------------------------------------------------- selection */

/* Scores of TURNS rows or more: sums of four uniform values, about normal. */
static di_status make_scores(di_bench_cases *b, int64_t n_rows, int64_t n, di_bf16 **out)
{
    DI_TRY(DI_BENCH_NEW(b, n_rows * n, out));
    for (int64_t i = 0; i < n_rows * n; i++) {
        const int64_t sum = di_bench_below(b, 4096) + di_bench_below(b, 4096) +
                            di_bench_below(b, 4096) + di_bench_below(b, 4096);
        (*out)[i] = di_f32_to_bf16((float)(sum - 8192) * 0x1p-11f);
    }
    return DI_OK;
}

static di_status make_candidates(di_bench_cases *b, int64_t n_turns, int64_t n_blocks,
                                 uint8_t **out)
{
    DI_TRY(DI_BENCH_NEW(b, n_turns * n_blocks, out));
    const int64_t k = di_min_i64(b->config->candidate_topk_blocks, n_blocks);
    for (int64_t i = 0; i < n_turns * n_blocks; i++)
        (*out)[i] = di_bench_below(b, n_blocks) < k;
    return DI_OK;
}

static di_status topk_case(di_bench_cases *b, int64_t n, int64_t n_rows, bool is_restricted)
{
    const di_config *c = b->config;
    const int64_t n_turns = n_rows == 1 ? TURNS : 1;
    const int64_t n_blocks = di_ceil_div(n, c->candidate_block_size);
    di_topk_args args = {.score_stride = n,
                         .block_size = c->candidate_block_size,
                         .candidate_stride = n_blocks,
                         .k = c->index_topk};
    const di_arena_mark mark = di_arena_save(&b->arena);
    di_bf16 *scores;
    uint8_t *candidates = NULL;
    int32_t *n_visible;
    void *turns;
    DI_TRY(make_scores(b, n_turns * n_rows, n, &scores));
    if (is_restricted)
        DI_TRY(make_candidates(b, n_turns * n_rows, n_blocks, &candidates));
    DI_TRY(DI_BENCH_NEW(b, n_rows, &n_visible));
    DI_TRY(DI_BENCH_NEW(b, n_rows * args.k, &args.indices));
    DI_TRY(DI_BENCH_NEW(b, n_rows, &args.counts));
    for (int64_t row = 0; row < n_rows; row++)
        n_visible[row] = (int32_t)n;
    args.n_visible = n_visible;
    DI_TRY(di_bench_turns(b, &args, sizeof args, n_turns, &turns));
    for (int64_t i = 0; i < n_turns; i++) {
        di_topk_args *turn = (di_topk_args *)turns + i;
        turn->scores = scores + i * n_rows * n;
        turn->candidates = candidates ? candidates + i * n_rows * n_blocks : NULL;
    }
    di_bench_case bench_case = {.op = DI_OP_topk,
                                .args = turns,
                                .args_bytes = sizeof args,
                                .n_turns = n_turns,
                                .n_items = n_rows,
                                .n_rows = n_rows};
    DI_TRY(di_bench_emit(b, &bench_case, "%lld of %lld%s, rows=%lld", (long long)args.k,
                         (long long)n, is_restricted ? " in candidates" : "", (long long)n_rows));
    di_arena_rewind(&b->arena, mark);
    return DI_OK;
}

di_status di_bench_cases_topk(di_bench_cases *b)
{
    DI_TRY(topk_case(b, 4096, 1, false));
    DI_TRY(topk_case(b, 16384, 1, false));
    DI_TRY(topk_case(b, CONTEXT, 1, false));
    DI_TRY(topk_case(b, CONTEXT, 16, false));
    return topk_case(b, CONTEXT, 1, true);
}

di_status di_bench_cases_candidate_blocks(di_bench_cases *b)
{
    const di_config *c = b->config;
    const int64_t n_blocks = di_ceil_div(CONTEXT, c->candidate_block_size);
    di_candidate_blocks_args args = {.score_stride = CONTEXT,
                                     .candidate_stride = n_blocks,
                                     .block_size = c->candidate_block_size,
                                     .k = c->candidate_topk_blocks};
    di_bf16 *scores;
    int32_t *n_visible;
    void *turns;
    DI_TRY(make_scores(b, TURNS, CONTEXT, &scores));
    DI_TRY(DI_BENCH_NEW(b, 1, &n_visible));
    DI_TRY(DI_BENCH_NEW(b, n_blocks, &args.candidates));
    n_visible[0] = CONTEXT;
    args.n_visible = n_visible;
    DI_TRY(di_bench_turns(b, &args, sizeof args, TURNS, &turns));
    for (int64_t i = 0; i < TURNS; i++)
        ((di_candidate_blocks_args *)turns + i)->scores = scores + i * CONTEXT;
    di_bench_case bench_case = {.op = DI_OP_candidate_blocks,
                                .args = turns,
                                .args_bytes = sizeof args,
                                .n_turns = TURNS,
                                .n_items = 1,
                                .n_rows = 1};
    return di_bench_emit(b, &bench_case, "%lld blocks of %lld, %d keys", (long long)args.k,
                         (long long)args.block_size, CONTEXT);
}
