/* kv/cache.h: stores do not overlap, block tables, blocks given back, a full pool, and random
 * extending and releasing against a naive model. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/checked.h"
#include "kv/cache.h"
#include "random.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

/* Two window layers, two ratio-2 layers (2 a source), one ratio-1 source, one ratio-2 source, two
 * draft blocks. */
static const di_config *small_config(int64_t window)
{
    static di_config c;
    memset(&c, 0, sizeof c);
    c.n_layers = 6;
    c.n_draft_blocks = 2;
    c.head_dim = 64;
    c.index_head_dim = 32;
    c.sliding_window = window;
    const int ratios[] = {0, 0, 2, 2, 1, 2};
    memcpy(c.compress_ratios, ratios, sizeof ratios);
    c.is_kv_source[2] = c.is_kv_source[4] = c.is_kv_source[5] = true;
    return &c;
}

static di_kv_cache make_cache(int64_t window, int64_t n_blocks)
{
    const int64_t blocks[DI_MAX_KV_GROUPS] = {n_blocks, n_blocks, n_blocks};
    di_kv_cache cache;
    require(di_kv_cache_init(small_config(window), true, blocks, &cache));
    return cache;
}

/* ------------------------------------------------------------------- stores */

/* Marks every byte of every entry of every store; each byte of each pool is marked once. */
static void stores_cover_the_pools_without_overlap(void **state)
{
    (void)state;
    enum { N_BLOCKS = 3 };
    di_kv_cache cache = make_cache(16, N_BLOCKS);
    const di_config *c = small_config(16);
    int64_t n_bytes = 0;
    for (int layer = 0; layer < c->n_layers + c->n_draft_blocks; layer++) {
        for (int s = 0; s < DI_N_KV_STORES; s++) {
            if (s != DI_KV_WINDOW && !c->is_kv_source[layer])
                continue;
            const di_paged_out out = di_kv_cache_store(&cache, layer, (di_kv_store)s);
            const di_paged in = di_kv_cache_view(&cache, layer, (di_kv_store)s);
            assert_ptr_equal(in.data, out.data);
            assert_int_equal(in.block_len, out.block_len);
            for (int64_t slot = 0; slot < (int64_t)N_BLOCKS * out.block_len; slot++) {
                uint8_t *codes = (uint8_t *)di_paged_codes(&in, slot);
                uint8_t *scales = (uint8_t *)di_paged_scales(&in, slot);
                for (int i = 0; i < in.code_bytes; i++)
                    codes[i]++;
                for (int i = 0; i < in.scale_bytes; i++)
                    scales[i]++;
                n_bytes += in.code_bytes + in.scale_bytes;
            }
        }
    }
    int64_t n_pool_bytes = 0;
    for (int g = 0; g < cache.layout.n_groups; g++) {
        const int64_t bytes = N_BLOCKS * cache.layout.groups[g].block_bytes;
        n_pool_bytes += bytes;
        for (int64_t i = 0; i < bytes; i++)
            if (cache.data[g][i] != 1)
                fail_msg("group %d: byte %d is in %d entries", g, (int)i, cache.data[g][i]);
    }
    assert_int_equal(n_bytes, n_pool_bytes);
    di_kv_cache_free(&cache);
}

/* ------------------------------------------------------------------- tables and slots */

static void slots_follow_the_tables(void **state)
{
    (void)state;
    di_kv_cache cache = make_cache(200, 8);
    di_kv_seq seq;
    seq = (di_kv_seq){.len = 0};
    require(di_kv_seq_extend(&cache, &seq, 130));
    assert_int_equal(seq.len, 130);
    assert_int_equal(seq.n_blocks, 3);
    for (int g = 0; g < cache.layout.n_groups; g++) {
        const int ratio = cache.layout.groups[g].ratio;
        const int block_len = DI_KV_BLOCK_TOKENS / ratio;
        for (int64_t t = 0; t < 130; t++) {
            const int64_t slot = di_kv_seq_slot(&cache, &seq, g, t);
            if ((t + 1) % ratio) { /* the token completes no entry */
                assert_int_equal(slot, -1);
                continue;
            }
            const int64_t entry = t / ratio;
            assert_int_equal(slot / block_len, seq.tables[g][t / DI_KV_BLOCK_TOKENS]);
            assert_int_equal(slot % block_len, entry % block_len);
        }
    }
    di_kv_seq_release(&cache, &seq);
    di_kv_cache_free(&cache);
}

