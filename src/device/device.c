#include "device/device.h"

#include <stdlib.h>
#include <string.h>

di_status di_device_parse(const char *text, int *out)
{
    enum { MOST = 1 << 16 };
    const char *rest = strncmp(text, "cuda", 4) == 0 ? text + 4 : NULL;
    long index = 0;
    if (rest && *rest == ':' && rest[1] >= '0' && rest[1] <= '9') {
        char *end;
        index = strtol(rest + 1, &end, 10);
        rest = end;
    }
    if (!rest || *rest || index >= MOST)
        return di_fail(DI_ERR_ARGUMENT, "device: found \"%s\", wanted cuda or cuda:N", text);
    *out = (int)index;
    return DI_OK;
}
