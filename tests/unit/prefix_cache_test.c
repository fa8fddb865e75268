/* kv/prefix_cache.h: what a lookup finds, at which places, after evictions, and never by hash
 * alone. On bookkeeping without memory for entries. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "base/strmap.h"
#include "kv/prefix_cache.h"

enum { B = DI_KV_BLOCK_TOKENS, WINDOW = 100, REACH = 2 /* blocks of a window */ };

typedef struct fixture {
    di_kv_cache kv;
    di_prefix_cache cache;
} fixture;

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

/* A window layer, a ratio-2 source, a ratio-1 source. */
static void start(fixture *f, di_prefix_mode mode, int64_t seam_blocks, int64_t n_windows,
                  int64_t n_blocks)
{
    static di_config c;
    c.n_layers = 3;
    c.head_dim = 64;
    c.index_head_dim = 32;
    c.sliding_window = WINDOW;
    c.compress_ratios[1] = 2;
    c.compress_ratios[2] = 1;
    c.is_kv_source[1] = c.is_kv_source[2] = true;
    const int64_t blocks[DI_MAX_KV_GROUPS] = {n_windows, n_blocks, n_blocks};
    require(di_kv_cache_init_dry(&c, false, blocks, &f->kv));
    require(di_prefix_cache_init(&f->kv, mode, seam_blocks, &f->cache));
}

static void stop(fixture *f)
{
    for (int g = 0; g < f->kv.layout.n_groups; g++) /* nothing is owned any more */
        assert_int_equal(di_block_pool_available(&f->kv.pools[g]), f->kv.pools[g].n_blocks);
    di_prefix_cache_free(&f->cache);
    di_kv_cache_free(&f->kv);
}

/* Token i of a stream. */
static void fill(int32_t *tokens, int64_t from, int64_t to, int stream)
{
    for (int64_t i = from; i < to; i++)
        tokens[i] = (int32_t)(stream * 100000 + i);
}

/* A prompt that is computed in one go, after a hit, and ends; returns what was found. */
static int64_t run(fixture *f, const int32_t *tokens, int64_t n)
{
    di_kv_seq seq = {.len = 0};
    di_prefix_hit hit;
    require(di_prefix_cache_adopt(&f->cache, &seq, tokens, n, &hit));
    assert_int_equal(seq.len, hit.replay_from);
    require(di_kv_seq_extend(&f->kv, &seq, n));
    require(di_prefix_cache_register(&f->cache, &seq, tokens, n, n, false));
    require(di_prefix_cache_register(&f->cache, &seq, tokens, n, n, true));
    di_kv_seq_release(&f->kv, &seq);
    return hit.n_tokens;
}

static int64_t lookup(fixture *f, const int32_t *tokens, int64_t n)
{
    di_kv_seq seq = {.len = 0};
    di_prefix_hit hit;
    require(di_prefix_cache_adopt(&f->cache, &seq, tokens, n, &hit));
    assert_int_equal(seq.len, hit.n_tokens);
    di_kv_seq_release(&f->kv, &seq);
    return hit.n_tokens;
}

static void ends_of_prompts_are_found(void **state)
{
    (void)state;
    fixture f;
    start(&f, DI_PREFIX_EXACT, 0, 64, 64);
    int32_t tokens[20 * B];
    fill(tokens, 0, 20 * B, 1);
    assert_int_equal(run(&f, tokens, 5 * B + 7), 0);
    assert_int_equal(lookup(&f, tokens, 5 * B + 7), 5 * B);
    assert_int_equal(lookup(&f, tokens, 20 * B), 5 * B);
    assert_int_equal(lookup(&f, tokens, 5 * B + 1), 5 * B);
    assert_int_equal(lookup(&f, tokens, 5 * B), 0); /* one token is left: block 2 has no window */
    assert_int_equal(lookup(&f, tokens, B), 0);
    assert_int_equal(lookup(&f, tokens, 1), 0);
    tokens[3 * B + 5]++; /* other tokens in block 3: its window is not kept before it */
    assert_int_equal(lookup(&f, tokens, 5 * B + 7), 0);
    tokens[3 * B + 5]--;
    tokens[0]++;
    assert_int_equal(lookup(&f, tokens, 5 * B + 7), 0);
    stop(&f);
}

