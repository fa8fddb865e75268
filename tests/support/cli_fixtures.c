#include "cli_fixtures.h"

#include <stdarg.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char di_cli_tmp[] = "/tmp/deepinfer-cli-XXXXXX";

static void path_of(const char *name, char *path, size_t bytes)
{
    const int n = snprintf(path, bytes, "%s/%s", di_cli_tmp, name);
    assert_in_range(n, 1, bytes - 1);
}

char *di_cli_expand(const char *text)
{
    static const struct {
        const char *name;
        const char *value;
    } words[] = {{"{TMP}", di_cli_tmp}, {"{TINY}", DI_CLI_TINY}, {"{DATA}", DI_TEST_DATA}};
    char *expanded = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&expanded, &n);
    assert_non_null(out);
    while (*text != '\0') {
        size_t i = 0;
        const size_t n_words = sizeof words / sizeof words[0];
        while (i < n_words && strncmp(text, words[i].name, strlen(words[i].name)) != 0)
            i++;
        if (i < n_words) {
            fputs(words[i].value, out);
            text += strlen(words[i].name);
        } else {
            fputc(*text++, out);
        }
    }
    assert_int_equal(fclose(out), 0);
    return expanded;
}

void di_cli_write(const char *name, const char *data, size_t bytes)
{
    char path[512];
    path_of(name, path, sizeof path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

char *di_cli_read(const char *name, size_t *bytes)
{
    char path[512];
    path_of(name, path, sizeof path);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const size_t n = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(n + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, n, file), n);
    data[n] = '\0';
    fclose(file);
    *bytes = n;
    return data;
}

bool di_cli_exists(const char *name)
{
    char path[512];
    path_of(name, path, sizeof path);
    return access(path, F_OK) == 0;
}

size_t di_cli_count(const char *prefix)
{
    size_t n = 0;
    DIR *folder = opendir(di_cli_tmp);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(folder);
    return n;
}

void di_cli_link_model(const char *name, const char *except)
{
    static const char *const files[] = {"config.json", "tokenizer.json",
                                        "model-00001-of-00001.safetensors",
                                        "model.safetensors.index.json"};
    char path[512];
    path_of(name, path, sizeof path);
    assert_int_equal(mkdir(path, 0777), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (except != NULL && strcmp(files[i], except) == 0)
            continue;
        char target[512], link[640];
        snprintf(target, sizeof target, "%s/%s", DI_CLI_TINY, files[i]);
        snprintf(link, sizeof link, "%s/%s", path, files[i]);
        assert_int_equal(symlink(target, link), 0);
    }
}

int di_cli_setup(void **state)
{
    (void)state;
    return mkdtemp(di_cli_tmp) != NULL ? 0 : -1;
}

static void remove_tree(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char inner[1024];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR)
            remove_tree(inner);
        else
            unlink(inner);
    }
    closedir(folder);
    rmdir(path);
}

int di_cli_teardown(void **state)
{
    (void)state;
    remove_tree(di_cli_tmp);
    return 0;
}
