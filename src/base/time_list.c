#include <stdlib.h>

#include "base/buf.h"
#include "deepinfer/tools.h"

di_status di_time_list_add(di_time_list *list, int64_t ns)
{
    DI_TRY(DI_GROW(&list->ns, &list->cap, list->n + 1));
    list->ns[list->n++] = ns;
    return DI_OK;
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

di_time_tails di_time_list_tails(di_time_list *list)
{
    const size_t n = list->n;
    if (n == 0)
        return (di_time_tails){0};
    qsort(list->ns, n, sizeof *list->ns, by_time);
    const size_t last = n - 1;
    return (di_time_tails){
        .n = n,
        .p50 = list->ns[last * 50 / 100],
        .p90 = list->ns[last * 90 / 100],
        .p99 = list->ns[last * 99 / 100],
        .worst = list->ns[last],
    };
}

void di_time_list_free(di_time_list *list)
{
    free(list->ns);
    *list = (di_time_list){0};
}
