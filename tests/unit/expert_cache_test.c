/* weights/expert_cache.h with a reader that fails, waits and counts as it is told. */
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>

#include "random.h"
#include "weights/expert_cache.h"

enum { N_EXPERTS = 64, N_PIECES = 3, SLOT_BYTES = 4096, PIECE_BYTES = 1024, FIRST = 4 };

/* Experts are numbered from FIRST on: ids of a layer that is not the first. */
typedef struct reader {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_held[N_EXPERTS]; /* reads of it wait */
    bool is_bad[N_EXPERTS];  /* its second piece fails */
    int n_reads[N_EXPERTS];  /* first pieces */
    int n_waiting;
} reader;

static unsigned char pattern(int64_t expert, int64_t piece)
{
    return (unsigned char)(expert * 5 + piece * 67 + 1);
}

static di_status read_piece(void *user, int64_t expert, int64_t piece, unsigned char *slot,
                            int64_t *bytes_read)
{
    reader *r = user;
    pthread_mutex_lock(&r->lock);
    r->n_reads[expert] += piece == 0;
    r->n_waiting++;
    pthread_cond_broadcast(&r->changed);
    while (r->is_held[expert])
        pthread_cond_wait(&r->changed, &r->lock);
    r->n_waiting--;
    const bool is_bad = r->is_bad[expert];
    pthread_mutex_unlock(&r->lock);
    memset(slot + piece * PIECE_BYTES, pattern(expert, piece), PIECE_BYTES);
    *bytes_read = PIECE_BYTES;
    if (is_bad && piece == 1)
        return di_fail(DI_ERR_RUNTIME, "expert %d: bad sector", (int)expert);
    return DI_OK;
}

