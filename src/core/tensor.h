/* Typed views of memory somebody else owns (usually a mapped checkpoint). */
#ifndef DI_CORE_TENSOR_H
#define DI_CORE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The safetensors dtypes; the release uses F8_E4M3, F8_E8M0, I8 (packed FP4), BF16 and F32. */
typedef enum di_dtype {
    DI_BOOL,
    DI_U8,
    DI_I8,
    DI_F8_E4M3,
    DI_F8_E5M2,
    DI_F8_E8M0,
    DI_I16,
    DI_U16,
    DI_F16,
    DI_BF16,
    DI_I32,
    DI_U32,
    DI_F32,
    DI_I64,
    DI_U64,
    DI_F64,
    DI_N_DTYPES
} di_dtype;

enum { DI_MAX_RANK = 8 };

typedef struct di_tensor {
    const void *data; /* row-major, no padding; not necessarily aligned to its element */
    size_t bytes;
    di_dtype dtype;
    int rank; /* 0 = scalar */
    int64_t shape[DI_MAX_RANK];
} di_tensor;

const char *di_dtype_name(di_dtype dtype); /* "F8_E4M3", as in safetensors headers */
size_t di_dtype_bytes(di_dtype dtype);     /* bytes of one element */
bool di_dtype_from_name(const char *name, size_t len, di_dtype *out);

/* A quantized linear layer's weight [n_out, n_in] (model spec 2, 2.1).
 * F8: codes e4m3 [n_out, n_in], scales e8m0 [ceil(n_out/32), ceil(n_in/32)].
 * F4: codes e2m1, two a byte, low nibble first [n_out, n_in/2], scales e8m0 [n_out, n_in/32]. */
typedef enum di_weight_format { DI_WEIGHT_F8, DI_WEIGHT_F4 } di_weight_format;

typedef struct di_qweight {
    const uint8_t *codes;
    const uint8_t *scales;
    int64_t n_out, n_in;
    di_weight_format format;
} di_qweight;

#endif
