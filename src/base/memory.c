#include "base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"

/* A line of `key` in a file of "key: N kB" lines, in bytes; -1 if there is none. */
static int64_t read_meminfo(const char *root, const char *key)
{
    char path[PATH_MAX], line[256];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    const size_t n_key = strlen(key);
    int64_t bytes = -1;
    while (bytes < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, key, n_key) && line[n_key] == ':')
            bytes = di_min_i64(strtoll(line + n_key + 1, NULL, 10), INT64_MAX / 1024) * 1024;
    fclose(file);
    return bytes;
}

/* The number a file begins with; INT64_MAX without file or number ("max"). */
static int64_t read_limit(const char *path)
{
    char text[64];
    FILE *file = fopen(path, "re");
    if (!file)
        return INT64_MAX;
    const bool is_read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    char *end;
    const long long limit = is_read ? strtoll(text, &end, 10) : 0;
    return is_read && end != text && limit > 0 ? limit : INT64_MAX;
}

/* The least limit of a group and those above it. A group that is not to be seen from here (in a
 * container) leaves those above. */
static int64_t least_limit(const char *root, const char *mount, char *group, const char *name)
{
    int64_t least = INT64_MAX;
    for (;;) {
        char path[PATH_MAX];
        const int n =
            snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, mount, group, name);
        if (n > 0 && (size_t)n < sizeof path)
            least = di_min_i64(least, read_limit(path));
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Whether a list "a,b,c" that ends at a colon has the word. */
static bool lists(const char *list, const char *word)
{
    const size_t n_word = strlen(word);
    for (const char *p = list;; p++) {
        const size_t n = strcspn(p, ",:");
        if (n == n_word && !strncmp(p, word, n))
            return true;
        p += n;
        if (*p != ',')
            return false;
    }
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "4:cpu,memory:/group" (version 1). */
static int64_t cgroup_limit(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return INT64_MAX;
    int64_t least = INT64_MAX;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':');
        char *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        group++;
        if (list[1] == ':')
            least = di_min_i64(least, least_limit(root, "", group, "memory.max"));
        else if (lists(list + 1, "memory"))
            least = di_min_i64(least, least_limit(root, "/memory", group, "memory.limit_in_bytes"));
    }
    fclose(file);
    return least;
}

void di_memory_read(const char *root, di_memory *out)
{
    out->total = read_meminfo(root, "MemTotal");
    if (out->total < 0)
        out->total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    out->available = read_meminfo(root, "MemAvailable");
    if (out->available < 0)
        out->available = out->total;
    out->limit = di_min_i64(out->total, cgroup_limit(root));
    out->available = di_min_i64(out->available, out->limit);
}
