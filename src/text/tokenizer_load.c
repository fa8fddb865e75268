/* Reads tokenizer.json. Everything in it is either understood, known to have no influence on ids,
 * or refused by name: a setting passed over in silence would give other ids than the model was
 * trained on. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

enum { MAX_FILE_BYTES = 256 * 1024 * 1024, MAX_NESTING = 4 };

/* ------------------------------------------------------------------------------ JSON values */

static di_status fail_found(di_status code, const char *where, const char *key, const json_t *found,
                            const char *wanted)
{
    char *text = found ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    di_error_format("%s%s%s: found %.60s%s, wanted %s", where, *key ? "." : "", key,
                    text ? text : "nothing", text && strlen(text) > 60 ? "..." : "", wanted);
    free(text);
    return code;
}

/* `allowed` is a comma-separated list with a comma at both ends. */
static di_status check_keys(json_t *object, const char *where, const char *allowed)
{
    if (!json_is_object(object))
        return di_fail(DI_ERR_INPUT, "%s: found %s, wanted an object", where,
                       di_json_type_name(object));
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char needle[64];
        const int n = snprintf(needle, sizeof needle, ",%s,", key);
        if (n < 0 || (size_t)n >= sizeof needle || strchr(key, ',') || !strstr(allowed, needle))
            return di_fail(DI_ERR_UNSUPPORTED,
                           "%s: found the unknown key \"%.60s\", wanted one of %s", where, key,
                           allowed);
    }
    return DI_OK;
}

static di_status expect_bool(json_t *object, const char *where, const char *key, bool wanted)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_boolean(value) && json_is_true(value) == wanted)
        return DI_OK;
    return fail_found(json_is_boolean(value) ? DI_ERR_UNSUPPORTED : DI_ERR_INPUT, where, key, value,
                      wanted ? "true" : "false");
}

static di_status read_bool(json_t *object, const char *where, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value))
        return fail_found(DI_ERR_INPUT, where, key, value, "true or false");
    *out = json_is_true(value);
    return DI_OK;
}

static di_status expect_null(json_t *object, const char *where, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return DI_OK;
    return fail_found(DI_ERR_UNSUPPORTED, where, key, value, "null");
}

static bool has_type(const json_t *object, const char *type)
{
    const char *found = json_string_value(json_object_get(object, "type"));
    return found && strcmp(found, type) == 0;
}

static di_status fail_type(const json_t *object, const char *where, const char *wanted)
{
    if (!json_is_object(object))
        return fail_found(DI_ERR_INPUT, where, "", object, wanted);
    return fail_found(DI_ERR_UNSUPPORTED, where, "type", json_object_get(object, "type"), wanted);
}

/* ------------------------------------------------------------------------- pipeline settings */

static di_status check_normalizer(json_t *normalizer)
{
    if (!normalizer || json_is_null(normalizer))
        return DI_OK;
    if (!has_type(normalizer, "Sequence"))
        return fail_type(normalizer, "normalizer", "null or an empty \"Sequence\"");
    DI_TRY(check_keys(normalizer, "normalizer", ",type,normalizers,"));
    const json_t *list = json_object_get(normalizer, "normalizers");
    if (!json_is_array(list) || json_array_size(list) != 0)
        return fail_found(DI_ERR_UNSUPPORTED, "normalizer", "normalizers", list, "[]");
    return DI_OK;
}

