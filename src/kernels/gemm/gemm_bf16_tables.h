/* Values as bf16 bits, for table look-ups. */
#ifndef DI_KERNELS_GEMM_BF16_TABLES_H
#define DI_KERNELS_GEMM_BF16_TABLES_H

#include <stdint.h>

/* The e2m1 values, twice, times a scale of 2 .. 252; of other scales zeros. */
extern const uint16_t di_f4_bf16_tables[256][32];
/* The magnitudes of e4m3 codes 0 .. 127: low bytes, then high bytes. */
extern const uint8_t di_e4m3_bf16_bytes[2][128];

#endif
