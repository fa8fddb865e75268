/* Writes checkpoints for tests: any configuration, random weights of sane size, and whatever should
 * be wrong with them; and the release's checkpoint as sparse files. */
#ifndef DI_TEST_CHECKPOINT_H
#define DI_TEST_CHECKPOINT_H

#include <jansson.h>

#include "base/buf.h"
#include "core/tensor.h"
#include "weights/weight_list.h"

/* A fresh directory below TMPDIR or /tmp. Remove it with di_test_remove_dir. */
DI_WARN_UNUSED di_status di_test_make_dir(di_buf *out);
void di_test_remove_dir(const char *dir); /* with everything in it */
DI_WARN_UNUSED di_status di_test_write_file(const char *dir, const char *name, const void *data,
                                            size_t bytes);

typedef struct di_test_tensor {
    char *name;
    di_weight_kind kind;
    bool is_scale;
    di_dtype dtype;
    int rank;
    int64_t shape[DI_MAX_RANK];
    int64_t n_in;
    int shard;
    bool is_left_out; /* not in its file (the index names it all the same) */
    bool is_unlisted; /* not in the index */
} di_test_tensor;

/* The tensors to write. Zero-initialise; change the entries at will before writing. */
typedef struct di_test_plan {
    di_test_tensor *tensors;
    size_t n, cap;
    int n_shards;
    bool is_sparse;     /* payload of zeros that takes no disk space */
    int header_padding; /* spaces behind every header; not a multiple of 8: misaligned tensors */
    bool has_wrong_total;
} di_test_plan;

/* Everything the configuration asks for, in one shard. */
DI_WARN_UNUSED di_status di_test_plan_make(const di_config *config, di_test_plan *out);
di_test_tensor *di_test_plan_find(const di_test_plan *plan, const char *name); /* NULL: none */
DI_WARN_UNUSED di_status di_test_plan_add(di_test_plan *plan, const char *name, di_dtype dtype,
                                          int64_t n);
/* Spreads the tensors over n shards of about equal bytes; each engram table gets one of its own at
 * the end, as in the release. */
void di_test_plan_shard(di_test_plan *plan, int n);
/* Shards and index (without an index and as model.safetensors if n_shards is 0). */
DI_WARN_UNUSED di_status di_test_plan_write(const di_test_plan *plan, const char *dir);
void di_test_plan_free(di_test_plan *plan);

/* config.json and its weights in one go. *config may be NULL. */
DI_WARN_UNUSED di_status di_test_write_checkpoint(const char *dir, const json_t *config_json,
                                                  di_config *config);

/* The tests' own configurations: "golden/tiny", "golden/small", "cases/release". Steals nothing;
 * json_decref. NULL with a printed line on failure. */
json_t *di_test_config_json(const char *folder);
DI_WARN_UNUSED di_status di_test_config(const char *folder, di_config *out);
/* Parses a configuration object under the name "config.json". */
DI_WARN_UNUSED di_status di_test_config_parse(const json_t *config_json, di_config *out);

#endif
