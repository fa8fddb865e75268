/* The golden checkpoints (tests/golden/): models in the released layout and what the official
 * reference computes on them. */
#ifndef DI_TEST_GOLDEN_H
#define DI_TEST_GOLDEN_H

#include <jansson.h>

#include "base/buf.h"
#include "engine/runner.h"
#include "weights/safetensors.h"

typedef struct di_golden {
    di_buf bytes; /* golden.safetensors, decompressed */
    di_safetensors vectors;
    json_t *json; /* golden.json */
    di_model *model;
} di_golden;

/* name: "tiny" or "small". Prints the error and fails the test otherwise. */
void di_golden_open(const char *name, di_golden *out);
void di_golden_close(di_golden *golden);

/* A vector by printf-like name, its element count checked; NULL if there is none. */
const di_tensor *di_golden_find(const di_golden *golden, const char *fmt, ...) DI_PRINTF(2, 3);
const float *di_golden_f32(const di_golden *golden, int64_t *n, const char *fmt, ...)
    DI_PRINTF(3, 4);
const int32_t *di_golden_i32(const di_golden *golden, int64_t *n, const char *fmt, ...)
    DI_PRINTF(3, 4);
const int64_t *di_golden_i64(const di_golden *golden, int64_t *n, const char *fmt, ...)
    DI_PRINTF(3, 4);

/* Prefilled tokens of a case; cases are numbered from 0. */
int64_t di_golden_prefill(const di_golden *golden, int index);
int di_golden_n_cases(const di_golden *golden);
/* A case with an image is the vision issue's. */
bool di_golden_has_image(const di_golden *golden, int index);
/* floor.caseN.<key> */
double di_golden_floor(const di_golden *golden, int index, const char *key);

#endif
