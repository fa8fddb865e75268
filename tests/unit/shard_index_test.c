/* weights/shard_index.c and weights/checkpoint_dir.c: which file holds which tensor. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint.h"
#include "weights/checkpoint_dir.h"
#include "weights/shard_index.h"

#define BUGS DI_TEST_DATA "/cases/bugs/"

static void assert_last_error_has(const char *part)
{
    if (!strstr(di_last_error(), part))
        print_message("wanted \"%s\" in: %s\n", part, di_last_error());
    assert_non_null(strstr(di_last_error(), part));
    assert_null(strchr(di_last_error(), '\n'));
}

static di_status parse(const char *text, di_shard_index *out)
{
    return di_shard_index_parse(text, strlen(text), "I", out);
}

static void an_index_is_read(void **state)
{
    (void)state;
    di_shard_index index;
    assert_int_equal(parse("{\"metadata\":{\"x\":[1,{\"y\":null,\"z\":-1.5e3}],\"total_size\":12},"
                           "\"note\":\"\", \"weight_map\":{\"b\":\"2.safetensors\","
                           "\"c\":\"1.safetensors\",\"a\":\"2.safetensors\"}}",
                           &index),
                     DI_OK);
    assert_int_equal(index.n_entries, 3);
    assert_string_equal(index.entries[0].tensor, "a");
    assert_string_equal(index.entries[2].tensor, "c");
    assert_int_equal(index.n_files, 2);
    assert_string_equal(index.files[index.entries[0].shard], "2.safetensors");
    assert_string_equal(index.files[index.entries[1].shard], "2.safetensors");
    assert_string_equal(index.files[index.entries[2].shard], "1.safetensors");
    assert_true(index.has_total_size);
    assert_int_equal(index.total_size, 12);
    di_shard_index_free(&index);
}

static void a_broken_index_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "found the end, wanted '{'"},
        {"{}", "found no weight_map with tensors"},
        {"{\"weight_map\":{}}", "found no weight_map with tensors"},
        {"{\"weight_map\":[]}", "found '[', wanted '{'"},
        {"{\"weight_map\":{\"a\":1}}", "weight_map: tensor a: byte 19 of the JSON text: found '1'"},
        {"{\"weight_map\":{\"a\":\"f\",\"a\":\"f\"}}", "found tensor a twice"},
        {"{\"weight_map\":{\"a\":\"f\"},\"weight_map\":{}}", "found weight_map twice"},
        {"{\"weight_map\":{\"a\":\"f\"},\"metadata\":{\"total_size\":-1}}",
         "found '-', wanted a whole"},
        {"{\"weight_map\":{\"a\":\"f\"},\"metadata\":{\"total_size\":1,\"total_size\":1}}",
         "twice"},
        {"{\"weight_map\":{\"a\":\"f\"}", "found the end, wanted ','"},
        {"{\"weight_map\":{\"a\":\"f\"}}}", "wanted the end of the text"},
        {"{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "wanted at most 32 levels"},
        {"{\"x\":01}", "wanted a number"},
        {"{\"x\":1.}", "wanted a digit"},
        {"{\"x\":nul}", "wanted a value"},
        {"{\"x\":[1,]}", "wanted a value"},
        {"{\"weight_map\":{\"a\":\"d/f\"}}",
         "found \"d/f\" for tensor a, wanted a plain file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "wanted a plain file name"},
        {"{\"weight_map\":{\"a\":\"d\\\\f\"}}", "wanted a plain file name"},
    };
    di_shard_index index;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i][0], &index), DI_ERR_INPUT);
        assert_last_error_has(cases[i][1]);
        assert_memory_equal(di_last_error(), "I: ", 3);
    }
}

/* ------------------------------------------------------------------------------------ directories
 */

/* Opens a directory; problems as text. Close with di_checkpoint_close. */
static size_t open_dir(const char *dir, di_checkpoint *out, di_buf *text)
{
    DI_PROBLEMS_AUTO problems = {0};
    assert_int_equal(di_checkpoint_open(dir, &problems, out), DI_OK);
    assert_int_equal(di_buf_puts(text, di_buf_str(&problems.text)), DI_OK);
    assert_int_equal(di_problems_status(&problems) != DI_OK, problems.n > 0);
    return problems.n;
}

static void names_may_not_leave_the_directory(void **state) /* L04 */
{
    (void)state;
    static const char *const dirs[] = {"abs", "dot", "empty", "nested-up", "nul", "up"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        DI_BUF_AUTO text = {0};
        di_checkpoint checkpoint;
        char dir[512];
        snprintf(dir, sizeof dir, BUGS "L04/%s", dirs[i]);
        assert_int_equal(open_dir(dir, &checkpoint, &text), 1);
        assert_int_equal(checkpoint.n_shards, 0); /* refused before open() */
        assert_non_null(strstr(
            text.data, strcmp(dirs[i], "nul") == 0 ? "without NUL" : "wanted a plain file name"));
        di_checkpoint_close(&checkpoint);
    }
}

