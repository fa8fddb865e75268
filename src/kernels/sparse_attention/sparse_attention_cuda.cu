#include "kernels/cuda.cuh"

#include "kernels/sparse_attention/sparse_attention.h"

/* A block computes some heads of one row. Keys come through shared memory in tiles, decoded to
 * bf16, which e4m3 times a quantizer's scale is exactly (and Q4kv entries by definition), twice:
 * once for the scores, once for the output, since the scores of all keys must be known before the
 * first probability. A thread makes whole scores (16 lanes, base/sum.h); then it owns two channels
 * of all the heads, each a chain of fmaf over the keys. */
enum { THREADS = 256, CHANNELS = 2 * THREADS /* of a pass over the values */ };

struct row_keys {
    int n_window, n; /* of the window, and with the selected entries */
    int64_t first;   /* position of the first window key */
    const int32_t *window_table, *table, *indices;
    bool is_aligned; /* entries start at multiples of 8 bytes */
};

static __device__ row_keys keys_of(const di_sparse_attention_args &a, int64_t row, bool is_aligned)
{
    row_keys k;
    const int64_t last = a.positions[row], floor = a.window_floors ? a.window_floors[row] : 0;
    k.first = last - a.window_len + 1 > floor ? last - a.window_len + 1 : floor;
    k.n_window = (int)(last - k.first + 1 > 0 ? last - k.first + 1 : 0);
    k.n = k.n_window + (a.indices ? a.counts[row] : 0);
    k.window_table = a.window_tables[row];
    k.table = a.indices ? a.compressed_tables[row] : NULL;
    k.indices = a.indices ? a.indices + row * a.index_stride : NULL;
    k.is_aligned = is_aligned;
    return k;
}

/* n bytes, 4 or 8, as words. */
template <int N>
static __device__ __forceinline__ void load_codes(const uint8_t *at, bool is_aligned, uint32_t *out)
{
    if (is_aligned) {
#pragma unroll
        for (int i = 0; i < N / 4; i++)
            out[i] = ((const uint32_t *)(const void *)at)[i];
    } else {
#pragma unroll
        for (int i = 0; i < N / 4; i++)
            out[i] = (uint32_t)at[4 * i] | (uint32_t)at[4 * i + 1] << 8 |
                     (uint32_t)at[4 * i + 2] << 16 | (uint32_t)at[4 * i + 3] << 24;
    }
}

/* Where a key's codes and scales are. */
struct key_place {
    const uint8_t *codes, *scales;
};

/* Once for all passes over the keys: block tables and divisions are not looked at again. */
static __device__ void find_places(const di_sparse_attention_args &a, const row_keys &k,
                                   key_place *places)
{
    for (int i = (int)threadIdx.x; i < k.n; i += THREADS) {
        const bool is_window = i < k.n_window;
        const di_paged &p = is_window ? a.window : a.compressed;
        const int64_t index = is_window ? k.first + i : k.indices[i - k.n_window];
        const int64_t block =
            (is_window ? k.window_table : k.table)[(uint32_t)index / (uint32_t)p.block_len];
        const int64_t place = (uint32_t)index % (uint32_t)p.block_len;
        const uint8_t *data = p.data + block * p.block_bytes;
        places[i].codes = data + place * p.code_bytes;
        places[i].scales = data + p.scales_offset + place * p.scale_bytes;
    }
}

/* 8 channels from c on, of codes of 8 and of 4 bits. */
static __device__ __forceinline__ uint4 decode_q8(const uint32_t *codes, uint32_t scale_code)
{
    const float scale = di_cu_e8m0(scale_code);
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        v[j] = di_cu_e4m3(codes[j / 4] >> (j % 4 * 8) & 0xffu) * scale;
    uint4 out;
    out.x = di_cu_pair(v[0], v[1]), out.y = di_cu_pair(v[2], v[3]);
    out.z = di_cu_pair(v[4], v[5]), out.w = di_cu_pair(v[6], v[7]);
    return out;
}

static __device__ __forceinline__ uint4 decode_q4kv(uint32_t codes, uint32_t scale_code)
{
    const float scale = di_cu_e4m3(scale_code);
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        v[j] = di_cu_e2m1(codes >> (4 * j) & 15u) * scale;
    uint4 out;
    out.x = di_cu_pair(v[0], v[1]), out.y = di_cu_pair(v[2], v[3]);
    out.z = di_cu_pair(v[4], v[5]), out.w = di_cu_pair(v[6], v[7]);
    return out;
}

/* A piece of 8 channels as it is stored. */
struct piece {
    uint32_t codes[2], scale;
    bool is_q8;
};

