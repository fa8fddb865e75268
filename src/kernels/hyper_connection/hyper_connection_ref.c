#include "kernels/hyper_connection/hyper_connection.h"

#include "base/mathf.h"
#include "base/sum.h"
#include "kernels/all.h"

static void normalize_columns(float *c, int hc, float eps)
{
    for (int k = 0; k < hc; k++) {
        float sum = 0.0f;
        for (int j = 0; j < hc; j++)
            sum += c[j * hc + k];
        for (int j = 0; j < hc; j++)
            c[j * hc + k] /= sum + eps;
    }
}

static void normalize_rows(float *c, int hc, float eps)
{
    for (int j = 0; j < hc; j++) {
        float sum = 0.0f;
        for (int k = 0; k < hc; k++)
            sum += c[j * hc + k];
        for (int k = 0; k < hc; k++)
            c[j * hc + k] /= sum + eps;
    }
}

static void softmax_rows(float *c, int hc, float eps)
{
    for (int j = 0; j < hc; j++) {
        float *row = c + j * hc;
        float largest = row[0], sum = 0.0f;
        for (int k = 1; k < hc; k++)
            largest = row[k] > largest ? row[k] : largest;
        for (int k = 0; k < hc; k++) {
            row[k] = di_expf(row[k] - largest);
            sum += row[k];
        }
        for (int k = 0; k < hc; k++)
            row[k] = row[k] / sum + eps;
    }
}

static void mix_row(const di_hc_mix_args *a, int64_t row)
{
    const int hc = a->hc;
    const int64_t width = hc * a->dim;
    const di_bf16 *x = a->h + row * width;
    const float rs = di_rsqrtf(di_sum_squares_bf16(x, width) / (float)width + a->norm_eps);
    float *pre = a->pre + row * hc, *post = a->post + row * hc, *comb = a->comb + row * hc * hc;
    for (int i = 0; i < (2 + hc) * hc; i++) {
        const float m = di_dot_f32_bf16(a->fn + i * width, x, width) * rs;
        if (i < hc)
            pre[i] = di_sigmoidf(m * a->scale[0] + a->base[i]) + a->eps;
        else if (i < 2 * hc)
            post[i - hc] = 2.0f * di_sigmoidf(m * a->scale[1] + a->base[i]);
        else
            comb[i - 2 * hc] = m * a->scale[2] + a->base[i];
    }
    softmax_rows(comb, hc, a->eps);
    normalize_columns(comb, hc, a->eps);
    for (int i = 1; i < a->n_iters; i++) {
        normalize_rows(comb, hc, a->eps);
        normalize_columns(comb, hc, a->eps);
    }
}

void di_hc_mix_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t row = begin; row < end; row++)
        mix_row(args, row);
}

void di_hc_collapse_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_hc_collapse_args *a = args;
    for (int64_t row = begin; row < end; row++) {
        const di_bf16 *h = a->h + row * a->hc * a->dim;
        const float *pre = a->pre + row * a->hc;
        for (int64_t i = 0; i < a->dim; i++) {
            float sum = 0.0f;
            for (int j = 0; j < a->hc; j++)
                sum += pre[j] * di_bf16_to_f32(h[j * a->dim + i]);
            a->y[row * a->dim + i] = di_f32_to_bf16(sum);
        }
    }
}

void di_hc_expand_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_hc_expand_args *a = args;
    const int hc = a->hc;
    for (int64_t row = begin; row < end; row++) {
        di_bf16 *h = a->h + row * hc * a->dim;
        const float *post = a->post + row * hc, *comb = a->comb + row * hc * hc;
        for (int64_t i = 0; i < a->dim; i++) {
            const float y = di_bf16_to_f32(a->y[row * a->dim + i]);
            float old[DI_HC_LIMIT];
            for (int j = 0; j < hc; j++)
                old[j] = di_bf16_to_f32(h[j * a->dim + i]);
            for (int k = 0; k < hc; k++) {
                float sum = 0.0f;
                for (int j = 0; j < hc; j++)
                    sum += comb[j * hc + k] * old[j];
                h[k * a->dim + i] = di_f32_to_bf16(post[k] * y + sum);
            }
        }
    }
}
