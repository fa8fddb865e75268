/* What a repository holds, as the hub's API tells it. */
#ifndef DI_APPS_HUB_LIST_H
#define DI_APPS_HUB_LIST_H

#include "hub_http.h"

typedef struct di_hub_listing {
    char commit[DI_HUB_COMMIT_BYTES];
    di_hub_files files; /* sorted by name; size < 0 or etag "" where the hub does not say */
} di_hub_listing;

/* Of the branch main. Files whose names are no plain names are left out. */
di_status di_hub_list(const di_hub_options *options, const char *repo_id, di_hub_http *http,
                      di_hub_listing *out) __attribute__((warn_unused_result));
void di_hub_listing_free(di_hub_listing *listing);

/* NULL if the repository does not have it. */
const di_hub_file *di_hub_listing_find(const di_hub_listing *listing, const char *name);

/* The same from the text of the answer. `name` is for error texts. */
di_status di_hub_listing_parse(const char *text, size_t len, const char *name, di_hub_listing *out,
                               di_hub_error *error) __attribute__((warn_unused_result));

#endif
