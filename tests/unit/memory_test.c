/* base/memory.h in made-up trees: meminfo, control groups of both versions, what cannot be read. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/di-memory-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* Writes a file of the tree with the directories above it. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static void assert_memory(int64_t total, int64_t limit, int64_t available)
{
    di_memory memory;
    di_memory_read(root, &memory);
    assert_int_equal(memory.total, total);
    assert_int_equal(memory.limit, limit);
    assert_int_equal(memory.available, available);
}

static const char meminfo[] = "MemTotal:       1000 kB\nMemFree:  3 kB\nMemAvailable:    600 kB\n";

static void without_groups(void **state)
{
    (void)state;
    put("proc/meminfo", meminfo);
    assert_memory(1000 * 1024, 1000 * 1024, 600 * 1024);
    put("proc/meminfo", "MemTotal: 1000 kB\n"); /* an old system */
    assert_memory(1000 * 1024, 1000 * 1024, 1000 * 1024);
}

static void version_2(void **state)
{
    (void)state;
    put("proc/meminfo", meminfo);
    put("proc/self/cgroup", "0::/a/b\n");
    assert_memory(1000 * 1024, 1000 * 1024, 600 * 1024);
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_memory(1000 * 1024, 1000 * 1024, 600 * 1024);
    put("sys/fs/cgroup/a/memory.max", "500000\n"); /* of the group above */
    assert_memory(1000 * 1024, 500000, 500000);
    put("sys/fs/cgroup/a/b/memory.max", "400000\n");
    assert_memory(1000 * 1024, 400000, 400000);
    put("sys/fs/cgroup/a/b/memory.max", "70000000\n"); /* more than there is */
    assert_memory(1000 * 1024, 500000, 500000);
}

static void version_1(void **state)
{
    (void)state;
    put("proc/meminfo", meminfo);
    put("proc/self/cgroup", "5:memoryx:/m\n4:cpu,memory:/m/n\n3:pids:/p\n");
    put("sys/fs/cgroup/memory/m/n/memory.limit_in_bytes", "9223372036854771712\n");
    assert_memory(1000 * 1024, 1000 * 1024, 600 * 1024);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "300000\n");
    assert_memory(1000 * 1024, 300000, 300000);
    put("proc/self/cgroup", "4:memory:/not/seen/from/here\n"); /* a container's view */
    assert_memory(1000 * 1024, 300000, 300000);
    put("proc/self/cgroup", "3:pids:/p\n");
    assert_memory(1000 * 1024, 1000 * 1024, 600 * 1024);
}

static void nonsense_is_no_limit(void **state)
{
    (void)state;
    put("proc/meminfo", meminfo);
    put("proc/self/cgroup", "\nnonsense\n0:\n0::\n");
    put("sys/fs/cgroup/memory.max", "-5\n");
    assert_memory(1000 * 1024, 1000 * 1024, 600 * 1024);
    put("sys/fs/cgroup/memory.max", "");
    assert_memory(1000 * 1024, 1000 * 1024, 600 * 1024);
    put("sys/fs/cgroup/memory.max", "1234\n");
    assert_memory(1000 * 1024, 1234, 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_groups, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(nonsense_is_no_limit, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
