/* weights/safetensors.c: good files, and everything that may be wrong with one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fp.h"
#include "checkpoint.h"
#include "tokenizers.h"
#include "weights/safetensors.h"

#define BUGS DI_TEST_DATA "/cases/bugs/"

static void open_bug(const char *file, di_safetensors *out)
{
    char path[512];
    snprintf(path, sizeof path, BUGS "%s", file);
    const di_status status = di_safetensors_open(path, out);
    if (status != DI_OK)
        print_message("%s\n", di_last_error());
    assert_int_equal(status, DI_OK);
}

/* One line: the file's path, and `part` in it. */
static void assert_refused(const char *file, const char *part)
{
    char path[512];
    di_safetensors st = {.n_entries = 77};
    snprintf(path, sizeof path, BUGS "%s", file);
    assert_int_not_equal(di_safetensors_open(path, &st), DI_OK);
    assert_int_equal(st.n_entries, 77);
    if (!strstr(di_last_error(), part))
        print_message("wanted \"%s\" in: %s\n", part, di_last_error());
    assert_non_null(strstr(di_last_error(), part));
    assert_memory_equal(di_last_error(), path, strlen(path));
    assert_null(strchr(di_last_error(), '\n'));
}

static float f32_at(const di_tensor *t, int i)
{
    float x;
    memcpy(&x, (const char *)t->data + (size_t)i * sizeof x, sizeof x);
    return x;
}

/* ---------------------------------------------------------------------------- files of the bugs */

static void cut_files_name_what_is_missing(void **state) /* L01 */
{
    (void)state;
    di_safetensors st;
    open_bug("L01/good.safetensors", &st);
    assert_true(st.n_entries > 0);
    di_safetensors_close(&st);
    assert_refused("L01/cut-data.safetensors", "the file is cut: found ");
    assert_non_null(strstr(di_last_error(), "tensor "));
    assert_refused("L01/cut-header.safetensors", "the file is cut: found 32 bytes");
    assert_refused("L01/cut-length.safetensors", "found 5 bytes, wanted at least 8");
    assert_refused("L01/empty.safetensors", "found 0 bytes, wanted at least 8");
    assert_refused("L01/not-there.safetensors", "No such file");
}

static void shapes_are_whole_numbers(void **state) /* L06 */
{
    (void)state;
    di_safetensors st;
    open_bug("L06/scalar-GOOD.safetensors", &st);
    assert_int_equal(st.entries[0].tensor.rank, 0);
    assert_int_equal(st.entries[0].tensor.bytes, 4);
    di_safetensors_close(&st);
    open_bug("L06/zero-size-GOOD.safetensors", &st);
    assert_int_equal(st.entries[0].tensor.bytes, 0);
    di_safetensors_close(&st);
    assert_refused("L06/big-dim.safetensors", "wanted a whole number below 2^64");
    assert_refused("L06/float-dim.safetensors", "found '.', wanted a whole number of at least 0");
    assert_refused("L06/negative.safetensors", "found '-', wanted a whole number of at least 0");
    assert_refused("L06/wrap-small.safetensors", "its shape has more than 2^64 bytes");
    assert_refused("L06/wrap-to-zero.safetensors", "its shape has more than 2^64 bytes");
}

static void ranges_follow_each_other(void **state) /* L07 */
{
    (void)state;
    assert_refused("L07/duplicate-key.safetensors", "the name stands twice in the header");
    assert_refused("L07/end-before-begin.safetensors", "wanted begin before end");
    assert_refused("L07/gap.safetensors", "nothing may lie between tensors");
    assert_refused("L07/negative-offset.safetensors", "found '-', wanted a whole number");
    assert_refused("L07/overlap-partial.safetensors", "overlap those of tensor ");
    assert_refused("L07/overlap.safetensors", "overlap those of tensor ");
    assert_refused("L07/size-mismatch.safetensors",
                   "found 4 bytes in data_offsets, wanted 4000000");
    assert_refused("L07/three-offsets.safetensors", "found ',', wanted ']'");
    assert_refused("L07/trailing.safetensors", "the rest belongs to no tensor");
}

