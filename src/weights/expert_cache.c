#define _GNU_SOURCE /* MAP_ANONYMOUS, madvise */

#include "weights/expert_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/clock.h"
#include "weights/io_pool.h"

enum { NONE = -1, MAX_ERROR_BYTES = 512 };

typedef enum slot_state { SLOT_EMPTY, SLOT_READING, SLOT_READY, SLOT_FAILED } slot_state;

typedef struct slot {
    slot_state state;
    bool is_kept; /* wanted: not given up */
    int64_t expert;
    int64_t pieces_left;
    di_status status; /* of the first piece that failed */
    char error[MAX_ERROR_BYTES];
    int64_t older, newer; /* in the order of use */
} slot;

struct di_expert_cache {
    di_expert_cache_setup setup;
    unsigned char *memory; /* [n_slots, slot_bytes] */
    di_io_pool *pool;
    pthread_mutex_t lock; /* guards what follows; reads write to slots without it */
    pthread_cond_t changed;
    slot *slots;      /* [n_slots] */
    int64_t *slot_of; /* [n_experts]: or NONE */
    int64_t oldest, newest;
    di_expert_cache_stats stats;
};

static unsigned char *slot_memory(const di_expert_cache *c, int64_t s)
{
    return c->memory + s * c->setup.slot_bytes;
}

/* ------------------------------------------------------------------------- the order of use */

static void unlink_slot(di_expert_cache *c, int64_t s)
{
    const slot *x = &c->slots[s];
    if (x->older == NONE)
        c->oldest = x->newer;
    else
        c->slots[x->older].newer = x->newer;
    if (x->newer == NONE)
        c->newest = x->older;
    else
        c->slots[x->newer].older = x->older;
}

static void link_newest(di_expert_cache *c, int64_t s)
{
    c->slots[s].older = c->newest;
    c->slots[s].newer = NONE;
    if (c->newest == NONE)
        c->oldest = s;
    else
        c->slots[c->newest].newer = s;
    c->newest = s;
}

static void link_oldest(di_expert_cache *c, int64_t s)
{
    c->slots[s].older = NONE;
    c->slots[s].newer = c->oldest;
    if (c->oldest == NONE)
        c->newest = s;
    else
        c->slots[c->oldest].older = s;
    c->oldest = s;
}

static void make_empty(di_expert_cache *c, int64_t s)
{
    slot *x = &c->slots[s];
    c->slot_of[x->expert] = NONE;
    x->expert = NONE;
    x->state = SLOT_EMPTY;
    x->is_kept = false;
    unlink_slot(c, s);
    link_oldest(c, s);
}

/* Nobody wants it any more. */
static void let_go(di_expert_cache *c, int64_t s)
{
    if (c->slots[s].state == SLOT_FAILED)
        make_empty(c, s);
    else
        c->slots[s].is_kept = false;
}

/* --------------------------------------------------------------------------------- the reads */

