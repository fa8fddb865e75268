/* Memory near the workers that read it: which part of a tensor each worker reads, on which node its
 * pages go, and large pages. Plain system calls; nothing here changes results. */
#ifndef DI_BASE_NUMA_H
#define DI_BASE_NUMA_H

#include <stdint.h>

#include "base/status.h"

enum { DI_LARGE_PAGE = 2 << 20 };

/* Rows split by the pool's static split over workers on nodes (base/team.h). */
typedef struct di_numa_split {
    const int *nodes; /* [n_workers], ascending; NULL: all on one */
    int n_workers;
    int64_t at;   /* where the rows begin in their memory, which begins on a page */
    int64_t page; /* bytes of a page, which can only be on one node */
    int64_t n_rows, row_bytes;
} di_numa_split;

/* First byte of a worker's part, counted from the rows' beginning; that of worker n_workers is
 * their end. Where the node changes it is moved to the nearest border of a page. */
int64_t di_numa_part_begin(const di_numa_split *split, int worker);

/* Pages that the calling thread touches first come from this node while it has any; node -1: from
 * where the thread runs. A policy of threads, not of ranges (mbind): a range would need its own
 * mapping, and a model has more ranges than a process may have mappings. DI_ERR_UNSUPPORTED where
 * that is not possible. */
DI_WARN_UNUSED di_status di_numa_prefer(int node);
/* The node of a touched page. DI_ERR_UNSUPPORTED where the system does not tell. */
DI_WARN_UNUSED di_status di_numa_find(const void *page, int *node);

/* Zeroed memory that begins on a large page and is made of such where the system has them. */
typedef struct di_large_memory {
    unsigned char *data;
    int64_t bytes;
    void *mapping;
    int64_t mapped_bytes;
} di_large_memory;

DI_WARN_UNUSED di_status di_large_new(int64_t bytes, di_large_memory *out);
void di_large_free(di_large_memory *memory); /* a zeroed one is fine */

#endif
