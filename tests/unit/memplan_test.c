/* engine/memplan.h on made-up machines: the KV budget by bytes, by fraction, by default. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/memplan.h"
#include "weights/checkpoint_dir.h"

static di_config config;
static const di_memory machine = {
    .total = INT64_C(64) << 30, .limit = INT64_C(8) << 30, .available = INT64_C(3) << 30};

static int read_config(void **state)
{
    (void)state;
    return di_checkpoint_read_config(DI_TEST_DATA "/golden/tiny", &config) == DI_OK ? 0 : -1;
}

static di_effective_options options_of(const di_options *given)
{
    di_effective_options effective;
    assert_int_equal(di_options_resolve(given, &effective), DI_OK);
    return effective;
}

static di_memplan plan_of(const di_options *given, const di_memory *memory)
{
    const di_effective_options effective = options_of(given);
    di_memplan plan;
    if (di_memplan_compute_in(&config, &effective, memory, &plan) != DI_OK)
        fail_msg("%s", di_last_error());
    return plan;
}

static int64_t taken(const di_memplan *plan)
{
    return plan->resident_bytes + plan->scratch_bytes + plan->logits_bytes +
           plan->weight_cache_bytes;
}

/* Windows of the draft blocks in every window block, their weights read by every pass and copied,
 * memory for a step's drafts. */
static void with_a_drafter(void **state)
{
    (void)state;
    di_effective_options o = options_of(&(di_options){.weights = "copy", .speculation = "off"});
    di_memplan without, with;
    assert_int_equal(di_memplan_compute_in(&config, &o, &machine, &without), DI_OK);
    assert_false(di_has_drafter(&config, &o));
    o.speculation = "auto";
    assert_true(di_has_drafter(&config, &o));
    assert_int_equal(di_memplan_compute_in(&config, &o, &machine, &with), DI_OK);
    assert_int_equal(with.kv_bytes[0] / with.kv_blocks[0] * config.n_layers,
                     without.kv_bytes[0] / without.kv_blocks[0] *
                         (config.n_layers + config.n_draft_blocks));
    const int64_t linears = config.n_dspark_targets * config.hidden_size * config.hidden_size +
                            2 * config.vocab_size * config.dspark_markov_rank;
    assert_true(with.resident_bytes > without.resident_bytes + linears);
    assert_true(with.copied_bytes > without.copied_bytes + linears);
    assert_true(with.scratch_bytes > without.scratch_bytes);
    di_config none = config;
    none.n_draft_blocks = 0;
    assert_false(di_has_drafter(&none, &o));
}

static void budgets(void **state)
{
    (void)state;
    const di_memplan plain = plan_of(NULL, &machine);
    assert_int_equal(plain.kv_budget_bytes, machine.limit / 8);
    assert_int_equal(plain.available_bytes, machine.available);
    assert_true(plain.resident_bytes > 0);
    assert_int_equal(plan_of(&(di_options){.kv_cache_bytes = 12345}, &machine).kv_budget_bytes,
                     12345);
    const double fractions[] = {0.25, 0.5, 1};
    for (int i = 0; i < 3; i++) {
        const di_options part = {.kv_cache_fraction = fractions[i], .weight_cache = 1 << 20};
        const di_memplan plan = plan_of(&part, &machine);
        assert_int_equal(plan.weight_cache_bytes, 1 << 20);
        const double wanted = fractions[i] * (double)(machine.available - taken(&plan));
        assert_int_equal(plan.kv_budget_bytes, (int64_t)wanted);
    }
}

static void put(const char *root, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static int64_t default_budget(const char *root, const char *meminfo, const char *limit)
{
    di_memory memory;
    put(root, "proc/meminfo", meminfo);
    put(root, "sys/fs/cgroup/job/memory.max", limit);
    di_memory_read(root, &memory);
    return plan_of(NULL, &memory).kv_budget_bytes;
}

/* By default the least of: an eighth of the machine, an eighth of the group's limit, half of what
 * is available. */
static void the_default_in_a_control_group(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    static const char *const dirs[] = {"/proc",   "/proc/self",     "/sys",
                                       "/sys/fs", "/sys/fs/cgroup", "/sys/fs/cgroup/job"};
    static const char idle[] =
        "MemTotal: 67108864 kB\nMemAvailable: 62914560 kB\n";                       /* 64, 60 GiB */
    static const char busy[] = "MemTotal: 67108864 kB\nMemAvailable: 3145728 kB\n"; /* 64, 3 GiB */
    char root[] = "/tmp/di-memplan-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", root, dirs[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    put(root, "proc/self/cgroup", "0::/job\n");
    assert_int_equal(default_budget(root, idle, "max\n"), INT64_C(8192) * MIB);
    assert_int_equal(default_budget(root, idle, "17179869184\n"), INT64_C(2048) * MIB);
    assert_int_equal(default_budget(root, busy, "max\n"), INT64_C(1536) * MIB);
    assert_int_equal(default_budget(root, busy, "1073741824\n"), INT64_C(128) * MIB);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

/* The plan must fit what the process may have, not the machine. */
static void more_than_the_limit(void **state)
{
    (void)state;
    const di_effective_options effective = options_of(&(di_options){.kv_cache_bytes = 1 << 30});
    const di_memory small = {machine.total, .limit = 1 << 20, .available = 1 << 20};
    di_memplan plan;
    assert_int_equal(di_memplan_compute_in(&config, &effective, &small, &plan), DI_ERR_MEMORY);
    assert_non_null(strstr(di_last_error(), "found 1048576 for this process"));
}

/* The pools are within the budget, and grow with it. */
static void pools_follow_the_fraction(void **state)
{
    (void)state;
    const di_options all = {.kv_cache_fraction = 1, .max_seqs = 4096};
    const int64_t taken_bytes = taken(&(di_memplan[]){plan_of(&all, &machine)}[0]);
    int64_t before = 0;
    for (int i = 1; i <= 4; i++) {
        const di_memory small = {machine.total, machine.limit,
                                 taken_bytes + i * (INT64_C(4) << 20)};
        const di_memplan plan = plan_of(&all, &small);
        assert_int_equal(plan.kv_budget_bytes, i * (INT64_C(4) << 20));
        assert_true(plan.kv_total_bytes <= plan.kv_budget_bytes);
        assert_true(plan.kv_total_bytes > before);
        before = plan.kv_total_bytes;
    }
}

static void nothing_left(void **state)
{
    (void)state;
    const di_effective_options effective = options_of(&(di_options){.kv_cache_fraction = 0.5});
    const di_memory tiny = {machine.total, machine.limit, .available = 1000};
    di_memplan plan;
    assert_int_equal(di_memplan_compute_in(&config, &effective, &tiny, &plan), DI_ERR_MEMORY);
    assert_non_null(strstr(di_last_error(), "kv_cache_fraction: found 1000 bytes"));
    assert_non_null(strstr(di_last_error(), "nothing is left"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets),
        cmocka_unit_test(with_a_drafter),
        cmocka_unit_test(the_default_in_a_control_group),
        cmocka_unit_test(more_than_the_limit),
        cmocka_unit_test(pools_follow_the_fraction),
        cmocka_unit_test(nothing_left),
    };
    return cmocka_run_group_tests(tests, read_config, NULL);
}
