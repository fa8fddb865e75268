/* base/topology.h on trees of files in a temporary folder: what is found, what malformed files turn
 * into, and where workers go. */
#define _GNU_SOURCE /* nftw */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/team.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/di-topology-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s;
    (void)type;
    (void)at;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/NAME with all folders of its path. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void put_cpu(int cpu, const char *file, const char *text)
{
    char name[128];
    snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/%s", cpu, file);
    put(name, text);
}

static void put_node(int node, const char *cpus, long gib)
{
    char name[128], text[128];
    snprintf(name, sizeof name, "sys/devices/system/node/node%d/cpulist", node);
    put(name, cpus);
    snprintf(name, sizeof name, "sys/devices/system/node/node%d/meminfo", node);
    snprintf(text, sizeof text, "Node %d MemTotal:       %ld kB\nNode %d MemFree: 7 kB\n", node,
             gib << 20, node);
    put(name, text);
}

/* Cores of two threads: CPU c and c + n. */
static void put_siblings(int n)
{
    char text[32];
    for (int cpu = 0; cpu < 2 * n; cpu++) {
        snprintf(text, sizeof text, "%d,%d\n", cpu % n, cpu % n + n);
        put_cpu(cpu, "topology/thread_siblings_list", text);
    }
}

/* Two sockets of four cores of two threads, a node each, and one of memory only. */
static void put_two_sockets(void)
{
    put("sys/devices/system/cpu/online", "0-15\n");
    put("sys/devices/system/node/online", "0-2\n");
    put_node(0, "0-3,8-11\n", 64);
    put_node(1, "4-7,12-15\n", 96);
    put_node(2, "\n", 512);
    put_siblings(8);
}

static di_topology read_tree(const char *affinity)
{
    static char sys[80], proc[80], cgroup[80];
    snprintf(sys, sizeof sys, "%s/sys", root);
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
    const di_topology_source source = {sys, proc, cgroup, affinity};
    di_topology t;
    assert_int_equal(di_topology_read(&source, &t), DI_OK);
    assert_true(t.n_cpus >= 1 && t.n_cores >= 1 && t.n_nodes >= 1 && t.n_cores <= t.n_cpus);
    return t;
}

