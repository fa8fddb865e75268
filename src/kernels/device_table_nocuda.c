/* Builds without a GPU backend have no rows. */
#include "kernels/device_kernel.h"

const di_device_kernel di_device_kernels[] = {{.name = "none"}};
const int di_n_device_kernels = 0;
