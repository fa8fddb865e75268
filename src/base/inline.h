/* DI_DEVICE_INLINE: an inline function that GPU kernels use too, with the same bits. */
#ifndef DI_BASE_INLINE_H
#define DI_BASE_INLINE_H

#if defined(__CUDACC__)
#define DI_DEVICE_INLINE static inline __host__ __device__
#else
#define DI_DEVICE_INLINE static inline
#endif

#endif