static di_status read_split(di_tokenizer *t, json_t *split, const char *where)
{
    DI_TRY(check_keys(split, where, ",type,pattern,behavior,invert,"));
    DI_TRY(expect_bool(split, where, "invert", false));
    const json_t *behavior = json_object_get(split, "behavior");
    if (!json_is_string(behavior) || strcmp(json_string_value(behavior), "Isolated") != 0)
        return fail_found(DI_ERR_UNSUPPORTED, where, "behavior", behavior, "\"Isolated\"");
    const json_t *pattern = json_object_get(split, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    if (!json_is_string(regex) || json_object_size(pattern) != 1)
        return fail_found(DI_ERR_UNSUPPORTED, where, "pattern", pattern, "{\"Regex\": \"...\"}");
    const di_status status =
        di_pretokenizer_add(&t->pretokenizer, json_string_value(regex), json_string_length(regex));
    return status == DI_OK ? DI_OK : di_fail_within(status, "%s.pattern", where);
}

static di_status check_byte_level(json_t *step, const char *where)
{
    DI_TRY(check_keys(step, where, ",type,add_prefix_space,trim_offsets,use_regex,"));
    DI_TRY(expect_bool(step, where, "add_prefix_space", false));
    return expect_bool(step, where, "use_regex", false);
}

/* Splits, then one ByteLevel at the very end. */
static di_status read_pretokenizer(di_tokenizer *t, json_t *step, const char *where, int depth,
                                   bool *ended)
{
    if (*ended)
        return di_fail(DI_ERR_UNSUPPORTED, "%s: found a step after \"ByteLevel\", wanted none",
                       where);
    if (has_type(step, "Split"))
        return read_split(t, step, where);
    if (has_type(step, "ByteLevel")) {
        *ended = true;
        return check_byte_level(step, where);
    }
    if (!has_type(step, "Sequence") || depth == MAX_NESTING)
        return fail_type(step, where, "\"Sequence\", \"Split\" or \"ByteLevel\"");
    DI_TRY(check_keys(step, where, ",type,pretokenizers,"));
    json_t *list = json_object_get(step, "pretokenizers");
    if (!json_is_array(list))
        return fail_found(DI_ERR_INPUT, where, "pretokenizers", list, "an array");
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        char inner[128];
        snprintf(inner, sizeof inner, "%.80s.pretokenizers[%zu]", where, i);
        DI_TRY(read_pretokenizer(t, item, inner, depth + 1, ended));
    }
    return DI_OK;
}

/* What is fixed before the first token is read, so that a file of another kind is named at once. */
static di_status read_pipeline(di_tokenizer *t, json_t *root)
{
    DI_TRY(check_keys(root, "top level",
                      ",version,truncation,padding,added_tokens,normalizer,pre_tokenizer,"
                      "post_processor,decoder,model,"));
    json_t *model = json_object_get(root, "model");
    if (!has_type(model, "BPE"))
        return fail_type(model, "model", "\"BPE\"");
    DI_TRY(expect_null(root, "top level", "truncation"));
    DI_TRY(expect_null(root, "top level", "padding"));
    DI_TRY(check_normalizer(json_object_get(root, "normalizer")));
    bool ended = false;
    DI_TRY(
        read_pretokenizer(t, json_object_get(root, "pre_tokenizer"), "pre_tokenizer", 0, &ended));
    if (!ended)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "pre_tokenizer: found no \"ByteLevel\" step, wanted one at the end");
    /* As post-processor ByteLevel only moves offsets; as decoder its settings have no influence. */
    json_t *post = json_object_get(root, "post_processor");
    if (post && !json_is_null(post) && !has_type(post, "ByteLevel"))
        return fail_type(post, "post_processor", "null or \"ByteLevel\"");
    json_t *decoder = json_object_get(root, "decoder");
    if (!has_type(decoder, "ByteLevel"))
        return fail_type(decoder, "decoder", "\"ByteLevel\"");
    return DI_OK;
}

static di_status check_affix(json_t *model, const char *key)
{
    const json_t *value = json_object_get(model, key);
    if (!value || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0))
        return DI_OK;
    return fail_found(DI_ERR_UNSUPPORTED, "model", key, value, "null or \"\"");
}

/* unk_token and fuse_unk speak of characters without a token, which a byte vocabulary has not. */
static di_status read_model_settings(di_tokenizer *t, json_t *model)
{
    DI_TRY(
        check_keys(model, "model",
                   ",type,dropout,unk_token,continuing_subword_prefix,end_of_word_suffix,fuse_unk,"
                   "byte_fallback,ignore_merges,vocab,merges,"));
    DI_TRY(expect_null(model, "model", "dropout"));
    DI_TRY(check_affix(model, "continuing_subword_prefix"));
    DI_TRY(check_affix(model, "end_of_word_suffix"));
    if (json_object_get(model, "byte_fallback"))
        DI_TRY(expect_bool(model, "model", "byte_fallback", false));
    if (json_object_get(model, "ignore_merges"))
        DI_TRY(read_bool(model, "model", "ignore_merges", &t->ignore_merges));
    return DI_OK;
}

/* ------------------------------------------------------------------------------------ tokens */