static void other_files_are_called_what_they_are(void **state) /* L09 */
{
    (void)state;
    assert_refused("L09/model.safetensors", "found a Git LFS pointer");
    assert_refused("L09/html.safetensors", "found an HTML or XML page");
}

static void values_have_the_headers_dtype(void **state) /* L13 */
{
    (void)state;
    const float wanted[2][4] = {{-0.31f, 0.27f, -1.5f, 0.125f}, {-0.3125f, 0.25f, -1.5f, 0.125f}};
    di_safetensors st;
    open_bug("L13/sink-f32.safetensors", &st);
    assert_int_equal(st.entries[0].tensor.dtype, DI_F32);
    for (int i = 0; i < 4; i++)
        assert_true(f32_at(&st.entries[0].tensor, i) == wanted[0][i]);
    di_safetensors_close(&st);
    open_bug("L13/sink-bf16.safetensors", &st);
    assert_int_equal(st.entries[0].tensor.dtype, DI_BF16);
    for (int i = 0; i < 4; i++) {
        di_bf16 x;
        memcpy(&x, (const char *)st.entries[0].tensor.data + 2 * i, 2);
        assert_true(di_bf16_to_f32(x) == wanted[1][i]);
    }
    di_safetensors_close(&st);
}

/* ------------------------------------------------------------------------------ made-up headers */

/* A file in memory: header text and payload bytes. The caller frees. */
static unsigned char *make_file(const char *header, size_t payload, size_t *size)
{
    const uint64_t len = strlen(header);
    *size = 8 + len + payload;
    unsigned char *file = calloc(1, *size);
    memcpy(file, &len, 8);
    memcpy(file + 8, header, len);
    return file;
}

static di_status parse(const char *header, size_t payload, di_safetensors *out)
{
    size_t size;
    unsigned char *file = make_file(header, payload, &size);
    const di_status status = di_safetensors_from_memory(file, size, "M", out);
    free(file); /* the entries' data dangles; nothing here reads it */
    return status;
}

static void headers_in_any_order_are_read(void **state)
{
    (void)state;
    di_safetensors st;
    assert_int_equal(
        parse("{ \"b\\u00e9\\ud83d\\ude00\" : {\"data_offsets\":[0,6] , \"shape\":[3],\n"
              "\"dtype\":\"BF16\"}, \"__metadata__\":{\"a\":\"b\"},"
              "\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,0,5],\"data_offsets\":[6,6]},"
              "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[6,14]}}   ",
              14, &st),
        DI_OK);
    assert_int_equal(st.n_entries, 3);
    assert_string_equal(st.entries[0].name, "a");
    assert_string_equal(st.entries[1].name, "b\u00e9\U0001f600");
    assert_string_equal(st.entries[2].name, "c");
    assert_int_equal(st.entries[0].tensor.rank, 3);
    assert_int_equal(st.entries[0].tensor.shape[2], 5);
    assert_int_equal(st.payload_bytes, 14);
    assert_ptr_equal(di_safetensors_find(&st, "c"), &st.entries[2].tensor);
    assert_null(di_safetensors_find(&st, "d"));
    assert_null(di_safetensors_find(&st, ""));
    di_safetensors_close(&st);
    assert_int_equal(parse("{}", 0, &st), DI_OK);
    assert_int_equal(st.n_entries, 0);
    assert_null(di_safetensors_find(&st, "a"));
    di_safetensors_close(&st);
}

