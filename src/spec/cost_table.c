#include "spec/cost_table.h"

#include <math.h>
#include <string.h>

void di_cost_table_init(di_cost_table *table)
{
    *table = (di_cost_table){0};
    di_cost_curve_init(&table->draft, 0);
    di_cost_curve_init(&table->verify, 0);
    table->verify.is_default = true;
    table->verify.n = 1;
    table->verify.count[0] = 1;
    table->verify.measured[0] = table->verify.time[0] = 1.0;
}

void di_cost_curve_init(di_cost_curve *curve, int32_t step_until)
{
    *curve = (di_cost_curve){.step_until = step_until};
}

static bool is_time(double x)
{
    return x > 0.0 && x < INFINITY;
}

static double median(const double *runs, int32_t n)
{
    double sorted[DI_COST_RUNS];
    for (int32_t i = 0; i < n; i++) {
        int32_t at = i;
        for (; at > 0 && sorted[at - 1] > runs[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = runs[i];
    }
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

/* The nearest curve that does not fall: where it would, neighbours become their mean. */
static void make_monotone(di_cost_curve *curve)
{
    double mean[DI_COST_POINTS];
    int32_t size[DI_COST_POINTS], n_pools = 0;
    for (int32_t i = 0; i < curve->n; i++) {
        double value = curve->measured[i];
        int32_t n = 1;
        for (; n_pools > 0 && mean[n_pools - 1] > value; n_pools--) {
            const int32_t before = size[n_pools - 1];
            value = (mean[n_pools - 1] * before + value * n) / (before + n);
            n += before;
        }
        mean[n_pools] = value;
        size[n_pools++] = n;
    }
    for (int32_t pool = 0, i = 0; pool < n_pools; pool++)
        for (int32_t k = 0; k < size[pool]; k++)
            curve->time[i++] = mean[pool];
}

/* First point at or above a count; n if there is none. */
static int32_t point_at(const di_cost_curve *curve, int32_t count)
{
    int32_t low = 0, high = curve->n;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (curve->count[middle] < count)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

di_status di_cost_curve_add(di_cost_curve *curve, int32_t count, const double *runs, int32_t n_runs)
{
    if (count < 1 || n_runs < 1 || n_runs > DI_COST_RUNS)
        return di_fail(DI_ERR_ARGUMENT,
                       "cost of %d: found %d runs, wanted a count of at least 1 and 1 to %d runs",
                       (int)count, (int)n_runs, (int)DI_COST_RUNS);
    for (int32_t i = 0; i < n_runs; i++)
        if (!is_time(runs[i]))
            return di_fail(DI_ERR_ARGUMENT, "cost of %d: found a time of %g, wanted one above 0",
                           (int)count, runs[i]);
    if (curve->is_default)
        di_cost_curve_init(curve, curve->step_until);
    const int32_t at = point_at(curve, count);
    if (at == curve->n || curve->count[at] != count) {
        if (curve->n == DI_COST_POINTS)
            return di_fail(DI_ERR_ARGUMENT, "cost of %d: found %d points already, wanted no more",
                           (int)count, (int)DI_COST_POINTS);
        const size_t n_after = (size_t)(curve->n - at);
        memmove(curve->count + at + 1, curve->count + at, n_after * sizeof *curve->count);
        memmove(curve->measured + at + 1, curve->measured + at, n_after * sizeof *curve->measured);
        curve->n++;
    }
    curve->count[at] = count;
    curve->measured[at] = median(runs, n_runs);
    make_monotone(curve);
    return DI_OK;
}

bool di_cost_curve_knows(const di_cost_curve *curve, int32_t count)
{
    const int64_t wanted = count;
    for (int32_t i = 0; i < curve->n && !curve->is_default; i++)
        if (5 * (int64_t)curve->count[i] >= 4 * wanted &&
            4 * (int64_t)curve->count[i] <= 5 * wanted)
            return true;
    return false;
}

static double beyond(const di_cost_curve *curve, int32_t count)
{
    const int32_t last = curve->n - 1;
    const int32_t low = point_at(curve, curve->count[last] / 2 + 1);
    const int32_t from = low > 0 ? low - 1 : 0; /* at half of the last count or below it */
    if (from == last)
        return curve->time[last];
    const double slope =
        (curve->time[last] - curve->time[from]) / (double)(curve->count[last] - curve->count[from]);
    return curve->time[last] + slope * (double)(count - curve->count[last]);
}

double di_cost_curve_at(const di_cost_curve *curve, int32_t count)
{
    if (count < 1 || curve->n == 0)
        return 0.0;
    const int32_t i = point_at(curve, count);
    if (i == curve->n)
        return beyond(curve, count);
    if (i == 0 || curve->count[i] == count || curve->count[i] <= curve->step_until)
        return curve->time[i];
    const double part =
        (double)(count - curve->count[i - 1]) / (double)(curve->count[i] - curve->count[i - 1]);
    return curve->time[i - 1] + part * (curve->time[i] - curve->time[i - 1]);
}

void di_cost_curve_observe(di_cost_curve *curve, int32_t count, double time)
{
    const double expected = di_cost_curve_at(curve, count);
    if (!is_time(time) || !is_time(expected) || curve->is_default)
        return;
    const double ratio = fmin(fmax(time / expected, 0.25), 4.0);
    const double level = 1.0 + (ratio - 1.0) / 16.0, shape = 1.0 + (ratio - 1.0) / 48.0;
    const int32_t above = point_at(curve, count);
    const bool is_point = above < curve->n && (curve->count[above] == count ||
                                               curve->count[above] <= curve->step_until);
    for (int32_t i = 0; i < curve->n; i++) {
        const bool is_beside = i == above || (i == above - 1 && !is_point);
        curve->measured[i] *= is_beside ? level * shape : level;
    }
    make_monotone(curve);
}
