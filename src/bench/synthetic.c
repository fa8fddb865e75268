#include "bench/synthetic.h"

#include <stdlib.h>

#include "base/checked.h"
#include "bench/machine.h"
#include "weights/weight_list.h"

/* -------------------------------------------------------------------------------------- weights */

/* Places of the tensors that are not experts': taken one after another, first only counted. */
typedef struct placer {
    di_synthetic *s;
    int64_t used;
    bool is_dry;
} placer;

static uint8_t *take(placer *p, int64_t bytes)
{
    uint8_t *at = p->is_dry ? NULL : p->s->dense.data + p->used;
    p->used += di_ceil_div(bytes, 64) * 64;
    return at;
}

static void fill_bf16_ones(uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((di_bf16 *)(void *)out)[i] = 0x3f80;
}

/* Small and of both signs: mixes of the streams and biases of the router. */
static void fill_f32(uint8_t *out, int64_t n)
{
    uint32_t x = 1;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ((float *)(void *)out)[i] = (float)((int32_t)x >> 8) * 0x1p-31f;
    }
}

static void place_quantized(placer *p, const di_weight_tensor *t, int64_t n)
{
    uint8_t *data = take(p, n);
    if (p->is_dry)
        return;
    di_qweight *q = t->slot;
    (t->is_scale ? di_bench_fill_scales : di_bench_fill_weights)(data, n, (uint64_t)p->used);
    *(t->is_scale ? &q->scales : &q->codes) = data;
    q->n_out = t->n_out;
    q->n_in = t->n_in;
    q->format = DI_WEIGHT_F8;
}

static void place_table(placer *p, const di_weight_tensor *t, int64_t n)
{
    uint8_t *data = take(p, n);
    if (p->is_dry)
        return;
    di_engram_weights *table = t->slot;
    (t->is_scale ? di_bench_fill_scales : di_bench_fill_weights)(data, n, (uint64_t)p->used);
    *(t->is_scale ? &table->scales : &table->codes) = data;
    table->n_rows = t->n_out;
    table->head_dim = t->n_in;
}

static void place_bf16(placer *p, const di_weight_tensor *t, int64_t n)
{
    di_bf16_matrix *matrix = t->slot;
    if (matrix == &p->s->model.weights->embed) /* the head's memory: place_dense */
        return;
    uint8_t *data = take(p, 2 * n);
    if (p->is_dry)
        return;
    di_bench_fill_weights(data, 2 * n, (uint64_t)p->used);
    *matrix = (di_bf16_matrix){(const di_bf16 *)(const void *)data, t->n_out, t->n_in};
}

static void place_vector(placer *p, const di_weight_tensor *t, int64_t n)
{
    uint8_t *data = take(p, (int64_t)sizeof(float) * n);
    if (p->is_dry)
        return;
    if (t->kind == DI_WEIGHT_KIND_F32) {
        fill_f32(data, n);
        *(const float **)t->slot = (const float *)(const void *)data;
        return;
    }
    fill_bf16_ones(data, n);
    if (t->kind == DI_WEIGHT_KIND_NORM)
        *(di_norm_weight *)t->slot = (di_norm_weight){data, DI_BF16, t->n_out};
    else
        *(const di_bf16 **)t->slot = (const di_bf16 *)(const void *)data;
}

static di_status place(void *user, const di_weight_tensor *t)
{
    placer *p = user;
    const int64_t n = t->shape[0] * (t->rank == 2 ? t->shape[1] : 1);
    switch (t->kind) {
    case DI_WEIGHT_KIND_F8:
        place_quantized(p, t, n);
        break;
    case DI_WEIGHT_KIND_F4: /* experts: place_experts */
        break;
    case DI_WEIGHT_KIND_TABLE:
        place_table(p, t, n);
        break;
    case DI_WEIGHT_KIND_BF16:
        place_bf16(p, t, n);
        break;
    case DI_WEIGHT_KIND_VECTOR:
    case DI_WEIGHT_KIND_NORM:
    case DI_WEIGHT_KIND_F32:
        place_vector(p, t, n);
        break;
    }
    return DI_OK;
}

static di_status place_dense(di_synthetic *s)
{
    di_weights *w = s->model.weights;
    placer dry = {.s = s, .is_dry = true}, real = {.s = s};
    DI_TRY(di_weight_list(&s->model.config, w, place, &dry));
    DI_TRY(di_bench_memory_new(dry.used, DI_PAGES_LARGE, &s->dense));
    DI_TRY(di_weight_list(&s->model.config, w, place, &real));
    w->embed = w->head;
    w->payload_bytes = (uint64_t)dry.used;
    return DI_OK;
}