static __device__ __forceinline__ piece load_piece(const di_sparse_attention_args &a,
                                                   const row_keys &k, const key_place &place,
                                                   int key, int c)
{
    piece p;
    p.is_q8 = key < k.n_window || a.has_q8_selected;
    if (p.is_q8) {
        load_codes<8>(place.codes + c, k.is_aligned, p.codes);
        p.scale = place.scales[c / 32];
    } else {
        load_codes<4>(place.codes + c / 2, k.is_aligned, p.codes);
        p.codes[1] = 0;
        p.scale = place.scales[c / 16];
    }
    return p;
}

/* Keys first .. first + TILE - 1 to tile [TILE, pitch]; zeros beyond the last. BATCH pieces are
 * under way before the first is decoded. */
template <int TILE>
static __device__ void load_tile(const di_sparse_attention_args &a, const row_keys &k,
                                 const key_place *places, int first, int c0, int width, int pitch,
                                 di_bf16 *tile)
{
    enum { BATCH = 4 };
    const int pieces = width / 8, n = TILE * pieces;
    __syncthreads();
    for (int i0 = (int)threadIdx.x; i0 < n; i0 += THREADS * BATCH) {
        piece p[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int i = i0 + b * THREADS, key = first + i / pieces;
            if (i < n && key < k.n)
                p[b] = load_piece(a, k, places[key], key, c0 + i % pieces * 8);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int i = i0 + b * THREADS, key = first + i / pieces;
            uint4 v;
            v.x = v.y = v.z = v.w = 0;
            if (i < n && key < k.n)
                v = p[b].is_q8 ? decode_q8(p[b].codes, p[b].scale)
                               : decode_q4kv(p[b].codes[0], p[b].scale);
            if (i < n)
                *(uint4 *)(void *)(tile + i / pieces * pitch + i % pieces * 8) = v;
        }
    }
    __syncthreads();
}

static __device__ float score(const di_bf16 *q, const di_bf16 *key, int dim)
{
    float lanes[DI_LANES] = {};
    for (int c = 0; c < dim; c += DI_LANES) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float x[8], y[8];
            di_cu_load<8>(q + c + 8 * half, x);
            di_cu_load<8>(key + c + 8 * half, y);
#pragma unroll
            for (int i = 0; i < 8; i++)
                lanes[8 * half + i] = fmaf(x[i], y[i], lanes[8 * half + i]);
        }
    }
    return di_lanes_total(lanes);
}

/* p [n, HEADS] from scores to what is multiplied with the values; a warp a head. */
template <int HEADS>
static __device__ void make_probabilities(const di_sparse_attention_args &a, int64_t head, int n,
                                          float *p, float *sums)
{
    const int warp = (int)threadIdx.x / 32, t = (int)threadIdx.x % 32;
    if (warp >= HEADS)
        return;
    float largest = -1e30f;
    bool has_nan = false;
    for (int i = t; i < n; i += 32) {
        const float x = p[i * HEADS + warp];
        has_nan |= x != x;
        largest = x > largest ? x : largest;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, largest, step);
        largest = other > largest ? other : largest;
    }
    if (__any_sync(0xffffffffu, has_nan))
        largest = __uint_as_float(0x7fc00000u);
    for (int i = t; i < n; i += 32)
        p[i * HEADS + warp] = di_expf(p[i * HEADS + warp] - largest);
    __syncwarp();
    float lane = 0.0f;
    for (int i = t & 15; i < n; i += DI_LANES)
        lane += p[i * HEADS + warp];
    lane = di_cu_lanes_total(lane);
    if (t == 0 && head + warp < a.n_heads)
        sums[warp] = lane + di_expf(a.sink[head + warp] - largest);
}

template <int HEADS>
static __device__ void add_values(const di_bf16 *tile, int pitch, int n, const float *p,
                                  float (&acc)[HEADS][2])
{
    const int c = 2 * (int)threadIdx.x;
    for (int i = 0; i < n; i++) {
        const uint32_t pair = *(const uint32_t *)(const void *)(tile + i * pitch + c);
        const float low = di_cu_low(pair), high = di_cu_high(pair);
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            const float weight = p[i * HEADS + h];
            acc[h][0] = fmaf(weight, low, acc[h][0]);
            acc[h][1] = fmaf(weight, high, acc[h][1]);
        }
    }
}

/* Shared memory: tile [TILE, pitch] bf16, q [HEADS, dim] bf16, places [n_keys], p [n_keys, HEADS].
 */
