/* Operations on rows of activations, at the widths of decode and of a prefill chunk. */
#include "base/checked.h"
#include "bench/cases.h"
#include "kernels/compress/compress.h"
#include "kernels/embed/embed.h"
#include "kernels/engram/engram.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/moe_gate/moe_gate.h"
#include "kernels/quantize/quantize.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "kernels/swiglu/swiglu.h"

static const int64_t widths[] = {1, 16, 256};
enum { N_WIDTHS = sizeof widths / sizeof widths[0] };

/* The same call every time. */
#define EMIT_ONE(b, operation, arguments, rows, ...)                                               \
    di_bench_emit((b),                                                                             \
                  &(di_bench_case){.op = DI_OP_##operation,                                        \
                                   .args = (const char *)(arguments),                              \
                                   .args_bytes = sizeof *(arguments),                              \
                                   .n_turns = 1,                                                   \
                                   .n_items = (rows),                                              \
                                   .n_rows = (rows)},                                              \
                  __VA_ARGS__)

/* Calls one(b, rows) at each width, giving its memory back. */
static di_status at_widths(di_bench_cases *b, di_status (*one)(di_bench_cases *b, int64_t rows))
{
    for (int i = 0; i < N_WIDTHS; i++) {
        const di_arena_mark mark = di_arena_save(&b->arena);
        DI_TRY(one(b, widths[i]));
        di_arena_rewind(&b->arena, mark);
    }
    return DI_OK;
}

/* --------------------------------------------------------------------- embedding, norm, rotation
 */

static di_status embed(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    di_embed_args args = {.dim = c->hidden_size, .hc = c->hc_mult};
    di_bench_weights table;
    int32_t *ids;
    void *turns;
    enum { TURNS = 64 };
    DI_TRY(di_bench_weights_take(b, 2 * c->hidden_size, 0, &table));
    const int64_t vocab = di_min_i64(c->vocab_size, b->rotation_bytes / (2 * c->hidden_size));
    DI_TRY(DI_BENCH_NEW(b, TURNS * rows, &ids));
    for (int64_t i = 0; i < TURNS * rows; i++)
        ids[i] = (int32_t)di_bench_below(b, di_max_i64(1, vocab));
    DI_TRY(DI_BENCH_NEW(b, rows * c->hc_mult * c->hidden_size, &args.h));
    args.table = (const di_bf16 *)(const void *)table.codes;
    DI_TRY(di_bench_turns(b, &args, sizeof args, TURNS, &turns));
    for (int64_t i = 0; i < TURNS; i++)
        ((di_embed_args *)turns + i)->token_ids = ids + i * rows;
    di_bench_case bench_case = {.op = DI_OP_embed,
                                .args = turns,
                                .args_bytes = sizeof args,
                                .n_turns = TURNS,
                                .n_items = rows,
                                .n_rows = rows};
    return di_bench_emit(b, &bench_case, "%lld, rows=%lld", (long long)args.dim, (long long)rows);
}

di_status di_bench_cases_embed(di_bench_cases *b)
{
    return at_widths(b, embed);
}

static di_status norm_of(di_bench_cases *b, int64_t rows, int64_t dim)
{
    di_rmsnorm_args args = {.dim = dim,
                            .x_stride = dim,
                            .y_stride = dim,
                            .w_dtype = DI_BF16,
                            .eps = (float)b->config->rms_norm_eps};
    di_bf16 *x, *w;
    DI_TRY(di_bench_bf16(b, rows * dim, &x));
    DI_TRY(di_bench_bf16(b, dim, &w));
    DI_TRY(DI_BENCH_NEW(b, rows * dim, &args.y));
    args.x = x;
    args.w = w;
    return EMIT_ONE(b, rmsnorm, &args, rows, "%lld, rows=%lld", (long long)dim, (long long)rows);
}

static di_status rmsnorm(di_bench_cases *b, int64_t rows)
{
    DI_TRY(norm_of(b, rows, b->config->hidden_size));
    return norm_of(b, rows, b->config->q_lora_rank);
}

di_status di_bench_cases_rmsnorm(di_bench_cases *b)
{
    return at_widths(b, rmsnorm);
}

