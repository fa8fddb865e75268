/* Read-only files: mapped, or read whole. */
#ifndef DI_BASE_FILE_H
#define DI_BASE_FILE_H

#include <stdbool.h>

#include "base/buf.h"

typedef struct di_mapping {
    const unsigned char *data; /* NULL for an empty file */
    size_t size;
    int fd; /* kept to see whether the file was cut since; -1 = not mapped */
} di_mapping;

/* Maps a regular file. Errors name the path and, for a dangling symbolic link, its target. */
DI_WARN_UNUSED di_status di_mapping_open(const char *path, di_mapping *out);
void di_mapping_close(di_mapping *mapping);
/* DI_ERR_RUNTIME if the file is shorter now than when it was mapped (reading would fault). */
DI_WARN_UNUSED di_status di_mapping_check(const di_mapping *mapping, const char *path);

/* Reads a whole regular file (path "-" = standard input, whatever it is) of at most max_bytes.
 * Appends to out. */
DI_WARN_UNUSED di_status di_file_read(const char *path, size_t max_bytes, di_buf *out);

bool di_path_is_dir(const char *path);
bool di_path_exists(const char *path);

#endif