template <int HEADS, int TILE>
static __global__ void __launch_bounds__(THREADS)
    attend(const di_sparse_attention_args a, int pitch, int n_places, bool is_aligned)
{
    extern __shared__ __align__(16) uint8_t memory[];
    __shared__ float sums[HEADS];
    const int64_t row = blockIdx.y, head = (int64_t)blockIdx.x * HEADS;
    const int dim = (int)a.head_dim;
    const int n_heads = (int)(a.n_heads - head < HEADS ? a.n_heads - head : HEADS);
    di_bf16 *tile = (di_bf16 *)(void *)memory, *q = tile + TILE * pitch;
    key_place *places = (key_place *)(void *)(q + HEADS * dim);
    float *p = (float *)(void *)(places + n_places);
    const row_keys k = keys_of(a, row, is_aligned);
    find_places(a, k, places);
    for (int i = (int)threadIdx.x; i < HEADS * dim; i += THREADS)
        q[i] = i < n_heads * dim ? a.q[(row * a.n_heads + head) * dim + i] : 0;
    for (int first = 0; first < k.n; first += TILE) {
        load_tile<TILE>(a, k, places, first, 0, dim, pitch, tile);
        for (int i = (int)threadIdx.x; i < TILE * HEADS; i += THREADS) {
            const int key = i % TILE, h = i / TILE;
            if (first + key < k.n)
                p[(first + key) * HEADS + h] =
                    score(q + h * dim, tile + key * pitch, dim) * a.scale;
        }
    }
    __syncthreads();
    make_probabilities<HEADS>(a, head, k.n, p, sums);
    for (int c0 = 0; c0 < dim; c0 += CHANNELS) {
        const int width = dim - c0 < CHANNELS ? dim - c0 : (int)CHANNELS;
        const bool is_mine = 2 * (int)threadIdx.x < width;
        float acc[HEADS][2] = {};
        for (int first = 0; first < k.n; first += TILE) {
            load_tile<TILE>(a, k, places, first, c0, width, pitch, tile);
            if (is_mine)
                add_values<HEADS>(tile, pitch, k.n - first < TILE ? k.n - first : TILE,
                                  p + first * HEADS, acc);
        }
        __syncthreads(); /* the sums, where there is no key */
        if (!is_mine)
            continue;
        for (int h = 0; h < n_heads; h++) {
            di_bf16 *out = a.out + (row * a.n_heads + head + h) * dim + c0 + 2 * threadIdx.x;
            float low = 0.0f, high = 0.0f;
#pragma unroll
            for (int i = 0; i < HEADS; i++) /* registers have no run-time index */
                if (i == h)
                    low = acc[i][0], high = acc[i][1];
            out[0] = di_f32_to_bf16(low / sums[h]);
            out[1] = di_f32_to_bf16(high / sums[h]);
        }
    }
}

static bool is_store_aligned(const di_paged *p)
{
    return di_cu_aligned(8, p->data) && (p->block_bytes | p->code_bytes) % 8 == 0;
}

template <int HEADS, int TILE>
static di_status launch(const di_sparse_attention_args *a, int64_t n_rows, di_stream stream)
{
    const int pitch = (int)a->head_dim + 8; /* rows of a warp's threads in different banks */
    const int64_t n_keys = a->window_len + (a->indices ? a->index_stride : 0);
    const int64_t shared = (int64_t)TILE * pitch * 2 + HEADS * a->head_dim * 2 +
                           n_keys * (HEADS * 4 + (int64_t)sizeof(key_place));
    const bool is_aligned =
        is_store_aligned(&a->window) && (!a->indices || is_store_aligned(&a->compressed));
    if (shared > 99 * 1024) /* what every device of compute capability 8.0 and up has */
        return di_fail(DI_ERR_UNSUPPORTED,
                       "sparse_attention on a GPU: found %lld keys of %lld channels, wanted fewer: "
                       "a block would need %lld bytes",
                       (long long)n_keys, (long long)a->head_dim, (long long)shared);
    DI_CUDA_TRY(cudaFuncSetAttribute((const void *)attend<HEADS, TILE>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                "sparse_attention");
    const dim3 grid((unsigned)di_cu_blocks(a->n_heads, HEADS), (unsigned)n_rows);
    attend<HEADS, TILE>
        <<<grid, THREADS, (size_t)shared, stream>>>(*a, pitch, (int)n_keys, is_aligned);
    return di_cuda_launched("sparse_attention");
}

di_status di_sparse_attention_cuda(const void *args, int64_t n_items, di_stream stream)
{
    enum { BLOCKS_WANTED = 128 };
    const di_sparse_attention_args *a = (const di_sparse_attention_args *)args;
    if (n_items == 0)
        return DI_OK;
    const int64_t n_rows = n_items / a->n_heads;
    if (n_rows * di_cu_blocks(a->n_heads, 8) >= BLOCKS_WANTED)
        return launch<8, 32>(a, n_rows, stream);
    return launch<2, 64>(a, n_rows, stream);
}
