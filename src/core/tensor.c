#include "core/tensor.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[DI_N_DTYPES] = {
    [DI_BOOL] = {"BOOL", 1},       [DI_U8] = {"U8", 1},           [DI_I8] = {"I8", 1},
    [DI_F8_E4M3] = {"F8_E4M3", 1}, [DI_F8_E5M2] = {"F8_E5M2", 1}, [DI_F8_E8M0] = {"F8_E8M0", 1},
    [DI_I16] = {"I16", 2},         [DI_U16] = {"U16", 2},         [DI_F16] = {"F16", 2},
    [DI_BF16] = {"BF16", 2},       [DI_I32] = {"I32", 4},         [DI_U32] = {"U32", 4},
    [DI_F32] = {"F32", 4},         [DI_I64] = {"I64", 8},         [DI_U64] = {"U64", 8},
    [DI_F64] = {"F64", 8},
};

const char *di_dtype_name(di_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t di_dtype_bytes(di_dtype dtype)
{
    return dtypes[dtype].bytes;
}

bool di_dtype_from_name(const char *name, size_t len, di_dtype *out)
{
    for (int i = 0; i < DI_N_DTYPES; i++) {
        if (strlen(dtypes[i].name) == len && memcmp(dtypes[i].name, name, len) == 0) {
            *out = (di_dtype)i;
            return true;
        }
    }
    return false;
}
