/* The release's checkpoint, imitated by sparse files: all of its 96,085 names bind. With a
 * directory as argument it only writes the imitation there: `build/tests/release_test DIR`. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "deepinfer/tools.h"
#include "release_imitation.h"
#include "weights/bind_check.h"

static di_config config;

/* ------------------------------------------------------------------- the list, without any file */

typedef struct counts {
    uint64_t draft, vision, experts, draft_experts, all;
} counts;

static di_status count_name(void *user, const di_weight_tensor *t)
{
    counts *c = user;
    const bool is_draft = strncmp(t->name, "mtp.", 4) == 0;
    const bool is_expert = strstr(t->name, ".ffn.experts.") != NULL;
    c->all++;
    c->draft += is_draft;
    c->vision += strncmp(t->name, "vision.", 7) == 0 || strncmp(t->name, "aligner.", 8) == 0 ||
                 strncmp(t->name, "image_", 6) == 0;
    c->experts += is_expert && !is_draft;
    c->draft_experts += is_expert && is_draft;
    return DI_OK;
}

static void the_list_has_the_releases_counts(void **state)
{
    (void)state;
    counts c = {0};
    uint64_t n, bytes;
    assert_int_equal(di_test_config("cases/release", &config), DI_OK);
    assert_int_equal(di_weight_list(&config, NULL, count_name, &c), DI_OK);
    assert_int_equal(c.all, DI_RELEASE_TENSORS);
    assert_int_equal(c.draft, 2401);
    assert_int_equal(c.vision, 266);
    assert_int_equal(c.experts, 92160);
    assert_int_equal(c.draft_experts, 2304);
    assert_int_equal(di_weight_totals(&config, &n, &bytes), DI_OK);
    assert_int_equal(n, DI_RELEASE_TENSORS);
    assert_true(bytes == DI_RELEASE_PAYLOAD_BYTES);
}

/* ------------------------------------------------------------------------------------- the files
 */

static long resident_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

/* False, with a printed line, where no such files can be had. */
static bool write_release(di_buf *dir, void (*change)(di_test_plan *plan))
{
    assert_int_equal(di_test_make_dir(dir), DI_OK);
    const di_status status = di_test_write_release(dir->data, change);
    if (status == DI_ERR_IO) {
        print_message("left out, no sparse files of 100 GB here: %s\n", di_last_error());
        di_test_remove_dir(dir->data);
    } else {
        assert_int_equal(status, DI_OK);
    }
    return status == DI_OK;
}

static void inspect_release(const char *dir)
{
    const di_inspect_options options = {.memplan = true};
    char *printed = NULL;
    size_t size;
    const int64_t start = di_clock_ns();
    FILE *out = open_memstream(&printed, &size);
    assert_non_null(out);
    if (di_inspect(dir, NULL, &options, out) != DI_OK)
        print_message("%s\n", di_last_error());
    fclose(out);
    print_message("inspected with its memory plan in %.2f s, peak resident %ld KiB\n",
                  (double)(di_clock_ns() - start) * 1e-9, resident_kib());
    assert_non_null(strstr(printed, "files: 48 opened, 96085 tensors, 510286023000 bytes"));
    assert_non_null(strstr(printed, "routed experts          92160 tensors"));
    assert_non_null(strstr(printed, "draft blocks             2401 tensors"));
    assert_non_null(strstr(printed, "vision                    266 tensors"));
    assert_non_null(strstr(printed, "no problems\n"));
    assert_non_null(strstr(printed, "memory plan"));
    assert_true(resident_kib() < 500 * 1024);
    free(printed);
}

static void the_release_opens_and_binds(void **state)
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    di_weights *w = NULL;
    if (!write_release(&dir, NULL))
        skip();
    const long before = resident_kib();
    const int64_t start = di_clock_ns();
    assert_int_equal(di_checkpoint_read_config(dir.data, &config), DI_OK);
    if (di_weights_open(dir.data, &config, &w) != DI_OK)
        print_message("%s\n", di_last_error());
    assert_non_null(w);
    const int64_t end = di_clock_ns();
    const long after = resident_kib();
    print_message("opened and bound in %.2f s, peak resident %ld KiB (%ld KiB before)\n",
                  (double)(end - start) * 1e-9, after, before);
    assert_true(after > 0 && after < 500 * 1024);
    assert_true(w->payload_bytes == DI_RELEASE_PAYLOAD_BYTES);
    assert_int_equal(w->copied_bytes, 0);
    inspect_release(dir.data);
    assert_int_equal(w->layers[14].engram->n_rows, 384016682);
    assert_int_equal(w->layers[39].experts[383].w2.n_out, 5120);
    assert_int_equal(w->draft.confidence_proj.n_in, 5376);
    assert_int_equal(w->draft_layers[2].n_experts, 128);
    di_weights_close(w);
    di_test_remove_dir(dir.data);
}

static void change_three(di_test_plan *plan)
{
    di_test_tensor *t = di_test_plan_find(plan, "layers.23.ffn.experts.201.w2.scale");
    t->name[strlen(t->name) - 1] = 'r';
    di_test_plan_find(plan, "mtp.2.ffn.gate.bias")->dtype = DI_F16;
    di_test_plan_find(plan, "layers.14.engram.embed.weight")->shape[0]--;
}

static void a_changed_tensor_of_the_release_is_reported(void **state)
{
    (void)state;
    DI_BUF_AUTO dir = {0};
    di_weights *w;
    if (!write_release(&dir, change_three))
        skip();
    assert_int_equal(di_checkpoint_read_config(dir.data, &config), DI_OK);
    assert_int_equal(di_weights_open(dir.data, &config, &w), DI_ERR_INPUT);
    static const char *const parts[] = {
        "4 problems: ",
        "missing tensor layers.23.ffn.experts.201.w2.scale",
        "unexpected tensor layers.23.ffn.experts.201.w2.scalr",
        "tensor mtp.2.ffn.gate.bias: found F16 [128], wanted BF16 or F32 [128]",
        ("tensor layers.14.engram.embed.weight: found F8_E4M3 [384016681,256], wanted F8_E4M3 "
         "[384016682,256]"),
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strstr(di_last_error(), parts[i]))
            print_message("wanted \"%s\" in: %s\n", parts[i], di_last_error());
        assert_non_null(strstr(di_last_error(), parts[i]));
    }
    di_test_remove_dir(dir.data);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        const di_status status = di_test_write_release(argv[1], NULL);
        if (status != DI_OK)
            fprintf(stderr, "%s\n", di_last_error());
        return status;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_has_the_releases_counts),
        cmocka_unit_test(the_release_opens_and_binds),
        cmocka_unit_test(a_changed_tensor_of_the_release_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
