/* The option table: every setting of the engine and the DEEPINFER_* environment variable of the
 * same meaning. This is the only place that reads the environment for the library. A value given
 * through the API wins over the environment, which wins over the default; a value that loses is not
 * looked at. An empty variable counts as unset. docs/options.md shows the table (options_test.c
 * compares). */
#ifndef DI_BASE_OPTIONS_H
#define DI_BASE_OPTIONS_H

#include <stdbool.h>

#include "base/status.h"

typedef enum di_option_id {
    DI_OPTION_ACCELERATOR,
    DI_OPTION_THREADS,
    DI_OPTION_PIN,
    DI_OPTION_MAX_STEP_TOKENS,
    DI_OPTION_MAX_CONTEXT_LEN,
    DI_OPTION_MAX_SEQS,
    DI_OPTION_KV_CACHE_BYTES,
    DI_OPTION_KV_CACHE_FRACTION,
    DI_OPTION_WEIGHTS,
    DI_OPTION_WEIGHT_CACHE,
    DI_OPTION_PREFIX_CACHE,
    DI_OPTION_PREFIX_INTERVAL,
    DI_OPTION_PREFILL_TRUNCATION,
    DI_OPTION_PREFILL_KEEP,
    DI_OPTION_ASYNC_SCHEDULING,
    DI_OPTION_BATCH_INVARIANT,
    DI_OPTION_SPECULATION,
    DI_OPTION_DRAFT_LEN,
    DI_OPTION_DRAFT_VARLEN,
    DI_OPTION_ISA,
    DI_OPTION_KERNELS,
    DI_OPTION_HF_MODEL_DIR,
    DI_N_OPTIONS
} di_option_id;

typedef enum di_option_type {
    DI_OPTION_ENUM,     /* one of `values` */
    DI_OPTION_INT,      /* min .. max; an int in di_options */
    DI_OPTION_INT64,    /* min .. max; an int64_t in di_options */
    DI_OPTION_FRACTION, /* min .. max millionths; a double in di_options */
    DI_OPTION_PAIRS,    /* "name=name,name=name" of a-z, 0-9 and _ */
    DI_OPTION_PATH
} di_option_type;

typedef struct di_option {
    const char *name;
    const char *env;
    di_option_type type;
    bool is_program_only;           /* no field of di_options: read with di_option_string */
    size_t offset;                  /* of the field in di_options */
    const char *const *values;      /* ENUM: accepted by this build, NULL-terminated */
    const char *const *unavailable; /* ENUM: known, but not in this build; may be NULL */
    int64_t min, max;
    const char *default_text; /* as printed where the default is no constant */
    int64_t default_number;   /* INT, INT64, FRACTION; 0 = found at run time */
    const char *help;         /* one line */
} di_option;

/* [DI_N_OPTIONS], indexed by di_option_id. */
extern const di_option di_option_table[];

typedef enum di_option_source {
    DI_SOURCE_DEFAULT,
    DI_SOURCE_ENVIRONMENT,
    DI_SOURCE_OPTION
} di_option_source;

enum { DI_OPTION_TEXT_BYTES = 1024, DI_OPTION_MOST_DRAFTS = 7 };

/* All values are valid and owned by the struct or static. */
typedef struct di_effective_options {
    const char *accelerator;
    int n_threads;
    const char *pin; /* "auto", "on", "off" */
    int max_step_tokens;
    int64_t max_context_len; /* 0 = the config's limit */
    int max_seqs;
    int64_t kv_cache_bytes;         /* 0 = by this machine's memory */
    double kv_cache_fraction;       /* 0 = none; not with kv_cache_bytes */
    const char *weights;            /* "map", "copy" */
    int64_t weight_cache;           /* bytes; 0 = none, experts are read in place */
    const char *prefix_cache;       /* "exact", "replay", "off" */
    int prefix_interval;            /* tokens */
    const char *prefill_truncation; /* "off", "compact", "exact" */
    int prefill_keep;               /* tokens */
    bool is_async, is_batch_invariant;
    const char *speculation; /* "auto", "on", "off" */
    int draft_len;
    bool has_varlen;                    /* as many drafts are verified as pay */
    const char *isa;                    /* "best" or the highest level to use */
    char kernels[DI_OPTION_TEXT_BYTES]; /* "" = none forced */
    di_option_source source[DI_N_OPTIONS];
} di_effective_options;

/* given may be NULL. Also refuses a DEEPINFER_* variable that the table does not have. */
DI_WARN_UNUSED di_status di_options_resolve(const di_options *given, di_effective_options *out);

#endif
