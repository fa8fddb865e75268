/* Checks content against its etag: 64 hex digits are its SHA-256 (large files), 40 its git blob
 * SHA-1 (small ones). Another etag cannot be checked, only the size. */
#ifndef DI_APPS_HUB_DIGEST_H
#define DI_APPS_HUB_DIGEST_H

#include "hub_cache.h"

typedef struct di_hub_digest {
    void *context; /* EVP_MD_CTX; NULL: nothing to check */
    const di_hub_file *file;
} di_hub_digest;

/* Starts from the beginning; may be called again. `file` must outlive the digest. */
di_status di_hub_digest_begin(di_hub_digest *digest, const di_hub_file *file, di_hub_error *error)
    __attribute__((warn_unused_result));
bool di_hub_digest_add(di_hub_digest *digest, const void *data, size_t len);
/* DI_ERR_INPUT with both digests if they differ. */
di_status di_hub_digest_check(di_hub_digest *digest, di_hub_error *error)
    __attribute__((warn_unused_result));
void di_hub_digest_free(di_hub_digest *digest);

#endif
