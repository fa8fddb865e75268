#include "weights/weight_source.h"

#include <stdlib.h>

#include "base/checked.h"
#include "weights/expert_cache.h"
#include "weights/read_ahead.h"
#include "weights/shard_reader.h"

/* Reads of this size, on so many threads, reach what a disk gives (docs/benchmarks.md). */
enum { N_READERS = 8, PIECE_BYTES = 2 << 20 };

/* The expert that was last seen in a slot, with its tensors there. */
typedef struct slot_view {
    int64_t number; /* -1: none yet */
    di_expert_weights expert;
} slot_view;

struct di_weight_source {
    const di_weights *weights;
    di_read_ahead *ahead;
    di_expert_cache *cache; /* or NULL */
    di_shard_reader reader;
    slot_view *views; /* [n_slots] */
    int64_t *got;     /* [most experts of a layer]: slots */
};

/* ---------------------------------------------------------------------------------- the pieces */

static int64_t count_pieces(const di_expert_place *place)
{
    int64_t n = 0;
    for (int i = 0; i < place->n_ranges; i++)
        n += di_ceil_div(place->ranges[i].bytes, PIECE_BYTES);
    return n;
}

/* A piece is part of one range; an expert may have fewer than another. */
static di_status read_piece(void *user, int64_t expert, int64_t piece, unsigned char *slot,
                            int64_t *bytes_read)
{
    const di_weight_source *source = user;
    di_expert_place place;
    DI_TRY(di_expert_place_find(source->weights, expert, &place));
    for (int i = 0; i < place.n_ranges; i++) {
        const di_expert_range *range = &place.ranges[i];
        const int64_t n_pieces = di_ceil_div(range->bytes, PIECE_BYTES);
        if (piece < n_pieces) {
            const int64_t first = piece * PIECE_BYTES;
            const int64_t bytes = di_min_i64(PIECE_BYTES, range->bytes - first);
            return di_shard_read(&source->reader, range, first, bytes, slot + range->at + first,
                                 bytes_read);
        }
        piece -= n_pieces;
    }
    return DI_OK;
}

static di_status measure(const di_weights *weights, int64_t *slot_bytes, int64_t *n_pieces)
{
    *slot_bytes = DI_IO_ALIGN;
    *n_pieces = 1;
    const int64_t n = di_experts_count(weights);
    for (int64_t e = 0; e < n; e++) {
        di_expert_place place;
        DI_TRY(di_expert_place_find(weights, e, &place));
        *slot_bytes = di_max_i64(*slot_bytes, place.slot_bytes);
        *n_pieces = di_max_i64(*n_pieces, count_pieces(&place));
    }
    return DI_OK;
}

di_status di_weight_cache_slot(const di_weights *weights, int64_t *bytes)
{
    int64_t n_pieces;
    return measure(weights, bytes, &n_pieces);
}

int64_t di_weight_cache_least(const di_weights *weights, int64_t slot_bytes)
{
    const di_config *c = &weights->config;
    return slot_bytes * di_max_i64(c->n_experts_per_tok, c->dspark_n_experts_per_tok);
}

/* ---------------------------------------------------------------------------------------- life */

static di_status open_cache(di_weight_source *source, int64_t cache_bytes)
{
    const di_config *c = &source->weights->config;
    const int64_t n_experts = di_experts_count(source->weights);
    int64_t slot_bytes, n_pieces;
    DI_TRY(measure(source->weights, &slot_bytes, &n_pieces));
    const int64_t least = di_weight_cache_least(source->weights, slot_bytes);
    if (cache_bytes < least)
        return di_fail(DI_ERR_ARGUMENT,
                       "weight_cache: found %lld, wanted at least %lld, the experts of one "
                       "token in one layer (%lld bytes each)",
                       (long long)cache_bytes, (long long)least, (long long)slot_bytes);
    const di_expert_cache_setup setup = {
        .n_experts = n_experts,
        .n_slots = di_min_i64(n_experts, cache_bytes / slot_bytes),
        .slot_bytes = slot_bytes,
        .n_pieces = n_pieces,
        .n_threads = N_READERS,
        .read = read_piece,
        .user = source,
    };
    const size_t most = (size_t)di_max_i64(c->n_routed_experts, c->dspark_n_routed_experts);
    source->views = calloc((size_t)setup.n_slots, sizeof *source->views);
    source->got = calloc(most, sizeof *source->got);
    if (!source->views || !source->got)
        return di_fail_memory((size_t)setup.n_slots * sizeof *source->views, "the weight cache");
    for (int64_t s = 0; s < setup.n_slots; s++)
        source->views[s].number = -1;
    DI_TRY(di_shard_reader_open(source->weights, &source->reader));
    return di_expert_cache_create(&setup, &source->cache);
}

