/* The windows of the draft blocks: taps of the backbone's target layers, and the entries made of
 * them (model spec 4.1, 5.1). */
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/quantize/quantize.h"
#include "model/draft.h"
#include "model/internal.h"

/* Place of a layer among the target layers; -1 if it is none. */
static int target_of(const di_config *c, int layer)
{
    for (int t = 0; t < c->n_dspark_targets; t++)
        if (c->dspark_target_layer_ids[t] == layer)
            return t;
    return -1;
}

di_status di_draft_begin_taps(di_pass *pass, int layer)
{
    const di_config *c = pass->network->config;
    if (target_of(c, layer) != 0)
        return DI_OK;
    pass->taps_stride = pass->batch->n_rows * c->hidden_size;
    return DI_PASS_NEW(pass, c->n_dspark_targets * pass->taps_stride, &pass->taps);
}

/* The mean is a collapse with equal weights: the same bits as a sum that is divided where hc is a
 * power of two, and the sum's last bit off before its rounding to bf16 else. */
di_status di_draft_keep_tap(di_pass *pass, int layer)
{
    const di_config *c = pass->network->config;
    const int target = target_of(c, layer);
    const int64_t n = pass->batch->n_rows;
    float *weights;
    if (target < 0)
        return DI_OK;
    DI_TRY(DI_PASS_NEW(pass, n * c->hc_mult, &weights));
    for (int64_t i = 0; i < n * c->hc_mult; i++)
        weights[i] = 1.0f / (float)c->hc_mult;
    di_collapse(pass, weights, pass->taps + target * pass->taps_stride);
    return target + 1 == c->n_dspark_targets ? di_draft_write_context(pass) : DI_OK;
}

/* A row's taps one after another, Q8-rounded: the input of main_proj. */
static di_status join_taps(di_pass *pass, di_rows *out)
{
    const di_config *c = pass->network->config;
    const int64_t n = pass->batch->n_rows, dim = c->hidden_size;
    const int64_t width = c->n_dspark_targets * dim;
    di_bf16 *y;
    DI_TRY(DI_PASS_NEW(pass, n * width, &y));
    for (int t = 0; t < c->n_dspark_targets; t++) {
        const di_quantize_args args = {.x = pass->taps + t * pass->taps_stride,
                                       .y = y + t * dim,
                                       .dim = dim,
                                       .x_stride = dim,
                                       .y_stride = width};
        di_run(pass, DI_OP_quantize_q8, &args, n, 2 * dim);
    }
    *out = (di_rows){y, n, width};
    return DI_OK;
}

di_status di_draft_write_context(di_pass *pass)
{
    const di_config *c = pass->network->config;
    const di_draft_weights *w = &pass->network->weights->draft;
    const int64_t n = pass->batch->n_rows;
    di_rows taps, xq;
    di_bf16 *x;
    if (n == 0)
        return DI_OK;
    DI_TRY(join_taps(pass, &taps));
    DI_TRY(DI_PASS_NEW(pass, n * c->hidden_size, &x));
    di_linear_f8(pass, &w->main_proj, taps, x);
    di_norm_rows(pass, &w->main_norm, x, n, x);
    DI_TRY(di_quantize_rows(pass, x, n, c->hidden_size, &xq));
    for (int m = 0; m < c->n_draft_blocks; m++) {
        const di_arena_mark mark = di_arena_save(pass->arena);
        DI_TRY(di_attention_write_window(pass, c->n_layers + m, xq, &pass->plain));
        di_arena_rewind(pass->arena, mark);
    }
    return DI_OK;
}
