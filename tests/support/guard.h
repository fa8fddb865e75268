/* Buffers for kernel tests: memory that faults when read or written just outside, holds NaN until
 * written, and knows when bytes before it changed. */
#ifndef DI_TEST_GUARD_H
#define DI_TEST_GUARD_H

#include <stddef.h>

/* Bytes 0xff: NaN as bf16 and fp32, -1 as an integer. */
enum { DI_POISON = 0xff };

typedef struct di_guarded {
    unsigned char *data; /* ends where a page without access begins */
    size_t bytes;
    unsigned char *pages;
    size_t n_page_bytes; /* all of the mapping */
} di_guarded;

/* Poisoned; fails the test if there is no memory. bytes 0 gives a pointer that must not be used. */
di_guarded di_guarded_new(size_t bytes);
/* Fails the test if the bytes between the first page and the data were written. */
void di_guarded_check(const di_guarded *g, const char *what);
void di_guarded_free(di_guarded *g);

#endif
