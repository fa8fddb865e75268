/* Prefix cache: finds the blocks of a prompt's beginning that an earlier sequence computed.
 *
 * A node stands for one full logical block (DI_KV_BLOCK_TOKENS tokens) after a certain prefix: its
 * key is the identity of the node before it and its own tokens, compared in full, so equal keys
 * mean equal token histories. A node knows the blocks that hold its entries: one per compressed
 * group, and, at some places, the window group's. Owners are sequences; blocks nobody owns stay
 * until their pool needs them, least recently used first (kv/block_pool.h). A node that lost a
 * compressed block is gone; what came after it can no longer be reached and ages out.
 *
 * Exact hits need the windows of the last window_len positions before the seam. Windows are paged
 * like everything else, so a "snapshot" is just the window blocks before a seam, kept: at the end
 * of a prompt, at the end of a sequence, every seam_blocks blocks, and where a prompt leaves a
 * known beginning that had no window there: of many prompts with one beginning the second computes
 * it again, keeps its window, and the third finds it. Compressors have no state at a block boundary
 * (blocks hold an even number of tokens) and Engram needs token ids only: a hit gives the bits of a
 * cold run.
 *
 * With truncated prefills (core/truncation.h) a window block holds what the decoder layers computed
 * for a prompt of one length, so it remembers where its writer's decoder rows began: a hit ends
 * where all that the new prompt's own rows will read of the windows is what they would have
 * computed themselves. Compressed entries are always of all rows.
 *
 * A model without compressed layers has no prefix cache.
 *
 * Not thread-safe: belongs to the scheduler's thread. */
#ifndef DI_KV_PREFIX_CACHE_H
#define DI_KV_PREFIX_CACHE_H

#include "core/truncation.h"
#include "kv/cache.h"

typedef enum di_prefix_mode {
    DI_PREFIX_OFF,
    DI_PREFIX_EXACT, /* hits only where the window is there too */
    DI_PREFIX_REPLAY /* else the window is rebuilt by recomputing its last positions: approximate */
} di_prefix_mode;

typedef struct di_prefix_node {
    uint64_t id;     /* unique, never reused; 0 = the node is unused */
    uint64_t parent; /* id of the node before; 0 = none */
    int32_t next;    /* in its hash bucket, or in the list of unused nodes; -1 = none */
    int32_t blocks[DI_MAX_KV_GROUPS]; /* -1 = not known */
    int64_t decoder_start; /* of the sequence that wrote the window block, if it is known */
    int32_t tokens[DI_KV_BLOCK_TOKENS];
} di_prefix_node;

typedef struct di_prefix_cache {
    di_kv_cache *kv;
    di_prefix_mode mode;
    int64_t seam_blocks;      /* a window is kept every so many blocks; 0 = only at ends */
    di_truncation truncation; /* off unless the owner sets it before the first sequence */
    di_prefix_node *nodes;
    size_t n_nodes, nodes_cap; /* ever used */
    int32_t first_unused;
    int32_t *buckets; /* [n_buckets], a power of two */
    size_t n_buckets;
    uint64_t last_id;
} di_prefix_cache;

DI_WARN_UNUSED di_status di_prefix_cache_init(di_kv_cache *kv, di_prefix_mode mode,
                                              int64_t seam_blocks, di_prefix_cache *out);
void di_prefix_cache_free(di_prefix_cache *cache);
/* Forgets everything: after a pass failed, whose entries may have been registered. */
void di_prefix_cache_flush(di_prefix_cache *cache);

/* What a lookup found: n_tokens of the prompt are there (a multiple of the block), and the first
 * replay_from positions need no recomputation (= n_tokens but in replay mode). */
typedef struct di_prefix_hit {
    int64_t n_tokens;
    int64_t replay_from;
} di_prefix_hit;

/* Gives a fresh sequence (len 0, no blocks) the longest usable beginning of tokens[n], at most n -
 * 1 tokens: its len becomes hit->replay_from, its tables hold the shared blocks. Without a hit
 * only its fork_block changes. */
DI_WARN_UNUSED di_status di_prefix_cache_adopt(di_prefix_cache *cache, di_kv_seq *seq,
                                               const int32_t *tokens, int64_t n,
                                               di_prefix_hit *hit);

/* Tells the cache of the full blocks of a sequence among its first n_known tokens: those that are
 * known and whose entries have been computed, or will be by a pass that runs before any pass of a
 * sequence that adopts them. prompt_len marks a seam. Call whenever n_known grows, and, with
 * is_end, before the sequence is released. */
DI_WARN_UNUSED di_status di_prefix_cache_register(di_prefix_cache *cache, di_kv_seq *seq,
                                                  const int32_t *tokens, int64_t n_known,
                                                  int64_t prompt_len, bool is_end);

#endif
