/* Where the program's models come from: a directory, or "org/name" in the Hugging Face cache, which
 * is filled by downloading from the hub. docs/models.md describes it for users.
 *
 * The cache has the layout of the Hugging Face tools and may be shared with them:
 *     models--org--name/refs/main                  the commit
 *     models--org--name/snapshots/COMMIT/FILE      a link to ../../blobs/ETAG
 *     models--org--name/blobs/ETAG                 content; ETAG.incomplete while it is fetched
 *     .locks/models--org--name/ETAG.lock           flock'ed by whoever fetches that blob */
#ifndef DI_APPS_HUB_H
#define DI_APPS_HUB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "deepinfer/deepinfer.h"

enum { DI_HUB_PATH_BYTES = 4096, DI_HUB_URL_BYTES = 512, DI_HUB_TOKEN_BYTES = 512 };

/* One line that tells why a call failed, like di_last_error of the library. */
typedef struct di_hub_error {
    char text[1024];
} di_hub_error;

typedef struct di_hub_options {
    char cache_dir[DI_HUB_PATH_BYTES]; /* the folder of models--org--name; "" = there is none */
    char endpoint[DI_HUB_URL_BYTES];   /* http(s)://host[:port][/path], no slash at the end */
    char token[DI_HUB_TOKEN_BYTES];    /* "" = none; sent to the endpoint's origin only */
    bool is_offline;                   /* use what the cache has, never the network */
    int n_parallel;                    /* files fetched at the same time, 1 .. 64 */
    int retry_delay_ms;                /* wait before the first retry; doubles with each one */
    int64_t free_bytes;                /* free disk; < 0 = ask the file system */
    FILE *progress;               /* sizes, progress and retries are told here; NULL: nowhere */
    bool is_progress_tty;         /* a bar that is redrawn, instead of a line now and then */
    bool (*is_interrupted)(void); /* polled from several threads; NULL: never */
} di_hub_options;

/* Defaults and the environment: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME (the cache),
 * HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE. progress and is_interrupted are left NULL. */
di_status di_hub_options_read(di_hub_options *out, di_hub_error *error)
    __attribute__((warn_unused_result));

/* spec: a directory; "org/name"; or an alias of one. A directory is returned as it is. A repository
 * is looked up in the cache, without the network if a whole snapshot is there, and else downloaded:
 * what an earlier attempt has fetched is kept and checked. *dir is malloc'ed. */
di_status di_hub_resolve(const char *spec, const di_hub_options *options, char **dir,
                         di_hub_error *error) __attribute__((warn_unused_result));

/* The repository an alias stands for, or NULL. */
const char *di_hub_alias(const char *spec);

#endif
