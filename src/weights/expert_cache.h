/* Experts in a fixed number of slots in memory, read when they are wanted, the least recently
 * wanted given up first. What is wanted stays until it is released. Experts are numbers here; who
 * reads them, and what a slot looks like inside, is the owner's business. One thread at a time
 * calls all but the statistics; the reads run on threads of the cache. */
#ifndef DI_WEIGHTS_EXPERT_CACHE_H
#define DI_WEIGHTS_EXPERT_CACHE_H

#include "base/status.h"

typedef struct di_expert_cache di_expert_cache;

/* Reads one piece of an expert into the expert's slot and adds up what it read. Runs on several
 * threads at once, for different pieces. */
typedef di_status (*di_expert_read_fn)(void *user, int64_t expert, int64_t piece,
                                       unsigned char *slot, int64_t *bytes_read);

typedef struct di_expert_cache_setup {
    int64_t n_experts;
    int64_t n_slots;    /* >= 1 */
    int64_t slot_bytes; /* a multiple of the page size */
    int64_t n_pieces;   /* of an expert: what its read is split into */
    int n_threads;
    di_expert_read_fn read;
    void *user;
} di_expert_cache_setup;

typedef struct di_expert_cache_stats {
    uint64_t n_hits, n_misses; /* of the experts asked for, once a use */
    uint64_t bytes_read;
    uint64_t wait_ns; /* that acquire waited */
} di_expert_cache_stats;

/* DI_ERR_MEMORY if the slots cannot be had. */
DI_WARN_UNUSED di_status di_expert_cache_create(const di_expert_cache_setup *setup,
                                                di_expert_cache **out);
void di_expert_cache_destroy(di_expert_cache *cache); /* NULL is fine */

/* Experts first + ids[i], i < n, distinct, are wanted in this order: as many of the first ones as
 * there are slots are kept from now on, and reads of those missing begin. */
void di_expert_cache_ask(di_expert_cache *cache, int64_t first, const int32_t *ids, int64_t n);
/* Waits for the first of them; then *n_got is the number of those, from it on, that are there, and
 * slots[i] the slot of each, its own until it is released. Asks for them too. A read that failed is
 * the error; then nothing of the n is kept any more. */
DI_WARN_UNUSED di_status di_expert_cache_acquire(di_expert_cache *cache, int64_t first,
                                                 const int32_t *ids, int64_t n, int64_t *slots,
                                                 int64_t *n_got);
const unsigned char *di_expert_cache_slot(const di_expert_cache *cache, int64_t index);
void di_expert_cache_release(di_expert_cache *cache, int64_t first, const int32_t *ids, int64_t n);
/* Whatever is still kept, by someone who failed in between. */
void di_expert_cache_release_all(di_expert_cache *cache);

void di_expert_cache_get_stats(di_expert_cache *cache, di_expert_cache_stats *out);

#endif