static di_status rope(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    di_rope_args args = {.n_heads = c->n_heads,
                         .head_dim = c->head_dim,
                         .rope_dim = c->rope_dim,
                         .x_stride = c->n_heads * c->head_dim};
    float *cosines, *sines;
    DI_TRY(di_bench_bf16(b, rows * args.x_stride, &args.x));
    DI_TRY(DI_BENCH_NEW(b, rows * c->rope_dim / 2, &cosines));
    DI_TRY(DI_BENCH_NEW(b, rows * c->rope_dim / 2, &sines));
    for (int64_t i = 0; i < rows * c->rope_dim / 2; i++) { /* a rotation: repeats stay bounded */
        cosines[i] = 0.8f;
        sines[i] = 0.6f;
    }
    args.cos = cosines;
    args.sin = sines;
    return EMIT_ONE(b, rope, &args, rows, "%lldx%lld, rows=%lld", (long long)c->n_heads,
                    (long long)c->rope_dim, (long long)rows);
}

di_status di_bench_cases_rope(di_bench_cases *b)
{
    return at_widths(b, rope);
}

/* ---------------------------------------------------------------------------------- quantizers */

static di_status quantize_args(di_bench_cases *b, int64_t rows, int64_t dim, di_quantize_args *args)
{
    di_bf16 *x;
    *args = (di_quantize_args){.dim = dim, .x_stride = dim, .y_stride = dim};
    DI_TRY(di_bench_bf16(b, rows * dim, &x));
    DI_TRY(DI_BENCH_NEW(b, rows * dim, &args->y));
    args->x = x;
    return DI_OK;
}

static di_status quantize_q8(di_bench_cases *b, int64_t rows)
{
    di_quantize_args args;
    DI_TRY(quantize_args(b, rows, b->config->hidden_size, &args));
    return EMIT_ONE(b, quantize_q8, &args, rows, "%lld, rows=%lld", (long long)args.dim,
                    (long long)rows);
}

static di_status quantize_q4i(di_bench_cases *b, int64_t rows)
{
    di_quantize_args args;
    DI_TRY(quantize_args(b, rows, b->config->index_n_heads * b->config->index_head_dim, &args));
    return EMIT_ONE(b, quantize_q4i, &args, rows, "%lld, rows=%lld", (long long)args.dim,
                    (long long)rows);
}

di_status di_bench_cases_quantize_q8(di_bench_cases *b)
{
    return at_widths(b, quantize_q8);
}

di_status di_bench_cases_quantize_q4i(di_bench_cases *b)
{
    return at_widths(b, quantize_q4i);
}

/* Rows go to entries one after another. */
static di_status pack_args(di_bench_cases *b, int64_t rows, int64_t dim, int32_t code_bytes,
                           int32_t scale_bytes, di_pack_args *args)
{
    enum { BLOCK_LEN = 64 };
    const int64_t n_blocks = di_ceil_div(rows, BLOCK_LEN);
    di_bf16 *x;
    int64_t *slots;
    *args = (di_pack_args){.dim = dim,
                           .x_stride = dim,
                           .out = {.block_bytes = BLOCK_LEN * (code_bytes + scale_bytes),
                                   .scales_offset = BLOCK_LEN * code_bytes,
                                   .block_len = BLOCK_LEN,
                                   .code_bytes = code_bytes,
                                   .scale_bytes = scale_bytes}};
    DI_TRY(di_bench_bf16(b, rows * dim, &x));
    DI_TRY(DI_BENCH_NEW(b, rows, &slots));
    DI_TRY(DI_BENCH_NEW(b, n_blocks * args->out.block_bytes, &args->out.data));
    for (int64_t i = 0; i < rows; i++)
        slots[i] = i;
    args->x = x;
    args->slots = slots;
    return DI_OK;
}

static di_status pack_q8(di_bench_cases *b, int64_t rows)
{
    const int32_t dim = (int32_t)b->config->head_dim;
    di_pack_args args;
    DI_TRY(pack_args(b, rows, dim, dim, dim / 32, &args));
    return EMIT_ONE(b, pack_q8, &args, rows, "%d, rows=%lld", dim, (long long)rows);
}

static di_status pack_q4kv(di_bench_cases *b, int64_t rows)
{
    const int32_t dim = (int32_t)b->config->head_dim;
    di_pack_args args;
    DI_TRY(pack_args(b, rows, dim, dim / 2, dim / 16, &args));
    return EMIT_ONE(b, pack_q4kv, &args, rows, "%d, rows=%lld", dim, (long long)rows);
}

static di_status pack_q4i(di_bench_cases *b, int64_t rows)
{
    const int32_t dim = (int32_t)b->config->index_head_dim;
    di_pack_args args;
    DI_TRY(pack_args(b, rows, dim, dim / 2, dim / 32, &args));
    return EMIT_ONE(b, pack_q4i, &args, rows, "%d, rows=%lld", dim, (long long)rows);
}

di_status di_bench_cases_pack_q8(di_bench_cases *b)
{
    return at_widths(b, pack_q8);
}

