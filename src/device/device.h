/* Accelerators: what there is, memory on one, and work in order on it. Nothing above includes a
 * vendor's header. One backend, NVIDIA's CUDA, or none (device_nocuda.c): then, and where there is
 * no driver or no device, every call that needs one is DI_ERR_UNSUPPORTED with a text that says
 * which.
 *
 * A device is used by one thread at a time; a thread that did not open it calls di_device_use
 * first. Streams run what was put into them in order; calls return before it is done unless they
 * say otherwise. An error of something that ran earlier is reported by the next call that waits. */
#ifndef DI_DEVICE_DEVICE_H
#define DI_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* ------------------------------------------------------------------------- what there is */

enum {
    DI_DEVICE_LEAST = 80, /* compute capability 8.0: Ampere; kernels need its instructions */
    DI_DEVICE_NAME_BYTES = 64,
    DI_DEVICE_TEXT_BYTES = 160
};

typedef struct di_device_info {
    int index;
    char name[DI_DEVICE_NAME_BYTES];
    int capability; /* 90: compute capability 9.0 */
    int n_processors;
    int64_t memory_bytes, free_bytes;
    int64_t l2_bytes;
    int64_t shared_bytes;               /* that a block may ask for */
    char refusal[DI_DEVICE_TEXT_BYTES]; /* why it cannot be used; "" if it can */
} di_device_info;

/* What this was built with: 13000 for CUDA 13.0; 0: no backend. */
int di_device_backend(void);
DI_WARN_UNUSED di_status di_device_count(int *out);
DI_WARN_UNUSED di_status di_device_describe(int index, di_device_info *out);
/* "cuda" or "cuda:N" to N; anything else is DI_ERR_ARGUMENT. */
DI_WARN_UNUSED di_status di_device_parse(const char *text, int *out);

/* ------------------------------------------------------------------------- a device */

typedef struct di_device di_device;

/* DI_ERR_UNSUPPORTED if it is too old, DI_ERR_MEMORY if fewer than `wanted_bytes` are free. */
DI_WARN_UNUSED di_status di_device_open(int index, int64_t wanted_bytes, di_device **out);
void di_device_close(di_device *device); /* NULL is fine; its memory and streams end before */
const di_device_info *di_device_info_of(const di_device *device);
/* The calling thread's device from now on. */
DI_WARN_UNUSED di_status di_device_use(const di_device *device);

/* ------------------------------------------------------------------------- memory */

typedef enum di_memory {
    DI_MEMORY_DEVICE, /* the device's own, which the host cannot read */
    DI_MEMORY_PINNED  /* the host's, which the device can read, and which copies do not wait for */
} di_memory;

typedef struct di_region {
    unsigned char *data; /* aligned to 256 bytes */
    size_t bytes;
    di_memory memory;
} di_region;

/* `what` names the purpose in errors: "out of memory: found 3 GiB free on cuda:0, wanted ...". */
DI_WARN_UNUSED di_status di_region_create(di_device *device, di_memory memory, size_t bytes,
                                          const char *what, di_region *out);
void di_region_free(di_region *region); /* zeroed is fine */

/* ------------------------------------------------------------------------- work in order */

/* CUDA's own types, by name only. */
typedef struct CUstream_st *di_stream;
typedef struct CUevent_st *di_event;
typedef struct CUgraphExec_st *di_graph;

DI_WARN_UNUSED di_status di_stream_create(di_device *device, di_stream *out);
void di_stream_destroy(di_stream stream); /* waits; NULL is fine */
/* Waits for all that is in it. */
DI_WARN_UNUSED di_status di_stream_wait(di_stream stream);
/* Between any two places, device or host. Host memory that is not pinned is read before the call
 * returns, and copies to it wait for what is in the stream. */
DI_WARN_UNUSED di_status di_stream_copy(di_stream stream, void *to, const void *from, size_t bytes);
DI_WARN_UNUSED di_status di_stream_fill(di_stream stream, void *to, int byte, size_t bytes);

DI_WARN_UNUSED di_status di_event_create(di_device *device, di_event *out);
void di_event_destroy(di_event event); /* NULL is fine */
DI_WARN_UNUSED di_status di_event_record(di_event event, di_stream stream);
DI_WARN_UNUSED di_status di_event_wait(di_event event);
/* What comes next in the stream waits for the event; the caller does not. */
DI_WARN_UNUSED di_status di_stream_wait_event(di_stream stream, di_event event);
/* Seconds between two recorded events that are over. */
DI_WARN_UNUSED di_status di_event_seconds(di_event from, di_event to, double *out);

/* What is put into the stream between begin and end is not run but kept, with its arguments as they
 * are then; launches run all of it. Nothing that waits or allocates may be in between. */
DI_WARN_UNUSED di_status di_graph_begin(di_stream stream);
DI_WARN_UNUSED di_status di_graph_end(di_stream stream, di_graph *out);
DI_WARN_UNUSED di_status di_graph_launch(di_graph graph, di_stream stream);
void di_graph_destroy(di_graph graph); /* NULL is fine */

#endif
