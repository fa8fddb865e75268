/* Quantized weights and their scales, by name and dtype alone: for files whose configuration is not
 * at hand (model spec 2). */
#ifndef DI_WEIGHTS_SCALE_CHECK_H
#define DI_WEIGHTS_SCALE_CHECK_H

#include "core/tensor.h"
#include "weights/problems.h"

/* Whether `name` is a quantized weight: F8_E4M3 or I8 of rank 2 called X.weight. Then `scale_name`
 * becomes X.scale. */
DI_WARN_UNUSED di_status di_scale_name(const char *name, const di_tensor *tensor,
                                       di_buf *scale_name, bool *is_quantized);

/* A scale that fits: F8_E8M0, one for 32x32 elements; for I8 and Engram tables one for a row and 32
 * columns. */
bool di_scale_fits(const char *name, const di_tensor *tensor, const di_tensor *scale,
                   int64_t wanted[2]);

/* Adds a problem if the scale does not fit; a missing one is the caller's to judge. */
DI_WARN_UNUSED di_status di_scale_check(const char *where, const char *name,
                                        const di_tensor *tensor, const di_tensor *scale,
                                        di_problems *problems);

#endif
