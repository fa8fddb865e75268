#include "kernels/hyper_connection/hyper_connection.h"

#include "base/mathf.h"
#include "base/sum.h"
#include "kernels/all.h"

void di_hc_project_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_hc_project_args *a = args;
    const int64_t width = a->hc * a->dim, n_out = (2 + a->hc) * a->hc;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item / (n_out + 1) * DI_HC_ROWS, k = item % (n_out + 1);
        for (int64_t row = first; row < first + DI_HC_ROWS && row < a->n; row++) {
            const di_bf16 *x = a->h + row * width;
            a->y[row * (n_out + 1) + k] = k < n_out ? di_dot_f32_bf16(a->fn + k * width, x, width)
                                                    : di_sum_squares_bf16(x, width);
        }
    }
}

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
    const int n_out = (2 + hc) * hc;
    const float *products = a->products + row * (n_out + 1);
    const float rs = di_rsqrtf(products[n_out] / (float)(hc * a->dim) + a->norm_eps);
    float *pre = a->pre + row * hc, *post = a->post + row * hc, *comb = a->comb + row * hc * hc;
    for (int i = 0; i < n_out; i++) {
        const float m = products[i] * rs;
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
