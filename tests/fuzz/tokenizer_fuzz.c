/* Hostile tokenizer files, and any text with any tokenizer that loads.
 * An input that starts with '{' is a tokenizer.json. Any other is lines from which a file is built,
 * so that the fuzzer gets behind the parser: a line is r<regex>, m<left> <right>, a<added token>,
 * n<added token, normalized>, i (ignore_merges), or text to encode. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "text/detokenizer.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static void check_decode(const di_tokenizer *t, const di_ids *ids, const di_buf *bytes)
{
    DI_BUF_AUTO whole = {0}, pieces = {0};
    require(di_utf8_append_lossy(&whole, di_buf_str(bytes), bytes->len) == DI_OK);
    di_detokenizer d;
    di_detokenizer_init(&d, t, false);
    for (size_t i = 0; i < ids->len; i++) {
        require(di_detokenizer_push(&d, ids->data[i], &pieces) == DI_OK);
        require(di_utf8_valid_prefix(di_buf_str(&pieces), pieces.len) == pieces.len);
    }
    require(di_detokenizer_finish(&d, &pieces) == DI_OK);
    require(pieces.len == whole.len);
    require(memcmp(di_buf_str(&pieces), di_buf_str(&whole), whole.len) == 0);
}

/* As plain text every byte comes back; with added tokens parsed ids are at least in range. */
static void check_text(const di_tokenizer *t, const char *text, size_t len)
{
    const di_text_span spans[] = {{0, len}, {len / 3, len / 2}};
    for (size_t i = 0; i < 3; i++) {
        DI_IDS_AUTO ids = {0};
        if (di_tokenizer_encode(t, text, len, spans + i / 2, i > 0, &ids) != DI_OK)
            continue; /* a regex that runs away */
        DI_BUF_AUTO bytes = {0};
        require(di_tokenizer_decode(t, ids.data, ids.len, false, &bytes) == DI_OK);
        if (i == 1) {
            require(bytes.len == len);
            require(memcmp(di_buf_str(&bytes), text, len) == 0);
        }
        check_decode(t, &ids, &bytes);
    }
}

static json_t *start_file(void)
{
    json_t *root =
        json_pack("{s:[{s:s,s:b,s:b}], s:{s:s}, s:{s:s,s:[]}, s:{s:s,s:{},s:[]}, s:[]}", "x",
                  "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0, "decoder", "type",
                  "ByteLevel", "pre_tokenizer", "type", "Sequence", "pretokenizers", "model",
                  "type", "BPE", "vocab", "merges", "added_tokens");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    for (int b = 0; b < 256; b++) {
        const uint32_t c = di_byte_alphabet_char((uint8_t)b);
        const char wide[] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)), 0};
        const char narrow[] = {(char)c, 0};
        json_object_set_new(vocab, c < 0x80 ? narrow : wide, json_integer(b));
    }
    return root;
}

static void add_line(json_t *root, const char *line, size_t len)
{
    json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    json_t *added = json_object_get(root, "added_tokens");
    json_t *steps = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    json_t *text = json_stringn(line + 1, len - 1);
    if (!text)
        return;
    const int id = 256 + (int)json_object_size(vocab) + (int)json_array_size(added);
    const char *space = strchr(json_string_value(text), ' ');
    if (line[0] == 'r') {
        json_array_append_new(steps, json_pack("{s:s,s:s,s:b,s:{s:O}}", "type", "Split", "behavior",
                                               "Isolated", "invert", 0, "pattern", "Regex", text));
    } else if (line[0] == 'a' || line[0] == 'n') {
        json_array_append_new(added, json_pack("{s:i,s:O,s:b,s:b,s:b,s:b,s:b}", "id", id, "content",
                                               text, "single_word", 0, "lstrip", 0, "rstrip", 0,
                                               "normalized", line[0] == 'n', "special", id & 1));
    } else if (line[0] == 'm' && space) {
        DI_BUF_AUTO joined = {0};
        require(di_buf_append(&joined, line + 1, (size_t)(space - json_string_value(text))) ==
                DI_OK);
        require(di_buf_puts(&joined, space + 1) == DI_OK);
        if (!json_object_get(vocab, joined.data))
            json_object_set_new(vocab, joined.data, json_integer(id));
        json_array_append(json_object_get(model, "merges"), text);
    } else if (line[0] == 'i') {
        json_object_set_new(model, "ignore_merges", json_true());
    }
    json_decref(text);
}

static char *build_file(const char *data, size_t size)
{
    json_t *root = start_file();
    require(root != NULL);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        const size_t len = end ? (size_t)(end - data) - at : size - at;
        if (len > 0)
            add_line(root, data + at, len);
        at += len + 1;
    }
    json_t *steps = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    json_array_append(steps, json_array_get(json_object_get(root, "x"), 0));
    json_object_del(root, "x");
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    char *built = size && bytes[0] != '{' ? build_file(bytes, size) : NULL;
    di_tokenizer *t;
    const di_status status = built ? di_tokenizer_load(built, strlen(built), "fuzz", &t)
                                   : di_tokenizer_load(bytes, size, "fuzz", &t);
    if (status == DI_OK) {
        check_text(t, bytes, size < 2048 ? size : 2048);
        static const char text[] = "It's 12345 little  words,\r\n\r\n道部 and <x>!? ";
        check_text(t, text, sizeof text - 1);
        di_tokenizer_close(t);
    } else {
        require(strncmp(di_last_error(), "fuzz: ", 6) == 0);
    }
    free(built);
    return 0;
}
