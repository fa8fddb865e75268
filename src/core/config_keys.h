/* The table of configuration keys: what config.json may say, which keys may be left out, and what
 * holds then. Read by di_config_parse, by the tests that break every key in turn, and by the test
 * that compares docs/checkpoint.md with it. */
#ifndef DI_CORE_CONFIG_KEYS_H
#define DI_CORE_CONFIG_KEYS_H

#include "base/buf.h"
#include "core/config.h"

typedef enum di_config_kind {
    DI_KEY_INT,    /* JSON integer in [min, max] into an int field */
    DI_KEY_INT32,  /* the same into an int32_t */
    DI_KEY_INT64,  /* the same into an int64_t */
    DI_KEY_REAL,   /* JSON number in [min, max] into a double */
    DI_KEY_BOOL,   /* into a bool */
    DI_KEY_TEXT,   /* has to be the text `only`; no field */
    DI_KEY_FALSE,  /* has to be false; no field */
    DI_KEY_ONE,    /* has to be the integer 1; no field */
    DI_KEY_CUSTOM, /* a list, an object or a nullable value: its own reader in config.c */
} di_config_kind;

/* When a key must be there. A key whose condition does not hold is not read at all. */
typedef enum di_config_need {
    DI_NEED_ALWAYS,
    DI_NEED_NEVER,      /* optional: `fallback` holds without it */
    DI_NEED_COMPRESSED, /* required if any compress_ratios entry is above 0 */
    DI_NEED_CANDIDATES, /* required if candidate_source_layer_id names a layer */
    DI_NEED_ENGRAM,     /* required if engram_layer_ids is not empty */
    DI_NEED_DRAFT,      /* required if num_nextn_predict_layers is above 0 */
    DI_NEED_VISION,     /* required if there is a vision_config */
    DI_NEED_YARN,       /* required if rope_scaling.rope_type is yarn */
} di_config_need;

typedef struct di_config_key {
    const char *section; /* "" = top level, else "text_config", "text_config.rope_scaling", ... */
    const char *key;
    di_config_kind kind;
    di_config_need need;
    size_t field;     /* offset in di_config */
    double min, max;  /* of numbers */
    const char *only; /* of DI_KEY_TEXT */
    const char
        *fallback; /* optional keys: what holds without them, as docs/checkpoint.md says it */
} di_config_key;

extern const di_config_key di_config_keys[];
extern const size_t di_n_config_keys;

/* Appends "section.key\n" for every key of the text that the table does not know: those are
 * ignored. The text must parse. */
DI_WARN_UNUSED di_status di_config_unknown_keys(const char *text, size_t len, const char *name,
                                                di_buf *out);

/* The rules between keys, after all of them are read (config_check.c). */
DI_WARN_UNUSED di_status di_config_check(const char *name, di_config *config);

#endif
