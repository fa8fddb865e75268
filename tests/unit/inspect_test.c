/* di_inspect: what it prints of the golden checkpoints and of the files of the bug cases. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint.h"
#include "deepinfer/tools.h"
#include "weights/safetensors.h"

#define BUGS   DI_TEST_DATA "/cases/bugs/"
#define GOLDEN DI_TEST_DATA "/golden/"

static char *printed; /* by the last inspect; free */

static di_status inspect(const char *path, const di_inspect_options *options)
{
    size_t size;
    free(printed);
    FILE *out = open_memstream(&printed, &size);
    assert_non_null(out);
    const di_status status = di_inspect(path, NULL, options, out);
    fclose(out);
    return status;
}

static di_status inspect_tensor(const char *path, const char *name, int64_t n_values)
{
    return inspect(path, &(di_inspect_options){.tensor = name, .n_values = n_values});
}

static void assert_printed(const char *part)
{
    if (!strstr(printed, part))
        print_message("wanted \"%s\" in:\n%s", part, printed);
    assert_non_null(strstr(printed, part));
}

static void a_golden_checkpoint_is_described(void **state)
{
    (void)state;
    assert_int_equal(inspect(GOLDEN "tiny", NULL), DI_OK);
    assert_printed("config: 10 layers, 3 draft blocks, hidden 128, 4 heads of 64, 8 experts (3 a "
                   "token), vocabulary 1280, context 512, vision\n");
    assert_printed("  layer 0-1      ratio 0: window only\n");
    assert_printed("  layer 6        ratio 1: own compressed KV, own top-k, candidate blocks\n");
    assert_printed("  layer 9        ratio 1: KV of layer 6, top-k of layer 8\n");
    assert_printed("  layer 3        engram table of 3384 rows\n");
    assert_printed("files: 1 opened, 1016 tensors, 5339360 bytes");
    assert_printed("routed experts            480 tensors          1044480 bytes\n");
    assert_printed("\nno problems\n");
    assert_null(strstr(printed, "ignored keys"));
    assert_null(strstr(printed, "memory plan"));
    assert_int_equal(inspect(GOLDEN "tiny", &(di_inspect_options){.memplan = true}), DI_OK);
    assert_printed("memory plan");
}

static void ignored_keys_are_listed(void **state)
{
    (void)state;
    inspect(DI_TEST_DATA "/cases/release", NULL);
    assert_printed("ignored keys of config.json:\n  transformers_version\n");
    assert_printed("found neither model.safetensors.index.json nor model.safetensors\n");
}

static void the_index_decides(void **state) /* L03 */
{
    (void)state;
    assert_int_equal(inspect_tensor(BUGS "L03", "b", 0), DI_OK);
    assert_string_equal(printed, "b F32 [1]\n9\n");
    assert_int_equal(inspect_tensor(BUGS "L03/one.safetensors", "b", 0), DI_OK);
    assert_string_equal(printed, "b F32 [1]\n2\n");
    assert_int_equal(inspect_tensor(BUGS "L03", "nothing", 0), DI_ERR_INPUT);
    assert_non_null(strstr(di_last_error(), "L03: found no tensor nothing"));
}

static void names_may_not_leave_the_directory(void **state) /* L04 */
{
    (void)state;
    assert_int_not_equal(inspect(BUGS "L04/nested-up", NULL), DI_OK);
    assert_printed("wanted a plain file name\n");
    assert_printed("problems: 2\n"); /* the other one: there is no config.json */
    assert_int_not_equal(inspect_tensor(BUGS "L04/up", "a", 0), DI_OK);
    assert_string_equal(printed, "");
    assert_non_null(strstr(di_last_error(), "wanted a plain file name"));
}

static void scales_are_checked(void **state) /* L12 */
{
    (void)state;
    assert_int_equal(inspect(BUGS "L12/bf16-no-scale-GOOD.safetensors", NULL), DI_OK);
    assert_printed("layers.0.attn.wo_a.weight BF16 [4,4]\nno problems\n");
    assert_int_equal(inspect(BUGS "L12/missing-scale.safetensors", NULL), DI_ERR_INPUT);
    assert_printed("missing tensor layers.0.attn.wo_a.scale, the scale of "
                   "layers.0.attn.wo_a.weight (F8_E4M3)\n");
    assert_int_equal(inspect(BUGS "L12/scale-shape.safetensors", NULL), DI_ERR_INPUT);
    assert_printed("found F8_E8M0 [1,2], wanted F8_E8M0 [2,2]\n");
    /* The scale lies in the other shard. */
    assert_int_equal(inspect(GOLDEN "small/model-00001-of-00002.safetensors", NULL), DI_OK);
    assert_int_equal(inspect(GOLDEN "small/model-00002-of-00002.safetensors", NULL), DI_OK);
}

