/* Choices from vocabularies of many blocks (sample/peaks.h), where the sampler passes over blocks
 * and ids that cannot matter: the same to the bit as the definition, which looks at every id. */
#include "sampler_bench.h"

enum { MOST = 4 * DI_PEAK_IDS + 77 };

static const float *order_of;

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (order_of[x] != order_of[y])
        return order_of[x] > order_of[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

/* min-p, then top-k, then top-p: prefixes of the order of values, ids ascending among equals. */
static void reference_filter(const float *logits, int32_t n, const di_sampling_params *p,
                             bool *is_kept)
{
    float z[MOST], max = -INFINITY;
    int32_t order[MOST], count = 0;
    const float floor = p->min_p > 0.0 ? di_logf(fmaxf((float)p->min_p, 0x1p-126f)) : -INFINITY;
    for (int32_t i = 0; i < n; i++)
        max = fmaxf(max, logits[i]);
    for (int32_t i = 0; i < n; i++) {
        z[i] = (logits[i] - max) / (float)p->temperature;
        is_kept[i] = false;
        if (z[i] >= floor && z[i] != -INFINITY)
            order[count++] = i;
    }
    order_of = z;
    qsort(order, (size_t)count, sizeof *order, compare_ids);
    if (p->top_k > 0 && p->top_k < count)
        count = p->top_k;
    uint64_t sum = 0, before = 0;
    for (int32_t i = 0; i < count; i++)
        sum += di_exp_weight(z[order[i]]);
    uint64_t limit = p->top_p < 1.0 ? (uint64_t)ceil(p->top_p * (double)sum) : UINT64_MAX;
    limit = limit > 0 ? limit : 1;
    for (int32_t i = 0; i < count && before < limit; i++) {
        is_kept[order[i]] = true;
        before += di_exp_weight(z[order[i]]);
    }
}

static void check(const float *logits, int32_t n, const di_sampling_params *p, uint32_t round)
{
    bool is_kept[MOST];
    reference_filter(logits, n, p, is_kept);
    bench *b = open_bench(n, p, round);
    for (int64_t position = 0; position < 6; position++)
        assert_int_equal(
            draw(b, logits, position).token_id,
            reference_choice(logits, n, (float)p->temperature, round, (uint32_t)position, is_kept));
    close_bench(b);
}

static void choices(void **state)
{
    (void)state;
    static const int32_t sizes[] = {DI_PEAK_IDS - 1, DI_PEAK_IDS, DI_PEAK_IDS + 1, 4 * DI_PEAK_IDS,
                                    MOST};
    static const float spreads[] = {0.0f, 0.5f, 12.0f, 60.0f};
    static const double top_ps[] = {1.0, 0.95, 0.3, 0.0, 0.9999};
    static const int32_t top_ks[] = {0, 1, 3, 5, 40};
    float logits[MOST];
    for (uint32_t round = 0; round < 400; round++) {
        const int32_t n = sizes[round % 5];
        random_logits(round, n, spreads[round / 5 % 4], round % 3 ? 0.0f : 0.5f, logits);
        for (uint32_t i = 0; i < round % 4; i++) /* far above the rest */
            logits[random_bits(round, 1000 + i) % (uint32_t)n] += 8.0f;
        for (int32_t i = 0; round % 7 == 0 && i < n / 2; i++) /* whole blocks without a token */
            logits[i] = -INFINITY;
        const di_sampling_params p = {.temperature = round % 2 ? 1.0 : 0.6,
                                      .top_p = top_ps[round / 20 % 5],
                                      .top_k = top_ks[round / 100 % 5],
                                      .min_p = round % 11 ? 0.0 : 0.02,
                                      .repetition_penalty = 1.0,
                                      .n = 1,
                                      .max_tokens = -1,
                                      .n_logprobs = -1};
        check(logits, n, &p, round);
    }
}

/* Greedy: the lowest id of the largest, wherever it is. */
static void greedy(void **state)
{
    (void)state;
    const di_sampling_params p = {
        .top_p = 1.0, .repetition_penalty = 1.0, .n = 1, .n_logprobs = -1};
    float logits[MOST];
    for (int32_t i = 0; i < MOST; i++)
        logits[i] = -3.0f;
    for (int32_t i = MOST - 1; i >= 0; i--) {
        logits[i] = i % 2 ? 0.0f : -0.0f; /* equal */
        assert_int_equal(draw_once(logits, MOST, &p, 0, 0), i);
    }
}

/* Ranks, the largest tokens and the chosen one's place among equal values. */
static void logprobs(void **state)
{
    (void)state;
    enum { N_TOP = 3 };
    float logits[MOST];
    for (uint32_t round = 0; round < 40; round++) {
        int32_t order[MOST];
        random_logits(round, MOST, 5.0f, round % 2 ? 0.0f : 1.0f, logits);
        for (int32_t i = 0; i < MOST; i++)
            order[i] = i;
        order_of = logits;
        qsort(order, MOST, sizeof *order, compare_ids);
        di_sampler_workspace workspace;
        assert_int_equal(di_sampler_workspace_init(&workspace, MOST, NULL), DI_OK);
        const int32_t place = (int32_t)(random_bits(round, 1 << 20) % MOST);
        di_position_logprobs out;
        assert_int_equal(di_sample_given(&workspace, logits, 0, order[place], N_TOP, &out), DI_OK);
        assert_int_equal(out.n_entries, 1 + N_TOP);
        assert_int_equal(out.entries[0].rank, place + 1);
        for (int32_t i = 0; i < N_TOP; i++) {
            assert_int_equal(out.entries[1 + i].token_id, order[i]);
            assert_int_equal(out.entries[1 + i].rank, i + 1);
        }
        di_sampler_workspace_free(&workspace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices), cmocka_unit_test(greedy),
                                       cmocka_unit_test(logprobs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
