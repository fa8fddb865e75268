// The public headers from C++: they compile, link as C, and the structs initialise.
#include <deepinfer/deepinfer.h>
#include <deepinfer/tools.h>

#include <cstdio>

int main()
{
    di_options options = {};
    options.n_threads = 1;
    di_request request = DI_REQUEST_INIT;
    request.text = "Once upon a time";
    di_model *model = nullptr;
    const di_status status = di_model_open("no such checkpoint", &options, &model);
    if (status == DI_OK || request.sampling.max_tokens != -1 || request.sampling.top_p != 1.0) {
        std::fprintf(stderr, "status %s\n", di_status_name(status));
        return 1;
    }
    std::puts(di_version());
    return 0;
}
