/* Fresh seeds for requests that give none. */
#ifndef DI_BASE_SEED_H
#define DI_BASE_SEED_H

#include <stdint.h>

#include "base/status.h"

/* 53 random bits from the system: a seed that every JSON reader gives back unchanged. DI_ERR_IO if
 * it has none to give. */
DI_WARN_UNUSED di_status di_seed_fresh(uint64_t *out);

#endif
