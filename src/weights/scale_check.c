#include "weights/scale_check.h"

#include <string.h>

#include "base/checked.h"
#include "weights/tensor_print.h"

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

di_status di_scale_name(const char *name, const di_tensor *tensor, di_buf *scale_name,
                        bool *is_quantized)
{
    *is_quantized = (tensor->dtype == DI_F8_E4M3 || tensor->dtype == DI_I8) && tensor->rank == 2 &&
                    ends_with(name, ".weight");
    if (!*is_quantized)
        return DI_OK;
    di_buf_clear(scale_name);
    DI_TRY(di_buf_append(scale_name, name, strlen(name) - strlen("weight")));
    return di_buf_puts(scale_name, "scale");
}

bool di_scale_fits(const char *name, const di_tensor *tensor, const di_tensor *scale,
                   int64_t wanted[2])
{
    const bool is_by_row = tensor->dtype == DI_I8 || ends_with(name, "engram.embed.weight");
    const int64_t a_scale = tensor->dtype == DI_I8 ? 16 : 32; /* stored columns a scale is for */
    wanted[0] = is_by_row ? tensor->shape[0] : di_ceil_div(tensor->shape[0], 32);
    wanted[1] = di_ceil_div(tensor->shape[1], a_scale);
    return scale->dtype == DI_F8_E8M0 && scale->rank == 2 && scale->shape[0] == wanted[0] &&
           scale->shape[1] == wanted[1];
}

di_status di_scale_check(const char *where, const char *name, const di_tensor *tensor,
                         const di_tensor *scale, di_problems *problems)
{
    int64_t wanted[2];
    if (di_scale_fits(name, tensor, scale, wanted))
        return DI_OK;
    char found[DI_SHAPE_TEXT_BYTES], shape[DI_SHAPE_TEXT_BYTES], weight[DI_SHAPE_TEXT_BYTES];
    di_shape_format(scale->rank, scale->shape, found);
    di_shape_format(2, wanted, shape);
    di_shape_format(tensor->rank, tensor->shape, weight);
    return di_problems_add(problems, DI_ERR_INPUT,
                           "%s: scale of tensor %s (%s %s): found %s %s, wanted F8_E8M0 %s", where,
                           name, di_dtype_name(tensor->dtype), weight, di_dtype_name(scale->dtype),
                           found, shape);
}
