/* Single-pass manifold hyper-connections (model spec 4.1). A row's (token's) streams h are
 * [hc, dim] bf16. Items of all but hc_project: rows. */
#ifndef DI_KERNELS_HYPER_CONNECTION_H
#define DI_KERNELS_HYPER_CONNECTION_H

#include "base/fp.h"

enum {
    DI_HC_LIMIT = 16, /* largest hc */
    DI_HC_ROWS = 16   /* rows of a block: fn is read once for all of them */
};

/* With X a row's streams one after another and n_out = (2 + hc) * hc: y[k] = (fn X)_k for k < n_out
 * and y[n_out] = sum of X^2. Items: output k of the block of rows b is item b * (n_out + 1) + k;
 * di_hc_project_items of them. */
typedef struct di_hc_project_args {
    const di_bf16 *h; /* [n, hc * dim] */
    const float *fn;  /* [n_out, hc * dim] */
    float *y;         /* [n, n_out + 1] */
    int64_t n, dim;
    int hc;
} di_hc_project_args;

static inline int64_t di_hc_project_items(int64_t n, int hc)
{
    return (n + DI_HC_ROWS - 1) / DI_HC_ROWS * ((2 + hc) * hc + 1);
}

/* mix: m = (fn X) * rsqrt(mean(X^2) + norm_eps);
 * pre = sigmoid(m_pre * scale[0] + base) + eps, post = 2 sigmoid(m_post * scale[1] + base),
 * comb = Sinkhorn of m_comb * scale[2] + base: row softmax + eps, column normalisation, then
 * n_iters - 1 times rows and columns. */
typedef struct di_hc_mix_args {
    const float *products;     /* [n, (2 + hc) * hc + 1]: hc_project's y */
    const float *base, *scale; /* [(2 + hc) * hc], [3] */
    float *pre, *post, *comb;  /* [n, hc], [n, hc], [n, hc (from), hc (to)] */
    int64_t dim;
    int hc, n_iters;
    float eps, norm_eps;
} di_hc_mix_args;

/* y = bf16(sum over j of pre_j * h_j) */
typedef struct di_hc_collapse_args {
    const di_bf16 *h; /* [n, hc, dim] */
    const float *pre; /* [n, hc] */
    di_bf16 *y;       /* [n, dim] */
    int64_t dim;
    int hc;
} di_hc_collapse_args;

/* h'_k = bf16(post_k * y + sum over j of comb[j][k] * h_j), in place */
typedef struct di_hc_expand_args {
    di_bf16 *h;               /* [n, hc, dim] */
    const di_bf16 *y;         /* [n, dim] */
    const float *post, *comb; /* [n, hc], [n, hc, hc] */
    int64_t dim;
    int hc;
} di_hc_expand_args;

#endif