static void finish_piece(di_expert_cache *c, int64_t s, di_status status, int64_t bytes_read)
{
    slot *x = &c->slots[s];
    pthread_mutex_lock(&c->lock);
    c->stats.bytes_read += (uint64_t)bytes_read;
    if (status != DI_OK && x->status == DI_OK) {
        const char *text = di_last_error();
        const size_t n = strnlen(text, MAX_ERROR_BYTES - 1);
        memcpy(x->error, text, n);
        x->error[n] = 0;
        x->status = status;
    }
    if (--x->pieces_left == 0) {
        x->state = x->status == DI_OK ? SLOT_READY : SLOT_FAILED;
        if (!x->is_kept)
            let_go(c, s);
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
}

/* The expert of a slot that is being read does not change. */
static void read_piece(void *user, int64_t s, int64_t piece)
{
    di_expert_cache *c = user;
    pthread_mutex_lock(&c->lock);
    const int64_t expert = c->slots[s].expert;
    di_status status = c->slots[s].status;
    pthread_mutex_unlock(&c->lock);
    int64_t bytes_read = 0;
    if (status == DI_OK) /* else another piece has failed already */
        status = c->setup.read(c->setup.user, expert, piece, slot_memory(c, s), &bytes_read);
    finish_piece(c, s, status, bytes_read);
}

/* The pool has room for every piece of every slot. */
static void start_read(di_expert_cache *c, int64_t s, int64_t expert)
{
    slot *x = &c->slots[s];
    if (x->expert != NONE)
        c->slot_of[x->expert] = NONE;
    x->state = SLOT_READING;
    x->is_kept = true;
    x->expert = expert;
    x->pieces_left = c->setup.n_pieces;
    x->status = DI_OK;
    c->slot_of[expert] = s;
    unlink_slot(c, s);
    link_newest(c, s);
    for (int64_t piece = 0; piece < c->setup.n_pieces; piece++) {
        const di_io_job job = {read_piece, c, s, piece};
        di_io_pool_push(c->pool, &job, 1);
    }
}

/* ------------------------------------------------------------------------------------- life */

static di_status make_slots(di_expert_cache *c)
{
    const di_expert_cache_setup *setup = &c->setup;
    const size_t bytes = (size_t)(setup->n_slots * setup->slot_bytes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return di_fail(DI_ERR_MEMORY, "weight_cache: cannot take %zu bytes: %s", bytes,
                       strerror(errno));
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* faster, if the system does it */
    c->memory = memory;
    c->slots = calloc((size_t)setup->n_slots, sizeof *c->slots);
    c->slot_of = calloc((size_t)setup->n_experts, sizeof *c->slot_of);
    if (!c->slots || !c->slot_of)
        return di_fail_memory((size_t)setup->n_experts * sizeof *c->slot_of,
                              "the list of cached experts");
    for (int64_t e = 0; e < setup->n_experts; e++)
        c->slot_of[e] = NONE;
    c->oldest = c->newest = NONE;
    for (int64_t s = 0; s < setup->n_slots; s++) {
        c->slots[s].expert = NONE;
        link_newest(c, s);
    }
    return DI_OK;
}

di_status di_expert_cache_create(const di_expert_cache_setup *setup, di_expert_cache **out)
{
    di_expert_cache *c = calloc(1, sizeof *c);
    if (!c)
        return di_fail_memory(sizeof *c, "the weight cache");
    c->setup = *setup;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    di_status status = make_slots(c);
    if (status == DI_OK)
        status = di_io_pool_create(setup->n_threads, setup->n_slots * setup->n_pieces, &c->pool);
    if (status == DI_OK)
        *out = c;
    else
        di_expert_cache_destroy(c);
    return status;
}

void di_expert_cache_destroy(di_expert_cache *cache)
{
    if (!cache)
        return;
    di_io_pool_destroy(cache->pool); /* no read is under way after this */
    if (cache->memory)
        munmap(cache->memory, (size_t)(cache->setup.n_slots * cache->setup.slot_bytes));
    pthread_mutex_destroy(&cache->lock);
    pthread_cond_destroy(&cache->changed);
    free(cache->slots);
    free(cache->slot_of);
    free(cache);
}

/* ------------------------------------------------------------------------------------- use */

/* The least recently used slot that may be given up; NONE while all are kept or read. */
static int64_t find_victim(const di_expert_cache *c)
{
    int64_t s = c->oldest;
    while (s != NONE && (c->slots[s].is_kept || c->slots[s].state == SLOT_READING))
        s = c->slots[s].newer;
    return s;
}

/* First keeps what is there, so that making room for the others does not take it. The n that are
 * looked at are no more than the slots: a slot is left for every one of them, at the latest when
 * reads that nobody waits for any more are done. */
static void ask(di_expert_cache *c, int64_t first, const int32_t *ids, int64_t n)
{
    n = di_min_i64(n, c->setup.n_slots);
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = c->slot_of[first + ids[i]];
        if (s == NONE || c->slots[s].is_kept)
            continue;
        c->slots[s].is_kept = true;
        unlink_slot(c, s);
        link_newest(c, s);
        c->stats.n_hits++;
    }
    for (int64_t i = 0; i < n; i++) {
        if (c->slot_of[first + ids[i]] != NONE)
            continue;
        const int64_t s = find_victim(c);
        if (s == NONE)
            return;
        c->stats.n_misses++;
        start_read(c, s, first + ids[i]);
    }
}

void di_expert_cache_ask(di_expert_cache *cache, int64_t first, const int32_t *ids, int64_t n)
{
    pthread_mutex_lock(&cache->lock);
    ask(cache, first, ids, n);
    pthread_mutex_unlock(&cache->lock);
}

static void release(di_expert_cache *c, int64_t first, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = c->slot_of[first + ids[i]];
        if (s != NONE && c->slots[s].is_kept)
            let_go(c, s);
    }
}

static bool has_settled(const di_expert_cache *c, int64_t expert)
{
    const int64_t s = c->slot_of[expert];
    return s != NONE && c->slots[s].state != SLOT_READING;
}

static void wait_for(di_expert_cache *c, int64_t first, const int32_t *ids, int64_t n)
{
    if (has_settled(c, first + ids[0]))
        return;
    const int64_t from = di_clock_ns();
    while (!has_settled(c, first + ids[0])) {
        pthread_cond_wait(&c->changed, &c->lock);
        ask(c, first, ids, n); /* a slot may have become free */
    }
    c->stats.wait_ns += (uint64_t)(di_clock_ns() - from);
}

di_status di_expert_cache_acquire(di_expert_cache *cache, int64_t first, const int32_t *ids,
                                  int64_t n, int64_t *slots, int64_t *n_got)
{
    di_expert_cache *c = cache;
    pthread_mutex_lock(&c->lock);
    ask(c, first, ids, n);
    wait_for(c, first, ids, n);
    int64_t got = 0;
    for (int64_t s; got < n; got++) {
        s = c->slot_of[first + ids[got]];
        if (s == NONE || !c->slots[s].is_kept || c->slots[s].state != SLOT_READY)
            break;
        slots[got] = s;
    }
    di_status status = DI_OK;
    if (got == 0) {
        const slot *failed = &c->slots[c->slot_of[first + ids[0]]];
        status = failed->status;
        di_error_set_text(failed->error);
        release(c, first, ids, n);
    }
    pthread_mutex_unlock(&c->lock);
    if (status == DI_OK)
        *n_got = got;
    return status;
}

const unsigned char *di_expert_cache_slot(const di_expert_cache *cache, int64_t index)
{
    return slot_memory(cache, index);
}

void di_expert_cache_release(di_expert_cache *cache, int64_t first, const int32_t *ids, int64_t n)
{
    pthread_mutex_lock(&cache->lock);
    release(cache, first, ids, n);
    pthread_mutex_unlock(&cache->lock);
}

void di_expert_cache_release_all(di_expert_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    for (int64_t s = 0; s < cache->setup.n_slots; s++)
        if (cache->slots[s].is_kept)
            let_go(cache, s);
    pthread_mutex_unlock(&cache->lock);
}

void di_expert_cache_get_stats(di_expert_cache *cache, di_expert_cache_stats *out)
{
    pthread_mutex_lock(&cache->lock);
    *out = cache->stats;
    pthread_mutex_unlock(&cache->lock);
}
