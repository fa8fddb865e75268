/* base/file.h */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[256];

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *data, size_t len)
{
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void expect_error(const char *part)
{
    if (!strstr(di_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", di_last_error(), part);
}

static void maps_what_is_there(void **state)
{
    (void)state;
    write_file("some", "ab\0c", 4);
    di_mapping m;
    assert_int_equal(di_mapping_open(in_folder("some"), &m), DI_OK);
    assert_int_equal(m.size, 4);
    assert_memory_equal(m.data, "ab\0c", 4);
    assert_int_equal(di_mapping_check(&m, "some"), DI_OK);
    di_mapping_close(&m);
    assert_null(m.data);
    assert_int_equal(m.fd, -1);
    di_mapping_close(&m); /* twice is fine */
}

static void an_empty_file_maps_to_nothing(void **state)
{
    (void)state;
    write_file("empty", "", 0);
    di_mapping m;
    assert_int_equal(di_mapping_open(in_folder("empty"), &m), DI_OK);
    assert_int_equal(m.size, 0);
    assert_null(m.data);
    di_mapping_close(&m);
}

static void a_cut_file_is_noticed(void **state)
{
    (void)state;
    write_file("cut", "0123456789", 10);
    di_mapping m;
    assert_int_equal(di_mapping_open(in_folder("cut"), &m), DI_OK);
    assert_int_equal(truncate(in_folder("cut"), 4), 0);
    assert_int_equal(di_mapping_check(&m, "cut"), DI_ERR_RUNTIME);
    expect_error("cut: cut while in use: found 4 bytes, wanted 10");
    di_mapping_close(&m);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    di_mapping m = {.size = 77};
    assert_int_equal(di_mapping_open(in_folder("missing"), &m), DI_ERR_IO);
    expect_error("/missing: No such file");
    assert_int_equal(di_mapping_open(folder, &m), DI_ERR_IO);
    expect_error("found a directory, wanted a regular file");
    assert_int_equal(symlink("gone-blob", in_folder("link")), 0);
    assert_int_equal(di_mapping_open(in_folder("link"), &m), DI_ERR_IO);
    expect_error("/link: symbolic link to gone-blob, which does not exist");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(di_mapping_open(in_folder("pipe"), &m), DI_ERR_IO); /* and does not hang */
    expect_error("found a special file");
    DI_BUF_AUTO buf = {0};
    assert_int_equal(di_file_read(in_folder("pipe"), 10, &buf), DI_ERR_IO); /* neither does this */
    expect_error("found a special file, wanted a regular file");
    assert_int_equal(di_file_read("/dev/zero", 10, &buf), DI_ERR_IO);
    assert_int_equal(buf.len, 0);
    assert_int_equal(m.size, 77);
    unlink(in_folder("link"));
    unlink(in_folder("pipe"));
}

static void reads_whole_files(void **state)
{
    (void)state;
    enum { BIG = 200000 };
    char *data = malloc(BIG);
    assert_non_null(data);
    for (int i = 0; i < BIG; i++)
        data[i] = (char)(i * 7);
    write_file("big", data, BIG);
    DI_BUF_AUTO buf = {0};
    assert_int_equal(di_buf_puts(&buf, "before"), DI_OK);
    assert_int_equal(di_file_read(in_folder("big"), BIG, &buf),
                     DI_OK); /* appends; the limit fits */
    assert_int_equal(buf.len, BIG + 6);
    assert_memory_equal(buf.data + 6, data, BIG);
    DI_BUF_AUTO other = {0};
    assert_int_equal(di_file_read(in_folder("big"), BIG - 1, &other), DI_ERR_INPUT);
    expect_error("found more than 199999 bytes");
    assert_int_equal(di_file_read(in_folder("missing"), BIG, &other), DI_ERR_IO);
    assert_int_equal(di_file_read(folder, BIG, &other), DI_ERR_IO);
    expect_error("found a directory, wanted a regular file");
    free(data);
}

static void kinds_of_paths(void **state)
{
    (void)state;
    write_file("plain", "x", 1);
    assert_true(di_path_exists(in_folder("plain")));
    assert_false(di_path_is_dir(in_folder("plain")));
    assert_true(di_path_is_dir(folder));
    assert_false(di_path_exists(in_folder("missing")));
    assert_false(di_path_is_dir(in_folder("missing")));
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/deepinfer-file-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    const char *const names[] = {"some", "empty", "cut", "big", "plain"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_what_is_there),    cmocka_unit_test(an_empty_file_maps_to_nothing),
        cmocka_unit_test(a_cut_file_is_noticed), cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(reads_whole_files),     cmocka_unit_test(kinds_of_paths)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
