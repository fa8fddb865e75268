/* base/threads.h and base/team.h: every item once, in the same part every time; who stays where.
 * `threads_test measure` prints what a job without work costs. */
#define _GNU_SOURCE /* sched_getaffinity */

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/team.h"

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

/* ------------------------------------------------------------------------------ waiting and pins
 */

/* More threads than CPUs, and pauses after which everybody sleeps. */
static void crowds_and_sleepers_get_every_job(void **state)
{
    (void)state;
    static const di_pool_setup setups[] = {{.n_threads = 8, .is_crowded = true}, {.n_threads = 3}};
    for (size_t s = 0; s < sizeof setups / sizeof setups[0]; s++) {
        di_pool *pool;
        assert_int_equal(di_pool_create_on(&setups[s], &pool), DI_OK);
        static record r;
        record *p = &r;
        memset(&r, 0, sizeof r);
        for (int round = 0; round < 300; round++) {
            if (round % 60 == 59)
                usleep(5000);
            di_pool_run(pool, note, &p, 64);
        }
        for (int i = 0; i < 64; i++)
            assert_int_equal(r.n_done[i], 300);
        di_pool_destroy(pool);
    }
}

/* The CPUs of this process, at most `most`. */
static int list_cpus(int *out, int most)
{
    cpu_set_t all;
    int n = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (int i = 0; i < CPU_SETSIZE && n < most; i++)
        if (CPU_ISSET((size_t)i, &all))
            out[n++] = i;
    return n;
}

typedef struct masks {
    cpu_set_t of[MAX_THREADS];
} masks;

static void note_mask(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)begin;
    (void)end;
    masks *m = *(masks *const *)args;
    CPU_ZERO(&m->of[worker]);
    sched_getaffinity(0, sizeof m->of[worker], &m->of[worker]);
}

static void assert_only(const cpu_set_t *set, int cpu)
{
    assert_int_equal(CPU_COUNT(set), 1);
    assert_true(CPU_ISSET((size_t)cpu, set));
}

static void workers_stay_and_the_caller_does_not(void **state)
{
    (void)state;
    int all[MAX_THREADS], cpus[4];
    const int n_all = list_cpus(all, MAX_THREADS);
    for (int i = 0; i < 4; i++)
        cpus[i] = all[(i + 1) % n_all];
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    di_pool *pool;
    const di_pool_setup setup = {.n_threads = 4, .cpus = cpus};
    assert_int_equal(di_pool_create_on(&setup, &pool), DI_OK);
    static masks m;
    masks *p = &m;
    di_pool_run(pool, note_mask, &p, 4);
    for (int i = 1; i < 4; i++)
        assert_only(&m.of[i], cpus[i]);
    assert_true(CPU_EQUAL(&m.of[0], &before));
    di_pool_destroy(pool);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&after, &before));
}

static void *pin_and_look(void *arg)
{
    static cpu_set_t set;
    di_pool_pin_caller(arg);
    sched_getaffinity(0, sizeof set, &set);
    return &set;
}

static void a_thread_of_ours_can_be_worker_0(void **state)
{
    (void)state;
    int cpu;
    list_cpus(&cpu, 1);
    di_pool *pool;
    pthread_t thread;
    void *set;
    assert_int_equal(di_pool_create_on(&(di_pool_setup){.n_threads = 1, .cpus = &cpu}, &pool),
                     DI_OK);
    assert_int_equal(pthread_create(&thread, NULL, pin_and_look, pool), 0);
    assert_int_equal(pthread_join(thread, &set), 0);
    assert_only(set, cpu);
    di_pool_destroy(pool);
}

static void cpus_that_are_not_there_are_an_error(void **state)
{
    (void)state;
    const int cpus[] = {0, DI_MAX_CPUS - 1};
    di_pool *pool = NULL;
    assert_int_equal(di_pool_create_on(&(di_pool_setup){.n_threads = 2, .cpus = cpus}, &pool),
                     DI_ERR_RUNTIME);
    assert_null(pool);
    assert_non_null(strstr(di_last_error(), "worker thread 1 cannot stay on CPU 8191: "));
}

