#include "check_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app.h"

int64_t di_check_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void di_check_times_add(di_time_list *list, int64_t ns)
{
    if (list->n == list->cap) {
        list->cap = list->cap == 0 ? 1024 : 2 * list->cap;
        list->ns = di_app_resize(list->ns, list->cap, sizeof *list->ns);
    }
    list->ns[list->n++] = ns;
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at(const di_time_list *list, double share)
{
    return (double)list->ns[(size_t)(share * (double)(list->n - 1))] / 1000.0;
}

static void print_list(const char *name, di_time_list *list)
{
    if (list->n == 0)
        return;
    qsort(list->ns, list->n, sizeof *list->ns, by_time);
    fprintf(stderr, "%-10s %8zu times, us: p50 %.2f, p90 %.2f, p99 %.2f, worst %.2f\n", name,
            list->n, at(list, 0.5), at(list, 0.9), at(list, 0.99), at(list, 1.0));
}

void di_check_times_print(di_check_times *times)
{
    print_list("vocabulary", &times->vocab);
    print_list("compile", &times->compile);
    print_list("mask", &times->mask);
    print_list("token", &times->accept);
}

void di_check_times_free(di_check_times *times)
{
    free(times->vocab.ns);
    free(times->compile.ns);
    free(times->mask.ns);
    free(times->accept.ns);
}
