/* What is wrong with a checkpoint, all of it, instead of the first thing only. */
#ifndef DI_WEIGHTS_PROBLEMS_H
#define DI_WEIGHTS_PROBLEMS_H

#include "base/buf.h"

enum { DI_KEPT_PROBLEMS = 10000 };

typedef struct di_problems {
    di_buf text;     /* one line each; no more than DI_KEPT_PROBLEMS of them */
    size_t n;        /* all, the ones left out included */
    di_status first; /* status of the first one */
} di_problems;

#define DI_PROBLEMS_AUTO __attribute__((cleanup(di_problems_free))) di_problems

/* Adds a problem. Fails only for lack of memory. */
DI_WARN_UNUSED di_status di_problems_add(di_problems *problems, di_status status, const char *fmt,
                                         ...) DI_PRINTF(3, 4);
/* Adds the calling thread's error text, unless `status` is DI_ERR_MEMORY: that is passed on. */
DI_WARN_UNUSED di_status di_problems_add_error(di_problems *problems, di_status status);
/* DI_OK without problems; else one error that counts them and shows the first ones. */
DI_WARN_UNUSED di_status di_problems_status(const di_problems *problems);
void di_problems_free(di_problems *problems);

#endif
