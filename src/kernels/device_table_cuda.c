/* The rows of builds with CUDA. */
#include "kernels/all_cuda.h"
#include "kernels/device_kernel.h"

const di_device_kernel di_device_kernels[] = {
#define DI_CUDA_KERNEL(op, target, capability, only, width, layout, numerics, order, invariant,    \
                       rank)                                                                       \
    {DI_OP_##op,                                                                                   \
     #target,                                                                                      \
     capability,                                                                                   \
     only,                                                                                         \
     DI_WIDTH_##width,                                                                             \
     DI_LAYOUT_##layout,                                                                           \
     DI_NUMERICS_##numerics,                                                                       \
     DI_ORDER_##order,                                                                             \
     invariant,                                                                                    \
     rank,                                                                                         \
     di_##op##_##target},
#include "kernels/cuda.def"
#undef DI_CUDA_KERNEL
};
const int di_n_device_kernels = sizeof di_device_kernels / sizeof di_device_kernels[0];
