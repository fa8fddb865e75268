/* Tensors for people: names, shapes and values as text. */
#ifndef DI_WEIGHTS_TENSOR_PRINT_H
#define DI_WEIGHTS_TENSOR_PRINT_H

#include <stdio.h>

#include "core/tensor.h"

enum { DI_SHAPE_TEXT_BYTES = 24 * DI_MAX_RANK };

/* "[2,3]"; "[]" for a scalar. */
void di_shape_format(int rank, const int64_t *shape, char out[DI_SHAPE_TEXT_BYTES]);

/* Names come from files: control bytes, which a terminal would obey, become '?'. */
void di_name_print(const char *name, FILE *out);

/* The first n values (< 0: all), converted by the tensor's dtype: the shortest decimal that gives
 * the same number again. With `scale` (may be NULL), the weight's E8M0 scale tensor of spec 2.1,
 * the dequantized values; I8 are then FP4 pairs and n counts the weights, not the bytes. */
void di_tensor_print_values(const di_tensor *tensor, const di_tensor *scale, int64_t n, FILE *out);

#endif
