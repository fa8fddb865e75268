/* What a tokenizer.json may not be: each fault is one line that names the file, what was found and
 * what was wanted (fault C02), and never a crash. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizers.h"

static json_t *golden;

static di_status load(const json_t *root, di_tokenizer **out)
{
    char *text = json_dumps(root, JSON_COMPACT);
    const di_status status = di_tokenizer_load(text, strlen(text), "dir/tokenizer.json", out);
    free(text);
    return status;
}

/* One step of a path: a key, or [index]. */
static json_t *child(json_t *value, const char *step)
{
    return step[0] == '[' ? json_array_get(value, (size_t)atol(step + 1))
                          : json_object_get(value, step);
}

/* Sets (or, with NULL, deletes) what `path` ("/"-separated) names. */
static void change(json_t *root, const char *path, const char *value)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", path);
    json_t *at = root;
    char *step = copy, *slash;
    while ((slash = strchr(step, '/'))) {
        *slash = 0;
        at = child(at, step);
        assert_non_null(at);
        step = slash + 1;
    }
    json_t *fresh = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(!value || fresh);
    if (step[0] == '[') {
        const size_t i = (size_t)atol(step + 1);
        assert_int_equal(value ? json_array_set_new(at, i, fresh) : json_array_remove(at, i), 0);
    } else {
        assert_int_equal(value ? json_object_set_new(at, step, fresh) : json_object_del(at, step),
                         0);
    }
}

typedef struct di_fault {
    const char *path, *value;
    const char *says; /* part of the error */
    di_status status;
} di_fault;

#define SPLIT "pre_tokenizer/pretokenizers/[0]/"
#define BYTES "pre_tokenizer/pretokenizers/[3]/"

