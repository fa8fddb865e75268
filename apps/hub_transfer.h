/* Fetches the blobs of a list of files, several at a time: resumed where an earlier attempt ended,
 * checked by size and digest, put in place only when whole. */
#ifndef DI_APPS_HUB_TRANSFER_H
#define DI_APPS_HUB_TRANSFER_H

#include "hub_cache.h"

/* What the sources of all the files have in common. */
typedef struct di_hub_source {
    const di_hub_options *options;
    const di_hub_repo *repo;
    const char *commit;
} di_hub_source;

/* Returns when all are there, or with the first failure once the other transfers have stopped. Then
 * every blob is in place or left as .incomplete. is_shown: with progress. */
di_status di_hub_transfer(const di_hub_source *source, const di_hub_files *files, bool is_shown,
                          di_hub_error *error) __attribute__((warn_unused_result));

/* ENDPOINT/org/name/resolve/COMMIT/FILE */
di_status di_hub_file_url(const di_hub_source *source, const char *name, char *out,
                          size_t out_bytes, di_hub_error *error)
    __attribute__((warn_unused_result));

#endif
