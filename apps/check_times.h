/* Times of deepinfer check --time: medians and tails. */
#ifndef DI_APPS_CHECK_TIMES_H
#define DI_APPS_CHECK_TIMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct di_time_list {
    int64_t *ns;
    size_t n, cap;
} di_time_list;

typedef struct di_check_times {
    di_time_list vocab, compile, mask, accept;
} di_check_times;

int64_t di_check_clock_ns(void);
void di_check_times_add(di_time_list *list, int64_t ns);
/* A line on stderr for each list that is not empty: count, p50, p90, p99, worst. */
void di_check_times_print(di_check_times *times);
void di_check_times_free(di_check_times *times);

#endif