/* A machine of two cores at the first CPUs of this one; of two that are not there at `first`. */
static di_topology two_cores(di_topology_cpu *cpus, di_topology_node *node, int first)
{
    int all[2];
    const int n = list_cpus(all, 2);
    *node = (di_topology_node){.id = 3, .n_cpus = 2, .n_cores = 2};
    for (int i = 0; i < 2; i++) {
        const int id = first ? first + i : all[i % n];
        cpus[i] = (di_topology_cpu){.id = id, .core = id};
    }
    return (di_topology){.cpus = cpus, .n_cpus = 2, .n_cores = 2, .nodes = node, .n_nodes = 1};
}

static void teams_pin_where_they_are_alone(void **state)
{
    (void)state;
    di_topology_cpu cpus[2];
    di_topology_node node;
    const di_topology t = two_cores(cpus, &node, 0);
    const di_effective_options automatic = {.pin = "auto", .n_threads = 2};
    const di_effective_options on = {.pin = "on", .n_threads = 5};
    di_team first, second, third;
    assert_int_equal(di_team_create(&automatic, &t, &first), DI_OK);
    assert_true(first.is_pinned);
    assert_int_equal(first.nodes[1], 3);
    assert_int_equal(di_team_create(&automatic, &t, &second), DI_OK);
    assert_false(second.is_pinned); /* they are taken */
    assert_int_equal(di_team_create(&on, &t, &third), DI_OK);
    assert_true(third.is_pinned); /* asked for, and crowded */
    assert_int_equal(di_pool_n_threads(third.pool), 5);
    di_team_free(&first);
    di_team_free(&second);
    assert_int_equal(di_team_create(&automatic, &t, &second), DI_OK);
    assert_false(second.is_pinned); /* the third holds them */
    di_team_free(&second);
    di_team_free(&third);
    assert_int_equal(di_team_create(&automatic, &t, &first), DI_OK);
    assert_true(first.is_pinned);
    di_team_free(&first);
    di_team_free(&first);
}

static void only_a_wanted_pin_fails(void **state)
{
    (void)state;
    di_topology_cpu cpus[2];
    di_topology_node node;
    const di_topology t = two_cores(cpus, &node, DI_MAX_CPUS - 2);
    di_team team;
    assert_int_equal(
        di_team_create(&(di_effective_options){.pin = "auto", .n_threads = 2}, &t, &team), DI_OK);
    assert_false(team.is_pinned);
    di_team_free(&team);
    assert_int_equal(
        di_team_create(&(di_effective_options){.pin = "on", .n_threads = 2}, &t, &team),
        DI_ERR_RUNTIME);
}

/* ------------------------------------------------------------------------------------- measuring
 */

static void nothing(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)args;
    (void)begin;
    (void)end;
    (void)worker;
}

static int measure(int n_threads)
{
    enum { RUNS = 20, JOBS = 20000 };
    const di_effective_options options = {.pin = n_threads == 2 ? "on" : "off",
                                          .n_threads = n_threads};
    di_team team;
    if (di_team_create(&options, NULL, &team) != DI_OK) {
        fprintf(stderr, "%s\n", di_last_error());
        return 1;
    }
    di_pool_pin_caller(team.pool); /* this thread ends with the measurement */
    uint64_t least = UINT64_MAX;
    for (int run = 0; run < RUNS; run++) {
        const uint64_t begun = (uint64_t)di_clock_ns();
        for (int i = 0; i < JOBS; i++)
            di_pool_run(team.pool, nothing, NULL, n_threads);
        const uint64_t ns = (uint64_t)di_clock_ns() - begun;
        least = ns < least ? ns : least;
    }
    printf("%d threads%s: %.0f ns a job without work\n", n_threads,
           team.is_pinned ? ", pinned" : "", (double)least / JOBS);
    di_team_free(&team);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "measure"))
        return measure(8) + measure(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(the_caller_is_worker_0),
        cmocka_unit_test(no_items_is_nothing),
        cmocka_unit_test(runs_are_ordered),
        cmocka_unit_test(bad_counts_are_refused),
        cmocka_unit_test(crowds_and_sleepers_get_every_job),
        cmocka_unit_test(workers_stay_and_the_caller_does_not),
        cmocka_unit_test(a_thread_of_ours_can_be_worker_0),
        cmocka_unit_test(cpus_that_are_not_there_are_an_error),
        cmocka_unit_test(teams_pin_where_they_are_alone),
        cmocka_unit_test(only_a_wanted_pin_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