static void hold(reader *r, int id, bool is_held)
{
    pthread_mutex_lock(&r->lock);
    r->is_held[FIRST + id] = is_held;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void wait_for_reads(reader *r, int n)
{
    pthread_mutex_lock(&r->lock);
    while (r->n_waiting < n)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static int count_reads(reader *r, int id)
{
    pthread_mutex_lock(&r->lock);
    const int n = r->n_reads[FIRST + id];
    pthread_mutex_unlock(&r->lock);
    return n;
}

static di_expert_cache *open_cache(reader *r, int n_slots)
{
    memset(r, 0, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    const di_expert_cache_setup setup = {.n_experts = N_EXPERTS,
                                         .n_slots = n_slots,
                                         .slot_bytes = SLOT_BYTES,
                                         .n_pieces = N_PIECES,
                                         .n_threads = 4,
                                         .read = read_piece,
                                         .user = r};
    di_expert_cache *cache;
    assert_int_equal(di_expert_cache_create(&setup, &cache), DI_OK);
    return cache;
}

static void close_cache(di_expert_cache *cache, reader *r)
{
    di_expert_cache_destroy(cache);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
}

static void check_content(const di_expert_cache *cache, int64_t slot, int id)
{
    const unsigned char *bytes = di_expert_cache_slot(cache, slot);
    for (int piece = 0; piece < N_PIECES; piece++)
        for (int i = 0; i < PIECE_BYTES; i++)
            assert_int_equal(bytes[piece * PIECE_BYTES + i], pattern(FIRST + id, piece));
}

/* Acquires all of ids, checks and releases them; the number of rounds. */
static int use(di_expert_cache *cache, const int32_t *ids, int64_t n)
{
    int n_rounds = 0;
    di_expert_cache_ask(cache, FIRST, ids, n);
    for (int64_t at = 0, got; at < n; at += got, n_rounds++) {
        int64_t slots[N_EXPERTS];
        assert_int_equal(di_expert_cache_acquire(cache, FIRST, ids + at, n - at, slots, &got),
                         DI_OK);
        assert_in_range(got, 1, n - at);
        for (int64_t i = 0; i < got; i++)
            check_content(cache, slots[i], ids[at + i]);
        di_expert_cache_release(cache, FIRST, ids + at, got);
    }
    return n_rounds;
}

#define USE(cache, ...)                                                                            \
    use((cache), (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void check_counts(di_expert_cache *cache, uint64_t n_hits, uint64_t n_misses)
{
    di_expert_cache_stats stats;
    di_expert_cache_get_stats(cache, &stats);
    assert_int_equal(stats.n_hits, n_hits);
    assert_int_equal(stats.n_misses, n_misses);
}

/* When no read is under way and none has failed. */
static void check_stats(di_expert_cache *cache, uint64_t n_hits, uint64_t n_misses)
{
    di_expert_cache_stats stats;
    check_counts(cache, n_hits, n_misses);
    di_expert_cache_get_stats(cache, &stats);
    assert_int_equal(stats.bytes_read, n_misses * N_PIECES * PIECE_BYTES);
}

/* ------------------------------------------------------------------------------------- tests */

static void the_least_recently_used_goes(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 3);
    USE(cache, 0, 1, 2);
    check_stats(cache, 0, 3);
    USE(cache, 0);
    check_stats(cache, 1, 3);
    USE(cache, 3); /* in place of 1 */
    USE(cache, 0, 2, 3);
    check_stats(cache, 4, 4);
    USE(cache, 1); /* in place of 0 */
    USE(cache, 2, 3);
    check_stats(cache, 6, 5);
    USE(cache, 0);
    check_stats(cache, 6, 6);
    assert_int_equal(count_reads(&r, 0), 2);
    assert_int_equal(count_reads(&r, 1), 2);
    assert_int_equal(count_reads(&r, 2), 1);
    close_cache(cache, &r);
}

/* What is there already is not given up for what is wanted beside it. */
static void wanted_ones_do_not_push_each_other_out(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 3);
    USE(cache, 5); /* the oldest from now on */
    USE(cache, 6, 7);
    USE(cache, 1, 2, 5);
    check_stats(cache, 1, 5);
    assert_int_equal(count_reads(&r, 5), 1);
    close_cache(cache, &r);
}

static void what_is_kept_stays(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 3);
    const int32_t kept[] = {0, 1, 2}, other[] = {3, 4};
    int64_t slots[3] = {-1, -1, -1}, got = 0;
    while (got < 3) { /* reads end in any order */
        di_expert_cache_ask(cache, FIRST, kept, 3);
        assert_int_equal(di_expert_cache_acquire(cache, FIRST, kept, 3, slots, &got), DI_OK);
    }
    di_expert_cache_ask(cache, FIRST, other, 2); /* no slot is free */
    check_counts(cache, 0, 3);
    for (int i = 0; i < 3; i++)
        check_content(cache, slots[i], kept[i]);
    di_expert_cache_release(cache, FIRST, kept + 1, 1);
    di_expert_cache_ask(cache, FIRST, other, 1); /* in place of 1 */
    check_counts(cache, 0, 4);
    check_content(cache, slots[0], 0);
    check_content(cache, slots[2], 2);
    di_expert_cache_release_all(cache);
    USE(cache, 0, 2, 3);
    check_counts(cache, 3, 4);
    close_cache(cache, &r);
}

static void more_than_fit_run_in_rounds(void **state)
{
    (void)state;
    int32_t ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = i + 1;
    for (int n_slots = 1; n_slots <= 40; n_slots += 13) {
        reader r;
        di_expert_cache *cache = open_cache(&r, n_slots);
        assert_true(use(cache, ids, 40) >= (40 + n_slots - 1) / n_slots);
        check_stats(cache, 0, 40);
        for (int i = 0; i < 40; i++)
            assert_int_equal(count_reads(&r, ids[i]), 1);
        close_cache(cache, &r);
    }
}

/* The first ones are given out while a later one is read. */
static void nobody_waits_for_the_last(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 4);
    USE(cache, 0, 1, 3);
    hold(&r, 2, true);
    const int32_t ids[] = {0, 1, 2, 3};
    int64_t slots[4], got;
    assert_int_equal(di_expert_cache_acquire(cache, FIRST, ids, 4, slots, &got), DI_OK);
    assert_int_equal(got, 2);
    di_expert_cache_release(cache, FIRST, ids, 2);
    hold(&r, 2, false);
    while (got < 4) {
        int64_t n;
        assert_int_equal(di_expert_cache_acquire(cache, FIRST, ids + got, 4 - got, slots + got, &n),
                         DI_OK);
        for (int64_t i = got; i < got + n; i++)
            check_content(cache, slots[i], ids[i]);
        got += n;
    }
    check_stats(cache, 3, 4);
    close_cache(cache, &r);
}

static void *open_gate_later(void *arg)
{
    reader *r = arg;
    wait_for_reads(r, N_PIECES);
    hold(r, 7, false);
    return NULL;
}

static void acquire_waits_for_the_first(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 2);
    pthread_t thread;
    hold(&r, 7, true);
    assert_int_equal(pthread_create(&thread, NULL, open_gate_later, &r), 0);
    USE(cache, 7);
    pthread_join(thread, NULL);
    di_expert_cache_stats before, after;
    di_expert_cache_get_stats(cache, &before);
    USE(cache, 7);
    di_expert_cache_get_stats(cache, &after);
    assert_int_equal(after.wait_ns, before.wait_ns); /* what is there is not waited for */
    close_cache(cache, &r);
}

static void assert_bad(di_expert_cache *cache, const int32_t *ids, int64_t n, const char *text)
{
    int64_t slots[N_EXPERTS], got = 77;
    assert_int_equal(di_expert_cache_acquire(cache, FIRST, ids, n, slots, &got), DI_ERR_RUNTIME);
    assert_string_equal(di_last_error(), text);
    assert_int_equal(got, 77);
}

