#include "sample/select.h"

#include <stdlib.h>
#include <string.h>

enum { RADIX_BITS = 11, N_BINS = 1 << RADIX_BITS, N_LEVELS = 3 };

/* The 32 bits of a key as digits of 11, 11 and 10 bits. */
static const int level_shift[N_LEVELS] = {21, 10, 0};
static const int level_bits[N_LEVELS] = {11, 11, 10};

di_status di_selection_init(di_selection *selection, int32_t vocab_size,
                            const di_kernel *const *plan)
{
    const size_t n = (size_t)vocab_size;
    if (vocab_size < 1 || vocab_size > DI_MAX_VOCAB)
        return di_fail(DI_ERR_ARGUMENT, "vocab_size: found %d, wanted 1 to %d", (int)vocab_size,
                       (int)DI_MAX_VOCAB);
    di_selection fresh = {.capacity = vocab_size,
                          .id = malloc(n * sizeof(int32_t)),
                          .key = malloc(n * sizeof(uint32_t)),
                          .weight = malloc(n * sizeof(uint64_t)),
                          .histogram = malloc(N_BINS * sizeof(uint64_t)),
                          .peaks = malloc((size_t)di_n_peaks(vocab_size) * sizeof(float)),
                          .sums = malloc((size_t)di_n_peaks(vocab_size) * sizeof(uint64_t)),
                          .kernels = di_vocab_kernels_of(plan)};
    if (!fresh.id || !fresh.key || !fresh.weight || !fresh.histogram || !fresh.peaks ||
        !fresh.sums) {
        di_selection_free(&fresh);
        return di_fail_memory(di_selection_bytes(vocab_size), "the sampler's candidates");
    }
    *selection = fresh;
    return DI_OK;
}

void di_selection_free(di_selection *selection)
{
    free(selection->id);
    free(selection->key);
    free(selection->weight);
    free(selection->histogram);
    free(selection->peaks);
    free(selection->sums);
    *selection = (di_selection){0};
}

size_t di_selection_bytes(int32_t vocab_size)
{
    return (size_t)vocab_size * (sizeof(int32_t) + sizeof(uint32_t) + sizeof(uint64_t)) +
           N_BINS * sizeof(uint64_t) +
           (size_t)di_n_peaks(vocab_size) * (sizeof(float) + sizeof(uint64_t));
}

