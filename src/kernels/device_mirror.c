#include "kernels/device_mirror.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/engram/engram.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/index_logits/index_logits.h"
#include "kernels/sparse_attention/sparse_attention.h"

enum { GUARD_BYTE = 0xa5 };

void di_mirror_free(di_mirror *mirror)
{
    for (size_t i = 0; i < mirror->n_parts; i++)
        if (!mirror->parts[i].is_lent)
            di_region_free(&mirror->parts[i].region);
    free(mirror->parts);
    mirror->parts = NULL;
    mirror->n_parts = mirror->capacity = 0;
}

static di_status grow(di_mirror *mirror)
{
    if (mirror->n_parts < mirror->capacity)
        return DI_OK;
    const size_t capacity = mirror->capacity ? 2 * mirror->capacity : 16;
    di_mirror_part *parts = realloc(mirror->parts, capacity * sizeof *parts);
    if (!parts)
        return di_fail_memory(capacity * sizeof *parts, "a mirror's parts");
    mirror->parts = parts;
    mirror->capacity = capacity;
    return DI_OK;
}

static di_status copy_in(di_mirror *mirror, const di_mirror_part *part)
{
    unsigned char *data = part->region.data + mirror->guard_bytes;
    if (mirror->guard_bytes > 0) {
        DI_TRY(di_stream_fill(mirror->stream, part->region.data, GUARD_BYTE, mirror->guard_bytes));
        DI_TRY(di_stream_fill(mirror->stream, data + part->bytes, GUARD_BYTE, mirror->guard_bytes));
    }
    return di_stream_copy(mirror->stream, data, part->host, part->bytes);
}

di_status di_mirror_add(di_mirror *mirror, const void *host, size_t bytes)
{
    DI_TRY(grow(mirror));
    di_mirror_part part = {.host = host, .bytes = bytes};
    DI_TRY(di_region_create(mirror->device, DI_MEMORY_DEVICE, bytes + 2 * mirror->guard_bytes,
                            "a copy of a call's data", &part.region));
    mirror->parts[mirror->n_parts++] = part;
    return copy_in(mirror, &part);
}

static void add_chunk(void *user, void *data, size_t bytes)
{
    di_mirror *mirror = user;
    if (mirror->status == DI_OK)
        mirror->status = di_mirror_add(mirror, data, bytes);
}

di_status di_mirror_add_arena(di_mirror *mirror, const di_arena *arena)
{
    mirror->status = DI_OK;
    di_arena_visit(arena, add_chunk, mirror);
    return mirror->status;
}

di_status di_mirror_lend(di_mirror *mirror, const di_mirror_part *part)
{
    DI_TRY(grow(mirror));
    mirror->parts[mirror->n_parts] = *part;
    mirror->parts[mirror->n_parts++].is_lent = true;
    return DI_OK;
}

void *di_mirror_translate(const di_mirror *mirror, const void *host)
{
    const uintptr_t at = (uintptr_t)host;
    for (size_t i = 0; i < mirror->n_parts; i++) {
        const di_mirror_part *p = &mirror->parts[i];
        const uintptr_t first = (uintptr_t)p->host;
        if (at >= first && at < first + p->bytes)
            return p->region.data + mirror->guard_bytes + (at - first);
    }
    return NULL;
}

/* ------------------------------------------------------------------------- arrays of pointers */

static di_status translate_array(di_mirror *mirror, const void *const *pointers, int64_t n)
{
    void *to = di_mirror_translate(mirror, pointers);
    void **translated = malloc((size_t)n * sizeof *translated + 1);
    if (!translated)
        return di_fail_memory((size_t)n * sizeof *translated, "translated pointers");
    for (int64_t i = 0; i < n; i++)
        translated[i] = di_mirror_translate(mirror, pointers[i]);
    const di_status status =
        di_stream_copy(mirror->stream, to, translated, (size_t)n * sizeof *translated);
    free(translated);
    return status;
}

static di_status translate_weights(di_mirror *mirror, const di_qweight *const *weights, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        di_qweight w = *weights[i];
        w.codes = di_mirror_translate(mirror, w.codes);
        w.scales = di_mirror_translate(mirror, w.scales);
        DI_TRY(
            di_stream_copy(mirror->stream, di_mirror_translate(mirror, weights[i]), &w, sizeof w));
    }
    return translate_array(mirror, (const void *const *)weights, n);
}

#define TRANSLATE(mirror, pointers, n)                                                             \
    translate_array((mirror), (const void *const *)(pointers), (n))

static di_status translate_arrays(di_mirror *mirror, di_op op, const void *args, int64_t n_rows)
{
    if (op == DI_OP_index_logits)
        return TRANSLATE(mirror, ((const di_index_logits_args *)args)->block_tables, n_rows);
    if (op == DI_OP_engram_hash)
        return TRANSLATE(mirror, ((const di_engram_hash_args *)args)->history, n_rows);
    if (op == DI_OP_grouped_gemm_f4) {
        const di_grouped_gemm_args *a = args;
        return translate_weights(mirror, a->weights, a->n_active);
    }
    if (op == DI_OP_sparse_attention) {
        const di_sparse_attention_args *a = args;
        if (a->indices)
            DI_TRY(TRANSLATE(mirror, a->compressed_tables, n_rows));
        return TRANSLATE(mirror, a->window_tables, n_rows);
    }
    return DI_OK;
}

di_status di_mirror_args(di_mirror *mirror, di_op op, const void *args, size_t bytes,
                         int64_t n_rows, void *out)
{
    assert(bytes <= DI_MIRROR_ARGS_BYTES && bytes % sizeof(void *) == 0);
    void *word, *translated;
    memcpy(out, args, bytes);
    for (size_t at = 0; at < bytes; at += sizeof word) {
        memcpy(&word, (const char *)args + at, sizeof word);
        translated = di_mirror_translate(mirror, word);
        if (translated)
            memcpy((char *)out + at, &translated, sizeof translated);
    }
    return translate_arrays(mirror, op, args, n_rows);
}

di_status di_mirror_read(di_mirror *mirror, size_t i, void *to, bool *is_intact)
{
    enum { MOST = 4096 };
    unsigned char guards[2][MOST];
    const di_mirror_part *p = &mirror->parts[i];
    const size_t n = mirror->guard_bytes;
    assert(n <= MOST);
    DI_TRY(di_stream_copy(mirror->stream, to, p->region.data + n, p->bytes));
    DI_TRY(di_stream_copy(mirror->stream, guards[0], p->region.data, n));
    DI_TRY(di_stream_copy(mirror->stream, guards[1], p->region.data + n + p->bytes, n));
    DI_TRY(di_stream_wait(mirror->stream));
    *is_intact = true;
    for (size_t b = 0; b < n; b++)
        *is_intact &= guards[0][b] == GUARD_BYTE && guards[1][b] == GUARD_BYTE;
    return DI_OK;
}