static di_status read_id(const json_t *value, const char *where, int32_t *out)
{
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= DI_TOKENIZER_MAX_IDS) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "an id from 0 to %d", DI_TOKENIZER_MAX_IDS - 1);
        return fail_found(DI_ERR_INPUT, where, "", value, wanted);
    }
    *out = (int32_t)id;
    return DI_OK;
}

/* Largest id of the vocabulary and the added tokens, and bytes of all vocabulary strings. */
static di_status measure(json_t *vocab, json_t *added, int32_t *max_id, size_t *text_bytes)
{
    *max_id = -1;
    *text_bytes = 0;
    const char *key;
    json_t *value;
    int32_t id;
    json_object_foreach(vocab, key, value)
    {
        if (json_is_integer(value) && json_integer_value(value) >= 0 &&
            json_integer_value(value) < DI_TOKENIZER_MAX_IDS) {
            id = (int32_t)json_integer_value(value);
        } else {
            char where[128];
            snprintf(where, sizeof where, "model.vocab[\"%.80s\"]", key);
            DI_TRY(read_id(value, where, &id));
        }
        if (id > *max_id)
            *max_id = id;
        *text_bytes += strlen(key) + 1;
    }
    size_t i;
    json_array_foreach(added, i, value)
    {
        char where[64];
        snprintf(where, sizeof where, "added_tokens[%zu].id", i);
        DI_TRY(read_id(json_object_get(value, "id"), where, &id));
        if (id > *max_id)
            *max_id = id;
    }
    return DI_OK;
}

/* Enters the token `text` of the vocabulary. `storage` gives room for the text and for the bytes.
 */
static di_status add_vocab_token(di_tokenizer *t, int32_t id, const char *text, char **storage)
{
    const size_t len = strlen(text);
    di_token *token = &t->tokens[id];
    if (len == 0)
        return di_fail(DI_ERR_INPUT, "model.vocab: found the empty string as token %d", id);
    if (token->text)
        return di_fail(DI_ERR_INPUT, "model.vocab: found id %d for both \"%.60s\" and \"%.60s\"",
                       id, token->text, text);
    char *copy = *storage;
    memcpy(copy, text, len + 1);
    *storage += len + 1;
    *token = (di_token){
        .text = copy, .bytes = copy, .text_len = (uint32_t)len, .n_bytes = (uint32_t)len};
    t->n_tokens++;
    int32_t existing;
    di_token_index_add(t, &t->by_text, id, &existing);
    char *bytes = *storage;
    size_t n_bytes;
    if (!di_byte_alphabet_decode(text, len, bytes, &n_bytes))
        return DI_OK; /* a special token: BPE cannot give it, it stands for its own text */
    if (n_bytes != len || memcmp(bytes, text, len) != 0) {
        token->bytes = bytes;
        token->n_bytes = (uint32_t)n_bytes;
        *storage += n_bytes;
    }
    if (n_bytes > t->max_word_bytes)
        t->max_word_bytes = (uint32_t)n_bytes;
    di_token_index_add(t, &t->by_bytes, id, &existing);
    return DI_OK;
}

static di_status read_vocab(di_tokenizer *t, json_t *vocab, json_t *added)
{
    int32_t max_id;
    size_t text_bytes;
    DI_TRY(measure(vocab, added, &max_id, &text_bytes));
    t->n_file_ids = t->n_ids = max_id + 1;
    const size_t n_tokens = json_object_size(vocab) + json_array_size(added);
    DI_TRY(DI_ARENA_ZNEW(&t->arena, (size_t)t->n_file_ids, &t->tokens));
    DI_TRY(DI_ARENA_ZNEW(&t->arena, (size_t)t->n_file_ids, &t->whole));
    DI_TRY(di_token_index_init(&t->by_text, &t->arena, n_tokens));
    DI_TRY(di_token_index_init(&t->by_bytes, &t->arena, json_object_size(vocab)));
    char *storage;
    DI_TRY(DI_ARENA_NEW(&t->arena, text_bytes * 2, &storage));
    const char *key;
    json_t *value;
    json_object_foreach(vocab, key, value)
        DI_TRY(add_vocab_token(t, (int32_t)json_integer_value(value), key, &storage));
    return DI_OK;
}