static void values_have_the_headers_dtype(void **state) /* L13 */
{
    (void)state;
    assert_int_equal(inspect_tensor(BUGS "L13/sink-f32.safetensors", "attn_sink", 0), DI_OK);
    assert_string_equal(printed, "attn_sink F32 [4]\n-0.31 0.27 -1.5 0.125\n");
    assert_int_equal(inspect_tensor(BUGS "L13/sink-bf16.safetensors", "attn_sink", 0), DI_OK);
    assert_string_equal(printed, "attn_sink BF16 [4]\n-0.3125 0.25 -1.5 0.125\n");
}

static void broken_files_are_refused(void **state) /* L01, L09 */
{
    (void)state;
    assert_int_equal(inspect(BUGS "L01/cut-data.safetensors", NULL), DI_ERR_INPUT);
    assert_string_equal(printed, "");
    assert_int_equal(inspect(BUGS "L09/model.safetensors", NULL), DI_ERR_INPUT);
    assert_int_equal(inspect(BUGS "nowhere", NULL), DI_ERR_IO);
    assert_int_equal(inspect(BUGS "L01/good.safetensors", &(di_inspect_options){.memplan = true}),
                     DI_ERR_ARGUMENT);
}

/* --------------------------------------------------------------------------- every dtype's values
 */

static void each_dtype_is_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *dtype, *shape, *text;
        size_t n;
        unsigned char bytes[16];
    } cases[] = {
        {"BOOL", "[2]", "true false\n", 2, {1, 0}},
        {"U8", "[2]", "255 7\n", 2, {255, 7}},
        {"I8", "[2]", "-1 7\n", 2, {255, 7}},
        {"F8_E4M3", "[4]", "448 -120 0.001953125 nan\n", 4, {0x7e, 0xef, 1, 0x7f}},
        {"F8_E5M2", "[4]", "1 57344 -inf 1.5258789e-05\n", 4, {0x3c, 0x7b, 0xfc, 1}},
        {"F8_E8M0", "[3]", "1 2 0.5\n", 3, {127, 128, 126}},
        {"I16", "[1]", "-2\n", 2, {0xfe, 0xff}},
        {"U16", "[1]", "65534\n", 2, {0xfe, 0xff}},
        {"F16", "[4]", "-2 65504 5.9604645e-08 inf\n", 8, {0, 0xc0, 0xff, 0x7b, 1, 0, 0, 0x7c}},
        {"BF16", "[1]", "-2\n", 2, {0, 0xc0}},
        {"I32", "[1]", "-2\n", 4, {0xfe, 0xff, 0xff, 0xff}},
        {"U32", "[1]", "4294967294\n", 4, {0xfe, 0xff, 0xff, 0xff}},
        {"F32", "[]", "0.1\n", 4, {0xcd, 0xcc, 0xcc, 0x3d}},
        {"I64", "[1]", "-2\n", 8, {0xfe, 255, 255, 255, 255, 255, 255, 255}},
        {"U64", "[1]", "18446744073709551614\n", 8, {0xfe, 255, 255, 255, 255, 255, 255, 255}},
        {"F64", "[1]", "0.1\n", 8, {0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f}},
        {"F32", "[0,3]", "", 0, {0}},
    };
    DI_BUF_AUTO dir = {0};
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        DI_BUF_AUTO file = {0};
        char header[128], path[512], wanted[128];
        snprintf(header, sizeof header,
                 "{\"t\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}", cases[i].dtype,
                 cases[i].shape, cases[i].n);
        const uint64_t len = strlen(header);
        assert_int_equal(di_buf_append(&file, &len, 8), DI_OK);
        assert_int_equal(di_buf_append(&file, header, len), DI_OK);
        assert_int_equal(di_buf_append(&file, cases[i].bytes, cases[i].n), DI_OK);
        assert_int_equal(di_test_write_file(dir.data, "t", file.data, file.len), DI_OK);
        snprintf(path, sizeof path, "%s/t", dir.data);
        assert_int_equal(inspect_tensor(path, "t", 0), DI_OK);
        snprintf(wanted, sizeof wanted, "t %s %s\n%s", cases[i].dtype, cases[i].shape,
                 cases[i].text);
        assert_string_equal(printed, wanted);
    }
    di_test_remove_dir(dir.data);
}