/* Larger value, larger key; -0 and +0 have one key. */
static uint32_t key_of(float value)
{
    const uint32_t u = di_f32_bits(value + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static float value_of(uint32_t key)
{
    return di_f32_from_bits(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

/* Adds the values of ids [first, end) that are >= floor and not -inf. */
static int32_t take(di_selection *selection, const float *row, int32_t first, int32_t end,
                    float floor)
{
    int32_t n = selection->n;
    for (int32_t id = first; id < end; id++) {
        if (!(row[id] >= floor) || row[id] == -INFINITY)
            continue;
        selection->id[n] = id;
        selection->key[n] = key_of(row[id]);
        n++;
    }
    return selection->n = n;
}

void di_selection_fill(di_selection *selection, const float *row, const float *peaks, float floor)
{
    const int32_t n = selection->capacity;
    selection->n = 0;
    for (int32_t b = 0; b < di_n_peaks(n); b++) {
        const int32_t first = b * DI_PEAK_IDS, left = n - first;
        if (peaks[b] >= floor)
            take(selection, row, first, first + (left < DI_PEAK_IDS ? left : DI_PEAK_IDS), floor);
    }
}

uint64_t di_selection_weigh(di_selection *selection, float max)
{
    const uint32_t *const key = selection->key;
    uint64_t *const weight = selection->weight;
    const int32_t n = selection->n;
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint64_t w = di_exp_weight(value_of(key[i]) - max);
        weight[i] = w;
        sum += w;
    }
    return sum;
}

typedef struct cut {
    uint32_t key;    /* the key in which the limit is reached */
    uint64_t before; /* measure of all larger keys, < limit */
} cut;

static void count_level(const di_selection *selection, bool is_weighted, int level, uint32_t prefix)
{
    uint64_t *const histogram = selection->histogram;
    const int shift = level_shift[level];
    const uint32_t mask = (1u << level_bits[level]) - 1;
    memset(histogram, 0, N_BINS * sizeof *histogram);
    for (int32_t i = 0; i < selection->n; i++) {
        const uint32_t key = selection->key[i];
        if (level == 0 || key >> level_shift[level - 1] == prefix)
            histogram[(key >> shift) & mask] += is_weighted ? selection->weight[i] : 1;
    }
}

/* False if the measure of all candidates is below the limit: nothing is to be cut. */
static bool find_cut(const di_selection *selection, bool is_weighted, uint64_t limit, cut *out)
{
    uint32_t prefix = 0;
    uint64_t before = 0;
    for (int level = 0; level < N_LEVELS; level++) {
        count_level(selection, is_weighted, level, prefix);
        uint32_t bin = (1u << level_bits[level]) - 1;
        while (before + selection->histogram[bin] < limit) {
            before += selection->histogram[bin];
            if (bin == 0) /* only on the first level: later ones hold the bin that reached it */
                return false;
            bin--;
        }
        prefix = prefix << level_bits[level] | bin;
    }
    *out = (cut){.key = prefix, .before = before};
    return true;
}

/* Keeps the candidates before which less than `limit` of the measure lies; ids stay ascending,
 * which makes the lowest ids of the cut's key the first. */
static void keep_prefix(di_selection *selection, bool is_weighted, uint64_t limit)
{
    cut at;
    if (!find_cut(selection, is_weighted, limit, &at))
        return;
    int32_t n = 0;
    for (int32_t i = 0; i < selection->n; i++) {
        const uint32_t key = selection->key[i];
        const uint64_t weight = is_weighted ? selection->weight[i] : 1;
        if (key < at.key || (key == at.key && at.before >= limit))
            continue;
        if (key == at.key)
            at.before += weight;
        selection->id[n] = selection->id[i];
        selection->key[n] = key;
        if (is_weighted)
            selection->weight[n] = weight;
        n++;
    }
    selection->n = n;
}

void di_selection_keep_top(di_selection *selection, int32_t n_top)
{
    if (n_top < selection->n)
        keep_prefix(selection, false, (uint64_t)n_top);
}

void di_selection_keep_mass(di_selection *selection, uint64_t limit)
{
    keep_prefix(selection, true, limit);
}

float di_selection_floor(di_selection *selection, const float *peaks, int32_t n_top)
{
    const int32_t n = di_n_peaks(selection->capacity);
    if (n_top > n)
        return -INFINITY;
    selection->n = 0;
    if (take(selection, peaks, 0, n, -INFINITY) < n_top)
        return -INFINITY;
    cut at = {0};
    (void)find_cut(selection, false, (uint64_t)n_top, &at);
    return value_of(at.key);
}

uint64_t di_weights_sum(const di_selection *selection, const float *row, float max)
{
    const int32_t n = selection->capacity;
    const di_exp_weights_args args = {.row = row, .sums = selection->sums, .n = n, .max = max};
    selection->kernels.exp_weights(&args, 0, di_n_peaks(n), 0);
    uint64_t sum = 0;
    for (int32_t b = 0; b < di_n_peaks(n); b++)
        sum += selection->sums[b];
    return sum;
}

static void sift_down(uint64_t *heap, int32_t root, int32_t n)
{
    const uint64_t value = heap[root];
    for (;;) {
        int32_t child = 2 * root + 1;
        if (child >= n)
            break;
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= value)
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = value;
}

void di_selection_sort(di_selection *selection)
{
    /* Key and complemented id in one number: all differ, so the order is total. Heap sort with the
     * smallest on top puts the largest first. */
    uint64_t *const order = selection->weight;
    const int32_t n = selection->n;
    for (int32_t i = 0; i < n; i++)
        order[i] = (uint64_t)selection->key[i] << 32 | (uint32_t)~selection->id[i];
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(order, i, n);
    for (int32_t last = n - 1; last > 0; last--) {
        const uint64_t smallest = order[0];
        order[0] = order[last];
        order[last] = smallest;
        sift_down(order, 0, last);
    }
    for (int32_t i = 0; i < n; i++) {
        selection->key[i] = (uint32_t)(order[i] >> 32);
        selection->id[i] = (int32_t) ~(uint32_t)order[i];
    }
}
