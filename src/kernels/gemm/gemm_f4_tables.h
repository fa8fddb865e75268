/* The e2m1 values times each e8m0 scale: an F4 kernel's look-up table for 32 codes of one scale. */
#ifndef DI_KERNELS_GEMM_F4_TABLES_H
#define DI_KERNELS_GEMM_F4_TABLES_H

#include <stdint.h>

extern const uint32_t di_f4_tables[256][16]; /* [scale][code], fp32 bits, aligned to 64 bytes */

#endif