static void a_hit_shares_the_blocks(void **state)
{
    (void)state;
    fixture f;
    start(&f, DI_PREFIX_EXACT, 0, 64, 64);
    int32_t tokens[6 * B];
    fill(tokens, 0, 6 * B, 1);
    run(&f, tokens, 4 * B + 1);
    di_kv_seq a = {.len = 0}, b = {.len = 0};
    di_prefix_hit hit;
    require(di_prefix_cache_adopt(&f.cache, &a, tokens, 6 * B, &hit));
    require(di_prefix_cache_adopt(&f.cache, &b, tokens, 6 * B, &hit));
    assert_int_equal(hit.n_tokens, 4 * B);
    assert_int_equal(a.write_floor, 4 * B);
    assert_int_equal(a.first_block[0], 4 - REACH);
    for (int g = 0; g < f.kv.layout.n_groups; g++) {
        for (int64_t i = 0; i < 4; i++) {
            assert_int_equal(a.tables[g][i], b.tables[g][i]);
            if (i < a.first_block[g])
                assert_int_equal(a.tables[g][i], -1);
            else
                assert_int_equal(f.kv.pools[g].blocks[a.tables[g][i]].n_owners, 2);
        }
        assert_int_equal(f.kv.pools[g].n_free + f.kv.pools[g].n_cached,
                         f.kv.pools[g].n_blocks - (g == 0 ? REACH : 4));
    }
    di_kv_seq_release(&f.kv, &a);
    assert_int_equal(f.kv.pools[1].blocks[b.tables[1][0]].n_owners, 1);
    di_kv_seq_release(&f.kv, &b);
    stop(&f);
}

static void windows_are_kept_at_intervals(void **state)
{
    (void)state;
    fixture f;
    start(&f, DI_PREFIX_EXACT, 4, 64, 64);
    int32_t tokens[12 * B];
    fill(tokens, 0, 12 * B, 1);
    run(&f, tokens, 10 * B + 1);
    for (int64_t n = 1; n <= 10; n++) { /* n blocks alike, then others */
        int32_t other[12 * B];
        memcpy(other, tokens, sizeof other);
        fill(other, n * B, 12 * B, 2);
        assert_int_equal(lookup(&f, other, 12 * B), (n >= 9 ? n : n / 4 * 4) * B);
    }
    stop(&f);
}

/* Three prompts with one beginning: the second marks the place, the third hits. */
static void a_fork_is_found_the_third_time(void **state)
{
    (void)state;
    fixture f;
    start(&f, DI_PREFIX_EXACT, 0, 64, 64);
    int32_t tokens[3][9 * B];
    for (int i = 0; i < 3; i++) {
        fill(tokens[i], 0, 9 * B, 1);
        fill(tokens[i], 5 * B + 20, 9 * B, 2 + i);
    }
    assert_int_equal(run(&f, tokens[0], 9 * B), 0);
    assert_int_equal(run(&f, tokens[1], 9 * B), 0);
    assert_int_equal(run(&f, tokens[2], 9 * B), 5 * B);
    for (int i = 0; i < 3; i++) /* and each as a whole, as before */
        assert_int_equal(lookup(&f, tokens[i], 9 * B + 0), 8 * B);
    stop(&f);
}

/* Two blocks of the same hash bucket: only their tokens tell them apart. */
static void equal_hashes_are_not_equal_tokens(void **state)
{
    (void)state;
    fixture f;
    start(&f, DI_PREFIX_EXACT, 0, 64, 64);
    int32_t a[B + 1], b[B + 1];
    fill(a, 0, B + 1, 1);
    fill(b, 0, B + 1, 2);
    const uint64_t mask = f.cache.n_buckets - 1;
    const uint64_t wanted = di_hash_bytes(a, B * sizeof *a) & mask;
    while ((di_hash_bytes(b, B * sizeof *b) & mask) != wanted)
        b[B - 1]++;
    run(&f, a, B + 1);
    assert_int_equal(lookup(&f, a, B + 1), B);
    assert_int_equal(lookup(&f, b, B + 1), 0);
    run(&f, b, B + 1);
    assert_int_equal(lookup(&f, a, B + 1), B);
    assert_int_equal(lookup(&f, b, B + 1), B);
    di_kv_seq of_a = {.len = 0}, of_b = {.len = 0};
    di_prefix_hit hit;
    require(di_prefix_cache_adopt(&f.cache, &of_a, a, B + 1, &hit));
    require(di_prefix_cache_adopt(&f.cache, &of_b, b, B + 1, &hit));
    assert_int_not_equal(of_a.tables[1][0], of_b.tables[1][0]);
    di_kv_seq_release(&f.kv, &of_a);
    di_kv_seq_release(&f.kv, &of_b);
    stop(&f);
}

/* Many nodes: the buckets grow, everything is still found. */
static void buckets_grow(void **state)
{
    (void)state;
    enum { N_PROMPTS = 150, N_TOKENS = 3 * B };
    fixture f;
    start(&f, DI_PREFIX_EXACT, 1, 600, 600);
    const size_t before = f.cache.n_buckets;
    int32_t tokens[N_TOKENS + 1];
    for (int i = 0; i < N_PROMPTS; i++) {
        fill(tokens, 0, N_TOKENS + 1, i);
        assert_int_equal(run(&f, tokens, N_TOKENS + 1), 0);
    }
    assert_true(f.cache.n_buckets > before);
    for (int i = 0; i < N_PROMPTS; i++) {
        fill(tokens, 0, N_TOKENS + 1, i);
        assert_int_equal(lookup(&f, tokens, N_TOKENS + 1), N_TOKENS);
    }
    stop(&f);
}