static void a_failed_read_is_an_error(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 3);
    r.is_bad[FIRST + 1] = true;
    const int32_t ids[] = {0, 1, 2};
    int64_t slots[3], got;
    di_expert_cache_ask(cache, FIRST, ids, 3);
    assert_int_equal(di_expert_cache_acquire(cache, FIRST, ids, 3, slots, &got), DI_OK);
    assert_int_equal(got, 1); /* the second never comes */
    check_content(cache, slots[0], 0);
    di_expert_cache_release(cache, FIRST, ids, 1);
    assert_bad(cache, ids + 1, 2, "expert 5: bad sector");
    USE(cache, 0, 2, 3); /* nothing is kept any more, and the slot is free */
    assert_bad(cache, ids + 1, 1, "expert 5: bad sector");
    r.is_bad[FIRST + 1] = false;
    USE(cache, 1);
    check_counts(cache, 2, 6);
    close_cache(cache, &r);
}

/* A pass that failed elsewhere leaves reads under way, one of them bad. */
static void abandoned_reads(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 2);
    const int32_t ids[] = {0, 1};
    hold(&r, 0, true);
    hold(&r, 1, true);
    r.is_bad[FIRST + 1] = true;
    di_expert_cache_ask(cache, FIRST, ids, 2);
    wait_for_reads(&r, 3);
    di_expert_cache_release_all(cache);
    const int32_t next[] = {2, 3};
    di_expert_cache_ask(cache, FIRST, next, 2); /* both slots are being written */
    assert_int_equal(count_reads(&r, 2), 0);
    hold(&r, 0, false);
    hold(&r, 1, false);
    int64_t slots[2], got = 0;
    while (got < 2) /* until both slots have changed hands */
        assert_int_equal(di_expert_cache_acquire(cache, FIRST, next, 2, slots, &got), DI_OK);
    check_content(cache, slots[0], 2);
    check_content(cache, slots[1], 3);
    di_expert_cache_release(cache, FIRST, next, 2);
    r.is_bad[FIRST + 1] = false;
    USE(cache, 1);
    check_counts(cache, 0, 5);
    close_cache(cache, &r);
}

/* A cache is closed while reads wait and run. */
static void closed_with_reads_under_way(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, 8);
    const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int round = 0; round < 20; round++) {
        di_expert_cache_ask(cache, FIRST, ids, 8);
        close_cache(cache, &r);
        cache = open_cache(&r, 8);
    }
    close_cache(cache, &r);
    di_expert_cache_destroy(NULL);
}

/* ----------------------------------------------------------------------- against a naive list */

enum { N_SLOTS = 9 };

typedef struct naive {
    int ids[N_SLOTS]; /* the oldest first */
    int n;
    uint64_t n_hits, n_misses;
} naive;

static bool naive_take(naive *list, int id)
{
    for (int i = 0; i < list->n; i++) {
        if (list->ids[i] != id)
            continue;
        memmove(list->ids + i, list->ids + i + 1, sizeof(int) * (size_t)(list->n - i - 1));
        list->n--;
        return true;
    }
    return false;
}

static void naive_use(naive *list, const int32_t *ids, int n)
{
    bool is_hit[N_SLOTS];
    for (int i = 0; i < n; i++) {
        is_hit[i] = naive_take(list, ids[i]);
        if (is_hit[i])
            list->ids[list->n++] = ids[i];
    }
    for (int i = 0; i < n; i++) {
        list->n_hits += is_hit[i];
        list->n_misses += !is_hit[i];
        if (is_hit[i])
            continue;
        if (list->n == N_SLOTS)
            naive_take(list, list->ids[0]);
        list->ids[list->n++] = ids[i];
    }
}

static void random_use(void **state)
{
    (void)state;
    reader r;
    di_expert_cache *cache = open_cache(&r, N_SLOTS);
    di_rng rng = di_rng_named("expert cache");
    naive list = {.n = 0};
    for (int round = 0; round < 400; round++) {
        int32_t ids[N_SLOTS];
        int n = 0;
        for (int id = 0; id < 24 && n < N_SLOTS; id++) /* ascending, as a pass has them */
            if (di_rng_between(&rng, 0, 4) == 0)
                ids[n++] = id;
        if (n == 0)
            continue;
        use(cache, ids, n);
        naive_use(&list, ids, n);
        check_stats(cache, list.n_hits, list.n_misses);
    }
    assert_true(list.n_hits > 100 && list.n_misses > 100);
    close_cache(cache, &r);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_goes),
        cmocka_unit_test(wanted_ones_do_not_push_each_other_out),
        cmocka_unit_test(what_is_kept_stays),
        cmocka_unit_test(more_than_fit_run_in_rounds),
        cmocka_unit_test(nobody_waits_for_the_last),
        cmocka_unit_test(acquire_waits_for_the_first),
        cmocka_unit_test(a_failed_read_is_an_error),
        cmocka_unit_test(abandoned_reads),
        cmocka_unit_test(closed_with_reads_under_way),
        cmocka_unit_test(random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
