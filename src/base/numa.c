#define _GNU_SOURCE /* syscall, MADV_HUGEPAGE */

#include "base/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/topology.h"

int64_t di_numa_part_begin(const di_numa_split *split, int worker)
{
    const int64_t end = split->n_rows * split->row_bytes;
    const int64_t begin = split->n_rows * worker / split->n_workers * split->row_bytes;
    if (worker == 0 || worker == split->n_workers)
        return begin;
    /* A worker moves with the one that its node begins with, if the border passes it. */
    int64_t least = 0, most = end;
    for (int w = 1; split->nodes && w < split->n_workers; w++) {
        if (split->nodes[w] == split->nodes[w - 1])
            continue;
        const int64_t plain = split->n_rows * w / split->n_workers * split->row_bytes;
        const int64_t border = (split->at + plain + split->page / 2) / split->page * split->page;
        const int64_t moved = di_min_i64(end, di_max_i64(0, border - split->at));
        if (w <= worker)
            least = di_max_i64(least, moved);
        if (w == worker)
            most = di_max_i64(least, moved);
        else if (w > worker)
            most = di_min_i64(most, moved);
    }
    return di_max_i64(least, di_min_i64(begin, most));
}

di_status di_numa_prefer(int node)
{
    enum { BITS = 8 * sizeof(unsigned long), WORDS = DI_MAX_NODES / BITS };
    unsigned long mask[WORDS] = {0};
    if (node >= DI_MAX_NODES)
        return di_fail(DI_ERR_ARGUMENT, "node: found %d, wanted at most %d", node,
                       DI_MAX_NODES - 1);
    if (node >= 0)
        mask[node / BITS] = 1UL << (node % BITS);
    const long failed =
        node < 0 ? syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0UL)
                 : syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, (unsigned long)DI_MAX_NODES);
    if (failed)
        return di_fail(DI_ERR_UNSUPPORTED, "memory cannot be placed on node %d here: %s", node,
                       strerror(errno));
    return DI_OK;
}

di_status di_numa_find(const void *page, int *node)
{
    const void *pages[] = {page};
    int status = -1;
    if (syscall(SYS_move_pages, 0, 1UL, pages, NULL, &status, 0) != 0)
        return di_fail(DI_ERR_UNSUPPORTED, "the system does not tell where a page is: %s",
                       strerror(errno));
    if (status < 0)
        return di_fail(DI_ERR_UNSUPPORTED, "the system does not tell where a page is: %s",
                       strerror(-status));
    *node = status;
    return DI_OK;
}

di_status di_large_new(int64_t bytes, di_large_memory *out)
{
    const int64_t mapped = (bytes + 2 * DI_LARGE_PAGE - 1) / DI_LARGE_PAGE * DI_LARGE_PAGE;
    void *mapping = mmap(NULL, (size_t)mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return di_fail_memory((size_t)mapped, "weights in memory");
    const uintptr_t at = (uintptr_t)mapping;
    const uintptr_t begin = (at + DI_LARGE_PAGE - 1) / DI_LARGE_PAGE * DI_LARGE_PAGE;
    *out = (di_large_memory){(unsigned char *)mapping + (begin - at), bytes, mapping, mapped};
    (void)madvise(mapping, (size_t)mapped, MADV_HUGEPAGE); /* else small ones */
    return DI_OK;
}

void di_large_free(di_large_memory *memory)
{
    if (memory->mapping)
        munmap(memory->mapping, (size_t)memory->mapped_bytes);
    *memory = (di_large_memory){NULL};
}
