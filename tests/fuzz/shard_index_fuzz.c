/* Any text as a shard index: refused, or only plain file names come out. */
#include <stdlib.h>
#include <string.h>

#include "weights/shard_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    di_shard_index index;
    if (di_shard_index_parse((const char *)data, size, "fuzz", &index) != DI_OK) {
        if (strchr(di_last_error(), '\n') || strncmp(di_last_error(), "fuzz: ", 6) != 0)
            abort();
        return 0;
    }
    for (int32_t i = 0; i < index.n_files; i++)
        if (!*index.files[i] || strchr(index.files[i], '/') || strcmp(index.files[i], "..") == 0)
            abort();
    for (size_t i = 0; i < index.n_entries; i++)
        if (index.entries[i].shard < 0 || index.entries[i].shard >= index.n_files ||
            di_shard_index_find(&index, index.entries[i].tensor) != &index.entries[i])
            abort();
    di_shard_index_free(&index);
    return 0;
}
