/* The worker pool of an engine: how many threads, and on which CPUs they stay (option `pin`). */
#ifndef DI_BASE_TEAM_H
#define DI_BASE_TEAM_H

#include <stdio.h>

#include "base/options.h"
#include "base/threads.h"
#include "base/topology.h"

typedef struct di_team {
    di_pool *pool;
    int n_workers;
    int *cpus;      /* [n_workers] */
    int *nodes;     /* [n_workers]: ids of the NUMA nodes of these CPUs, ascending */
    bool is_pinned; /* else cpus and nodes are where the workers would have stayed */
} di_team;

/* Pins with pin=on; with pin=auto where the team takes every core that this process may use, has
 * that much CPU time, and no other team of the process has pinned workers to them: then nothing
 * else is meant to run there. With fewer threads than cores two processes would choose the same
 * ones. `topology` NULL: this machine's. */
DI_WARN_UNUSED di_status di_team_create(const di_effective_options *options,
                                        const di_topology *topology, di_team *out);
void di_team_free(di_team *team); /* a zeroed one is fine */

/* What di_team_create would do here, in a few lines. */
DI_WARN_UNUSED di_status di_team_print(const di_effective_options *options,
                                       const di_topology *topology, FILE *out);

#endif
