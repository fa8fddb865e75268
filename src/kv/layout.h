/* Where KV-cache entries live (model spec 3, 4.2-4.4): formats, bytes and groups.
 *
 * entry        codes                 scales                at the released dims
 * window       e4m3 [head_dim]       e8m0 [head_dim / 32]  512 + 16 = 528 B
 * compressed   e2m1 [head_dim]       e4m3 [head_dim / 16]  256 + 32 = 288 B
 * index key    e2m1 [index_head_dim] e8m0 [/ 32]            64 +  4 =  68 B */
#ifndef DI_KV_LAYOUT_H
#define DI_KV_LAYOUT_H

#include "core/batch.h"
#include "core/config.h"

enum { DI_KV_BLOCK_TOKENS = 64 }; /* a block of every group covers this many tokens */

typedef enum di_kv_store {
    DI_KV_WINDOW,
    DI_KV_COMPRESSED,
    DI_KV_INDEX,
    DI_N_KV_STORES
} di_kv_store;

typedef struct di_kv_entry {
    int32_t code_bytes, scale_bytes;
} di_kv_entry;

typedef struct di_kv_group {
    int ratio;           /* tokens of one entry */
    bool is_window;      /* blocks that left the window are given back */
    int32_t block_len;   /* entries of a block = DI_KV_BLOCK_TOKENS / ratio */
    int n_layers;        /* layers with a store in this group: all, draft blocks included, or the KV
                            sources of the ratio */
    int64_t block_bytes; /* of one block over all its layers and stores */
} di_kv_group;

typedef struct di_kv_layout {
    di_kv_entry entries[DI_N_KV_STORES];
    di_kv_group groups[DI_MAX_KV_GROUPS];
    int n_groups;
    int n_draft_layers; /* draft block m is layer n_layers + m of the window group; 0 without the
                           drafter */
    int group_of_layer[DI_MAX_LAYERS]; /* of the layer's compressed entries; -1 if ratio 0 */
    int place_in_group[DI_MAX_LAYERS]; /* of a KV source: 0 .. n_layers-1 of its group; else -1 */
    int compressor_of_layer[DI_MAX_LAYERS]; /* of a ratio-2 source: its compressor_state; else -1 */
    int n_compressors;                      /* ratio-2 sources */
} di_kv_layout;

/* has_drafter: with windows for the config's draft blocks. */
void di_kv_layout_init(const di_config *config, bool has_drafter, di_kv_layout *out);

static inline int64_t di_kv_entry_bytes(const di_kv_layout *layout, di_kv_store store)
{
    return layout->entries[store].code_bytes + layout->entries[store].scale_bytes;
}

/* Blocks of a group that a sequence of n_tokens needs; for the window group, with at most
 * step_tokens rows a pass. */
int64_t di_kv_blocks_for(const di_kv_layout *layout, const di_config *config, int group,
                         int64_t n_tokens, int64_t step_tokens);

#endif
