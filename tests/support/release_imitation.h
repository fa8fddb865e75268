/* The release's checkpoint as its headers say it, with holes for its 510 GB of payload. */
#ifndef DI_TEST_RELEASE_IMITATION_H
#define DI_TEST_RELEASE_IMITATION_H

#include "checkpoint.h"

enum { DI_RELEASE_SHARDS = 48, DI_RELEASE_TENSORS = 96085 };
#define DI_RELEASE_PAYLOAD_BYTES UINT64_C(510286023000)

/* Writes config.json, 48 sparse shards and the index into dir. DI_ERR_IO if the file system takes
 * no files of that size. With `change` (may be NULL) the plan is changed before it is written. */
DI_WARN_UNUSED di_status di_test_write_release(const char *dir, void (*change)(di_test_plan *plan));

#endif