di_status di_bench_cases_pack_q4kv(di_bench_cases *b)
{
    return at_widths(b, pack_q4kv);
}

di_status di_bench_cases_pack_q4i(di_bench_cases *b)
{
    return at_widths(b, pack_q4i);
}

/* --------------------------------------------------------------------------- hyper-connections */

static di_status hc_project(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    const int64_t hc = c->hc_mult, in = hc * c->hidden_size, out = (2 + hc) * hc;
    di_hc_project_args args = {.n = rows, .dim = c->hidden_size, .hc = c->hc_mult};
    di_bench_weights weights;
    di_bf16 *h;
    void *turns;
    DI_TRY(di_bench_weights_take(b, 4 * in * out, 0, &weights));
    DI_TRY(di_bench_bf16(b, rows * in, &h));
    DI_TRY(DI_BENCH_NEW(b, rows * (out + 1), &args.y));
    args.h = h;
    DI_TRY(di_bench_turns(b, &args, sizeof args, weights.n_turns, &turns));
    for (int64_t i = 0; i < weights.n_turns; i++)
        ((di_hc_project_args *)turns + i)->fn =
            (const float *)(const void *)(weights.codes + i * weights.stride);
    di_bench_case bench_case = {.op = DI_OP_hc_project,
                                .args = turns,
                                .args_bytes = sizeof args,
                                .n_turns = weights.n_turns,
                                .n_items = di_hc_project_items(rows, c->hc_mult),
                                .n_rows = rows};
    return di_bench_emit(b, &bench_case, "%lldx%lld, rows=%lld", (long long)out, (long long)in,
                         (long long)rows);
}

di_status di_bench_cases_hc_project(di_bench_cases *b)
{
    return at_widths(b, hc_project);
}

static di_status hc_mix(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    const int64_t hc = c->hc_mult, out = (2 + hc) * hc;
    di_hc_mix_args args = {.dim = c->hidden_size,
                           .hc = c->hc_mult,
                           .n_iters = c->hc_sinkhorn_iters,
                           .eps = (float)c->hc_eps,
                           .norm_eps = (float)c->rms_norm_eps};
    float *products, *base, *scale;
    DI_TRY(di_bench_f32(b, rows * (out + 1), &products));
    for (int64_t row = 0; row < rows; row++) /* the sum of squares */
        products[row * (out + 1) + out] = (float)(hc * c->hidden_size);
    DI_TRY(di_bench_f32(b, out, &base));
    DI_TRY(di_bench_f32(b, 3, &scale));
    DI_TRY(DI_BENCH_NEW(b, rows * hc, &args.pre));
    DI_TRY(DI_BENCH_NEW(b, rows * hc, &args.post));
    DI_TRY(DI_BENCH_NEW(b, rows * hc * hc, &args.comb));
    args.products = products;
    args.base = base;
    args.scale = scale;
    return EMIT_ONE(b, hc_mix, &args, rows, "%d streams, %d rounds, rows=%lld", args.hc,
                    args.n_iters, (long long)rows);
}

di_status di_bench_cases_hc_mix(di_bench_cases *b)
{
    return at_widths(b, hc_mix);
}

static di_status hc_collapse(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    di_hc_collapse_args args = {.dim = c->hidden_size, .hc = c->hc_mult};
    di_bf16 *h;
    float *pre;
    DI_TRY(di_bench_bf16(b, rows * c->hc_mult * c->hidden_size, &h));
    DI_TRY(di_bench_f32(b, rows * c->hc_mult, &pre));
    DI_TRY(DI_BENCH_NEW(b, rows * c->hidden_size, &args.y));
    args.h = h;
    args.pre = pre;
    return EMIT_ONE(b, hc_collapse, &args, rows, "%dx%lld, rows=%lld", args.hc, (long long)args.dim,
                    (long long)rows);
}

di_status di_bench_cases_hc_collapse(di_bench_cases *b)
{
    return at_widths(b, hc_collapse);
}

static di_status hc_expand(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    const int64_t hc = c->hc_mult;
    di_hc_expand_args args = {.dim = c->hidden_size, .hc = c->hc_mult};
    di_bf16 *y;
    float *post, *comb;
    DI_TRY(di_bench_bf16(b, rows * hc * c->hidden_size, &args.h));
    DI_TRY(di_bench_bf16(b, rows * c->hidden_size, &y));
    DI_TRY(di_bench_f32(b, rows * hc, &post));
    DI_TRY(DI_BENCH_NEW(b, rows * hc * hc, &comb));
    for (int64_t i = 0; i < rows * hc * hc; i++) /* repeats stay bounded */
        comb[i] = 1.0f / (float)hc;
    args.y = y;
    args.post = post;
    args.comb = comb;
    return EMIT_ONE(b, hc_expand, &args, rows, "%dx%lld, rows=%lld", args.hc, (long long)args.dim,
                    (long long)rows);
}

