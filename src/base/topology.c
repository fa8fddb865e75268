#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT */

#include "base/topology.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"

enum { TEXT_BYTES = 16384, PATH_BYTES = 4096, MAX_THREADS = 4096 };

typedef struct cpu_list {
    uint64_t bits[DI_MAX_CPUS / 64];
} cpu_list;

typedef struct reader {
    di_topology_source at;
    cpu_list usable;
    char text[TEXT_BYTES]; /* of the file read last */
    char path[PATH_BYTES];
} reader;

/* ---------------------------------------------------------------------------------- small files */

static bool has_cpu(const cpu_list *list, int cpu)
{
    return cpu >= 0 && cpu < DI_MAX_CPUS && (list->bits[cpu / 64] >> (cpu % 64) & 1);
}

static void add_cpu(cpu_list *list, int cpu)
{
    list->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

static int count_cpus(const cpu_list *list)
{
    int n = 0;
    for (int i = 0; i < DI_MAX_CPUS / 64; i++)
        n += __builtin_popcountll(list->bits[i]);
    return n;
}

/* Removes those that are not in `other`, unless none would be left. */
static void keep_common(cpu_list *list, const cpu_list *other)
{
    cpu_list common;
    for (int i = 0; i < DI_MAX_CPUS / 64; i++)
        common.bits[i] = list->bits[i] & other->bits[i];
    if (count_cpus(&common) > 0)
        *list = common;
}

/* Digits at *at, a number below `limit`; moves *at behind them. */
static bool read_number(const char **at, int64_t limit, int64_t *out)
{
    if (!isdigit((unsigned char)**at))
        return false;
    int64_t n = 0;
    for (; isdigit((unsigned char)**at); (*at)++) {
        n = n * 10 + (**at - '0');
        if (n >= limit)
            return false;
    }
    *out = n;
    return true;
}

/* "0-3,8\n"; false, and *out undefined, if it is anything else or empty. */
static bool parse_list(const char *text, cpu_list *out)
{
    *out = (cpu_list){{0}};
    for (const char *at = text;; at++) {
        int64_t first, last;
        if (!read_number(&at, DI_MAX_CPUS, &first))
            return false;
        last = first;
        if (*at == '-') {
            at++;
            if (!read_number(&at, DI_MAX_CPUS, &last) || last < first)
                return false;
        }
        for (int64_t cpu = first; cpu <= last; cpu++)
            add_cpu(out, (int)cpu);
        if (*at != ',')
            return *at == 0 || (*at == '\n' && at[1] == 0);
    }
}

/* The file at r->path into r->text; false if there is none or it is too long. */
static bool read_path(reader *r)
{
    const int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    size_t n = 0;
    for (;;) {
        const ssize_t got = read(fd, r->text + n, TEXT_BYTES - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || (n += (size_t)got) == TEXT_BYTES) {
            close(fd);
            r->text[n < TEXT_BYTES ? n : 0] = 0;
            return got == 0;
        }
    }
}

static bool read_text(reader *r, const char *root, const char *name)
{
    const int n = snprintf(r->path, sizeof r->path, "%s/%s", root, name);
    return n > 0 && n < PATH_BYTES && read_path(r);
}

static bool read_list(reader *r, const char *name, cpu_list *out)
{
    return read_text(r, r->at.sys, name) && parse_list(r->text, out);
}

/* ------------------------------------------------------------------------------------ the CPUs */

static bool read_affinity(cpu_list *out)
{
    cpu_set_t *set = CPU_ALLOC(DI_MAX_CPUS);
    if (!set)
        return false;
    const size_t bytes = CPU_ALLOC_SIZE(DI_MAX_CPUS);
    const bool is_read = sched_getaffinity(0, bytes, set) == 0;
    *out = (cpu_list){{0}};
    for (int i = 0; is_read && i < DI_MAX_CPUS; i++)
        if (CPU_ISSET_S((size_t)i, bytes, set))
            add_cpu(out, i);
    CPU_FREE(set);
    return is_read && count_cpus(out) > 0;
}

int di_affinity_count(void)
{
    cpu_list list;
    return read_affinity(&list) ? count_cpus(&list) : 1;
}

static int first_cpu(const cpu_list *list)
{
    int cpu = 0;
    while (cpu < DI_MAX_CPUS && !has_cpu(list, cpu))
        cpu++;
    return cpu;
}

/* ------------------------------------------------------------------------------- control groups */

/* The limit of one folder in *quota, if it is lower than what is there. */
static void take_quota(double *quota, int64_t allowed, int64_t period)
{
    const double q = (double)allowed / (double)period;
    if (*quota == 0 || q < *quota)
        *quota = q;
}

/* cpu.max: "150000 100000" or "max 100000". */
static void read_quota_v2(reader *r, double *quota)
{
    const char *at = r->text;
    int64_t allowed, period;
    if (read_number(&at, INT64_MAX / 16, &allowed) && *at++ == ' ' &&
        read_number(&at, INT64_MAX / 16, &period) && allowed > 0 && period > 0)
        take_quota(quota, allowed, period);
}

static bool read_single(reader *r, const char *folder, const char *name, int64_t *out)
{
    const char *at = r->text;
    const int n = snprintf(r->path, sizeof r->path, "%s/%s", folder, name);
    return n > 0 && n < PATH_BYTES && read_path(r) && read_number(&at, INT64_MAX / 16, out);
}

/* Limits of the folder `path` below the hierarchy at `root`, and of those above it. A path that
 * does not exist, as that of a container seen from within, leaves the ones above. */
static void read_group(reader *r, const char *root, const char *path, double *quota)
{
    char folder[PATH_BYTES];
    cpu_list cpus;
    int64_t allowed, period;
    bool has_set = false;
    const int n = snprintf(folder, sizeof folder, "%s%s", root, strcmp(path, "/") ? path : "");
    if (n < 0 || n >= PATH_BYTES)
        return;
    const size_t root_bytes = strlen(root);
    for (;;) {
        if (read_text(r, folder, "cpu.max"))
            read_quota_v2(r, quota);
        if (read_single(r, folder, "cpu.cfs_quota_us", &allowed) && allowed > 0 &&
            read_single(r, folder, "cpu.cfs_period_us", &period) && period > 0)
            take_quota(quota, allowed, period);
        if (!has_set && (read_text(r, folder, "cpuset.cpus.effective") ||
                         read_text(r, folder, "cpuset.effective_cpus"))) {
            has_set = parse_list(r->text, &cpus); /* the innermost is within the others */
            if (has_set)
                keep_common(&r->usable, &cpus);
        }
        char *slash = strrchr(folder + root_bytes, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* A line of /proc/self/cgroup: "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1, where the hierarchy is
 * mounted under the controllers' names or one of them). */
static void read_group_line(reader *r, char *line, double *quota)
{
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    char root[PATH_BYTES];
    if (!path || path[1] != '/')
        return;
    *path++ = 0;
    names++;
    if (!*names) {
        read_group(r, r->at.cgroup, path, quota);
        return;
    }
    char *rest = NULL;
    char all[256];
    if (snprintf(all, sizeof all, "%s", names) >= (int)sizeof all)
        return;
    for (char *one = strtok_r(all, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (strcmp(one, "cpu") && strcmp(one, "cpuset"))
            continue;
        const char *const folders[] = {names, one};
        for (int i = 0; i < 2; i++) {
            const int n = snprintf(root, sizeof root, "%s/%s", r->at.cgroup, folders[i]);
            if (n > 0 && n < PATH_BYTES)
                read_group(r, root, path, quota);
        }
    }
}

static void read_groups(reader *r, double *quota)
{
    char *text = read_text(r, r->at.proc, "self/cgroup") ? strdup(r->text) : NULL;
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        read_group_line(r, line, quota);
    free(text);
}

/* ------------------------------------------------------------------------------ nodes and cores */

/* The number behind `name`, in KiB as in "MemTotal:  123 kB"; 0 if there is none. */
static int64_t find_kib(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    int64_t kib;
    if (!at)
        return 0;
    at += strlen(name);
    at += strspn(at, " \t");
    return read_number(&at, INT64_MAX / 4096, &kib) ? kib * 1024 : 0;
}

static int64_t node_memory(reader *r, int id)
{
    char name[64];
    snprintf(name, sizeof name, "devices/system/node/node%d/meminfo", id);
    return read_text(r, r->at.sys, name) ? find_kib(r->text, "MemTotal:") : 0;
}

static void read_nodes(reader *r, di_topology *t, int *node_of)
{
    cpu_list online, cpus;
    char name[64];
    for (int i = 0; i < DI_MAX_CPUS; i++)
        node_of[i] = 0;
    t->n_nodes = 0;
    if (read_list(r, "devices/system/node/online", &online))
        for (int id = 0; id < DI_MAX_NODES; id++) {
            if (!has_cpu(&online, id))
                continue;
            t->nodes[t->n_nodes] = (di_topology_node){.id = id, .memory_bytes = node_memory(r, id)};
            snprintf(name, sizeof name, "devices/system/node/node%d/cpulist", id);
            if (read_list(r, name, &cpus))
                for (int i = 0; i < DI_MAX_CPUS; i++)
                    node_of[i] = has_cpu(&cpus, i) ? t->n_nodes : node_of[i];
            t->n_nodes++;
        }
    if (t->n_nodes == 0) {
        t->n_nodes = 1;
        t->nodes[0] = (di_topology_node){.id = 0};
    }
    if (t->n_nodes == 1 && t->nodes[0].memory_bytes == 0 && read_text(r, r->at.proc, "meminfo"))
        t->nodes[0].memory_bytes = find_kib(r->text, "MemTotal:");
}

static int core_of(reader *r, int cpu)
{
    static const char *const files[] = {"core_cpus_list", "thread_siblings_list"};
    cpu_list siblings;
    char name[96];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "devices/system/cpu/cpu%d/topology/%s", cpu, files[i]);
        if (read_list(r, name, &siblings) && has_cpu(&siblings, cpu))
            return first_cpu(&siblings);
    }
    return cpu;
}

static int compare_cpus(const void *a, const void *b)
{
    const di_topology_cpu *x = a, *y = b;
    const int by_thread = x->thread - y->thread, by_node = x->node - y->node;
    return by_thread ? by_thread : by_node ? by_node : x->id - y->id;
}

static void read_cpus(reader *r, di_topology *t, const int *node_of, int *n_of_core)
{
    t->n_cpus = t->n_cores = 0;
    for (int cpu = 0; cpu < DI_MAX_CPUS; cpu++) {
        if (!has_cpu(&r->usable, cpu))
            continue;
        const int core = core_of(r, cpu);
        di_topology_cpu *c = &t->cpus[t->n_cpus++];
        *c = (di_topology_cpu){
            .id = cpu, .core = core, .node = node_of[cpu], .thread = n_of_core[core]++};
        t->nodes[c->node].n_cpus++;
        t->nodes[c->node].n_cores += c->thread == 0;
        t->n_cores += c->thread == 0;
    }
    qsort(t->cpus, (size_t)t->n_cpus, sizeof *t->cpus, compare_cpus);
}

/* "2048K", "32M". */
static int64_t parse_size(const char *text)
{
    int64_t n;
    if (!read_number(&text, INT64_MAX >> 31, &n))
        return 0;
    return *text == 'K' ? n << 10 : *text == 'M' ? n << 20 : *text == 'G' ? n << 30 : n;
}

static void read_caches(reader *r, di_topology *t)
{
    for (int i = 0; i < 16; i++) {
        char folder[96], name[128];
        snprintf(folder, sizeof folder, "devices/system/cpu/cpu%d/cache/index%d", t->cpus[0].id, i);
        snprintf(name, sizeof name, "%s/level", folder);
        if (!read_text(r, r->at.sys, name))
            return;
        const int level = r->text[0] - '0';
        snprintf(name, sizeof name, "%s/type", folder);
        if (!read_text(r, r->at.sys, name) || !strncmp(r->text, "Instruction", 11))
            continue;
        snprintf(name, sizeof name, "%s/size", folder);
        const int64_t bytes = read_text(r, r->at.sys, name) ? parse_size(r->text) : 0;
        if (level == 2)
            t->l2_bytes = bytes;
        if (level == 3)
            t->l3_bytes = bytes;
    }
}

/* ------------------------------------------------------------------------------------- reading */

static void set_source(reader *r, const di_topology_source *source)
{
    const di_topology_source given = source ? *source : (di_topology_source){NULL};
    r->at.sys = given.sys ? given.sys : "/sys";
    r->at.proc = given.proc ? given.proc : "/proc";
    r->at.cgroup = given.cgroup ? given.cgroup : "/sys/fs/cgroup";
    if (given.affinity ? !parse_list(given.affinity, &r->usable) : !read_affinity(&r->usable)) {
        r->usable = (cpu_list){{0}};
        add_cpu(&r->usable, 0);
    }
}

di_status di_topology_read(const di_topology_source *source, di_topology *out)
{
    di_topology t = {NULL};
    cpu_list online;
    reader *r = calloc(1, sizeof *r);
    int *numbers =
        calloc(2 * (size_t)DI_MAX_CPUS, sizeof *numbers); /* node, usable CPUs of a core */
    t.cpus = calloc(DI_MAX_CPUS, sizeof *t.cpus);
    t.nodes = calloc(DI_MAX_NODES, sizeof *t.nodes);
    if (!r || !numbers || !t.cpus || !t.nodes) {
        free(r);
        free(numbers);
        di_topology_free(&t);
        return di_fail_memory(sizeof *r + DI_MAX_CPUS * sizeof *t.cpus, "the machine's topology");
    }
    set_source(r, source);
    if (read_list(r, "devices/system/cpu/online", &online))
        keep_common(&r->usable, &online);
    read_groups(r, &t.quota);
    read_nodes(r, &t, numbers);
    read_cpus(r, &t, numbers, numbers + DI_MAX_CPUS);
    read_caches(r, &t);
    free(r);
    free(numbers);
    *out = t;
    return DI_OK;
}

void di_topology_free(di_topology *topology)
{
    free(topology->cpus);
    free(topology->nodes);
    *topology = (di_topology){NULL};
}

/* ------------------------------------------------------------------------------------- placing */

int di_topology_threads(const di_topology *topology)
{
    int64_t n = di_min_i64(topology->n_cores, MAX_THREADS);
    if (topology->quota > 0 && topology->quota < (double)n)
        n = (int64_t)(topology->quota + 0.5);
    return (int)di_max_i64(n, 1);
}

bool di_topology_is_crowded(const di_topology *topology, int n_threads)
{
    return n_threads > topology->n_cpus ||
           (topology->quota > 0 && (double)n_threads > topology->quota + 0.5);
}

/* One round gives each of the CPUs at most one worker: `n` workers over CPUs [first, first +
 * n_cpus), of which each node has counts[node]. Adds to share. Largest remainders first. */
static void share_out(int n, int n_cpus, const int *counts, int n_nodes, int *share)
{
    int given = 0;
    for (int i = 0; i < n_nodes; i++) {
        const int part = (int)((int64_t)n * counts[i] / n_cpus);
        share[i] = part;
        given += part;
    }
    for (; given < n; given++) {
        int best = -1;
        int64_t most = -1;
        for (int i = 0; i < n_nodes; i++) {
            const int64_t rest = (int64_t)n * counts[i] - (int64_t)share[i] * n_cpus;
            if (share[i] < counts[i] && rest > most) {
                most = rest;
                best = i;
            }
        }
        share[best]++;
    }
}

typedef struct placing {
    const di_topology *topology;
    int *counts, *share; /* [n_nodes]: CPUs of a round, workers of it */
    int *cpus, *nodes;   /* [n]: the result */
    int n, n_placed;
} placing;

/* A round takes the CPUs that are the thread number `thread` of their core, from `first` on;
 * returns where they end. */
static int place_round(placing *p, int first)
{
    const di_topology *t = p->topology;
    int end = first;
    memset(p->counts, 0, (size_t)t->n_nodes * sizeof *p->counts);
    for (; end < t->n_cpus && t->cpus[end].thread == t->cpus[first].thread; end++)
        p->counts[t->cpus[end].node]++;
    const int n = (int)di_min_i64(p->n - p->n_placed, end - first);
    share_out(n, end - first, p->counts, t->n_nodes, p->share);
    for (int i = first; i < end; i++) {
        const di_topology_cpu *cpu = &t->cpus[i];
        if (p->share[cpu->node] == 0)
            continue;
        p->share[cpu->node]--;
        p->cpus[p->n_placed] = cpu->id;
        p->nodes[p->n_placed++] = cpu->node;
    }
    return end;
}

/* Workers of later rounds go behind those of their node: a stable insertion sort, nearly sorted. */
static void sort_by_node(placing *p)
{
    for (int i = 1; i < p->n; i++) {
        const int cpu = p->cpus[i], node = p->nodes[i];
        int j = i;
        for (; j > 0 && p->nodes[j - 1] > node; j--) {
            p->cpus[j] = p->cpus[j - 1];
            p->nodes[j] = p->nodes[j - 1];
        }
        p->cpus[j] = cpu;
        p->nodes[j] = node;
    }
}

di_status di_topology_place(const di_topology *topology, int n, int *cpus, int *nodes)
{
    const size_t n_nodes = (size_t)topology->n_nodes;
    int *numbers = calloc(2 * n_nodes, sizeof *numbers);
    if (!numbers)
        return di_fail_memory(2 * n_nodes * sizeof *numbers, "placing the threads");
    placing p = {.topology = topology,
                 .counts = numbers,
                 .share = numbers + n_nodes,
                 .cpus = cpus,
                 .nodes = nodes,
                 .n = n};
    for (int first = 0; p.n_placed < n;) {
        first = place_round(&p, first);
        first = first == topology->n_cpus ? 0 : first; /* more workers than CPUs: once more */
    }
    sort_by_node(&p);
    free(numbers);
    return DI_OK;
}
