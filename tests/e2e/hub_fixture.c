#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "hub_fixture.h"

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        char below[DI_HUB_PATH_BYTES + 300];
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        struct stat info;
        if (lstat(below, &info) == 0 && S_ISDIR(info.st_mode))
            remove_tree(below);
        else
            unlink(below);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

int di_hub_fixture_setup(void **state)
{
    di_hub_fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    setenv("no_proxy", "127.0.0.1", 1);
    di_fake_hub_start(&f->hub);
    char cache[] = "/tmp/di_hub_test_XXXXXX";
    if (!mkdtemp(cache))
        return -1;
    f->options =
        (di_hub_options){.n_parallel = 4, .retry_delay_ms = 1, .free_bytes = INT64_C(1) << 40};
    snprintf(f->options.cache_dir, sizeof f->options.cache_dir, "%s", cache);
    snprintf(f->options.endpoint, sizeof f->options.endpoint, "%s", f->hub.url);
    *state = f;
    return 0;
}

int di_hub_fixture_teardown(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_stop(&f->hub);
    remove_tree(f->options.cache_dir);
    free(f->dir);
    free(f);
    return 0;
}

di_status di_hub_fixture_resolve(di_hub_fixture *f)
{
    free(f->dir);
    f->dir = NULL;
    return di_hub_resolve(DI_FAKE_REPO, &f->options, &f->dir, &f->error);
}

void di_hub_fixture_succeed(di_hub_fixture *f)
{
    if (di_hub_fixture_resolve(f) != DI_OK)
        fail_msg("%s", f->error.text);
}

void di_hub_fixture_fail(di_hub_fixture *f, di_status status, const char *text)
{
    const di_status found = di_hub_fixture_resolve(f);
    if (found != status || !strstr(f->error.text, text))
        fail_msg("found %d \"%s\", wanted %d \"%s\"", found, f->error.text, status, text);
    assert_null(f->dir);
}

const char *di_hub_fixture_path(const di_hub_fixture *f, const char *folder, const char *name)
{
    static char path[DI_HUB_PATH_BYTES + 512];
    snprintf(path, sizeof path, "%s/models--test-org--tiny-model/%s/%s", f->options.cache_dir,
             folder, name);
    return path;
}

int64_t di_hub_fixture_size(const di_hub_fixture *f, const char *folder, const char *name)
{
    struct stat info;
    return lstat(di_hub_fixture_path(f, folder, name), &info) ? -1 : (int64_t)info.st_size;
}

static int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)))
        n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return n;
}

static void check_file(di_hub_fixture *f, const char *name)
{
    const di_fake_file *file = di_fake_hub_file(&f->hub, name);
    char path[DI_HUB_PATH_BYTES], wanted[128], target[128] = "";
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    snprintf(wanted, sizeof wanted, "../../blobs/%s", file->etag);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    assert_string_equal(target, wanted);
    di_mapping mapping;
    assert_int_equal(di_mapping_open(path, &mapping), DI_OK);
    assert_int_equal(mapping.size, file->bytes);
    assert_memory_equal(mapping.data, file->data, file->bytes);
    di_mapping_close(&mapping);
}

void di_hub_fixture_check_snapshot(di_hub_fixture *f)
{
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "model.safetensors.index.json",
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    };
    const int n_names = sizeof names / sizeof *names;
    assert_string_equal(f->dir, di_hub_fixture_path(f, "snapshots", DI_FAKE_COMMIT));
    for (int i = 0; i < n_names; i++)
        check_file(f, names[i]);
    assert_int_equal(count_entries(f->dir), n_names);
    assert_int_equal(count_entries(di_hub_fixture_path(f, "blobs", "")), n_names);
    DI_BUF_AUTO commit = {0};
    assert_int_equal(di_file_read(di_hub_fixture_path(f, "refs", "main"), 100, &commit), DI_OK);
    assert_string_equal(commit.data, DI_FAKE_COMMIT);
    assert_int_equal(count_entries(di_hub_fixture_path(f, "refs", "")), 1);
}

void di_hub_fixture_check_none(di_hub_fixture *f)
{
    const bool was_offline = f->options.is_offline;
    f->options.is_offline = true;
    di_hub_fixture_fail(f, DI_ERR_IO, "HF_HUB_OFFLINE");
    f->options.is_offline = was_offline;
}

void di_hub_fixture_leave_part(di_hub_fixture *f, const char *name, const char *data, size_t bytes)
{
    char part[128];
    snprintf(part, sizeof part, "%s.incomplete", di_fake_hub_file(&f->hub, name)->etag);
    char folder[DI_HUB_PATH_BYTES + 64];
    snprintf(folder, sizeof folder, "%s/models--test-org--tiny-model", f->options.cache_dir);
    mkdir(folder, 0777);
    snprintf(folder, sizeof folder, "%s/models--test-org--tiny-model/blobs", f->options.cache_dir);
    mkdir(folder, 0777);
    FILE *out = fopen(di_hub_fixture_path(f, "blobs", part), "w");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
}