static float only_value(const di_checkpoint *checkpoint, const char *name)
{
    const di_checkpoint_tensor *t = di_checkpoint_find(checkpoint, name);
    float x;
    assert_non_null(t);
    assert_int_equal(t->tensor->dtype, DI_F32);
    memcpy(&x, t->tensor->data, sizeof x);
    return x;
}

static void the_index_decides(void **state) /* L03 */
{
    (void)state;
    DI_BUF_AUTO text = {0};
    di_checkpoint checkpoint;
    assert_int_equal(open_dir(BUGS "L03", &checkpoint, &text), 0);
    assert_int_equal(checkpoint.n_tensors, 3);
    assert_true(only_value(&checkpoint, "a") == 1.0f);
    assert_true(only_value(&checkpoint, "b") == 9.0f);
    assert_true(only_value(&checkpoint, "c") == 3.0f);
    assert_int_equal(checkpoint.n_strays, 1); /* the b of one.safetensors */
    di_checkpoint_close(&checkpoint);
}

/* Copies a file of the bug folder into dir. */
static void copy_bug(const char *from, const char *dir, const char *name)
{
    DI_BUF_AUTO bytes = {0};
    char path[512];
    snprintf(path, sizeof path, BUGS "%s", from);
    assert_int_equal(di_file_read(path, 1 << 20, &bytes), DI_OK);
    assert_int_equal(di_test_write_file(dir, name, bytes.data, bytes.len), DI_OK);
}

static void disagreement_and_missing_files_are_all_listed(void **state) /* L03 */
{
    (void)state;
    static const char index[] =
        "{\"weight_map\":{\"a\":\"one.safetensors\",\"c\":\"one.safetensors\","
        "\"d\":\"one.safetensors\",\"b\":\"three.safetensors\"}}";
    DI_BUF_AUTO dir = {0};
    DI_BUF_AUTO text = {0};
    di_checkpoint checkpoint;
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    copy_bug("L03/one.safetensors", dir.data, "one.safetensors");
    assert_int_equal(
        di_test_write_file(dir.data, "model.safetensors.index.json", index, sizeof index - 1),
        DI_OK);
    assert_int_equal(open_dir(dir.data, &checkpoint, &text), 3);
    assert_non_null(strstr(text.data, "/one.safetensors: found no tensor c, which the index"));
    assert_non_null(strstr(text.data, "/one.safetensors: found no tensor d, which the index"));
    assert_non_null(strstr(text.data, "/three.safetensors: No such file"));
    assert_true(only_value(&checkpoint, "a") == 1.0f);
    assert_null(di_checkpoint_find(&checkpoint, "b")->tensor);
    assert_null(di_checkpoint_find(&checkpoint, "e"));
    di_checkpoint_close(&checkpoint);
    di_test_remove_dir(dir.data);
}

static void total_size_is_checked(void **state)
{
    (void)state;
    static const char index[] = "{\"metadata\":{\"total_size\":9},"
                                "\"weight_map\":{\"a\":\"one.safetensors\"}}";
    DI_BUF_AUTO dir = {0};
    DI_BUF_AUTO text = {0};
    di_checkpoint checkpoint;
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    copy_bug("L03/one.safetensors", dir.data, "one.safetensors");
    assert_int_equal(
        di_test_write_file(dir.data, "model.safetensors.index.json", index, sizeof index - 1),
        DI_OK);
    assert_int_equal(open_dir(dir.data, &checkpoint, &text), 1);
    assert_non_null(strstr(text.data, "metadata.total_size: found 9, wanted 4, the bytes"));
    di_checkpoint_close(&checkpoint);
    di_test_remove_dir(dir.data);
}

static void one_file_needs_no_index(void **state)
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    DI_BUF_AUTO text = {0};
    di_checkpoint checkpoint;
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    assert_int_equal(open_dir(dir.data, &checkpoint, &text), 1);
    assert_non_null(strstr(text.data, "found neither model.safetensors.index.json nor"));
    di_checkpoint_close(&checkpoint);
    copy_bug("L03/two.safetensors", dir.data, "model.safetensors");
    di_buf_clear(&text);
    assert_int_equal(open_dir(dir.data, &checkpoint, &text), 0);
    assert_true(only_value(&checkpoint, "b") == 9.0f);
    assert_false(checkpoint.has_index);
    di_checkpoint_close(&checkpoint);
    di_test_remove_dir(dir.data);
}

/* --------------------------------------------------------------------- the layout of the hub cache
 */

