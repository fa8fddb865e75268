#include "device/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/error_cuda.h"

struct di_device {
    di_device_info info;
};

di_status di_cuda_status(cudaError_t error, const char *what)
{
    switch (error) {
    case cudaSuccess:
        return DI_OK;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorStubLibrary:
    case cudaErrorInitializationError:
        cudaGetLastError(); /* it would be reported again */
        return di_fail(DI_ERR_UNSUPPORTED, "found no NVIDIA GPU that can be used: %s",
                       cudaGetErrorString(error));
    case cudaErrorMemoryAllocation:
        cudaGetLastError();
        return di_fail(DI_ERR_MEMORY, "out of device memory: %s", what);
    default:
        cudaGetLastError();
        return di_fail(DI_ERR_RUNTIME, "CUDA: %s: %s (%s)", what, cudaGetErrorString(error),
                       cudaGetErrorName(error));
    }
}

int di_device_backend(void)
{
    return CUDART_VERSION;
}

di_status di_device_count(int *out)
{
    int driver = 0, n = 0;
    DI_CUDA_TRY(cudaDriverGetVersion(&driver), "the driver's version");
    if (driver == 0)
        return di_fail(DI_ERR_UNSUPPORTED, "found no NVIDIA driver on this machine");
    if (driver / 1000 < CUDART_VERSION / 1000)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "found an NVIDIA driver for CUDA %d.%d, wanted one for %d.0 or later",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000);
    DI_CUDA_TRY(cudaGetDeviceCount(&n), "counting the devices");
    *out = n;
    return DI_OK;
}

static di_status fill_info(int index, di_device_info *info)
{
    struct cudaDeviceProp p;
    DI_CUDA_TRY(cudaGetDeviceProperties(&p, index), "a device's properties");
    *info = (di_device_info){
        .index = index,
        .capability = p.major * 10 + p.minor,
        .n_processors = p.multiProcessorCount,
        .memory_bytes = (int64_t)p.totalGlobalMem,
        .l2_bytes = p.l2CacheSize,
        .shared_bytes = (int64_t)p.sharedMemPerBlockOptin,
    };
    snprintf(info->name, sizeof info->name, "%.*s", DI_DEVICE_NAME_BYTES - 1, p.name);
    if (info->capability < DI_DEVICE_LEAST)
        snprintf(info->refusal, sizeof info->refusal,
                 "found compute capability %d.%d, wanted %d.%d (Ampere) or later", p.major, p.minor,
                 DI_DEVICE_LEAST / 10, DI_DEVICE_LEAST % 10);
    return DI_OK;
}

static di_status read_free_bytes(int64_t *out)
{
    size_t available, total;
    DI_CUDA_TRY(cudaMemGetInfo(&available, &total), "the free memory");
    *out = (int64_t)available;
    return DI_OK;
}

static di_status check_index(int index)
{
    int n;
    DI_TRY(di_device_count(&n));
    if (index < 0 || index >= n)
        return di_fail(DI_ERR_UNSUPPORTED, "device: found cuda:%d, wanted one of %d devices", index,
                       n);
    return DI_OK;
}

di_status di_device_describe(int index, di_device_info *out)
{
    di_device_info info;
    DI_TRY(check_index(index));
    DI_TRY(fill_info(index, &info));
    if (info.refusal[0] == 0) {
        DI_CUDA_TRY(cudaSetDevice(index), "choosing a device");
        DI_TRY(read_free_bytes(&info.free_bytes));
    }
    *out = info;
    return DI_OK;
}

di_status di_device_open(int index, int64_t wanted_bytes, di_device **out)
{
    di_device_info info;
    DI_TRY(di_device_describe(index, &info));
    if (info.refusal[0])
        return di_fail(DI_ERR_UNSUPPORTED, "cuda:%d (%s): %s", index, info.name, info.refusal);
    if (info.free_bytes < wanted_bytes)
        return di_fail(DI_ERR_MEMORY,
                       "cuda:%d (%s): found %.2f GiB of free memory, wanted %.2f GiB", index,
                       info.name, (double)info.free_bytes / 0x1p30, (double)wanted_bytes / 0x1p30);
    di_device *device = malloc(sizeof *device);
    if (!device)
        return di_fail_memory(sizeof *device, "a device");
    device->info = info;
    *out = device;
    return DI_OK;
}

void di_device_close(di_device *device)
{
    free(device);
}

const di_device_info *di_device_info_of(const di_device *device)
{
    return &device->info;
}

di_status di_device_use(const di_device *device)
{
    return di_cuda_status(cudaSetDevice(device->info.index), "choosing a device");
}

/* ------------------------------------------------------------------------- memory */

di_status di_region_create(di_device *device, di_memory memory, size_t bytes, const char *what,
                           di_region *out)
{
    void *data = NULL;
    DI_TRY(di_device_use(device));
    const cudaError_t error = memory == DI_MEMORY_DEVICE
                                  ? cudaMalloc(&data, bytes > 0 ? bytes : 1)
                                  : cudaHostAlloc(&data, bytes > 0 ? bytes : 1,
                                                  cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaErrorMemoryAllocation) {
        int64_t available = 0;
        cudaGetLastError();
        DI_TRY(read_free_bytes(&available));
        if (memory == DI_MEMORY_PINNED)
            return di_fail(DI_ERR_MEMORY, "out of memory: cannot pin %zu bytes for %s", bytes,
                           what);
        return di_fail(DI_ERR_MEMORY,
                       "out of memory: found %" PRId64 " bytes free on cuda:%d, wanted %zu for %s",
                       available, device->info.index, bytes, what);
    }
    DI_TRY(di_cuda_status(error, what));
    *out = (di_region){data, bytes, memory};
    return DI_OK;
}

void di_region_free(di_region *region)
{
    if (region->data && region->memory == DI_MEMORY_DEVICE)
        cudaFree(region->data);
    else if (region->data)
        cudaFreeHost(region->data);
    *region = (di_region){NULL};
}
