/* Copies on a device of the host memory that a call's args point to, and the args with their
 * pointers translated: the same call can be made there. For checks and benchmarks; the engine makes
 * its args with device pointers at once.
 *
 * A word of the args that is an address within the mirrored memory is one of its pointers. */
#ifndef DI_KERNELS_DEVICE_MIRROR_H
#define DI_KERNELS_DEVICE_MIRROR_H

#include "base/arena.h"
#include "device/device.h"
#include "kernels/kernel.h"

enum { DI_MIRROR_ARGS_BYTES = 512 };

typedef struct di_mirror_part {
    const unsigned char *host;
    size_t bytes;
    di_region region; /* the copy, between guards */
    bool is_lent;     /* another mirror's */
} di_mirror_part;

typedef struct di_mirror {
    di_device *device;
    di_stream stream;
    size_t guard_bytes; /* of 0xa5 before and after each part; 0: none, so that a memory checker
                           sees the end of each part */
    di_mirror_part *parts;
    size_t n_parts, capacity;
    di_status status; /* of di_mirror_add_arena */
} di_mirror;

void di_mirror_free(di_mirror *mirror);
/* A part of its own; its content is copied now. */
DI_WARN_UNUSED di_status di_mirror_add(di_mirror *mirror, const void *host, size_t bytes);
/* A part for each chunk. */
DI_WARN_UNUSED di_status di_mirror_add_arena(di_mirror *mirror, const di_arena *arena);
/* Another mirror's part, which that one keeps. Neither may have guards. */
DI_WARN_UNUSED di_status di_mirror_lend(di_mirror *mirror, const di_mirror_part *part);
/* Where the copy of `host` is; NULL if it is in no part. */
void *di_mirror_translate(const di_mirror *mirror, const void *host);
/* The args of a call of n_rows rows, translated to out [DI_MIRROR_ARGS_BYTES]; the copies of the
 * arrays of pointers that they name are translated too. */
DI_WARN_UNUSED di_status di_mirror_args(di_mirror *mirror, di_op op, const void *args, size_t bytes,
                                        int64_t n_rows, void *out);
/* Waits, and copies the i-th part back to `to`; is_intact: nothing of its guards was written. */
DI_WARN_UNUSED di_status di_mirror_read(di_mirror *mirror, size_t i, void *to, bool *is_intact);

#endif
