/* Declares every kernel of kernels.def. */
#ifndef DI_KERNELS_ALL_H
#define DI_KERNELS_ALL_H

#include <stdint.h>

#define DI_KERNEL(op, target, isa, width, layout, numerics, order, invariant, rank)                \
    void di_##op##_##target(const void *args, int64_t begin, int64_t end, int worker);
#include "kernels/kernels.def"
#undef DI_KERNEL

#endif