static void broken_headers_are_refused(void **state)
{
    (void)state;
#define T(rest) "{\"t\":{" rest "}}"
#define OFFSETS ",\"data_offsets\":[0,4]"
    static const struct {
        const char *header;
        size_t payload;
        const char *part;
    } cases[] = {
        {"", 0, "found a header of 0 bytes"},
        {"[]", 0, "found '[', wanted '{'"},
        {"{} x", 0, "wanted the end of the text"},
        {"{}", 1, "found 1 bytes of tensor data, wanted 0"},
        {"{\"t\":1}", 0, "tensor t: byte 5 of the JSON text: found '1', wanted '{'"},
        {"{\"t\"}", 0, "found '}', wanted ':'"},
        {"{\"t", 0, "found the end, wanted the rest of a string"},
        {"{\"t\\u0000\":{}}", 0, "wanted a name without NUL"},
        {"{\"t\\ud800\":{}}", 0, "second half of a surrogate pair"},
        {"{\"t\\udc00\":{}}", 0, "first half of a surrogate pair"},
        {"{\"t\\x\":{}}", 0, "wanted an escape"},
        {"{\"t\xff\":{}}", 0, "found byte 0xff, wanted UTF-8"},
        {"{\"t\n\":{}}", 0, "found byte 0x0a, wanted the rest of a string"},
        {"{\"t\":{},}", 0, "tensor t: found no dtype"},
        {T("\"dtype\":\"F32\",\"shape\":[1]"), 4, "tensor t: found no data_offsets"},
        {T("\"dtype\":\"F32\"" OFFSETS), 4, "tensor t: found no shape"},
        {T("\"dtype\":\"F32\",\"shape\":[1]" OFFSETS ",\"x\":1"), 4, "found key \"x\""},
        {T("\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1]" OFFSETS), 4, "found dtype twice"},
        {T("\"dtype\":\"F31\",\"shape\":[1]" OFFSETS), 4, "tensor t: found dtype \"F31\", wanted"},
        {T("\"dtype\":4,\"shape\":[1]" OFFSETS), 4, "found '4', wanted a string"},
        {T("\"dtype\":\"F32\",\"shape\":[01]" OFFSETS), 4, "wanted a whole number of at least 0"},
        {T("\"dtype\":\"F32\",\"shape\":[1e0]" OFFSETS), 4, "wanted a whole number of at least 0"},
        {T("\"dtype\":\"F32\",\"shape\":[1,]" OFFSETS), 4, "wanted a whole number of at least 0"},
        {T("\"dtype\":\"F32\",\"shape\":[1" OFFSETS), 4, "found '\"', wanted a whole number"},
        {T("\"dtype\":\"F32\",\"shape\":[9223372036854775808]" OFFSETS), 4, "at most 2^63 - 1"},
        {T("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1]" OFFSETS), 4, "more than 8 dimensions"},
        {T("\"dtype\":\"F32\",\"shape\":[2]" OFFSETS), 4,
         "found 4 bytes in data_offsets, wanted 8"},
        {T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]"), 8, "wanted from 0"},
        {T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4, "found ']', wanted ','"},
        {T("\"dtype\":\"U8\",\"shape\":[9223372036854775807],"
           "\"data_offsets\":[0,9223372036854775807]"),
         4, "the file is cut: found 4 bytes of tensor data, wanted 9223372036854775807"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: byte 21 of the JSON text"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "found __metadata__ twice"},
        {"{\"__metadata__\":\"x\"}", 0, "__metadata__: byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        di_safetensors st;
        assert_int_equal(parse(cases[i].header, cases[i].payload, &st), DI_ERR_INPUT);
        if (!strstr(di_last_error(), cases[i].part))
            print_message("case %zu, wanted \"%s\": %s\n", i, cases[i].part, di_last_error());
        assert_non_null(strstr(di_last_error(), cases[i].part));
        assert_memory_equal(di_last_error(), "M: ", 3);
    }
}

static void header_length_has_a_limit(void **state)
{
    (void)state;
    di_safetensors st;
    unsigned char file[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    assert_int_equal(di_safetensors_from_memory(file, sizeof file, "M", &st), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "found a header of 18446744073709551615 bytes"));
    const uint64_t len = 100000001;
    memcpy(file, &len, 8);
    assert_int_equal(di_safetensors_from_memory(file, sizeof file, "M", &st), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "wanted 2 to 100000000"));
}

/* ------------------------------------------------------------------------------------ real files
 */

static void a_shard_cut_anywhere_is_refused(void **state)
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    DI_BUF_AUTO bytes = {0};
    char path[512];
    di_safetensors st;
    assert_int_equal(di_test_read("golden/tiny/model-00001-of-00001.safetensors", &bytes), DI_OK);
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    snprintf(path, sizeof path, "%s/cut.safetensors", dir.data);
    assert_int_equal(di_test_write_file(dir.data, "cut.safetensors", bytes.data, bytes.len), DI_OK);
    assert_int_equal(di_safetensors_open(path, &st), DI_OK);
    assert_int_equal(st.n_entries, 1016);
    di_safetensors_close(&st);
    size_t n = 0;
    for (size_t size = (bytes.len - 1) & ~(size_t)4095;; size -= 4096, n++) {
        assert_int_equal(truncate(path, (off_t)size), 0);
        assert_int_equal(di_safetensors_open(path, &st), DI_ERR_INPUT);
        assert_memory_equal(di_last_error(), path, strlen(path));
        assert_true(strstr(di_last_error(), "cut: found ") ||
                    (size < 8 && strstr(di_last_error(), "wanted at least 8")));
        if (size == 0)
            break;
    }
    assert_int_equal(n, bytes.len / 4096);
    di_test_remove_dir(dir.data);
}

