#include "device/cuda/error_cuda.h"
#include "device/device.h"

di_status di_stream_create(di_device *device, di_stream *out)
{
    DI_TRY(di_device_use(device));
    return di_cuda_status(cudaStreamCreateWithFlags(out, cudaStreamNonBlocking), "a new stream");
}

void di_stream_destroy(di_stream stream)
{
    if (!stream)
        return;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
}

di_status di_stream_wait(di_stream stream)
{
    return di_cuda_status(cudaStreamSynchronize(stream), "waiting for a stream");
}

di_status di_stream_copy(di_stream stream, void *to, const void *from, size_t bytes)
{
    return di_cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "a copy");
}

di_status di_stream_fill(di_stream stream, void *to, int byte, size_t bytes)
{
    return di_cuda_status(cudaMemsetAsync(to, byte, bytes, stream), "filling memory");
}

di_status di_event_create(di_device *device, di_event *out)
{
    DI_TRY(di_device_use(device));
    return di_cuda_status(cudaEventCreate(out), "a new event");
}

void di_event_destroy(di_event event)
{
    if (event)
        cudaEventDestroy(event);
}

di_status di_event_record(di_event event, di_stream stream)
{
    return di_cuda_status(cudaEventRecord(event, stream), "recording an event");
}

di_status di_event_wait(di_event event)
{
    return di_cuda_status(cudaEventSynchronize(event), "waiting for an event");
}

di_status di_stream_wait_event(di_stream stream, di_event event)
{
    return di_cuda_status(cudaStreamWaitEvent(stream, event, 0), "ordering two streams");
}

di_status di_event_seconds(di_event from, di_event to, double *out)
{
    float milliseconds = 0.0f;
    DI_CUDA_TRY(cudaEventElapsedTime(&milliseconds, from, to), "the time between events");
    *out = (double)milliseconds * 1e-3;
    return DI_OK;
}

di_status di_cuda_launched(const char *kernel)
{
    return di_cuda_status(cudaGetLastError(), kernel);
}

di_status di_graph_begin(di_stream stream)
{
    return di_cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                          "beginning a graph");
}

di_status di_graph_end(di_stream stream, di_graph *out)
{
    cudaGraph_t graph = NULL;
    DI_CUDA_TRY(cudaStreamEndCapture(stream, &graph), "ending a graph");
    const cudaError_t error = cudaGraphInstantiate(out, graph, 0);
    cudaGraphDestroy(graph);
    return di_cuda_status(error, "making a graph");
}

di_status di_graph_launch(di_graph graph, di_stream stream)
{
    return di_cuda_status(cudaGraphLaunch(graph, stream), "launching a graph");
}

void di_graph_destroy(di_graph graph)
{
    if (graph)
        cudaGraphExecDestroy(graph);
}
