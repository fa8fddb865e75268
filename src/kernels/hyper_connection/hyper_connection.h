/* Single-pass manifold hyper-connections (model spec 4.1). Items of all three: rows (tokens).
 * A row's streams h are [hc, dim] bf16. */
#ifndef DI_KERNELS_HYPER_CONNECTION_H
#define DI_KERNELS_HYPER_CONNECTION_H

#include "base/fp.h"

enum { DI_HC_LIMIT = 16 }; /* largest hc */

/* mix: m = (fn X) * rsqrt(mean(X^2) + norm_eps), X the streams one after another;
 * pre = sigmoid(m_pre * scale[0] + base) + eps, post = 2 sigmoid(m_post * scale[1] + base),
 * comb = Sinkhorn of m_comb * scale[2] + base: row softmax + eps, column normalisation, then
 * n_iters - 1 times rows and columns. */
typedef struct di_hc_mix_args {
    const di_bf16 *h;               /* [n, hc * dim] */
    const float *fn, *base, *scale; /* [(2 + hc) * hc, hc * dim], [(2 + hc) * hc], [3] */
    float *pre, *post, *comb;       /* [n, hc], [n, hc], [n, hc (from), hc (to)] */
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
