/* How much memory there is for this process. */
#ifndef DI_BASE_MEMORY_H
#define DI_BASE_MEMORY_H

#include <stdint.h>

typedef struct di_memory {
    int64_t total; /* of this machine */
    int64_t limit; /* most this process may have: total, or the least limit of its control groups,
                      version 2 or 1, if that is less */
    int64_t available; /* the least of limit and of what the system says can be had without swapping
                          (MemAvailable) */
} di_memory;

/* root: "" for this machine; tests give a directory with proc/ and sys/ in it. What cannot be read
 * counts as no limit. */
void di_memory_read(const char *root, di_memory *out);

#endif