static const di_fault faults[] = {
    /* kinds and settings that are not ours */
    {"model/type", "\"WordPiece\"", "model.type: found \"WordPiece\", wanted \"BPE\"",
     DI_ERR_UNSUPPORTED},
    {"model/type", "7", "model.type: found 7", DI_ERR_UNSUPPORTED},
    {"model/type", NULL, "model.type: found nothing", DI_ERR_UNSUPPORTED},
    {"model", "[]", "model: found []", DI_ERR_INPUT},
    {"model", NULL, "model: found nothing", DI_ERR_INPUT},
    {"model/dropout", "0.1", "model.dropout: found 0.1", DI_ERR_UNSUPPORTED},
    {"model/byte_fallback", "true", "model.byte_fallback: found true, wanted false",
     DI_ERR_UNSUPPORTED},
    {"model/continuing_subword_prefix", "\"##\"", "wanted null or \"\"", DI_ERR_UNSUPPORTED},
    {"model/end_of_word_suffix", "\"</w>\"", "wanted null or \"\"", DI_ERR_UNSUPPORTED},
    {"model/ignore_merges", "1", "model.ignore_merges: found 1", DI_ERR_INPUT},
    {"model/new_setting", "1", "unknown key \"new_setting\"", DI_ERR_UNSUPPORTED},
    {"new_part", "{}", "unknown key \"new_part\"", DI_ERR_UNSUPPORTED},
    {"truncation", "{\"max_length\": 5}", "top level.truncation: found {\"max_length\":5}",
     DI_ERR_UNSUPPORTED},
    {"padding", "{}", "wanted null", DI_ERR_UNSUPPORTED},
    {"normalizer", "{\"type\": \"NFC\"}", "normalizer.type: found \"NFC\"", DI_ERR_UNSUPPORTED},
    {"normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}]}", "wanted []",
     DI_ERR_UNSUPPORTED},
    {"post_processor", "{\"type\": \"TemplateProcessing\"}", "post_processor.type",
     DI_ERR_UNSUPPORTED},
    {"decoder", "null", "decoder: found null", DI_ERR_INPUT},
    {"decoder/type", "\"Metaspace\"", "decoder.type: found \"Metaspace\", wanted \"ByteLevel\"",
     DI_ERR_UNSUPPORTED},
    {"pre_tokenizer", "null", "pre_tokenizer: found null", DI_ERR_INPUT},
    {"pre_tokenizer/type", "\"Metaspace\"", "pre_tokenizer.type", DI_ERR_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers", "{}", "wanted an array", DI_ERR_INPUT},
    {"pre_tokenizer/pretokenizers", "[]", "found no \"ByteLevel\"", DI_ERR_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/[1]/type", "\"Digits\"",
     "pre_tokenizer.pretokenizers[1].type: found \"Digits\"", DI_ERR_UNSUPPORTED},
    {SPLIT "behavior", "\"Removed\"", "behavior: found \"Removed\", wanted \"Isolated\"",
     DI_ERR_UNSUPPORTED},
    {SPLIT "invert", "true", "invert: found true, wanted false", DI_ERR_UNSUPPORTED},
    {SPLIT "invert", NULL, "invert: found nothing", DI_ERR_INPUT},
    {SPLIT "pattern", "{\"String\": \" \"}", "pattern: found {\"String\":\" \"}",
     DI_ERR_UNSUPPORTED},
    {SPLIT "pattern/Regex", "\"(\"", "pretokenizers[0].pattern: regex does not compile",
     DI_ERR_INPUT},
    {SPLIT "pattern/Regex", "\"\\\\w+\"", "found \"\\w+\"", DI_ERR_UNSUPPORTED},
    {SPLIT "pattern/Regex", "\"\"", "found a regex of 0 bytes", DI_ERR_UNSUPPORTED},
    {BYTES "use_regex", "true", "use_regex: found true, wanted false", DI_ERR_UNSUPPORTED},
    {BYTES "use_regex", NULL, "use_regex: found nothing", DI_ERR_INPUT},
    {BYTES "add_prefix_space", "true", "add_prefix_space: found true", DI_ERR_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/[0]",
     "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
     "\"use_regex\": false}",
     "found a step after \"ByteLevel\"", DI_ERR_UNSUPPORTED},
    /* vocabulary */
    {"model/vocab", NULL, "model.vocab: found nothing", DI_ERR_INPUT},
    {"model/vocab", "{}", "found no token for byte 0x00", DI_ERR_INPUT},
    {"model/vocab/Ġthe", "3", "found id 3 for both \"!\" and \"Ġthe\"", DI_ERR_INPUT},
    {"model/vocab/Ġthe", "-1", "model.vocab[\"Ġthe\"]: found -1, wanted an id from 0 to",
     DI_ERR_INPUT},
    {"model/vocab/Ġthe", "1048576", "found 1048576", DI_ERR_INPUT},
    {"model/vocab/Ġthe", "9223372036854775807", "found 9223372036854775807", DI_ERR_INPUT},
    {"model/vocab/Ġthe", "1.5", "found 1.5", DI_ERR_INPUT},
    {"model/vocab/Ġthe", "\"5\"", "found \"5\"", DI_ERR_INPUT},
    {"model/vocab/Ġthe", NULL, "wanted a string of model.vocab", DI_ERR_INPUT},
    {"model/vocab/~", NULL, "found no token for byte 0x7e", DI_ERR_INPUT},
    {"model/vocab/Ń", NULL, "found no token for byte 0xad (U+0143", DI_ERR_INPUT},
    {"model/vocab/", "1290", "empty string", DI_ERR_INPUT},
    /* merges */
    {"model/merges", NULL, "model.merges: found nothing", DI_ERR_INPUT},
    {"model/merges/[1]", "[\"h\"]", "model.merges[1]: found [\"h\"]", DI_ERR_INPUT},
    {"model/merges/[1]", "[\"h\", 1]", "model.merges[1]", DI_ERR_INPUT},
    {"model/merges/[1]", "\"he\"", "wanted [\"a\", \"b\"] or \"a b\"", DI_ERR_INPUT},
    {"model/merges/[1]", "\"h e e\"", "wanted [\"a\", \"b\"] or \"a b\"", DI_ERR_INPUT},
    {"model/merges/[1]", "\"h zzz\"", "model.merges[1]: found \"zzz\", wanted a string of",
     DI_ERR_INPUT},
    {"model/merges/[1]", "\"~ ~\"", "model.merges[1]: found \"~~\"", DI_ERR_INPUT},
    {"model/merges/[1]", "[\"Ġ\", \"t\"]", "model.merges[1]: found \"Ġ\" + \"t\" once more",
     DI_ERR_INPUT},
    /* added tokens */
    {"added_tokens", "{}", "added_tokens: found {}", DI_ERR_INPUT},
    {"added_tokens/[3]", "5", "added_tokens[3].id: found nothing", DI_ERR_INPUT},
    {"added_tokens/[3]/id", "-1", "added_tokens[3].id: found -1", DI_ERR_INPUT},
    {"added_tokens/[3]/id", "1265", "added_tokens[4]: found id 1265 twice", DI_ERR_INPUT},
    {"added_tokens/[3]/id", "77", "which is", DI_ERR_INPUT},
    {"added_tokens/[3]/content", "\"Ġthe\"", "but it is token", DI_ERR_INPUT},
    {"added_tokens/[3]/content", "\"\"", "wanted a string of 1 to 1024 bytes", DI_ERR_INPUT},
    {"added_tokens/[3]/content", "null", "content: found null", DI_ERR_INPUT},
    {"added_tokens/[3]/single_word", "true", "added_tokens[3].single_word: found true",
     DI_ERR_UNSUPPORTED},
    {"added_tokens/[3]/lstrip", "true", "lstrip: found true, wanted false", DI_ERR_UNSUPPORTED},
    {"added_tokens/[3]/rstrip", "true", "rstrip: found true, wanted false", DI_ERR_UNSUPPORTED},
    {"added_tokens/[3]/normalized", NULL, "normalized: found nothing", DI_ERR_INPUT},
    {"added_tokens/[3]/special", "0", "special: found 0, wanted true or false", DI_ERR_INPUT},
    {"added_tokens/[3]/colour", "0", "unknown key \"colour\"", DI_ERR_UNSUPPORTED},
};

static void every_fault_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const di_fault *f = &faults[i];
        json_t *root = json_deep_copy(golden);
        change(root, f->path, f->value);
        di_tokenizer *t = NULL;
        const di_status status = load(root, &t);
        if (status != f->status || !strstr(di_last_error(), f->says))
            fail_msg("%s = %s: found %s \"%s\", wanted %s \"%s\"", f->path,
                     f->value ? f->value : "deleted", di_status_name(status), di_last_error(),
                     di_status_name(f->status), f->says);
        assert_int_equal(strncmp(di_last_error(), "dir/tokenizer.json: ", 20), 0);
        assert_null(strchr(di_last_error(), '\n'));
        assert_null(t);
        json_decref(root);
    }
}

