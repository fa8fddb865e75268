/* One blob of the cache, fetched. */
#ifndef DI_APPS_HUB_BLOB_H
#define DI_APPS_HUB_BLOB_H

#include "hub_http.h"
#include "hub_transfer.h"

/* Under the blob's lock: continues an .incomplete, checks the whole, moves it into place. Nothing
 * to do if it is there. On failure the .incomplete stays, unless its content is wrong. Counts on
 * http->progress, which must not be NULL. */
di_status di_hub_blob_fetch(const di_hub_source *source, const di_hub_file *file, di_hub_http *http)
    __attribute__((warn_unused_result));

#endif
