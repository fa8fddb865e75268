/* What a pass costs: time to draft by number of sequences, time to verify by number of tokens. Made
 * of points that were measured once at the start and, if the owner wishes, corrected by passes that
 * run. Times are in any unit, the same in both tables. Nothing allocates; deterministic. */
#ifndef DI_SPEC_COST_TABLE_H
#define DI_SPEC_COST_TABLE_H

#include "base/status.h"

enum { DI_COST_POINTS = 64, DI_COST_RUNS = 64 };

/* Time by count: never falling, linear between points. Below the first point it is that of the
 * first point; beyond the last it goes on with the slope over the upper half of the range (the last
 * two points alone may lie flat by chance, and more rows are never free). Without points: 0. */
typedef struct di_cost_curve {
    int32_t n;
    int32_t
        step_until; /* up to the last point not above it, the time is that of the next point at
                       or above: passes are padded to the points (captured graphs). 0: nowhere */
    int32_t count[DI_COST_POINTS];   /* ascending */
    double measured[DI_COST_POINTS]; /* median of the runs */
    double time[DI_COST_POINTS];     /* what is used: never falling */
    bool is_default;                 /* nothing was measured: the first point replaces all */
} di_cost_curve;

typedef struct di_cost_table {
    di_cost_curve draft;  /* by sequences that draft; 0 sequences cost nothing */
    di_cost_curve verify; /* by rows of the pass */
    bool is_live;         /* set by the owner: points come from passes that run, so that the planner
                             must see to it that there are some without drafts */
} di_cost_table;

/* Before anything was measured: drafting is free, and so is every row beyond the first. It says "as
 * much as there is", because nothing speaks against it. */
void di_cost_table_init(di_cost_table *table);

/* Empty. */
void di_cost_curve_init(di_cost_curve *curve, int32_t step_until);
/* The median of runs[n_runs], 1 <= n_runs <= DI_COST_RUNS, is the time at `count` >= 1; replaces
 * what was measured there before. Points may come in any order. Where medians fall with the count,
 * neighbours are pooled to their mean until none falls. DI_ERR_ARGUMENT: a time that is not finite
 * or not above 0, a count below 1, too many runs or points. */
DI_WARN_UNUSED di_status di_cost_curve_add(di_cost_curve *curve, int32_t count, const double *runs,
                                           int32_t n_runs);

/* Whether there is a point within a quarter of the count. */
bool di_cost_curve_knows(const di_cost_curve *curve, int32_t count);

/* The time at a count; 0 for counts below 1. */
double di_cost_curve_at(const di_cost_curve *curve, int32_t count);

/* A pass with this count took `time`: the whole curve follows by 1/16 of the deviation (contexts
 * that grow, a machine that is busy), the points beside the count by another 1/48 (a wrong shape).
 * A time that is not finite or not above 0 is ignored, and so are all without a point; a deviation
 * counts as fourfold at most. */
void di_cost_curve_observe(di_cost_curve *curve, int32_t count, double time);

#endif