static const di_fault harmless[] = {
    {"version", NULL},
    {"normalizer", NULL},
    {"normalizer", "{\"type\": \"Sequence\", \"normalizers\": []}"},
    {"post_processor", "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}"},
    {"model/unk_token", "\"<unk>\""},
    {"model/end_of_word_suffix", "\"\""},
    {"model/byte_fallback", NULL},
    {"model/merges/[1]", "\"h e\""},
    {"added_tokens/[3]/normalized", "true"},
};

static void what_has_no_influence_is_read(void **state)
{
    (void)state;
    DI_IDS_AUTO wanted = {0};
    static const char text[] = "<｜User｜>The other héros, 1234 times\n\n";
    for (size_t i = 0; i <= sizeof harmless / sizeof *harmless; i++) {
        json_t *root = json_deep_copy(golden);
        if (i > 0)
            change(root, harmless[i - 1].path, harmless[i - 1].value);
        di_tokenizer *t;
        DI_IDS_AUTO ids = {0};
        assert_int_equal(load(root, &t), DI_OK);
        assert_int_equal(di_tokenizer_encode(t, text, sizeof text - 1, NULL, 0, i ? &ids : &wanted),
                         DI_OK);
        if (i > 0) {
            assert_int_equal(ids.len, wanted.len);
            assert_memory_equal(ids.data, wanted.data, ids.len * sizeof *ids.data);
        }
        di_tokenizer_close(t);
        json_decref(root);
    }
}

static void assert_encodes(const di_tokenizer *t, const char *text, const int32_t *wanted, size_t n)
{
    DI_IDS_AUTO ids = {0};
    assert_int_equal(di_tokenizer_encode(t, text, strlen(text), NULL, 0, &ids), DI_OK);
    assert_int_equal(ids.len, n);
    assert_memory_equal(ids.data, wanted, n * sizeof *wanted);
}

static void add_token(json_t *root, int id, const char *content, bool normalized)
{
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content",
                                    content, "single_word", 0, "lstrip", 0, "rstrip", 0,
                                    "normalized", normalized, "special", 0));
}