/* The next row is `len`; it sees positions len - window + 1 .. len. */
static void window_blocks_are_given_back_when_no_row_sees_them(void **state)
{
    (void)state;
    enum { WINDOW = 16 };
    di_kv_cache cache = make_cache(WINDOW, 8);
    di_kv_seq seq;
    seq = (di_kv_seq){.len = 0};
    for (int64_t len = 1; len <= 8 * DI_KV_BLOCK_TOKENS; len++) {
        require(di_kv_seq_extend(&cache, &seq, len));
        const int64_t oldest = di_max_i64(0, len - 1 - WINDOW + 1); /* seen by row len - 1 */
        for (int g = 0; g < cache.layout.n_groups; g++) {
            const bool is_window = cache.layout.groups[g].is_window;
            const int64_t first = is_window ? oldest / DI_KV_BLOCK_TOKENS : 0;
            assert_int_equal(seq.first_block[g], first);
            for (int64_t b = 0; b < seq.n_blocks; b++)
                assert_true(b < first ? seq.tables[g][b] == -1 : seq.tables[g][b] >= 0);
            assert_int_equal(cache.pools[g].n_free, 8 - (seq.n_blocks - first));
        }
    }
    di_kv_seq_release(&cache, &seq);
    for (int g = 0; g < cache.layout.n_groups; g++)
        assert_int_equal(cache.pools[g].n_free, 8);
    di_kv_cache_free(&cache);
}

/* A window pool of di_kv_blocks_for's size lasts for the whole context at any chunk size. */
static void planned_window_pool_is_enough(void **state)
{
    (void)state;
    const int64_t windows[] = {1, 5, 16, 63, 64, 65, 128, 200};
    const int64_t steps[] = {1, 2, 7, 63, 64, 65, 100, 256};
    for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++) {
        for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
            const di_config *c = small_config(windows[w]);
            di_kv_layout layout;
            di_kv_layout_init(c, false, &layout);
            enum { CONTEXT = 1500 };
            int64_t blocks[DI_MAX_KV_GROUPS];
            for (int g = 0; g < layout.n_groups; g++)
                blocks[g] = di_kv_blocks_for(&layout, c, g, CONTEXT, steps[s]);
            di_kv_cache cache;
            require(di_kv_cache_init(c, false, blocks, &cache));
            di_kv_seq seq;
            seq = (di_kv_seq){.len = 0};
            while (seq.len < CONTEXT)
                require(di_kv_seq_extend(&cache, &seq, di_min_i64(CONTEXT, seq.len + steps[s])));
            di_kv_seq_release(&cache, &seq);
            di_kv_cache_free(&cache);
        }
    }
}

/* ------------------------------------------------------------------- a full pool */

static void a_full_pool_leaves_the_sequence_as_it_was(void **state)
{
    (void)state;
    di_kv_cache cache = make_cache(1000, 4);
    di_kv_seq a, b;
    a = (di_kv_seq){.len = 0};
    b = (di_kv_seq){.len = 0};
    require(di_kv_seq_extend(&cache, &a, 150)); /* three blocks */
    int32_t before[DI_MAX_KV_GROUPS][3];
    for (int g = 0; g < cache.layout.n_groups; g++)
        memcpy(before[g], a.tables[g], sizeof before[g]);
    assert_int_equal(di_kv_seq_extend(&cache, &a, 64 * 5 + 1), DI_ERR_MEMORY);
    assert_string_equal(di_last_error(),
                        "KV cache full: wanted 3 blocks of 64 tokens, 1 available");
    assert_int_equal(di_kv_seq_extend(&cache, &b, 65), DI_ERR_MEMORY);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.n_blocks, 0);
    assert_int_equal(a.len, 150);
    assert_int_equal(a.n_blocks, 3);
    for (int g = 0; g < cache.layout.n_groups; g++) {
        assert_memory_equal(before[g], a.tables[g], sizeof before[g]);
        assert_int_equal(cache.pools[g].n_free, 1);
    }
    require(di_kv_seq_extend(&cache, &a, 256)); /* exactly what is left */
    di_kv_seq_release(&cache, &a);
    require(di_kv_seq_extend(&cache, &b, 256));
    di_kv_seq_release(&cache, &b);
    di_kv_cache_free(&cache);
}