static di_status start_bpe(di_tokenizer *t, size_t n_merges)
{
    int32_t byte_ids[256];
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        byte_ids[b] = di_token_index_find(t, &t->by_bytes, &byte, 1);
        if (byte_ids[b] < 0)
            return di_fail(
                DI_ERR_INPUT,
                "model.vocab: found no token for byte 0x%02x (U+%04X in the byte alphabet), "
                "wanted all 256",
                b, (unsigned)di_byte_alphabet_char((uint8_t)b));
    }
    return di_bpe_init(&t->bpe, byte_ids, n_merges);
}

/* The two parts of merges[i]: ["a", "b"] or "a b". */
static di_status merge_parts(const json_t *merge, size_t i, const char *part[2], size_t len[2])
{
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (size_t k = 0; k < 2; k++) {
            part[k] = json_string_value(json_array_get(merge, k));
            len[k] = json_string_length(json_array_get(merge, k));
        }
        if (part[0] && part[1])
            return DI_OK;
    }
    const char *text = json_string_value(merge);
    const char *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) {
        char where[64];
        snprintf(where, sizeof where, "model.merges[%zu]", i);
        return fail_found(DI_ERR_INPUT, where, "", merge, "[\"a\", \"b\"] or \"a b\"");
    }
    part[0] = text;
    len[0] = (size_t)(space - text);
    part[1] = space + 1;
    len[1] = strlen(space + 1);
    return DI_OK;
}

static di_status find_part(const di_tokenizer *t, size_t i, const char *text, size_t len,
                           int32_t *id)
{
    *id = di_token_index_find(t, &t->by_text, text, len);
    if (*id >= 0)
        return DI_OK;
    return di_fail(DI_ERR_INPUT,
                   "model.merges[%zu]: found \"%.*s\", wanted a string of model.vocab", i,
                   len < 60 ? (int)len : 60, text);
}

static di_status read_merges(di_tokenizer *t, const json_t *merges)
{
    if (!json_is_array(merges))
        return fail_found(DI_ERR_INPUT, "model", "merges", merges, "an array");
    DI_TRY(start_bpe(t, json_array_size(merges)));
    DI_BUF_AUTO joined = {0};
    size_t i;
    json_t *merge;
    json_array_foreach(merges, i, merge)
    {
        const char *part[2];
        size_t len[2];
        int32_t left, right, result;
        DI_TRY(merge_parts(merge, i, part, len));
        DI_TRY(find_part(t, i, part[0], len[0], &left));
        DI_TRY(find_part(t, i, part[1], len[1], &right));
        di_buf_clear(&joined);
        DI_TRY(di_buf_append(&joined, part[0], len[0]));
        DI_TRY(di_buf_append(&joined, part[1], len[1]));
        DI_TRY(find_part(t, i, di_buf_str(&joined), joined.len, &result));
        bool existed;
        di_bpe_add_merge(&t->bpe, left, right, result, &existed);
        if (existed)
            return di_fail(DI_ERR_INPUT, "model.merges[%zu]: found \"%.60s\" + \"%.60s\" once more",
                           i, t->tokens[left].text, t->tokens[right].text);
    }
    di_bpe_seal(&t->bpe);
    return DI_OK;
}

/* ------------------------------------------------------------------------------ added tokens */

/* The id and content of an added token against what is there already. */
static di_status enter_added(di_tokenizer *t, int32_t id, const char *content, size_t len)
{
    di_token *token = &t->tokens[id];
    if (token->is_added)
        return di_fail(DI_ERR_INPUT, "found id %d twice", id);
    if (token->text) {
        if (token->text_len != len || memcmp(token->text, content, len) != 0)
            return di_fail(DI_ERR_INPUT,
                           "found \"%.60s\" for id %d, which is \"%.60s\" in model.vocab", content,
                           id, token->text);
        return DI_OK;
    }
    const int32_t other = di_token_index_find(t, &t->by_text, content, len);
    if (other >= 0)
        return di_fail(DI_ERR_INPUT, "found \"%.60s\" for id %d, but it is token %d already",
                       content, id, other);
    char *copy;
    DI_TRY(DI_ARENA_NEW(&t->arena, len + 1, &copy));
    memcpy(copy, content, len + 1);
    *token = (di_token){
        .text = copy, .bytes = copy, .text_len = (uint32_t)len, .n_bytes = (uint32_t)len};
    t->n_tokens++;
    int32_t existing;
    di_token_index_add(t, &t->by_text, id, &existing);
    return DI_OK;
}