static void write_text(const char *dir, const char *name, const char *text)
{
    assert_int_equal(di_test_write_file(dir, name, text, strlen(text)), DI_OK);
}

/* Unpacks the hub cache of the case (regular files, directories and links of a ustar archive). */
static void unpack_cache(const char *dir)
{
    DI_BUF_AUTO tar = {0};
    assert_int_equal(di_file_read(BUGS "L10/hub-cache.tar", 1 << 20, &tar), DI_OK);
    for (size_t at = 0; at + 512 <= tar.len && tar.data[at];) {
        const char *block = tar.data + at;
        char path[1024], target[101] = {0}, name[101] = {0}, prefix[156] = {0};
        memcpy(name, block, 100);
        memcpy(target, block + 157, 100);
        memcpy(prefix, block + 345, 155);
        const size_t size = strtoul(block + 124, NULL, 8);
        snprintf(path, sizeof path, "%s%s%s/%s", dir, *prefix ? "/" : "", prefix, name);
        if (block[156] == '5')
            assert_int_equal(mkdir(path, 0755), 0);
        else if (block[156] == '2')
            assert_int_equal(symlink(target, path), 0);
        else
            assert_int_equal(di_test_write_file(dir, path + strlen(dir) + 1, block + 512, size),
                             DI_OK);
        at += 512 + (size + 511) / 512 * 512;
    }
}

#define REVISION "0000000000000000000000000000000000000001"

static void the_hub_cache_is_followed(void **state) /* L10 */
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    DI_BUF_AUTO found = {0};
    DI_BUF_AUTO text = {0};
    char entry[512], snapshot[600];
    di_checkpoint checkpoint;
    di_config config;
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    unpack_cache(dir.data);
    snprintf(entry, sizeof entry, "%s/L10/models--org--name", dir.data);
    snprintf(snapshot, sizeof snapshot, "%s/snapshots/" REVISION, entry);
    assert_int_equal(di_checkpoint_resolve(entry, &found), DI_OK);
    assert_string_equal(found.data, snapshot);
    di_buf_clear(&found);
    assert_int_equal(di_checkpoint_resolve(snapshot, &found), DI_OK);
    assert_string_equal(found.data, snapshot);
    assert_int_equal(open_dir(snapshot, &checkpoint, &text), 0); /* a link into blobs/ */
    assert_true(checkpoint.n_tensors > 0);
    di_checkpoint_close(&checkpoint);
    assert_int_equal(di_checkpoint_read_config(snapshot, &config), DI_ERR_IO);
    assert_last_error_has(
        "config.json: symbolic link to ../../blobs/missing, which does not exist");
    di_test_remove_dir(dir.data);
}

static void a_broken_cache_entry_is_refused(void **state)
{
    (void)state;
    static const char *const refs[] = {"../../../etc", "", "a/b", "..", "a b"};
    DI_BUF_AUTO dir = {0};
    DI_BUF_AUTO found = {0};
    char path[512];
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    snprintf(path, sizeof path, "%s/snapshots", dir.data);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(di_checkpoint_resolve(dir.data, &found), DI_ERR_IO);
    assert_last_error_has("/refs/main: No such file");
    snprintf(path, sizeof path, "%s/refs", dir.data);
    assert_int_equal(mkdir(path, 0755), 0);
    for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++) {
        write_text(dir.data, "refs/main", refs[i]);
        assert_int_equal(di_checkpoint_resolve(dir.data, &found), DI_ERR_INPUT);
        assert_last_error_has("wanted a revision");
    }
    write_text(dir.data, "refs/main", REVISION "\n");
    assert_int_equal(di_checkpoint_resolve(dir.data, &found), DI_ERR_IO);
    assert_last_error_has("names revision " REVISION ", but there is no directory");
    assert_int_equal(found.len, 0);
    snprintf(path, sizeof path, "%s/refs/main", dir.data);
    assert_int_equal(di_checkpoint_resolve(path, &found), DI_ERR_IO);
    assert_last_error_has("found a file, wanted a checkpoint directory");
    assert_int_equal(di_checkpoint_resolve("/nowhere/at/all", &found), DI_ERR_IO);
    assert_last_error_has("/nowhere/at/all: No such file");
    di_test_remove_dir(dir.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_is_read),
        cmocka_unit_test(a_broken_index_is_refused),
        cmocka_unit_test(names_may_not_leave_the_directory),
        cmocka_unit_test(the_index_decides),
        cmocka_unit_test(disagreement_and_missing_files_are_all_listed),
        cmocka_unit_test(total_size_is_checked),
        cmocka_unit_test(one_file_needs_no_index),
        cmocka_unit_test(the_hub_cache_is_followed),
        cmocka_unit_test(a_broken_cache_entry_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
