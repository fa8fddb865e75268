/* The tokenizers of the tests: golden ("golden/tokenizer.json") and DeepSeek-V3's (xz). */
#ifndef DI_TEST_TOKENIZERS_H
#define DI_TEST_TOKENIZERS_H

#include <jansson.h>

#include "text/tokenizer.h"

/* path relative to the tests' folder; a name that ends in .xz is decompressed. Prints the error and
 * gives NULL on failure. Close with di_tokenizer_close. */
di_tokenizer *di_test_tokenizer(const char *path);
#define DI_TEST_GOLDEN_TOKENIZER "golden/tokenizer.json"
#define DI_TEST_V3_TOKENIZER     "cases/tokenizer/deepseek_v3_tokenizer.json.xz"

/* A JSON file of the tests' folder (.xz too); `any_value` and NULL on failure as above. */
json_t *di_test_json(const char *path);
/* Its bytes. */
di_status di_test_read(const char *path, di_buf *out);

/* Appends the integers of a JSON array. */
di_status di_test_json_ids(const json_t *array, di_ids *out);

/* Deterministic noise: xorshift64. */
uint32_t di_test_random(uint64_t *state);

#endif
