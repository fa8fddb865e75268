#include "kernels/gemm/gemm.h"
#include "kernels/quantize/quantize.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "model/internal.h"

void di_linear_f8(const di_pass *pass, const di_qweight *w, di_rows x, di_bf16 *y)
{
    const di_gemm_args args = {
        .x = x.data,
        .x_stride = x.stride,
        .w = w->codes,
        .scales = w->scales,
        .y = y,
        .y_stride = w->n_out,
        .m = x.n,
        .n = w->n_out,
        .k = w->n_in,
        .scratch = pass->worker_scratch,
        .scratch_stride = pass->worker_scratch_bytes,
    };
    di_run(pass, DI_OP_gemm_f8, &args, args.n, args.m * args.k);
}

static void linear_bf16(const di_pass *pass, const di_bf16_matrix *w, di_rows x, void *y,
                        bool is_f32_out)
{
    const di_gemm_args args = {
        .x = x.data,
        .x_stride = x.stride,
        .w = w->data,
        .y = y,
        .y_stride = w->n_out,
        .m = x.n,
        .n = w->n_out,
        .k = w->n_in,
        .is_f32_out = is_f32_out,
        .scratch = pass->worker_scratch,
        .scratch_stride = pass->worker_scratch_bytes,
    };
    di_run(pass, DI_OP_gemm_bf16, &args, args.n, args.m * args.k);
}

void di_linear_bf16(const di_pass *pass, const di_bf16_matrix *w, di_rows x, di_bf16 *y)
{
    linear_bf16(pass, w, x, y, false);
}

void di_linear_bf16_f32(const di_pass *pass, const di_bf16_matrix *w, di_rows x, float *y)
{
    linear_bf16(pass, w, x, y, true);
}

void di_quantize_into(const di_pass *pass, const di_bf16 *x, int64_t n, int64_t dim, di_bf16 *y)
{
    const di_quantize_args args = {.x = x, .y = y, .dim = dim, .x_stride = dim, .y_stride = dim};
    di_run(pass, DI_OP_quantize_q8, &args, n, 2 * dim);
}

di_status di_quantize_rows(const di_pass *pass, const di_bf16 *x, int64_t n, int64_t dim,
                           di_rows *out)
{
    di_bf16 *y;
    DI_TRY(DI_PASS_NEW(pass, n * dim, &y));
    di_quantize_into(pass, x, n, dim, y);
    *out = (di_rows){y, n, dim};
    return DI_OK;
}

void di_norm_rows(const di_pass *pass, const di_norm_weight *w, const di_bf16 *x, int64_t n,
                  di_bf16 *y)
{
    const di_rmsnorm_args args = {
        .x = x,
        .w = w->data,
        .y = y,
        .dim = w->n,
        .x_stride = w->n,
        .y_stride = w->n,
        .w_dtype = w->dtype,
        .eps = (float)pass->network->config->rms_norm_eps,
    };
    di_run(pass, DI_OP_rmsnorm, &args, n, 2 * w->n);
}

void di_rope_rows(const di_pass *pass, di_bf16 *x, int64_t n, int64_t n_heads, int64_t head_dim,
                  const di_rope_angles *angles, bool is_inverse)
{
    const di_rope_args args = {
        .x = x,
        .cos = angles->cos,
        .sin = angles->sin,
        .n_heads = n_heads,
        .head_dim = head_dim,
        .rope_dim = pass->network->config->rope_dim,
        .x_stride = n_heads * head_dim,
        .is_inverse = is_inverse,
    };
    di_run(pass, DI_OP_rope, &args, n, n_heads * args.rope_dim);
}

di_status di_rope_angles_init(const di_pass *pass, const float *frequencies,
                              const int32_t *positions, int64_t n, di_rope_angles *out)
{
    const int64_t half = pass->network->config->rope_dim / 2;
    DI_TRY(DI_PASS_NEW(pass, n * half, &out->cos));
    DI_TRY(DI_PASS_NEW(pass, n * half, &out->sin));
    di_rope_table(frequencies, half, positions, n, out->cos, out->sin);
    return DI_OK;
}
