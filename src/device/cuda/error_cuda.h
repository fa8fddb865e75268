/* CUDA's errors as di_status. */
#ifndef DI_DEVICE_CUDA_ERROR_H
#define DI_DEVICE_CUDA_ERROR_H

#include <cuda_runtime_api.h>

#include "base/status.h"

/* DI_OK, or the error with what was being done. */
DI_WARN_UNUSED di_status di_cuda_status(cudaError_t error, const char *what);

/* After a launch: what was wrong with it. */
DI_WARN_UNUSED di_status di_cuda_launched(const char *kernel);

#define DI_CUDA_TRY(call, what) DI_TRY(di_cuda_status((call), (what)))

#endif
