#include "guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FRONT = 0xa5 };

di_guarded di_guarded_new(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inside = (bytes + page) / page * page; /* at least one byte of front */
    di_guarded g = {.bytes = bytes, .n_page_bytes = inside + 2 * page};
    g.pages = mmap(NULL, g.n_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.pages == MAP_FAILED)
        fail_msg("no memory for a guarded buffer of %zu bytes", bytes);
    if (mprotect(g.pages + page, inside, PROT_READ | PROT_WRITE) != 0)
        fail_msg("cannot open a guarded buffer of %zu bytes", bytes);
    g.data = g.pages + page + inside - bytes;
    memset(g.pages + page, FRONT, inside - bytes);
    memset(g.data, DI_POISON, bytes);
    return g;
}

void di_guarded_check(const di_guarded *g, const char *what)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (const unsigned char *p = g->pages + page; p < g->data; p++)
        if (*p != FRONT)
            fail_msg("%s: wrote %zu bytes before a buffer of %zu bytes", what,
                     (size_t)(g->data - p), g->bytes);
}

void di_guarded_free(di_guarded *g)
{
    if (g->pages)
        munmap(g->pages, g->n_page_bytes);
    *g = (di_guarded){NULL, 0, NULL, 0};
}