/* Room for each alone but not for both: neither changes. */
static void reserving_is_all_or_nothing(void **state)
{
    (void)state;
    di_kv_cache cache = make_cache(1000, 4);
    di_kv_seq a = {.len = 0}, b = {.len = 0};
    di_kv_seq *const seqs[] = {&a, &b};
    require(di_kv_seq_extend(&cache, &a, 70));
    const int64_t too_long[] = {192, 128};
    assert_int_equal(di_kv_cache_reserve(&cache, seqs, too_long, 2), DI_ERR_MEMORY);
    assert_string_equal(di_last_error(),
                        "KV cache full: wanted 3 blocks of 64 tokens, 2 available");
    assert_int_equal(a.len, 70);
    assert_int_equal(b.len, 0);
    for (int g = 0; g < cache.layout.n_groups; g++)
        assert_int_equal(cache.pools[g].n_free, 2);
    const int64_t fitting[] = {192, 64};
    require(di_kv_cache_reserve(&cache, seqs, fitting, 2));
    for (int i = 0; i < 2; i++)
        require(di_kv_seq_extend(&cache, seqs[i], fitting[i]));
    di_kv_seq_release(&cache, &a);
    di_kv_seq_release(&cache, &b);
    di_kv_cache_free(&cache);
}

/* ------------------------------------------------------------------- against a naive model */

/* Of a fork and what it came from, the first to go on copies the last block, and whoever makes the
 * passes must tell the device its new id. */
static void a_shared_last_block_is_copied_and_told_anew(void **state)
{
    (void)state;
    di_kv_cache cache = make_cache(200, 8);
    di_kv_seq a = {.len = 0}, b;
    require(di_kv_seq_extend(&cache, &a, 100));
    require(di_kv_seq_extend(&cache, &a, 101)); /* within its last block */
    assert_int_equal(cache.n_copies, 0);
    a.n_given = a.n_blocks;
    require(di_kv_seq_fork(&cache, &a, &b));
    assert_int_equal(b.n_given, 0);
    require(di_kv_seq_extend(&cache, &a, 102));
    assert_int_equal(a.n_given, 1);
    assert_int_equal(cache.n_copies, cache.layout.n_groups);
    for (int g = 0; g < cache.layout.n_groups; g++) {
        assert_int_equal(a.tables[g][0], b.tables[g][0]);
        assert_int_equal(cache.copies[g].from, b.tables[g][1]);
        assert_int_equal(cache.copies[g].to, a.tables[g][1]);
        assert_int_not_equal(a.tables[g][1], b.tables[g][1]);
    }
    require(di_kv_seq_extend(&cache, &b, 128)); /* now its own */
    require(di_kv_seq_extend(&cache, &a, 128));
    assert_int_equal(cache.n_copies, cache.layout.n_groups);
    a.n_given = a.n_blocks;
    require(di_kv_seq_extend(&cache, &a, 129));
    assert_int_equal(a.n_given, 2);
    di_kv_seq_release(&cache, &a);
    di_kv_seq_release(&cache, &b);
    di_kv_cache_free(&cache);
}

enum { N_SEQS = 5, N_POOL_BLOCKS = 24, N_STEPS = 4000, WINDOW = 70 };

typedef struct naive_seq {
    bool is_open;
    int64_t len;
    di_kv_seq seq;
} naive_seq;