/* The pools are the budget: new prompts take the blocks whose use is longest ago, and the cache
 * forgets what it lost. */
static void the_oldest_prompt_goes_first(void **state)
{
    (void)state;
    fixture f;
    start(&f, DI_PREFIX_EXACT, 0, 64, 12); /* three prompts of 4 blocks */
    int32_t tokens[4][4 * B];
    for (int i = 0; i < 4; i++)
        fill(tokens[i], 0, 4 * B, i);
    for (int i = 0; i < 3; i++)
        run(&f, tokens[i], 4 * B);
    assert_int_equal(lookup(&f, tokens[0], 4 * B), 3 * B); /* used again */
    assert_int_equal(run(&f, tokens[3], 4 * B), 0);
    assert_int_equal(lookup(&f, tokens[0], 4 * B), 3 * B);
    assert_true(lookup(&f, tokens[1], 4 * B) < 3 * B);
    assert_int_equal(lookup(&f, tokens[3], 4 * B), 3 * B);
    int64_t n_known = 0;
    for (size_t i = 0; i < f.cache.n_nodes; i++)
        n_known += f.cache.nodes[i].id != 0;
    assert_true(n_known <= 12);
    stop(&f);
}

/* Windows are evicted alone: the compressed entries stay, an exact hit is gone, a replay is not. */
static void without_windows(void **state)
{
    (void)state;
    for (int mode = DI_PREFIX_EXACT; mode <= DI_PREFIX_REPLAY; mode++) {
        fixture f;
        start(&f, (di_prefix_mode)mode, 0, 12, 64);
        int32_t tokens[2][12 * B];
        fill(tokens[0], 0, 12 * B, 1);
        fill(tokens[1], 0, 12 * B, 2);
        run(&f, tokens[0], 8 * B + 1);
        run(&f, tokens[1], 12 * B); /* all windows at once */
        di_kv_seq seq = {.len = 0};
        di_prefix_hit hit;
        require(di_prefix_cache_adopt(&f.cache, &seq, tokens[0], 8 * B + 1, &hit));
        const bool replays = mode == DI_PREFIX_REPLAY;
        assert_int_equal(hit.n_tokens, replays ? 8 * B : 0);
        assert_int_equal(hit.replay_from, replays ? (8 - REACH) * B : 0);
        assert_int_equal(seq.window_floor, replays ? (8 - REACH) * B : 0);
        assert_int_equal(seq.write_floor, replays ? 8 * B : 0);
        assert_int_equal(seq.fork_block, replays ? 0 : 8);
        di_kv_seq_release(&f.kv, &seq);
        stop(&f);
    }
}

static void off_and_flushed(void **state)
{
    (void)state;
    int32_t tokens[4 * B];
    fill(tokens, 0, 4 * B, 1);
    fixture f;
    start(&f, DI_PREFIX_OFF, 1, 64, 64);
    run(&f, tokens, 4 * B);
    assert_int_equal(lookup(&f, tokens, 4 * B), 0);
    assert_int_equal(f.cache.n_nodes, 0);
    stop(&f);

    start(&f, DI_PREFIX_EXACT, 1, 64, 64);
    run(&f, tokens, 4 * B);
    assert_int_equal(lookup(&f, tokens, 4 * B), 3 * B);
    di_prefix_cache_flush(&f.cache);
    assert_int_equal(lookup(&f, tokens, 4 * B), 0);
    for (int g = 0; g < f.kv.layout.n_groups; g++) {
        assert_int_equal(f.kv.pools[g].n_cached, 0);
        assert_int_equal(f.kv.pools[g].n_free, 64);
    }
    run(&f, tokens, 4 * B); /* the nodes are used again */
    assert_int_equal(f.cache.n_nodes, 4);
    assert_int_equal(lookup(&f, tokens, 4 * B), 3 * B);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_prompts_are_found),
        cmocka_unit_test(a_hit_shares_the_blocks),
        cmocka_unit_test(windows_are_kept_at_intervals),
        cmocka_unit_test(a_fork_is_found_the_third_time),
        cmocka_unit_test(equal_hashes_are_not_equal_tokens),
        cmocka_unit_test(buckets_grow),
        cmocka_unit_test(the_oldest_prompt_goes_first),
        cmocka_unit_test(without_windows),
        cmocka_unit_test(off_and_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
