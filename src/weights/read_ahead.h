/* Asks the system for weights of the mapping that a pass will read, while it computes something
 * else. Advice: it changes no result, and costs a fully resident model next to nothing, since what
 * was asked for once counts as resident until the process reads from disk again. */
#ifndef DI_WEIGHTS_READ_AHEAD_H
#define DI_WEIGHTS_READ_AHEAD_H

#include "weights/bind.h"
#include "weights/io_pool.h"

typedef struct di_read_ahead di_read_ahead;

typedef struct di_read_ahead_stats {
    uint64_t n_resident; /* experts that were in memory, or were taken to be */
    uint64_t n_asked;    /* experts that were not */
    uint64_t bytes_read; /* that this process read from disks, if the system counts them */
} di_read_ahead_stats;

/* Also tells the system that rows of Engram tables are read one by one. */
DI_WARN_UNUSED di_status di_read_ahead_create(const di_weights *weights, di_read_ahead **out);
void di_read_ahead_destroy(di_read_ahead *ahead); /* NULL is fine */
/* A pass begins. One thread at a time calls this and the two below. */
void di_read_ahead_begin(di_read_ahead *ahead);
/* The routed experts ids [n] of a layer. */
void di_read_ahead_experts(di_read_ahead *ahead, const di_layer_weights *layer, const int32_t *ids,
                           int64_t n);
/* Rows [n] of the table of an Engram layer, index in the config's list. */
void di_read_ahead_rows(di_read_ahead *ahead, int engram_index, const int64_t *rows, int64_t n);
void di_read_ahead_get_stats(const di_read_ahead *ahead, di_read_ahead_stats *out);
/* For tests: returns when what was asked for has been passed on. */
void di_read_ahead_drain(di_read_ahead *ahead);

#endif
