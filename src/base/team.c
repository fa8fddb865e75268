#include "base/team.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* How many workers of the process's teams are pinned to each CPU. */
static pthread_mutex_t claims_lock = PTHREAD_MUTEX_INITIALIZER;
static uint16_t claims[DI_MAX_CPUS];

/* False, and nothing claimed, if the CPUs must be free and one is not. */
static bool claim(const int *cpus, int n, bool must_be_free)
{
    bool is_free = true;
    pthread_mutex_lock(&claims_lock);
    for (int i = 0; i < n && must_be_free; i++)
        is_free = is_free && claims[cpus[i]] == 0;
    for (int i = 0; i < n && is_free; i++)
        claims[cpus[i]]++;
    pthread_mutex_unlock(&claims_lock);
    return is_free;
}

static void give_claims_back(const int *cpus, int n)
{
    pthread_mutex_lock(&claims_lock);
    for (int i = 0; i < n; i++)
        claims[cpus[i]]--;
    pthread_mutex_unlock(&claims_lock);
}

static bool takes_all_cores(const di_topology *t, int n)
{
    return n > 1 && n == t->n_cores && !di_topology_is_crowded(t, n);
}

static di_status place(const di_topology *t, int n, di_team *team)
{
    team->n_workers = n;
    team->cpus = calloc((size_t)n, sizeof *team->cpus);
    team->nodes = calloc((size_t)n, sizeof *team->nodes);
    if (!team->cpus || !team->nodes)
        return di_fail_memory(2 * (size_t)n * sizeof *team->cpus, "placing the threads");
    DI_TRY(di_topology_place(t, n, team->cpus, team->nodes));
    for (int i = 0; i < n; i++)
        team->nodes[i] = t->nodes[team->nodes[i]].id;
    return DI_OK;
}

static bool wants_pins(const di_topology *t, const char *pin, int n)
{
    return !strcmp(pin, "on") || (!strcmp(pin, "auto") && takes_all_cores(t, n));
}

/* Where pinning is not asked for and fails, the system places the workers. */
static di_status start(const di_topology *t, const char *pin, di_team *team)
{
    const int n = team->n_workers;
    const bool is_asked = !strcmp(pin, "on");
    di_pool_setup setup = {.n_threads = n, .is_crowded = di_topology_is_crowded(t, n)};
    if (wants_pins(t, pin, n) && claim(team->cpus, n, !is_asked)) {
        setup.cpus = team->cpus;
        const di_status status = di_pool_create_on(&setup, &team->pool);
        team->is_pinned = status == DI_OK;
        if (!team->is_pinned)
            give_claims_back(team->cpus, n);
        if (status != DI_ERR_RUNTIME || is_asked)
            return status;
        setup.cpus = NULL;
    }
    return di_pool_create_on(&setup, &team->pool);
}

static di_status create(const di_effective_options *options, const di_topology *t, di_team *out)
{
    di_team team = {NULL};
    di_status status = place(t, options->n_threads, &team);
    if (status == DI_OK)
        status = start(t, options->pin, &team);
    if (status == DI_OK)
        *out = team;
    else
        di_team_free(&team);
    return status;
}

di_status di_team_create(const di_effective_options *options, const di_topology *topology,
                         di_team *out)
{
    if (topology)
        return create(options, topology, out);
    di_topology t;
    DI_TRY(di_topology_read(NULL, &t));
    const di_status status = create(options, &t, out);
    di_topology_free(&t);
    return status;
}

void di_team_free(di_team *team)
{
    di_pool_destroy(team->pool);
    if (team->is_pinned)
        give_claims_back(team->cpus, team->n_workers);
    free(team->cpus);
    free(team->nodes);
    *team = (di_team){NULL};
}

/* ------------------------------------------------------------------------------------ printing */

static void print_gib(int64_t bytes, FILE *out)
{
    if (bytes > 0)
        fprintf(out, ", %.1f GiB", (double)bytes / (1024.0 * 1024.0 * 1024.0));
}

static void print_machine(const di_topology *t, FILE *out)
{
    fprintf(out, "CPUs: %d of %d core%s", t->n_cpus, t->n_cores, t->n_cores == 1 ? "" : "s");
    if (t->quota > 0)
        fprintf(out, ", time for %.2f", t->quota);
    if (t->l2_bytes > 0)
        fprintf(out, ", L2 %lld KiB", (long long)(t->l2_bytes >> 10));
    if (t->l3_bytes > 0)
        fprintf(out, ", L3 %lld KiB", (long long)(t->l3_bytes >> 10));
    fputc('\n', out);
}

static void print_team(const di_topology *t, const di_team *team, bool is_pinned, FILE *out)
{
    fprintf(out, "workers: %d, %s\n", team->n_workers, is_pinned ? "pinned" : "not pinned");
    for (int i = 0; i < t->n_nodes; i++) {
        const di_topology_node *node = &t->nodes[i];
        int n = 0;
        fprintf(out, "node %d: %d core%s", node->id, node->n_cores, node->n_cores == 1 ? "" : "s");
        print_gib(node->memory_bytes, out);
        for (int w = 0; w < team->n_workers && is_pinned; w++)
            if (team->nodes[w] == node->id)
                fprintf(out, "%s%d", n++ ? " " : ", workers on ", team->cpus[w]);
        fputc('\n', out);
    }
}

static di_status print(const di_effective_options *options, const di_topology *t, FILE *out)
{
    di_team team = {.is_pinned = false};
    const di_status status = place(t, options->n_threads, &team);
    if (status == DI_OK) {
        print_machine(t, out);
        print_team(t, &team, wants_pins(t, options->pin, team.n_workers), out);
    }
    di_team_free(&team);
    return status;
}

di_status di_team_print(const di_effective_options *options, const di_topology *topology, FILE *out)
{
    if (topology)
        return print(options, topology, out);
    di_topology t;
    DI_TRY(di_topology_read(NULL, &t));
    const di_status status = print(options, &t, out);
    di_topology_free(&t);
    return status;
}
