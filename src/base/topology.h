/* What this process may use of the machine: CPUs (affinity, cpusets, those online), physical cores,
 * NUMA nodes with their memory, caches, and the CPU time that a control group allows. Read from
 * /sys, /proc and /sys/fs/cgroup. What is missing or unreadable there counts as absent (one node,
 * every CPU a core, no limit): reading fails only for lack of memory. */
#ifndef DI_BASE_TOPOLOGY_H
#define DI_BASE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { DI_MAX_CPUS = 8192, DI_MAX_NODES = 1024 };

typedef struct di_topology_cpu {
    int id;
    int core;   /* the smallest id among the CPUs of its core, usable or not */
    int node;   /* index in nodes */
    int thread; /* 0: the first usable CPU of its core, 1: the second, ... */
} di_topology_cpu;

typedef struct di_topology_node {
    int id;
    int n_cpus, n_cores;  /* usable; 0: a node of memory only */
    int64_t memory_bytes; /* 0: unknown */
} di_topology_node;

typedef struct di_topology {
    di_topology_cpu *cpus; /* [n_cpus >= 1], ascending by thread, node, id: cores first */
    int n_cpus, n_cores;
    di_topology_node *nodes; /* [n_nodes >= 1], ascending by id */
    int n_nodes;
    double quota;               /* CPUs' worth of time that a control group allows; 0: no limit */
    int64_t l2_bytes, l3_bytes; /* of the first CPU; 0: none or unknown */
} di_topology;

/* Where to read; NULL: the system's own. Tests give trees of theirs. */
typedef struct di_topology_source {
    const char *sys, *proc, *cgroup;
    const char *affinity; /* a list as in "0-3,8" instead of this thread's mask */
} di_topology_source;

DI_WARN_UNUSED di_status di_topology_read(const di_topology_source *source, di_topology *out);
void di_topology_free(di_topology *topology);

/* CPUs that this thread may run on, at least 1. */
int di_affinity_count(void);
/* Threads to use: one a core, no more than the quota (rounded), from 1 to 4096. */
int di_topology_threads(const di_topology *topology);
/* The threads would have to take turns on the CPUs, or in the quota. */
bool di_topology_is_crowded(const di_topology *topology, int n_threads);

/* A CPU, and its node (index in nodes), for each of n workers: a core for each as long as there are
 * any, spread over the nodes in proportion to their cores, ascending by node, so that a static
 * split gives each node contiguous parts. */
DI_WARN_UNUSED di_status di_topology_place(const di_topology *topology, int n, int *cpus,
                                           int *nodes);

#endif
