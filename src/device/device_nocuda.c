/* Builds without a GPU backend. */
#include "device/device.h"

static di_status fail_none(void)
{
    return di_fail(DI_ERR_UNSUPPORTED,
                   "this deepinfer was built without NVIDIA GPUs: nvcc was not there, or "
                   "DEEPINFER_CUDA was OFF");
}

int di_device_backend(void)
{
    return 0;
}

di_status di_device_count(int *out)
{
    (void)out;
    return fail_none();
}

di_status di_device_describe(int index, di_device_info *out)
{
    (void)index, (void)out;
    return fail_none();
}

di_status di_device_open(int index, int64_t wanted_bytes, di_device **out)
{
    (void)index, (void)wanted_bytes, (void)out;
    return fail_none();
}

/* Nobody can have a device to call the rest with. */

void di_device_close(di_device *device)
{
    (void)device;
}

const di_device_info *di_device_info_of(const di_device *device)
{
    (void)device;
    return NULL;
}

di_status di_device_use(const di_device *device)
{
    (void)device;
    return fail_none();
}

di_status di_region_create(di_device *device, di_memory memory, size_t bytes, const char *what,
                           di_region *out)
{
    (void)device, (void)memory, (void)bytes, (void)what, (void)out;
    return fail_none();
}

void di_region_free(di_region *region)
{
    (void)region;
}

di_status di_stream_create(di_device *device, di_stream *out)
{
    (void)device, (void)out;
    return fail_none();
}

void di_stream_destroy(di_stream stream)
{
    (void)stream;
}

di_status di_stream_wait(di_stream stream)
{
    (void)stream;
    return fail_none();
}

di_status di_stream_copy(di_stream stream, void *to, const void *from, size_t bytes)
{
    (void)stream, (void)to, (void)from, (void)bytes;
    return fail_none();
}

di_status di_stream_fill(di_stream stream, void *to, int byte, size_t bytes)
{
    (void)stream, (void)to, (void)byte, (void)bytes;
    return fail_none();
}

di_status di_event_create(di_device *device, di_event *out)
{
    (void)device, (void)out;
    return fail_none();
}

void di_event_destroy(di_event event)
{
    (void)event;
}

di_status di_event_record(di_event event, di_stream stream)
{
    (void)event, (void)stream;
    return fail_none();
}

di_status di_event_wait(di_event event)
{
    (void)event;
    return fail_none();
}

di_status di_stream_wait_event(di_stream stream, di_event event)
{
    (void)stream, (void)event;
    return fail_none();
}

di_status di_event_seconds(di_event from, di_event to, double *out)
{
    (void)from, (void)to, (void)out;
    return fail_none();
}

di_status di_graph_begin(di_stream stream)
{
    (void)stream;
    return fail_none();
}

di_status di_graph_end(di_stream stream, di_graph *out)
{
    (void)stream, (void)out;
    return fail_none();
}

di_status di_graph_launch(di_graph graph, di_stream stream)
{
    (void)graph, (void)stream;
    return fail_none();
}

void di_graph_destroy(di_graph graph)
{
    (void)graph;
}