di_status di_bench_cases_hc_expand(di_bench_cases *b)
{
    return at_widths(b, hc_expand);
}

/* ---------------------------------------------------------------------- compressor and experts */

static di_status compress_pool(di_bench_cases *b, int64_t groups)
{
    di_compress_pool_args args = {.dim = b->config->head_dim};
    float *k, *gate;
    DI_TRY(di_bench_f32(b, 2 * groups * args.dim, &k));
    DI_TRY(di_bench_f32(b, 2 * groups * args.dim, &gate));
    DI_TRY(DI_BENCH_NEW(b, groups * args.dim, &args.latent));
    args.k = k;
    args.gate = gate;
    return EMIT_ONE(b, compress_pool, &args, groups, "%lld, groups=%lld", (long long)args.dim,
                    (long long)groups);
}

di_status di_bench_cases_compress_pool(di_bench_cases *b)
{
    return at_widths(b, compress_pool);
}

static di_status moe_gate(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    di_moe_gate_args args = {.n_experts = c->n_routed_experts,
                             .k = c->n_experts_per_tok,
                             .is_normalized = c->norm_topk_prob,
                             .routed_scale = (float)c->routed_scaling_factor};
    float *logits, *bias;
    DI_TRY(di_bench_f32(b, rows * args.n_experts, &logits));
    DI_TRY(di_bench_f32(b, args.n_experts, &bias));
    DI_TRY(DI_BENCH_NEW(b, rows * args.k, &args.experts));
    DI_TRY(DI_BENCH_NEW(b, rows * args.k, &args.weights));
    DI_TRY(DI_BENCH_NEW(b, rows * args.n_experts, &args.scores));
    args.logits = logits;
    args.bias = bias;
    return EMIT_ONE(b, moe_gate, &args, rows, "%lld of %lld, rows=%lld", (long long)args.k,
                    (long long)args.n_experts, (long long)rows);
}

di_status di_bench_cases_moe_gate(di_bench_cases *b)
{
    return at_widths(b, moe_gate);
}

static di_status moe_combine(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    di_moe_combine_args args = {.dim = c->hidden_size, .k = c->n_experts_per_tok};
    di_bf16 *routed, *shared;
    int32_t *assignments;
    DI_TRY(di_bench_bf16(b, rows * args.k * args.dim, &routed));
    DI_TRY(di_bench_bf16(b, rows * args.dim, &shared));
    DI_TRY(DI_BENCH_NEW(b, rows * args.k, &assignments));
    DI_TRY(DI_BENCH_NEW(b, rows * args.dim, &args.y));
    for (int64_t i = 0; i < rows * args.k; i++)
        assignments[i] = (int32_t)((i * 37) % (rows * args.k));
    args.routed = routed;
    args.shared = shared;
    args.assignments = assignments;
    return EMIT_ONE(b, moe_combine, &args, rows, "%lld+1 of %lld, rows=%lld", (long long)args.k,
                    (long long)args.dim, (long long)rows);
}

di_status di_bench_cases_moe_combine(di_bench_cases *b)
{
    return at_widths(b, moe_combine);
}

static di_status swiglu(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    di_swiglu_args args = {.dim = c->moe_intermediate_size, .limit = (float)c->swiglu_limit};
    di_bf16 *gate, *up;
    float *weights;
    DI_TRY(di_bench_bf16(b, rows * args.dim, &gate));
    DI_TRY(di_bench_bf16(b, rows * args.dim, &up));
    DI_TRY(di_bench_f32(b, rows, &weights));
    DI_TRY(DI_BENCH_NEW(b, rows * args.dim, &args.y));
    args.gate = gate;
    args.up = up;
    args.weights = weights;
    return EMIT_ONE(b, swiglu, &args, rows, "%lld, rows=%lld", (long long)args.dim,
                    (long long)rows);
}

di_status di_bench_cases_swiglu(di_bench_cases *b)
{
    return at_widths(b, swiglu);
}

/* -------------------------------------------------------------------------------------- engram */

static int64_t engram_columns(const di_config *c)
{
    return (int64_t)(c->engram_max_ngram_size - 1) * c->engram_n_heads;
}

