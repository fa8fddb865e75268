/* base/threads.h: every item once, in the same part every time. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>

#include "base/threads.h"

enum { MAX_ITEMS = 1000, MAX_THREADS = 9 };

typedef struct record {
    int n_done[MAX_ITEMS];
    int worker[MAX_ITEMS];
    pthread_t thread[MAX_THREADS];
    bool has_run[MAX_THREADS];
} record;

/* Parts do not overlap, so that no lock is needed. */
static void note(const void *args, int64_t begin, int64_t end, int worker)
{
    record *r = *(record *const *)args;
    r->thread[worker] = pthread_self();
    r->has_run[worker] = true;
    for (int64_t i = begin; i < end; i++) {
        r->n_done[i]++;
        r->worker[i] = worker;
    }
}

static void every_item_once(void **state)
{
    (void)state;
    const int64_t counts[] = {1, 2, 3, 8, 9, 10, 63, 64, 65, MAX_ITEMS};
    for (int n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        di_pool *pool;
        assert_int_equal(di_pool_create(n_threads, &pool), DI_OK);
        assert_int_equal(di_pool_n_threads(pool), n_threads);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            static record first, again;
            record *p = &first, *q = &again;
            memset(&first, 0, sizeof first);
            memset(&again, 0, sizeof again);
            di_pool_run(pool, note, &p, counts[c]);
            di_pool_run(pool, note, &q, counts[c]);
            int64_t largest = 0, size[MAX_THREADS] = {0};
            for (int64_t i = 0; i < MAX_ITEMS; i++) {
                assert_int_equal(first.n_done[i], i < counts[c]);
                assert_int_equal(first.worker[i], again.worker[i]); /* static split */
                assert_true(i == 0 || i >= counts[c] || first.worker[i] >= first.worker[i - 1]);
                if (i < counts[c])
                    size[first.worker[i]]++;
            }
            for (int t = 0; t < n_threads; t++)
                largest = size[t] > largest ? size[t] : largest;
            assert_int_equal(largest, (counts[c] + n_threads - 1) / n_threads); /* even */
        }
        di_pool_destroy(pool);
    }
}

static void the_caller_is_worker_0(void **state)
{
    (void)state;
    static record r;
    record *p = &r;
    di_pool *pool;
    assert_int_equal(di_pool_create(4, &pool), DI_OK);
    di_pool_run(pool, note, &p, 100);
    assert_true(pthread_equal(r.thread[0], pthread_self()));
    for (int t = 1; t < 4; t++) {
        assert_true(r.has_run[t]);
        for (int u = 0; u < t; u++)
            assert_false(pthread_equal(r.thread[t], r.thread[u]));
    }
    di_pool_destroy(pool);
}

static void no_items_is_nothing(void **state)
{
    (void)state;
    static record r;
    record *p = &r;
    di_pool *pool;
    assert_int_equal(di_pool_create(3, &pool), DI_OK);
    di_pool_run(pool, note, &p, 0);
    di_pool_run(pool, note, &p, -5);
    for (int t = 0; t < 3; t++)
        assert_false(r.has_run[t]);
    di_pool_destroy(pool);
    di_pool_destroy(NULL);
}

/* What one run wrote the next one reads, over many short runs. */
static void add_neighbours(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    int64_t *const *rows = args;
    for (int64_t i = begin; i < end; i++)
        rows[1][i] = rows[0][i] + rows[0][(i + 1) % 64];
}

static void runs_are_ordered(void **state)
{
    (void)state;
    int64_t a[64], b[64], expected[64], next[64];
    for (int i = 0; i < 64; i++)
        a[i] = expected[i] = i % 5;
    di_pool *pool;
    assert_int_equal(di_pool_create(4, &pool), DI_OK);
    for (int round = 0; round < 50; round++) {
        int64_t *forth[2] = {a, b}, *back[2] = {b, a};
        di_pool_run(pool, add_neighbours, round % 2 ? back : forth, 64);
        for (int i = 0; i < 64; i++)
            next[i] = expected[i] + expected[(i + 1) % 64];
        memcpy(expected, next, sizeof expected);
    }
    assert_memory_equal(a, expected, sizeof a);
    di_pool_destroy(pool);
}

static void bad_counts_are_refused(void **state)
{
    (void)state;
    di_pool *pool = NULL;
    assert_int_equal(di_pool_create(0, &pool), DI_ERR_ARGUMENT);
    assert_int_equal(di_pool_create(-1, &pool), DI_ERR_ARGUMENT);
    assert_int_equal(di_pool_create(4097, &pool), DI_ERR_ARGUMENT);
    assert_string_equal(di_last_error(), "threads: found 4097, wanted 1 to 4096");
    assert_null(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once), cmocka_unit_test(the_caller_is_worker_0),
        cmocka_unit_test(no_items_is_nothing), cmocka_unit_test(runs_are_ordered),
        cmocka_unit_test(bad_counts_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