di_status di_weight_source_open(const di_weights *weights, int64_t cache_bytes,
                                di_weight_source **out)
{
    di_weight_source *source = calloc(1, sizeof *source);
    if (!source)
        return di_fail_memory(sizeof *source, "the weights' source");
    source->weights = weights;
    di_status status = di_read_ahead_create(weights, &source->ahead);
    if (status == DI_OK && cache_bytes)
        status = open_cache(source, cache_bytes);
    if (status == DI_OK)
        *out = source;
    else
        di_weight_source_close(source);
    return status;
}

void di_weight_source_close(di_weight_source *source)
{
    if (!source)
        return;
    di_expert_cache_destroy(source->cache);
    di_read_ahead_destroy(source->ahead);
    di_shard_reader_close(&source->reader);
    free(source->views);
    free(source->got);
    free(source);
}

/* -------------------------------------------------------------------------------------- a pass */

void di_weight_source_begin(di_weight_source *source)
{
    if (!source)
        return;
    di_read_ahead_begin(source->ahead);
    if (source->cache)
        di_expert_cache_release_all(source->cache);
}

void di_weight_source_ask_rows(di_weight_source *source, int engram_index, const int64_t *rows,
                               int64_t n)
{
    if (source)
        di_read_ahead_rows(source->ahead, engram_index, rows, n);
}

void di_weight_source_ask(di_weight_source *source, const di_layer_weights *layer,
                          const int32_t *ids, int64_t n)
{
    if (source && source->cache)
        di_expert_cache_ask(source->cache, layer->first_expert, ids, n);
    else if (source)
        di_read_ahead_experts(source->ahead, layer, ids, n);
}

/* Where an expert's tensors are within its slot follows from its place in the files. */
static di_status view_slots(di_weight_source *source, const di_layer_weights *layer,
                            const int32_t *ids, int64_t n, const di_expert_weights **experts)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t number = layer->first_expert + ids[i];
        slot_view *view = &source->views[source->got[i]];
        experts[i] = &view->expert;
        if (view->number == number)
            continue;
        di_expert_place place;
        DI_TRY(di_expert_place_find(source->weights, number, &place));
        di_expert_place_view(&place, &layer->experts[ids[i]],
                             di_expert_cache_slot(source->cache, source->got[i]), &view->expert);
        view->number = number;
    }
    return DI_OK;
}

di_status di_weight_source_acquire(di_weight_source *source, const di_layer_weights *layer,
                                   const int32_t *ids, int64_t n, const di_expert_weights **experts,
                                   int64_t *n_got)
{
    if (!source || !source->cache) {
        for (int64_t i = 0; i < n; i++)
            experts[i] = &layer->experts[ids[i]];
        *n_got = n;
        return DI_OK;
    }
    int64_t got;
    DI_TRY(di_expert_cache_acquire(source->cache, layer->first_expert, ids, n, source->got, &got));
    DI_TRY(view_slots(source, layer, ids, got, experts));
    *n_got = got;
    return DI_OK;
}

void di_weight_source_release(di_weight_source *source, const di_layer_weights *layer,
                              const int32_t *ids, int64_t n)
{
    if (source && source->cache)
        di_expert_cache_release(source->cache, layer->first_expert, ids, n);
}

void di_weight_source_get_stats(di_weight_source *source, di_weight_stats *out)
{
    *out = (di_weight_stats){0};
    if (!source)
        return;
    if (source->cache) {
        di_expert_cache_stats s;
        di_expert_cache_get_stats(source->cache, &s);
        *out = (di_weight_stats){s.n_hits, s.n_misses, s.bytes_read, s.wait_ns};
    } else {
        di_read_ahead_stats s;
        di_read_ahead_get_stats(source->ahead, &s);
        *out = (di_weight_stats){s.n_resident, s.n_asked, s.bytes_read, 0};
    }
}