static void assert_cpus(const di_topology *t, const int *ids, int n)
{
    assert_int_equal(t->n_cpus, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(t->cpus[i].id, ids[i]);
}
#define ASSERT_CPUS(t, ...)                                                                        \
    assert_cpus(t, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void assert_places(const di_topology *t, int n, const int *cpus)
{
    int got[64], nodes[64];
    assert_int_equal(di_topology_place(t, n, got, nodes), DI_OK);
    for (int i = 0; i < n; i++) {
        assert_int_equal(got[i], cpus[i]);
        assert_true(i == 0 || nodes[i] >= nodes[i - 1]);
    }
}
#define ASSERT_PLACES(t, ...)                                                                      \
    assert_places(t, sizeof((const int[]){__VA_ARGS__}) / sizeof(int), (const int[]){__VA_ARGS__})

/* ----------------------------------------------------------------------------------- the trees */

static void an_empty_tree_is_one_node_of_cores(void **state)
{
    (void)state;
    di_topology t = read_tree("0-3,6");
    ASSERT_CPUS(&t, 0, 1, 2, 3, 6);
    assert_int_equal(t.n_cores, 5);
    assert_int_equal(t.n_nodes, 1);
    assert_int_equal(t.nodes[0].id, 0);
    assert_int_equal(t.nodes[0].n_cpus, 5);
    assert_int_equal(t.nodes[0].memory_bytes, 0);
    assert_true(t.quota == 0);
    assert_int_equal(t.l2_bytes, 0);
    assert_int_equal(di_topology_threads(&t), 5);
    ASSERT_PLACES(&t, 0, 1, 2, 3, 6);
    ASSERT_PLACES(&t, 0, 1, 2, 3, 6, 0, 1, 2); /* more than CPUs: once more */
    di_topology_free(&t);
}

static void one_node(void **state)
{
    (void)state;
    put("sys/devices/system/cpu/online", "0-3\n");
    put("sys/devices/system/node/online", "0\n");
    put("sys/devices/system/node/node0/cpulist", "0-3\n");
    put("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
    static const char *const caches[][3] = {{"1", "Data", "48K"},
                                            {"1", "Instruction", "32K"},
                                            {"2", "Unified", "2048K"},
                                            {"3", "Unified", "32M"}};
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"level", "type", "size"};
        for (int f = 0; f < 3; f++) {
            char name[64], text[32];
            snprintf(name, sizeof name, "cache/index%d/%s", i, names[f]);
            snprintf(text, sizeof text, "%s\n", caches[i][f]);
            put_cpu(0, name, text);
        }
    }
    di_topology t = read_tree("0-3");
    assert_int_equal(t.n_cores, 4);
    assert_int_equal(t.nodes[0].memory_bytes, INT64_C(1) << 30);
    assert_int_equal(t.l2_bytes, 2 << 20);
    assert_int_equal(t.l3_bytes, 32 << 20);
    di_topology_free(&t);
}

static void two_sockets(void **state)
{
    (void)state;
    put_two_sockets();
    di_topology t = read_tree("0-15");
    ASSERT_CPUS(&t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    assert_int_equal(t.n_cores, 8);
    assert_int_equal(t.n_nodes, 3);
    assert_int_equal(t.nodes[1].n_cpus, 8);
    assert_int_equal(t.nodes[1].n_cores, 4);
    assert_int_equal(t.nodes[1].memory_bytes, INT64_C(96) << 30);
    assert_int_equal(t.nodes[2].n_cpus, 0);
    assert_int_equal(t.nodes[2].memory_bytes, INT64_C(512) << 30);
    assert_int_equal(t.cpus[12].node, 1);
    assert_int_equal(t.cpus[12].core, 4);
    assert_int_equal(t.cpus[12].thread, 1);
    assert_int_equal(di_topology_threads(&t), 8);
    ASSERT_PLACES(&t, 0);
    ASSERT_PLACES(&t, 0, 4);
    ASSERT_PLACES(&t, 0, 1, 4);
    ASSERT_PLACES(&t, 0, 1, 2, 3, 4, 5, 6, 7);
    ASSERT_PLACES(&t, 0, 1, 2, 3, 8, 4, 5, 6, 7, 12); /* second threads once all cores are taken */
    assert_false(di_topology_is_crowded(&t, 16));
    assert_true(di_topology_is_crowded(&t, 17));
    di_topology_free(&t);
}

static void uneven_nodes_get_workers_in_proportion(void **state)
{
    (void)state;
    put_two_sockets();
    di_topology t = read_tree("0-1,4-7"); /* two cores of node 0, four of node 1 */
    assert_int_equal(t.n_cores, 6);
    ASSERT_PLACES(&t, 0, 4, 5);
    ASSERT_PLACES(&t, 0, 1, 4, 5, 6, 7);
    di_topology_free(&t);
    t = read_tree("5,13"); /* one core */
    assert_int_equal(t.n_cores, 1);
    assert_int_equal(t.nodes[0].n_cpus, 0);
    ASSERT_PLACES(&t, 5, 13);
    di_topology_free(&t);
    t = read_tree("13"); /* the second thread of a core whose first is not ours */
    assert_int_equal(t.n_cores, 1);
    assert_int_equal(t.cpus[0].core, 5);
    assert_int_equal(t.cpus[0].thread, 0);
    di_topology_free(&t);
}

static void offline_cpus_are_not_used(void **state)
{
    (void)state;
    put_two_sockets();
    put("sys/devices/system/cpu/online", "0,2-7,10\n");
    di_topology t = read_tree("0-15");
    ASSERT_CPUS(&t, 0, 2, 3, 4, 5, 6, 7, 10);
    assert_int_equal(t.n_cores, 7);
    di_topology_free(&t);
    put("sys/devices/system/cpu/online", "40-47\n"); /* fits nothing: not believed */
    t = read_tree("0-3");
    assert_int_equal(t.n_cpus, 4);
    di_topology_free(&t);
}

/* ------------------------------------------------------------------------------ control groups */

static void quotas_limit_the_threads(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double quota;
        int n_threads;
    } cases[] = {{"max 100000\n", 0, 4},
                 {"150000 100000\n", 1.5, 2},
                 {"140000 100000\n", 1.4, 1},
                 {"10000 100000\n", 0.1, 1},
                 {"800000 100000\n", 8, 4},
                 {"400000\n", 0, 4},
                 {"0 100000\n", 0, 4},
                 {"100000 0\n", 0, 4},
                 {"-1 100000\n", 0, 4},
                 {"99999999999999999999 1\n", 0, 4},
                 {"", 0, 4},
                 {"x", 0, 4}};
    put("proc/self/cgroup", "0::/a/b\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("cgroup/a/b/cpu.max", cases[i].text);
        di_topology t = read_tree("0-3");
        assert_true(t.quota == cases[i].quota);
        assert_int_equal(di_topology_threads(&t), cases[i].n_threads);
        assert_false(di_topology_is_crowded(&t, cases[i].n_threads) && cases[i].quota >= 1);
        di_topology_free(&t);
    }
}

static void the_lowest_quota_above_counts(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    put("cgroup/a/b/cpu.max", "300000 100000\n");
    put("cgroup/a/cpu.max", "200000 100000\n");
    put("cgroup/cpu.max", "350000 100000\n");
    di_topology t = read_tree("0-7");
    assert_true(t.quota == 2);
    assert_true(di_topology_is_crowded(&t, 3));
    di_topology_free(&t);
    put("proc/self/cgroup", "0::/../not/here\n"); /* a container's view */
    t = read_tree("0-7");
    assert_true(t.quota == 3.5);
    di_topology_free(&t);
}

static void version_1_groups(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/a\n3:cpuset:/s\n0::/\n");
    put("cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
    put("cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    put("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("cgroup/cpuset/s/cpuset.effective_cpus", "2-5\n");
    put("cgroup/cpuset/cpuset.effective_cpus", "0-63\n");
    di_topology t = read_tree("0-7");
    assert_true(t.quota == 2.5);
    ASSERT_CPUS(&t, 2, 3, 4, 5);
    di_topology_free(&t);
}

static void cpusets_limit_the_cpus(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a\n");
    put("cgroup/a/cpuset.cpus.effective", "1,3\n");
    put("cgroup/cpuset.cpus.effective", "0-7\n");
    di_topology t = read_tree("0-7");
    ASSERT_CPUS(&t, 1, 3);
    di_topology_free(&t);
    put("cgroup/a/cpuset.cpus.effective", "\n"); /* unreadable: the one above */
    t = read_tree("4-9");
    ASSERT_CPUS(&t, 4, 5, 6, 7);
    di_topology_free(&t);
}

/* ------------------------------------------------------------------------------------ malformed */

static void malformed_files_count_as_absent(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",      "\n",  "x",    "0-",    "-3",  "3-1",  "0,,1",
        "0,",    "0 1", "0-3 ", "1-2-3", "0x3", "9999", "0-99999999999999999999999",
        "0\n1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("sys/devices/system/cpu/online", bad[i]);
        put("sys/devices/system/node/online", bad[i]);
        put_cpu(0, "topology/thread_siblings_list", bad[i]);
        put_cpu(1, "topology/thread_siblings_list", "2-3\n"); /* without itself */
        put_cpu(0, "cache/index0/level", bad[i]);
        put_cpu(0, "cache/index0/type", bad[i]);
        put_cpu(0, "cache/index0/size", bad[i]);
        put("proc/meminfo", bad[i]);
        put("proc/self/cgroup", bad[i]);
        di_topology t = read_tree("0-3");
        ASSERT_CPUS(&t, 0, 1, 2, 3);
        assert_int_equal(t.n_cores, 4);
        assert_int_equal(t.n_nodes, 1);
        assert_int_equal(t.nodes[0].memory_bytes, 0);
        assert_int_equal(t.l2_bytes, 0);
        di_topology_free(&t);
    }
}

static void huge_and_odd_files_are_harmless(void **state)
{
    (void)state;
    char *text = malloc(100001);
    assert_non_null(text);
    memset(text, '1', 100000);
    text[100000] = 0;
    put("sys/devices/system/cpu/online", text);
    put("proc/self/cgroup", text);
    put("sys/devices/system/node/online/file", "a folder in a file's place");
    di_topology t = read_tree("0-1");
    ASSERT_CPUS(&t, 0, 1);
    assert_int_equal(t.n_nodes, 1);
    di_topology_free(&t);
    for (size_t i = 0; i < 100000; i++) /* a group path longer than any path may be */
        text[i] = i % 2 ? 'a' : '/';
    memcpy(text, "0::", 3);
    text[16000] = 0;
    put("proc/self/cgroup", text);
    t = read_tree("nonsense");
    ASSERT_CPUS(&t, 0);
    assert_true(t.quota == 0);
    di_topology_free(&t);
    free(text);
}

/* -------------------------------------------------------------------------------------- the team
 */

static void printed_team(void **state)
{
    (void)state;
    put_two_sockets();
    put("proc/self/cgroup", "0::/\n");
    put("cgroup/cpu.max", "900000 100000\n");
    di_topology t = read_tree("0-15");
    static const struct {
        const char *pin;
        int n_threads;
        const char *workers;
    } cases[] = {
        {"off", 8,
         "workers: 8, not pinned\nnode 0: 4 cores, 64.0 GiB\nnode 1: 4 cores, 96.0 GiB\n"
         "node 2: 0 cores, 512.0 GiB\n"},
        {"auto", 6, "workers: 6, not pinned\n"}, /* another process would choose the same six */
        {"auto", 10, "workers: 10, not pinned\n"},
        {"auto", 8,
         "workers: 8, pinned\nnode 0: 4 cores, 64.0 GiB, workers on 0 1 2 3\n"
         "node 1: 4 cores, 96.0 GiB, workers on 4 5 6 7\n"
         "node 2: 0 cores, 512.0 GiB\n"},
        {"on", 2,
         "workers: 2, pinned\nnode 0: 4 cores, 64.0 GiB, workers on 0\n"
         "node 1: 4 cores, 96.0 GiB, workers on 4\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        const di_effective_options options = {.pin = cases[i].pin, .n_threads = cases[i].n_threads};
        assert_int_equal(di_team_print(&options, &t, out), DI_OK);
        fclose(out);
        const char *first = "CPUs: 16 of 8 cores, time for 9.00\n";
        assert_memory_equal(text, first, strlen(first));
        assert_memory_equal(text + strlen(first), cases[i].workers, strlen(cases[i].workers));
        free(text);
    }
    di_topology_free(&t);
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(an_empty_tree_is_one_node_of_cores),
        TREE_TEST(one_node),
        TREE_TEST(two_sockets),
        TREE_TEST(uneven_nodes_get_workers_in_proportion),
        TREE_TEST(offline_cpus_are_not_used),
        TREE_TEST(quotas_limit_the_threads),
        TREE_TEST(the_lowest_quota_above_counts),
        TREE_TEST(version_1_groups),
        TREE_TEST(cpusets_limit_the_cpus),
        TREE_TEST(malformed_files_count_as_absent),
        TREE_TEST(huge_and_odd_files_are_harmless),
        TREE_TEST(printed_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