/* The golden weights once more by definition: code times scale. */
static void quantized_weights_are_dequantized(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t row_scale; /* rows that share a scale */
        int64_t n_in;
    } cases[] = {
        {"layers.0.ffn.experts.1.w2", 1, 64},
        {"layers.1.engram.embed", 1, 32},
        {"layers.1.engram.wkv", 32, 192},
    };
    di_safetensors file;
    assert_int_equal(di_safetensors_open(GOLDEN "tiny/model-00001-of-00001.safetensors", &file),
                     DI_OK);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char name[128];
        snprintf(name, sizeof name, "%s.scale", cases[c].name);
        const uint8_t *scales = di_safetensors_find(&file, name)->data;
        snprintf(name, sizeof name, "%s.weight", cases[c].name);
        const di_tensor *t = di_safetensors_find(&file, name);
        const uint8_t *codes = t->data;
        assert_int_equal(inspect_tensor(GOLDEN "tiny", name, 7000), DI_OK);
        char *at = strstr(printed, "dequantized\n");
        assert_non_null(at);
        at += strlen("dequantized\n");
        for (int64_t i = 0; i < 7000; i++) {
            const int64_t row = i / cases[c].n_in, column = i % cases[c].n_in;
            const uint8_t scale =
                scales[row / cases[c].row_scale * (cases[c].n_in / 32) + column / 32];
            const float code = t->dtype == DI_I8 ? di_e2m1_to_f32[codes[i / 2] >> (i % 2 * 4) & 15]
                                                 : di_e4m3_to_f32[codes[i]];
            assert_true(strtof(at, &at) == code * ldexpf(1.0f, scale - 127));
        }
    }
    assert_int_equal(inspect_tensor(GOLDEN "tiny", "image_start", 5), DI_OK);
    assert_printed("\n... 123 more\n");
    assert_int_equal(inspect_tensor(GOLDEN "tiny", "image_start", -1), DI_OK);
    assert_null(strstr(printed, "more"));
    di_safetensors_close(&file);
}

/* ------------------------------------------------------------------------------------- problems */

static void all_problems_are_listed(void **state)
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    di_config *config = malloc(sizeof *config);
    di_test_plan plan;
    char from[512], to[512];
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    assert_int_equal(di_test_config("golden/tiny", config), DI_OK);
    assert_int_equal(di_test_plan_make(config, &plan), DI_OK);
    plan.is_sparse = true;
    for (int i = 0; i < 9; i++)
        plan.tensors[100 + i].dtype = DI_F64;
    assert_int_equal(di_test_plan_add(&plan, "x\\u001b[31my", DI_U8, 3), DI_OK);
    assert_int_equal(di_test_plan_write(&plan, dir.data), DI_OK);
    snprintf(from, sizeof from, "%s", GOLDEN "tiny/config.json");
    snprintf(to, sizeof to, "%s/config.json", dir.data);
    assert_int_equal(symlink(from, to), 0);
    assert_int_equal(di_test_write_file(dir.data, "generation_config.json", "{\"top_p\":2}", 11),
                     DI_OK);
    assert_int_equal(inspect(dir.data, NULL), DI_ERR_INPUT);
    assert_printed("problems: 11\n");
    for (int i = 0; i < 9; i++) {
        char wanted[256];
        snprintf(wanted, sizeof wanted, "tensor %s: found F64 ", plan.tensors[100 + i].name);
        assert_printed(wanted);
    }
    assert_printed("unexpected tensor x?[31my\n"); /* no escape sequence for the terminal */
    assert_printed("generation_config.json: top_p: found 2, wanted a number from 0 to 1\n");
    assert_non_null(strstr(di_last_error(), "11 problems: "));
    assert_null(strchr(di_last_error(), '\n'));
    di_test_plan_free(&plan);
    di_test_remove_dir(dir.data);
    free(config);
}

/* From another working directory; a broken link is named with its target (L10). */
static void links_of_the_hub_cache_are_followed(void **state)
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    DI_BUF_AUTO good = {0};
    char path[512];
    assert_int_equal(di_test_make_dir(&dir), DI_OK);
    assert_int_equal(di_file_read(BUGS "L01/good.safetensors", 1 << 20, &good), DI_OK);
    static const char *const dirs[] = {"m", "m/blobs", "m/refs", "m/snapshots", "m/snapshots/r1"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir.data, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    assert_int_equal(di_test_write_file(dir.data, "m/blobs/aa11", good.data, good.len), DI_OK);
    assert_int_equal(di_test_write_file(dir.data, "m/refs/main", "r1", 2), DI_OK);
    snprintf(path, sizeof path, "%s/m/snapshots/r1/model.safetensors", dir.data);
    assert_int_equal(symlink("../../blobs/aa11", path), 0);
    snprintf(path, sizeof path, "%s/m/snapshots/r1/config.json", dir.data);
    assert_int_equal(symlink("../../blobs/missing", path), 0);
    snprintf(path, sizeof path, "%s/m", dir.data);
    assert_int_equal(inspect(path, NULL), DI_ERR_IO);
    assert_printed("/m/snapshots/r1\nfiles: 1 opened, ");
    assert_printed("problems: 1\n");
    assert_printed("config.json: symbolic link to ../../blobs/missing, which does not exist\n");
    di_test_remove_dir(dir.data);
}

static int free_printed(void **state)
{
    (void)state;
    free(printed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_golden_checkpoint_is_described),
        cmocka_unit_test(ignored_keys_are_listed),
        cmocka_unit_test(the_index_decides),
        cmocka_unit_test(names_may_not_leave_the_directory),
        cmocka_unit_test(scales_are_checked),
        cmocka_unit_test(values_have_the_headers_dtype),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(each_dtype_is_decoded),
        cmocka_unit_test(quantized_weights_are_dequantized),
        cmocka_unit_test(all_problems_are_listed),
        cmocka_unit_test(links_of_the_hub_cache_are_followed),
    };
    return cmocka_run_group_tests(tests, NULL, free_printed);
}
