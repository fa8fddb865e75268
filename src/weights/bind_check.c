#include "weights/bind_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "weights/tensor_print.h"

typedef struct binder {
    const di_checkpoint *checkpoint;
    di_weights *slots; /* or NULL */
    di_arena *arena;
    di_problems *problems;
    di_bind_result *result;
    bool *is_used; /* [checkpoint->n_tensors] */
} binder;

static bool has_shape(const di_tensor *found, const di_weight_tensor *wanted)
{
    if (found->rank != wanted->rank)
        return false;
    for (int i = 0; i < wanted->rank; i++)
        if (found->shape[i] != wanted->shape[i])
            return false;
    return true;
}

static di_status report_wrong(binder *b, const di_tensor *found, const di_weight_tensor *wanted)
{
    const bool is_either = di_weight_accepts(wanted, DI_BF16) && di_weight_accepts(wanted, DI_F32);
    char found_shape[DI_SHAPE_TEXT_BYTES], wanted_shape[DI_SHAPE_TEXT_BYTES];
    di_shape_format(found->rank, found->shape, found_shape);
    di_shape_format(wanted->rank, wanted->shape, wanted_shape);
    return di_problems_add(b->problems, DI_ERR_INPUT, "%s: tensor %s: found %s %s, wanted %s %s",
                           b->checkpoint->dir, wanted->name, di_dtype_name(found->dtype),
                           found_shape, is_either ? "BF16 or F32" : di_dtype_name(wanted->dtype),
                           wanted_shape);
}

/* ------------------------------------------------------------------------------------ the slots */

static bool is_aligned(const di_tensor *t)
{
    return (uintptr_t)t->data % di_dtype_bytes(t->dtype) == 0;
}

/* The tensor's data where a pointer of its type may point to, of dtype `dtype`. */
static di_status usable_data(binder *b, const di_tensor *found, di_dtype dtype, const void **out)
{
    if (found->dtype == dtype && is_aligned(found)) {
        *out = found->data;
        return DI_OK;
    }
    const size_t n = found->bytes / di_dtype_bytes(found->dtype);
    const size_t bytes = n * di_dtype_bytes(dtype);
    char *copy;
    DI_TRY(DI_ARENA_NEW(b->arena, bytes, &copy));
    if (found->dtype == dtype)
        memcpy(copy, found->data, bytes);
    for (size_t i = 0; found->dtype != dtype && i < n; i++) { /* BF16 widened to F32 */
        di_bf16 narrow;
        memcpy(&narrow, (const char *)found->data + i * sizeof narrow, sizeof narrow);
        ((float *)copy)[i] = di_bf16_to_f32(narrow);
    }
    b->result->copied_bytes += bytes;
    *out = copy;
    return DI_OK;
}

static void bind_quantized(const di_tensor *found, const di_weight_tensor *wanted)
{
    di_qweight *q = wanted->slot;
    if (wanted->is_scale)
        q->scales = found->data;
    else
        q->codes = found->data;
    q->n_out = wanted->n_out;
    q->n_in = wanted->n_in;
    q->format = wanted->kind == DI_WEIGHT_KIND_F4 ? DI_WEIGHT_F4 : DI_WEIGHT_F8;
}

static void bind_table(const di_tensor *found, const di_weight_tensor *wanted)
{
    di_engram_weights *table = wanted->slot;
    if (wanted->is_scale)
        table->scales = found->data;
    else
        table->codes = found->data;
    table->n_rows = wanted->n_out;
    table->head_dim = wanted->n_in;
}

static di_status bind_slot(binder *b, const di_tensor *found, const di_weight_tensor *wanted)
{
    const void *data;
    switch (wanted->kind) {
    case DI_WEIGHT_KIND_F8:
    case DI_WEIGHT_KIND_F4:
        bind_quantized(found, wanted);
        return DI_OK;
    case DI_WEIGHT_KIND_TABLE:
        bind_table(found, wanted);
        return DI_OK;
    case DI_WEIGHT_KIND_BF16:
        DI_TRY(usable_data(b, found, DI_BF16, &data));
        *(di_bf16_matrix *)wanted->slot = (di_bf16_matrix){data, wanted->n_out, wanted->n_in};
        return DI_OK;
    case DI_WEIGHT_KIND_VECTOR:
        DI_TRY(usable_data(b, found, DI_BF16, &data));
        *(const di_bf16 **)wanted->slot = data;
        return DI_OK;
    case DI_WEIGHT_KIND_NORM:
        DI_TRY(usable_data(b, found, found->dtype, &data));
        *(di_norm_weight *)wanted->slot = (di_norm_weight){data, found->dtype, wanted->n_out};
        return DI_OK;
    case DI_WEIGHT_KIND_F32:
        DI_TRY(usable_data(b, found, DI_F32, &data));
        *(const float **)wanted->slot = data;
        return DI_OK;
    }
    return DI_OK;
}

/* ----------------------------------------------------------------------------------- the names */

static di_status bind_tensor(void *user, const di_weight_tensor *wanted)
{
    binder *b = user;
    const di_checkpoint_tensor *hit = di_checkpoint_find(b->checkpoint, wanted->name);
    if (!hit)
        return di_problems_add(b->problems, DI_ERR_INPUT, "%s: missing tensor %s",
                               b->checkpoint->dir, wanted->name);
    b->is_used[hit - b->checkpoint->tensors] = true;
    const di_tensor *found = hit->tensor;
    if (!found) /* its file's problem is listed already */
        return DI_OK;
    b->result->parts[wanted->part].n_tensors++;
    b->result->parts[wanted->part].bytes += found->bytes;
    if (!di_weight_accepts(wanted, found->dtype) || !has_shape(found, wanted))
        return report_wrong(b, found, wanted);
    return wanted->slot ? bind_slot(b, found, wanted) : DI_OK;
}

static di_status report_unexpected(binder *b)
{
    for (size_t i = 0; i < b->checkpoint->n_tensors; i++)
        if (!b->is_used[i])
            DI_TRY(di_problems_add(b->problems, DI_ERR_INPUT, "%s: unexpected tensor %s",
                                   b->checkpoint->dir, b->checkpoint->tensors[i].name));
    return DI_OK;
}

di_status di_bind(const di_checkpoint *checkpoint, const di_config *config, di_weights *slots,
                  di_arena *arena, di_problems *problems, di_bind_result *out)
{
    *out = (di_bind_result){0};
    binder b = {checkpoint, slots, arena,
                problems,   out,   calloc(checkpoint->n_tensors + 1, sizeof(bool))};
    if (!b.is_used)
        return di_fail_memory(checkpoint->n_tensors, "the list of bound tensors");
    di_status status = di_weight_list(config, slots, bind_tensor, &b);
    if (status == DI_OK)
        status = report_unexpected(&b);
    free(b.is_used);
    return status;
}