static di_status engram_hash(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    const int64_t columns = engram_columns(c);
    di_engram_hash_args args = {.max_ngram = c->engram_max_ngram_size,
                                .n_heads = c->engram_n_heads,
                                .pad_id = (int32_t)c->engram_pad_token_id};
    int32_t *ids, *positions;
    const int32_t **history;
    int64_t *multipliers, *primes, *offsets;
    DI_TRY(DI_BENCH_NEW(b, rows, &ids));
    DI_TRY(DI_BENCH_NEW(b, rows, &positions));
    DI_TRY(DI_BENCH_NEW(b, rows, &history));
    DI_TRY(DI_BENCH_NEW(b, args.max_ngram, &multipliers));
    DI_TRY(DI_BENCH_NEW(b, columns, &primes));
    DI_TRY(DI_BENCH_NEW(b, columns, &offsets));
    DI_TRY(DI_BENCH_NEW(b, rows * columns, &args.rows));
    for (int64_t i = 0; i < rows; i++) {
        ids[i] = (int32_t)di_bench_below(b, c->engram_compressed_vocab_size);
        positions[i] = (int32_t)i;
        history[i] = ids;
    }
    for (int64_t i = 0; i < args.max_ngram; i++)
        multipliers[i] = 2 * di_bench_below(b, INT64_C(1) << 31) + 1;
    for (int64_t i = 0; i < columns; i++) { /* sizes near the real primes */
        primes[i] = c->engram_vocab_size + 2 * i + 1;
        offsets[i] = i * (c->engram_vocab_size + 2 * columns);
    }
    args.history = history;
    args.positions = positions;
    args.multipliers = multipliers;
    args.primes = primes;
    args.offsets = offsets;
    return EMIT_ONE(b, engram_hash, &args, rows, "%lld columns, rows=%lld", (long long)columns,
                    (long long)rows);
}

di_status di_bench_cases_engram_hash(di_bench_cases *b)
{
    return b->config->n_engram_layers ? at_widths(b, engram_hash) : DI_OK;
}

/* Rows anywhere in a table that is far larger than the caches and the TLB's reach. */
static di_status engram_gather(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    const int64_t columns = engram_columns(c), dim = c->engram_head_dim;
    di_engram_gather_args args = {.n_columns = columns, .dim = dim};
    di_bench_weights table;
    int64_t *picks;
    void *turns;
    enum { TURNS = 64 };
    const int64_t n = di_max_i64(1, b->rotation_bytes / dim);
    DI_TRY(di_bench_weights_take(b, n * dim, n * dim / 32, &table));
    DI_TRY(DI_BENCH_NEW(b, TURNS * rows * columns, &picks));
    for (int64_t i = 0; i < TURNS * rows * columns; i++)
        picks[i] = di_bench_below(b, n);
    DI_TRY(DI_BENCH_NEW(b, rows * columns * dim, &args.y));
    args.codes = table.codes;
    args.scales = table.scales;
    DI_TRY(di_bench_turns(b, &args, sizeof args, TURNS, &turns));
    for (int64_t i = 0; i < TURNS; i++)
        ((di_engram_gather_args *)turns + i)->rows = picks + i * rows * columns;
    di_bench_case bench_case = {.op = DI_OP_engram_gather,
                                .args = turns,
                                .args_bytes = sizeof args,
                                .n_turns = TURNS,
                                .n_items = rows,
                                .n_rows = rows};
    return di_bench_emit(b, &bench_case, "%lld of %lld, rows=%lld", (long long)columns,
                         (long long)dim, (long long)rows);
}

di_status di_bench_cases_engram_gather(di_bench_cases *b)
{
    return b->config->n_engram_layers ? at_widths(b, engram_gather) : DI_OK;
}

static di_status engram_gate(di_bench_cases *b, int64_t rows)
{
    const di_config *c = b->config;
    const int64_t hc = c->hc_mult, dim = c->hidden_size;
    di_engram_gate_args args = {.dim = dim, .hc = c->hc_mult, .norm_eps = (float)c->rms_norm_eps};
    di_bf16 *kv, *q_weight, *k_weight;
    DI_TRY(di_bench_bf16(b, rows * hc * dim, &args.h));
    DI_TRY(di_bench_bf16(b, rows * (hc + 1) * dim, &kv));
    DI_TRY(di_bench_bf16(b, hc * dim, &q_weight));
    DI_TRY(di_bench_bf16(b, hc * dim, &k_weight));
    args.kv = kv;
    args.q_weight = q_weight;
    args.k_weight = k_weight;
    return EMIT_ONE(b, engram_gate, &args, rows, "%dx%lld, rows=%lld", args.hc, (long long)dim,
                    (long long)rows);
}

di_status di_bench_cases_engram_gate(di_bench_cases *b)
{
    return b->config->n_engram_layers ? at_widths(b, engram_gate) : DI_OK;
}