/* -------------------------------------------------------------------------------------- experts */

enum { EXPERT_UNIT = 1024 }; /* codes; 64 scales */

static int64_t expert_code_bytes(const di_config *c)
{
    const int64_t codes = 3 * c->moe_intermediate_size * c->hidden_size / 2;
    return di_ceil_div(codes, EXPERT_UNIT) * EXPERT_UNIT;
}

/* Where expert e of a layer begins in a pool of `pool` experts of `size` bytes: experts that share
 * a place of the pool begin equal parts of one apart. */
static int64_t expert_place(int64_t n_experts, int64_t pool, int64_t size, int layer, int64_t e)
{
    const int64_t rounds = di_ceil_div(n_experts, pool);
    const int64_t shift = (e / pool) * size / rounds + layer * (size / 7);
    const int64_t slot = (e + layer * INT64_C(37)) % pool;
    return slot * size + shift % size / EXPERT_UNIT * EXPERT_UNIT;
}

static void place_matrix(int64_t n_out, int64_t n_in, const uint8_t **codes, const uint8_t **scales,
                         di_qweight *out)
{
    *out = (di_qweight){*codes, *scales, n_out, n_in, DI_WEIGHT_F4};
    *codes += n_out * n_in / 2;
    *scales += n_out * n_in / 32;
}

static di_status place_experts(di_synthetic *s)
{
    const di_config *c = &s->model.config;
    const int64_t inter = c->moe_intermediate_size, hidden = c->hidden_size;
    const int64_t size = expert_code_bytes(c), pool = s->n_pool_experts;
    /* One more than the pool: the last may begin anywhere within its place. */
    DI_TRY(di_bench_memory_new((pool + 1) * size, DI_PAGES_LARGE, &s->expert_codes));
    DI_TRY(di_bench_memory_new((pool + 1) * size / 16, DI_PAGES_LARGE, &s->expert_scales));
    di_bench_fill_codes(s->expert_codes.data, s->expert_codes.bytes, 0);
    di_bench_fill_scales(s->expert_scales.data, s->expert_scales.bytes, 0);
    s->expert_bytes = size + size / 16;
    for (int layer = 0; layer < c->n_layers; layer++) {
        di_layer_weights *w = &s->model.weights->layers[layer];
        for (int64_t e = 0; e < w->n_experts; e++) {
            const int64_t at = expert_place(w->n_experts, pool, size, layer, e);
            const uint8_t *codes = s->expert_codes.data + at;
            const uint8_t *scales = s->expert_scales.data + at / 16;
            place_matrix(inter, hidden, &codes, &scales, &w->experts[e].w1);
            place_matrix(inter, hidden, &codes, &scales, &w->experts[e].w3);
            place_matrix(hidden, inter, &codes, &scales, &w->experts[e].w2);
        }
    }
    return DI_OK;
}

/* ---------------------------------------------------------------------------------------- model */

static di_status make(di_synthetic *s, const di_config *config, int64_t n_pool_experts)
{
    di_model *m = &s->model;
    m->config = *config;
    const int64_t all = config->n_layers * config->n_routed_experts;
    const int64_t wanted = 6 * di_machine_last_cache_bytes() / expert_code_bytes(config);
    s->n_pool_experts = di_min_i64(all, n_pool_experts ? n_pool_experts : di_max_i64(128, wanted));
    DI_TRY(di_weights_new(config, &m->weights));
    DI_TRY(place_dense(s));
    DI_TRY(place_experts(s));
    if (config->n_engram_layers > 0) {
        m->token_map = malloc((size_t)config->vocab_size * sizeof *m->token_map);
        if (!m->token_map)
            return di_fail_memory((size_t)config->vocab_size * sizeof *m->token_map,
                                  "the token map");
        for (int64_t i = 0; i < config->vocab_size; i++)
            m->token_map[i] = (int32_t)(i % config->engram_compressed_vocab_size);
    }
    return di_network_init(&m->config, m->weights, m->token_map, &m->network);
}

di_status di_synthetic_init(const di_config *config, int64_t n_pool_experts, di_synthetic *out)
{
    *out = (di_synthetic){.n_pool_experts = 0};
    const di_status status = make(out, config, n_pool_experts);
    if (status != DI_OK)
        di_synthetic_free(out);
    return status;
}

void di_synthetic_free(di_synthetic *s)
{
    di_network_free(&s->model.network);
    di_weights_close(s->model.weights);
    free(s->model.token_map);
    di_bench_memory_free(&s->dense);
    di_bench_memory_free(&s->expert_codes);
    di_bench_memory_free(&s->expert_scales);
    *s = (di_synthetic){.n_pool_experts = 0};
}
