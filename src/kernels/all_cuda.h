/* Declares every kernel of cuda.def. */
#ifndef DI_KERNELS_ALL_CUDA_H
#define DI_KERNELS_ALL_CUDA_H

#include <stdint.h>

#include "device/device.h"

#define DI_CUDA_KERNEL(op, target, capability, only, width, layout, numerics, order, invariant,    \
                       rank)                                                                       \
    di_status di_##op##_##target(const void *args, int64_t n_items, di_stream stream);
#include "kernels/cuda.def"
#undef DI_CUDA_KERNEL

#endif