static void a_file_cut_while_mapped_is_seen(void **state) /* L01 */
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    char path[512];
    size_t size;
    di_safetensors st;
    unsigned char *file = make_file(
        "{\"t\":{\"dtype\":\"U8\",\"shape\":[9000],\"data_offsets\":[0,9000]}}", 9000, &size);
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    snprintf(path, sizeof path, "%s/t.safetensors", dir.data);
    assert_int_equal(di_test_write_file(dir.data, "t.safetensors", file, size), DI_OK);
    assert_int_equal(di_safetensors_open(path, &st), DI_OK);
    assert_int_equal(di_mapping_check(&st.mapping, st.path), DI_OK);
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(di_mapping_check(&st.mapping, st.path), DI_ERR_RUNTIME);
    assert_non_null(strstr(di_last_error(), "found 5000 bytes"));
    di_safetensors_close(&st);
    di_test_remove_dir(dir.data);
    free(file);
}

static void golden_vectors_open_from_memory(void **state)
{
    (void)state;
    DI_BUF_AUTO bytes = {0};
    di_safetensors st;
    assert_int_equal(di_test_read("golden/tiny/golden.safetensors.xz", &bytes), DI_OK);
    assert_int_equal(di_safetensors_from_memory(bytes.data, bytes.len, "golden", &st), DI_OK);
    const di_tensor *t = di_safetensors_find(&st, "engram.multipliers");
    assert_non_null(t);
    assert_int_equal(t->dtype, DI_I64);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[1], 4);
    assert_true((const char *)t->data >= bytes.data &&
                (const char *)t->data + t->bytes <= bytes.data + bytes.len);
    di_safetensors_close(&st);
}

/* Every byte of a small header replaced by every value: refused or still consistent, never worse.
 */
static void any_byte_of_a_header_may_be_wrong(void **state)
{
    (void)state;
    size_t size, n_good = 0;
    unsigned char *file =
        make_file("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
                  ",\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],"
                  "\"data_offsets\":[4,8]}}",
                  8, &size);
    for (size_t i = 0; i < size - 8; i++) {
        const unsigned char old = file[i];
        for (int byte = 0; byte < 256; byte++) {
            di_safetensors st;
            file[i] = (unsigned char)byte;
            if (di_safetensors_from_memory(file, size, "M", &st) != DI_OK)
                continue;
            assert_int_equal(st.payload_bytes, 8);
            di_safetensors_close(&st);
            n_good++;
        }
        file[i] = old;
    }
    assert_true(n_good > size - 8); /* each byte's own value is one of the 256 */
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_files_name_what_is_missing),
        cmocka_unit_test(shapes_are_whole_numbers),
        cmocka_unit_test(ranges_follow_each_other),
        cmocka_unit_test(other_files_are_called_what_they_are),
        cmocka_unit_test(values_have_the_headers_dtype),
        cmocka_unit_test(headers_in_any_order_are_read),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(header_length_has_a_limit),
        cmocka_unit_test(a_shard_cut_anywhere_is_refused),
        cmocka_unit_test(a_file_cut_while_mapped_is_seen),
        cmocka_unit_test(golden_vectors_open_from_memory),
        cmocka_unit_test(any_byte_of_a_header_may_be_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
