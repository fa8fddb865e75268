#include "base/seed.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

di_status di_seed_fresh(uint64_t *out)
{
    uint64_t seed;
    ssize_t got;
    do /* up to 256 bytes come whole or not at all */
        got = getrandom(&seed, sizeof seed, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof seed)
        return di_fail(DI_ERR_IO, "no random seed from the system: %s", strerror(errno));
    *out = seed >> 11;
    return DI_OK;
}
