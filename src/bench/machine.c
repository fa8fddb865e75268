#include "bench/machine.h"

#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/options.h"
#include "base/topology.h"

enum { MIB = 1 << 20 };

int64_t di_machine_last_cache_bytes(void)
{
    const int64_t l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const int64_t last = di_max_i64(l3, l2);
    return last > 0 ? last : 32 * (int64_t)MIB;
}

int64_t di_machine_rotation_bytes(void)
{
    return di_min_i64(1536 * (int64_t)MIB,
                      di_max_i64(256 * (int64_t)MIB, 4 * di_machine_last_cache_bytes()));
}

/* "model name : ..." of /proc/cpuinfo; an unknown CPU where there is none. */
static void read_cpu_name(char *out, size_t bytes)
{
    char line[256];
    snprintf(out, bytes, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, bytes, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(file);
}

void di_machine_print(FILE *out)
{
    char name[200];
    read_cpu_name(name, sizeof name);
    const double gib = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 0x1p30;
    fprintf(out, "machine: %s, level %s, %d CPUs, L2 %ld KiB, L3 %ld MiB, memory %.1f GiB\n", name,
            di_isa_name(di_cpu_isa()), di_affinity_count(), sysconf(_SC_LEVEL2_CACHE_SIZE) / 1024,
            sysconf(_SC_LEVEL3_CACHE_SIZE) / MIB, gib);
}