/* Leftmost-longest among the not normalized ones first, then among the others in what is left. */
static void order_of_added_tokens(void **state)
{
    (void)state;
    json_t *root = json_deep_copy(golden);
    add_token(root, 1300, "@@", false);
    add_token(root, 1301, "@@@@", false);
    add_token(root, 1302, "x@", true);
    add_token(root, 1303, "xx@@", true);
    add_token(root, 1304, "xx", true);
    di_tokenizer *t;
    assert_int_equal(load(root, &t), DI_OK);
    json_decref(root);
    assert_int_equal(di_tokenizer_n_ids(t), 1305);
    assert_int_equal(di_tokenizer_n_tokens(t), 1285);
    const int32_t at = di_tokenizer_find(t, "@", 1), x = di_tokenizer_find(t, "x", 1);
    const int32_t a[] = {1301, 1300, at}, b[] = {1304, 1300}, c[] = {1302, x}, d[] = {1304, 1302};
    assert_encodes(t, "@@@@@@@", a, 3);
    assert_encodes(t, "xx@@", b, 2);
    assert_encodes(t, "x@x", c, 2);
    assert_encodes(t, "xxx@", d, 2);
    /* a shorter token is found where the longer one would reach into a user's text */
    const di_text_span user = {3, 4};
    DI_IDS_AUTO ids = {0};
    assert_int_equal(di_tokenizer_encode(t, "@@@@", 4, &user, 1, &ids), DI_OK);
    assert_int_equal(ids.data[0], 1300);
    assert_true(ids.data[1] < 1264);
    /* an id without a token, below the largest */
    DI_BUF_AUTO out = {0};
    const int32_t hole = 1290;
    assert_int_equal(di_tokenizer_decode(t, &hole, 1, false, &out), DI_OK);
    assert_int_equal(out.len, 0);
    assert_null(di_tokenizer_token(t, hole)->text);
    di_tokenizer_close(t);
}

/* With ignore_merges a pre-token that is in the vocabulary as a whole is that token. */
static void ignore_merges(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        json_t *root = json_deep_copy(golden);
        change(root, "model/vocab/qzqz", "1290");
        change(root, "model/ignore_merges", on ? "true" : "false");
        di_tokenizer *t;
        assert_int_equal(load(root, &t), DI_OK);
        DI_IDS_AUTO ids = {0};
        for (int i = 0; i < 2; i++)
            assert_int_equal(di_tokenizer_encode(t, "qzqz", 4, NULL, 0, &ids), DI_OK);
        assert_int_equal(ids.len, on ? 2 : 8);
        assert_int_equal(ids.data[0], on ? 1290 : di_tokenizer_find(t, "q", 1));
        di_tokenizer_close(t);
        json_decref(root);
    }
}

static void broken_files(void **state)
{
    (void)state;
    di_tokenizer *t = NULL;
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "null",
                                        "{}",
                                        "{\"model\": {\"type\": \"BPE\"}}",
                                        "{\"model\": 1, \"model\": 2}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const di_status status = di_tokenizer_load(texts[i], strlen(texts[i]), "f.json", &t);
        assert_true(status == DI_ERR_INPUT || status == DI_ERR_UNSUPPORTED);
        assert_int_equal(strncmp(di_last_error(), "f.json: ", 8), 0);
        assert_null(strstr(di_last_error() + 8, "f.json"));
    }
    assert_int_equal(di_tokenizer_open(DI_TEST_DATA "/golden/none.json", &t), DI_ERR_IO);
    assert_int_equal(di_tokenizer_open(DI_TEST_DATA "/unit", &t), DI_ERR_IO);
    assert_non_null(strstr(di_last_error(), "unit/tokenizer.json"));
    DI_BUF_AUTO text = {0};
    assert_int_equal(di_test_read(DI_TEST_GOLDEN_TOKENIZER, &text), DI_OK);
    for (size_t cut = 1; cut < text.len; cut += 997) {
        assert_int_equal(di_tokenizer_load(text.data, text.len - cut, "f.json", &t), DI_ERR_INPUT);
        assert_null(t);
    }
}

static int open_golden(void **state)
{
    (void)state;
    golden = di_test_json(DI_TEST_GOLDEN_TOKENIZER);
    return golden ? 0 : -1;
}

static int close_golden(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_named),  cmocka_unit_test(what_has_no_influence_is_read),
        cmocka_unit_test(order_of_added_tokens), cmocka_unit_test(ignore_merges),
        cmocka_unit_test(broken_files),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