static int64_t needed_blocks(const di_kv_cache *cache, int g, int64_t len_before, int64_t len)
{
    const int64_t n = di_ceil_div(len, DI_KV_BLOCK_TOKENS);
    if (!cache->layout.groups[g].is_window)
        return n;
    return n - di_max_i64(0, len_before - WINDOW + 1) / DI_KV_BLOCK_TOKENS;
}

/* No block belongs to two sequences, and owned + free = all. */
static void check_ownership(const di_kv_cache *cache, const naive_seq *seqs)
{
    for (int g = 0; g < cache->layout.n_groups; g++) {
        int n_owners[N_POOL_BLOCKS] = {0};
        for (int s = 0; s < N_SEQS; s++) {
            if (!seqs[s].is_open)
                continue;
            const di_kv_seq *seq = &seqs[s].seq;
            for (int64_t b = seq->first_block[g]; b < seq->n_blocks; b++)
                n_owners[seq->tables[g][b]]++;
        }
        const di_block_pool *pool = &cache->pools[g];
        for (int32_t b = pool->first_free; b >= 0; b = pool->blocks[b].next)
            n_owners[b]++;
        for (int b = 0; b < N_POOL_BLOCKS; b++)
            assert_int_equal(n_owners[b], 1);
    }
}

static void extend_randomly(di_kv_cache *cache, naive_seq *s, di_rng *rng)
{
    if (!s->is_open) {
        s->seq = (di_kv_seq){.len = 0};
        s->is_open = true;
        s->len = 0;
    }
    const int64_t new_len = s->len + di_rng_between(rng, 1, di_rng_below(rng, 4) ? 20 : 400);
    bool fits = true;
    for (int g = 0; g < cache->layout.n_groups; g++) {
        /* blocks that leave the window come free before new ones are taken */
        const int64_t owned = s->seq.n_blocks - s->seq.first_block[g];
        fits &= needed_blocks(cache, g, s->len, new_len) - owned <= cache->pools[g].n_free;
    }
    const di_status status = di_kv_seq_extend(cache, &s->seq, new_len);
    assert_int_equal(status, fits ? DI_OK : DI_ERR_MEMORY);
    s->len = fits ? new_len : s->len;
    assert_int_equal(s->seq.len, s->len);
}

static void random_extend_and_release(void **state)
{
    (void)state;
    di_rng rng = di_rng_named("extend and release");
    di_kv_cache cache = make_cache(WINDOW, N_POOL_BLOCKS);
    naive_seq seqs[N_SEQS] = {{false}};
    int n_refused = 0;
    for (int step = 0; step < N_STEPS; step++) {
        naive_seq *s = &seqs[di_rng_below(&rng, N_SEQS)];
        if (s->is_open && di_rng_below(&rng, 12) == 0) {
            di_kv_seq_release(&cache, &s->seq);
            s->is_open = false;
        } else {
            const int64_t before = s->is_open ? s->len : 0;
            extend_randomly(&cache, s, &rng);
            n_refused += s->len == before;
        }
        check_ownership(&cache, seqs);
    }
    assert_true(n_refused > 0 && n_refused < N_STEPS / 2); /* both paths were taken */
    for (int s = 0; s < N_SEQS; s++)
        if (seqs[s].is_open)
            di_kv_seq_release(&cache, &seqs[s].seq);
    for (int g = 0; g < cache.layout.n_groups; g++)
        assert_int_equal(cache.pools[g].n_free, N_POOL_BLOCKS);
    di_kv_cache_free(&cache);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_cover_the_pools_without_overlap),
        cmocka_unit_test(slots_follow_the_tables),
        cmocka_unit_test(window_blocks_are_given_back_when_no_row_sees_them),
        cmocka_unit_test(planned_window_pool_is_enough),
        cmocka_unit_test(a_full_pool_leaves_the_sequence_as_it_was),
        cmocka_unit_test(reserving_is_all_or_nothing),
        cmocka_unit_test(a_shared_last_block_is_copied_and_told_anew),
        cmocka_unit_test(random_extend_and_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