static di_status read_added_token(di_tokenizer *t, json_t *item, const char *where)
{
    DI_TRY(check_keys(item, where, ",id,content,single_word,lstrip,rstrip,normalized,special,"));
    DI_TRY(expect_bool(item, where, "single_word", false));
    DI_TRY(expect_bool(item, where, "lstrip", false));
    DI_TRY(expect_bool(item, where, "rstrip", false));
    bool normalized = false, special = false;
    DI_TRY(read_bool(item, where, "normalized", &normalized));
    DI_TRY(read_bool(item, where, "special", &special));
    const json_t *content = json_object_get(item, "content");
    const size_t len = json_string_length(content);
    if (!json_is_string(content) || len == 0 || len > DI_ADDED_TOKEN_MAX_BYTES)
        return fail_found(DI_ERR_INPUT, where, "content", content, "a string of 1 to 1024 bytes");
    const int32_t id = (int32_t)json_integer_value(json_object_get(item, "id"));
    const char *text = json_string_value(content);
    di_status status = enter_added(t, id, text, len);
    if (status == DI_OK)
        status = di_added_tokens_add(normalized ? &t->added_normalized : &t->added, text, len, id);
    if (status != DI_OK)
        return di_fail_within(status, "%s", where);
    t->tokens[id].is_added = true;
    t->tokens[id].is_special = special;
    return DI_OK;
}

static di_status read_added(di_tokenizer *t, json_t *added)
{
    size_t i;
    json_t *item;
    json_array_foreach(added, i, item)
    {
        char where[64];
        snprintf(where, sizeof where, "added_tokens[%zu]", i);
        DI_TRY(read_added_token(t, item, where));
    }
    return DI_OK;
}

/* --------------------------------------------------------------------------------- the whole */

static void mark_whole(di_tokenizer *t)
{
    for (int32_t id = 0; id < t->n_file_ids; id++) {
        di_token *token = &t->tokens[id];
        if (token->n_bytes > 0)
            token->is_whole = di_utf8_valid_prefix(token->bytes, token->n_bytes) == token->n_bytes;
    }
}

static di_status read_all(di_tokenizer *t, json_t *root)
{
    DI_TRY(read_pipeline(t, root));
    json_t *model = json_object_get(root, "model");
    DI_TRY(read_model_settings(t, model));
    json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(vocab))
        return fail_found(DI_ERR_INPUT, "model", "vocab", vocab, "an object");
    json_t *added = json_object_get(root, "added_tokens");
    if (added && !json_is_array(added))
        return fail_found(DI_ERR_INPUT, "added_tokens", "", added, "an array");
    DI_TRY(read_vocab(t, vocab, added));
    DI_TRY(read_merges(t, json_object_get(model, "merges")));
    DI_TRY(read_added(t, added));
    mark_whole(t);
    return DI_OK;
}

di_status di_tokenizer_load(const char *json, size_t len, const char *name, di_tokenizer **out)
{
    json_t *root;
    DI_TRY(di_json_parse(json, len, name, false, &root));
    di_tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        json_decref(root);
        return di_fail_memory(sizeof *t, "a tokenizer");
    }
    di_status status = di_arena_strdup(&t->arena, name, &t->name);
    if (status == DI_OK) {
        status = read_all(t, root);
        if (status != DI_OK)
            status = di_fail_within(status, "%s", name);
    }
    json_decref(root);
    if (status != DI_OK) {
        di_tokenizer_close(t);
        return status;
    }
    *out = t;
    return DI_OK;
}

di_status di_tokenizer_open(const char *path, di_tokenizer **out)
{
    if (!path || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_tokenizer_open: path and out must not be NULL");
    DI_BUF_AUTO name = {0};
    DI_TRY(di_buf_puts(&name, path));
    if (di_path_is_dir(path))
        DI_TRY(di_buf_puts(&name, "/tokenizer.json"));
    DI_BUF_AUTO text = {0};
    DI_TRY(di_file_read(di_buf_str(&name), MAX_FILE_BYTES, &text));
    return di_tokenizer_load(di_buf_str(&text), text.len, di_buf_str(&name), out);
}

void di_tokenizer_close(di_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    di_bpe_free(&tokenizer->bpe);
    di_pretokenizer_free(&tokenizer->pretokenizer);
    di_added_tokens_free(&tokenizer->added);
    di_added_tokens_free(&tokenizer->added_normalized);
    di_arena_free(&tokenizer->arena);
    free(tokenizer);
}
