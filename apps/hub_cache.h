/* The Hugging Face cache on disk: names, paths, what is complete, links, locks. No network here. */
#ifndef DI_APPS_HUB_CACHE_H
#define DI_APPS_HUB_CACHE_H

#include "hub_error.h"

enum {
    DI_HUB_ID_BYTES = 200,
    DI_HUB_NAME_BYTES = 256,
    DI_HUB_ETAG_BYTES = 132,
    DI_HUB_COMMIT_BYTES = 72
};

typedef struct di_hub_repo {
    char id[DI_HUB_ID_BYTES];      /* org/name */
    char dir[DI_HUB_PATH_BYTES];   /* CACHE/models--org--name */
    char locks[DI_HUB_PATH_BYTES]; /* CACHE/.locks/models--org--name */
} di_hub_repo;

/* A file of a repository at one commit. */
typedef struct di_hub_file {
    char name[DI_HUB_NAME_BYTES]; /* plain: di_hub_is_file_name */
    char
        etag[DI_HUB_ETAG_BYTES]; /* names the blob: SHA-256 (64 hex), git SHA-1 (40 hex) or other */
    int64_t size;
} di_hub_file;

typedef struct di_hub_files {
    di_hub_file *items; /* owned: di_hub_files_free */
    size_t n, cap;
} di_hub_files;

/* A zeroed item at the end; NULL if there is no memory. */
di_hub_file *di_hub_files_add(di_hub_files *files);
void di_hub_files_free(di_hub_files *files);

/* "org/name" of letters, digits, '-', '_' and '.', as the hub allows them. */
bool di_hub_is_repo_id(const char *text);
/* A name from the network that may become a file: no folders, not hidden, nothing but letters,
 * digits, '-', '_' and '.'. */
bool di_hub_is_file_name(const char *text);
/* The same for etags and commits, which are file names too. */
bool di_hub_is_etag(const char *text);
bool di_hub_is_commit(const char *text);

di_status di_hub_repo_init(const di_hub_options *options, const char *id, di_hub_repo *out,
                           di_hub_error *error) __attribute__((warn_unused_result));
/* blobs/, refs/, snapshots/COMMIT/ and the folder of the locks. */
di_status di_hub_repo_create(const di_hub_repo *repo, const char *commit, di_hub_error *error)
    __attribute__((warn_unused_result));

/* The snapshot that refs/main names, if all files of a checkpoint are in it: DI_OK. Else DI_ERR_IO
 * and the error tells what is missing. dir has DI_HUB_PATH_BYTES. */
di_status di_hub_snapshot_find(const di_hub_repo *repo, char *dir, di_hub_error *error)
    __attribute__((warn_unused_result));

/* The different shard names of a model.safetensors.index.json, sorted; sizes and etags are not set.
 */
di_status di_hub_index_read(const char *path, di_hub_files *out, di_hub_error *error)
    __attribute__((warn_unused_result));

di_status di_hub_blob_path(const di_hub_repo *repo, const di_hub_file *file, const char *suffix,
                           char *out, di_hub_error *error) __attribute__((warn_unused_result));
/* Whether the blob is in place. Its content was checked when it was put there. */
di_status di_hub_blob_is_whole(const di_hub_repo *repo, const di_hub_file *file, bool *is_whole,
                               di_hub_error *error) __attribute__((warn_unused_result));
/* Bytes of `file` on disk: its size if the blob is whole, else those of an .incomplete. */
di_status di_hub_blob_present(const di_hub_repo *repo, const di_hub_file *file, int64_t *bytes,
                              di_hub_error *error) __attribute__((warn_unused_result));
/* Takes the lock of a blob: *fd is closed to release it, or -1 if somebody else has it. */
di_status di_hub_blob_try_lock(const di_hub_repo *repo, const di_hub_file *file, int *fd,
                               di_hub_error *error) __attribute__((warn_unused_result));

/* snapshots/COMMIT/NAME -> ../../blobs/ETAG, replacing what was there at once. */
di_status di_hub_snapshot_link(const di_hub_repo *repo, const char *commit, const di_hub_file *file,
                               di_hub_error *error) __attribute__((warn_unused_result));
/* Lets refs/main name the commit. */
di_status di_hub_ref_write(const di_hub_repo *repo, const char *commit, di_hub_error *error)
    __attribute__((warn_unused_result));

/* Free bytes of the file system of `dir`, as the options tell or the system says. */
di_status di_hub_free_bytes(const di_hub_options *options, const char *dir, int64_t *out,
                            di_hub_error *error) __attribute__((warn_unused_result));

#endif
