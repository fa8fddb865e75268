/* kv/block_pool.h: the three states of a block, their counts, the order of reuse, eviction. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdint.h>

#include "kv/block_pool.h"

enum { N = 6, GROUP = 3 };

typedef struct evictions {
    int n, group;
    int32_t nodes[N];
} evictions;

static void note_eviction(void *user, int group, int32_t node)
{
    evictions *e = user;
    e->group = group;
    e->nodes[e->n++] = node;
}

static di_block_pool make_pool(int64_t n_blocks, evictions *e)
{
    di_block_pool pool;
    assert_int_equal(di_block_pool_init(&pool, GROUP, n_blocks), DI_OK);
    pool.evict = note_eviction;
    pool.evict_user = e;
    return pool;
}

static void assert_counts(const di_block_pool *pool, int64_t n_free, int64_t n_cached)
{
    assert_int_equal(pool->n_free, n_free);
    assert_int_equal(pool->n_cached, n_cached);
    assert_int_equal(di_block_pool_available(pool), n_free + n_cached);
}

/* A cached block: one that had an owner and that the prefix cache knows under `node`. */
static int32_t cache_block(di_block_pool *pool, int32_t node)
{
    const int32_t block = di_block_pool_take(pool);
    di_block_pool_set_node(pool, block, node);
    di_block_pool_unref(pool, block);
    return block;
}

static void an_empty_pool(void **state)
{
    (void)state;
    evictions e = {0};
    di_block_pool pool = make_pool(0, &e);
    assert_counts(&pool, 0, 0);
    assert_int_equal(pool.first_free, -1);
    di_block_pool_free(&pool);
    assert_null(pool.blocks);
    di_block_pool_free(&pool); /* again is fine */
}

static void every_block_is_taken_once(void **state)
{
    (void)state;
    evictions e = {0};
    di_block_pool pool = make_pool(N, &e);
    bool is_taken[N] = {false};
    for (int i = 0; i < N; i++) {
        assert_counts(&pool, N - i, 0);
        const int32_t block = di_block_pool_take(&pool);
        assert_in_range(block, 0, N - 1);
        assert_false(is_taken[block]);
        is_taken[block] = true;
        assert_int_equal(pool.blocks[block].n_owners, 1);
        assert_int_equal(pool.blocks[block].node, -1);
    }
    assert_counts(&pool, 0, 0);
    for (int32_t i = 0; i < N; i++)
        di_block_pool_unref(&pool, i);
    assert_counts(&pool, N, 0);
    assert_int_equal(e.n, 0);
    di_block_pool_free(&pool);
}

static void owners_are_counted(void **state)
{
    (void)state;
    evictions e = {0};
    di_block_pool pool = make_pool(N, &e);
    const int32_t block = di_block_pool_take(&pool);
    di_block_pool_ref(&pool, block);
    di_block_pool_ref(&pool, block);
    assert_int_equal(pool.blocks[block].n_owners, 3);
    for (int32_t left = 2; left > 0; left--) {
        di_block_pool_unref(&pool, block);
        assert_int_equal(pool.blocks[block].n_owners, left);
        assert_counts(&pool, N - 1, 0);
    }
    di_block_pool_unref(&pool, block);
    assert_counts(&pool, N, 0);
    di_block_pool_free(&pool);
}

static void known_blocks_are_cached(void **state)
{
    (void)state;
    evictions e = {0};
    di_block_pool pool = make_pool(N, &e);
    const int32_t block = cache_block(&pool, 17);
    assert_counts(&pool, N - 1, 1);
    assert_int_equal(pool.blocks[block].node, 17);
    di_block_pool_ref(&pool, block); /* a hit: used again */
    assert_counts(&pool, N - 1, 0);
    assert_int_equal(pool.blocks[block].n_owners, 1);
    assert_int_equal(pool.blocks[block].node, 17);
    di_block_pool_forget(&pool, block); /* forgotten while used: free once it has no owner */
    assert_counts(&pool, N - 1, 0);
    di_block_pool_unref(&pool, block);
    assert_counts(&pool, N, 0);
    di_block_pool_forget(&pool, cache_block(&pool, 18)); /* forgotten while cached */
    assert_counts(&pool, N, 0);
    assert_int_equal(e.n, 0); /* who forgets needs no telling */
    di_block_pool_free(&pool);
}

/* Free blocks go first, then cached ones, those first whose last use is longest ago. */
static void the_least_recently_used_is_evicted(void **state)
{
    (void)state;
    evictions e = {0};
    di_block_pool pool = make_pool(4, &e);
    int32_t blocks[4];
    for (int i = 0; i < 4; i++) { /* all at once: each cache_block would take the same one */
        blocks[i] = di_block_pool_take(&pool);
        di_block_pool_set_node(&pool, blocks[i], 100 + i);
    }
    for (int i = 0; i < 3; i++)
        di_block_pool_unref(&pool, blocks[i]); /* cached: 0, 1, 2 */
    di_block_pool_forget(&pool, blocks[3]);
    di_block_pool_unref(&pool, blocks[3]); /* free */
    di_block_pool_ref(&pool, blocks[0]);
    di_block_pool_unref(&pool, blocks[0]); /* used again: now 1, 2, 0 */
    assert_counts(&pool, 1, 3);

    assert_int_equal(di_block_pool_take(&pool), blocks[3]);
    assert_int_equal(e.n, 0);
    const int order[] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(di_block_pool_take(&pool), blocks[order[i]]);
        assert_int_equal(e.n, i + 1);
        assert_int_equal(e.nodes[i], 100 + order[i]);
        assert_int_equal(e.group, GROUP);
        assert_int_equal(pool.blocks[blocks[order[i]]].n_owners, 1);
        assert_int_equal(pool.blocks[blocks[order[i]]].node, -1);
    }
    assert_counts(&pool, 0, 0);
    di_block_pool_free(&pool);
}

/* From both ends and the middle of the cached list. */
static void hits_leave_the_list_whole(void **state)
{
    (void)state;
    for (int hit = 0; hit < 3; hit++) {
        evictions e = {0};
        di_block_pool pool = make_pool(3, &e);
        int32_t blocks[3];
        for (int i = 0; i < 3; i++) {
            blocks[i] = di_block_pool_take(&pool);
            di_block_pool_set_node(&pool, blocks[i], i);
        }
        for (int i = 0; i < 3; i++)
            di_block_pool_unref(&pool, blocks[i]);
        di_block_pool_ref(&pool, blocks[hit]);
        assert_counts(&pool, 0, 2);
        int next = 0;
        for (int i = 0; i < 3; i++)
            if (i != hit) {
                assert_int_equal(di_block_pool_take(&pool), blocks[i]);
                assert_int_equal(e.nodes[next++], i);
            }
        assert_counts(&pool, 0, 0);
        di_block_pool_free(&pool);
    }
}

static void too_many_blocks(void **state)
{
    (void)state;
    di_block_pool pool;
    assert_int_equal(di_block_pool_init(&pool, 0, INT64_MAX / 64), DI_ERR_MEMORY);
    assert_non_null(di_last_error());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_pool),
        cmocka_unit_test(every_block_is_taken_once),
        cmocka_unit_test(owners_are_counted),
        cmocka_unit_test(known_blocks_are_cached),
        cmocka_unit_test(the_least_recently_used_is_evicted),
        cmocka_unit_test(hits_leave_the_list_whole),
        cmocka_unit_test(too_many_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
