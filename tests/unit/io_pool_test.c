/* weights/io_pool.h: every job once, in order, refused where there is no room, dropped at the end.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "weights/io_pool.h"

enum { MAX_JOBS = 500 };

/* Jobs wait at the gate until it is open. */
typedef struct record {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    int n_inside; /* jobs that have come to the gate */
    int n;
    int64_t a[MAX_JOBS], b[MAX_JOBS];
} record;

static void record_init(record *r, bool is_open)
{
    *r = (record){.is_open = is_open};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
}

static void record_free(record *r)
{
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
}

static void note(void *user, int64_t a, int64_t b)
{
    record *r = user;
    pthread_mutex_lock(&r->lock);
    r->n_inside++;
    pthread_cond_broadcast(&r->changed);
    while (!r->is_open)
        pthread_cond_wait(&r->changed, &r->lock);
    r->a[r->n] = a;
    r->b[r->n++] = b;
    pthread_mutex_unlock(&r->lock);
}

static void wait_inside(record *r, int n)
{
    pthread_mutex_lock(&r->lock);
    while (r->n_inside < n)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void open_gate(record *r)
{
    pthread_mutex_lock(&r->lock);
    r->is_open = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void one_thread_keeps_the_order(void **state)
{
    (void)state;
    record r;
    di_io_pool *pool;
    record_init(&r, true);
    assert_int_equal(di_io_pool_create(1, MAX_JOBS, &pool), DI_OK);
    di_io_job jobs[7];
    for (int i = 0; i < 350; i += 7) {
        for (int j = 0; j < 7; j++)
            jobs[j] = (di_io_job){note, &r, i + j, -(i + j)};
        assert_int_equal(di_io_pool_push(pool, jobs, 7), 7);
    }
    di_io_pool_drain(pool);
    assert_int_equal(r.n, 350);
    for (int i = 0; i < 350; i++) {
        assert_int_equal(r.a[i], i);
        assert_int_equal(r.b[i], -i);
    }
    di_io_pool_destroy(pool);
    record_free(&r);
}

static void many_threads_do_each_job_once(void **state)
{
    (void)state;
    record r;
    di_io_pool *pool;
    record_init(&r, true);
    assert_int_equal(di_io_pool_create(5, 16, &pool), DI_OK);
    for (int i = 0; i < MAX_JOBS;) {
        const di_io_job job = {note, &r, i, 0};
        i += (int)di_io_pool_push(pool, &job, 1);
    }
    di_io_pool_drain(pool);
    bool is_done[MAX_JOBS] = {false};
    assert_int_equal(r.n, MAX_JOBS);
    for (int i = 0; i < MAX_JOBS; i++) {
        assert_false(is_done[r.a[i]]);
        is_done[r.a[i]] = true;
    }
    di_io_pool_destroy(pool);
    record_free(&r);
}

/* Two run, three wait; the rest is refused. What waits at the end is not run. */
static void a_full_pool_refuses(void **state)
{
    (void)state;
    record r;
    di_io_pool *pool;
    record_init(&r, false);
    assert_int_equal(di_io_pool_create(2, 3, &pool), DI_OK);
    di_io_job jobs[4];
    for (int i = 0; i < 4; i++)
        jobs[i] = (di_io_job){note, &r, i, 0};
    assert_int_equal(di_io_pool_push(pool, jobs, 2), 2);
    wait_inside(&r, 2);
    assert_int_equal(di_io_pool_push(pool, jobs, 4), 3);
    assert_int_equal(di_io_pool_push(pool, jobs, 1), 0);
    open_gate(&r);
    di_io_pool_drain(pool);
    assert_int_equal(r.n, 5);
    assert_int_equal(di_io_pool_push(pool, jobs, 3), 3);
    di_io_pool_destroy(pool);
    assert_true(r.n <= 8);
    record_free(&r);
}

static void nothing_to_destroy(void **state)
{
    (void)state;
    di_io_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_keeps_the_order),
        cmocka_unit_test(many_threads_do_each_job_once),
        cmocka_unit_test(a_full_pool_refuses),
        cmocka_unit_test(nothing_to_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
