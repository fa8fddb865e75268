#include "kernels/cuda.cuh"

#include "kernels/index_logits/index_group.h"
#include "kernels/index_logits/index_logits.h"

/* A block scores KEYS entries of one row, a thread an entry. The queries' integers and units are in
 * shared memory, HEADS heads at a time; an entry's codes, as integers of 8 bits, in registers. */
enum { KEYS = 128, HEADS = 32, MOST_GROUPS = 4, WORDS = DI_INDEX_GROUP / 4 };

/* 8 codes to twice their values, 8 bits each: 0 1 2 3 4 6 8 12, and their negatives. */
static __device__ __forceinline__ void expand_codes(uint32_t codes, uint32_t *low, uint32_t *high)
{
    uint32_t halves[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t code = codes >> (4 * i) & 15u;
        const uint32_t magnitude = 0xc8643210u >> (4 * (code & 7u)) & 15u;
        const uint32_t value = code & 8u ? 0u - magnitude : magnitude;
        halves[i / 4] |= (value & 0xffu) << (i % 4 * 8);
    }
    *low = halves[0];
    *high = halves[1];
}

struct queries {
    uint32_t ints[HEADS][MOST_GROUPS][WORDS];
    float units[HEADS][MOST_GROUPS];
    float weights[HEADS];
};

/* The integers of `n` heads from `head` on; a thread a group of one head. */
template <int N_GROUPS>
static __device__ void load_queries(const di_index_logits_args &a, int64_t row, int64_t head, int n,
                                    queries &s)
{
    for (int t = (int)threadIdx.x; t < n * N_GROUPS; t += KEYS) {
        const int h = t / N_GROUPS, g = t % N_GROUPS;
        const di_bf16 *q = a.q + (row * a.n_heads + head + h) * a.dim + g * DI_INDEX_GROUP;
        uint32_t largest = 0;
        for (int i = 0; i < DI_INDEX_GROUP; i++)
            largest = max(largest, (uint32_t)q[i] & 0x7fffu);
        const float unit = di_index_unit(largest);
        for (int w = 0; w < WORDS; w++) {
            uint32_t word = 0;
            for (int i = 0; i < 4; i++) {
                const float x = di_bf16_to_f32(q[4 * w + i]);
                const int value = unit > 0.0f ? (int)(x / unit) : 0;
                word |= ((uint32_t)value & 0xffu) << (8 * i);
            }
            s.ints[h][g][w] = word;
        }
        s.units[h][g] = unit;
    }
    for (int h = (int)threadIdx.x; h < n; h += KEYS)
        s.weights[h] = di_round_bf16(di_bf16_to_f32(a.w[row * a.n_heads + head + h]) * a.w_scale);
}

template <int N_GROUPS>
static __global__ void __launch_bounds__(KEYS) index_logits(const di_index_logits_args a)
{
    __shared__ queries s;
    const int64_t row = blockIdx.y, j = (int64_t)blockIdx.x * KEYS + threadIdx.x;
    const int64_t n_visible = a.n_visible[row];
    if ((int64_t)blockIdx.x * KEYS >= n_visible)
        return;
    uint32_t key[N_GROUPS][WORDS];
    float scale[N_GROUPS];
    if (j < n_visible) {
        const int64_t slot = di_paged_slot(a.block_tables[row], a.keys.block_len, j);
        const uint8_t *codes = di_paged_codes(&a.keys, slot);
        const uint8_t *scales = di_paged_scales(&a.keys, slot);
#pragma unroll
        for (int g = 0; g < N_GROUPS; g++) {
            scale[g] = 0.5f * di_cu_e8m0(scales[g]);
#pragma unroll
            for (int w = 0; w < WORDS; w += 2) {
                uint32_t word = 0; /* entries need not be aligned */
                for (int i = 0; i < 4; i++)
                    word |= (uint32_t)codes[g * 16 + w * 2 + i] << (8 * i);
                expand_codes(word, &key[g][w], &key[g][w + 1]);
            }
        }
    }
    float sum = 0.0f;
    for (int64_t head = 0; head < a.n_heads; head += HEADS) {
        const int n = (int)(a.n_heads - head < HEADS ? a.n_heads - head : HEADS);
        __syncthreads();
        load_queries<N_GROUPS>(a, row, head, n, s);
        __syncthreads();
        if (j >= n_visible)
            continue;
        for (int h = 0; h < n; h++) {
            float dot = 0.0f;
#pragma unroll
            for (int g = 0; g < N_GROUPS; g++) {
                int part = 0;
#pragma unroll
                for (int w = 0; w < WORDS; w++)
                    part = __dp4a((int)s.ints[h][g][w], (int)key[g][w], part);
                dot = fmaf((float)part * s.units[h][g], scale[g], dot);
            }
            const float d = di_round_bf16(dot);
            sum += di_round_bf16((d > 0.0f || d != d ? d : 0.0f) * s.weights[h]);
        }
    }
    if (j < n_visible)
        a.scores[row * a.max_visible + j] = di_f32_to_bf16(sum);
}

di_status di_index_logits_cuda(const void *args, int64_t n_items, di_stream stream)
{
    const di_index_logits_args *a = (const di_index_logits_args *)args;
    const int64_t tiles = di_cu_blocks(a->max_visible, DI_INDEX_TILE);
    if (n_items == 0 || tiles == 0)
        return DI_OK;
    const int64_t n_groups = a->dim / DI_INDEX_GROUP;
    const dim3 grid((unsigned)di_cu_blocks(a->max_visible, KEYS), (unsigned)(n_items / tiles));
    if (n_groups == 4)
        index_logits<4><<<grid, KEYS, 0, stream>>>(*a);
    else if (n_groups == 3)
        index_logits<3><<<grid, KEYS, 0, stream>>>(*a);
    else if (n_groups == 2)
        index_logits<2><<<grid, KEYS, 0, stream>>>(*a);
    else if (n_groups == 1)
        index_logits<1><<<grid, KEYS, 0, stream>>>(*a);
    else
        return di_fail(DI_ERR_UNSUPPORTED,
                       "index_logits on a GPU: found %lld channels, wanted at most %d",
                       (long long)a->dim, MOST_GROUPS * DI_INDEX_GROUP);
    return di_cuda_launched("index_logits");
}
