#define _GNU_SOURCE
#include "text/token_map.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/strmap.h"
#include "text/utf8.h"

typedef struct di_map_builder {
    di_strmap numbers; /* key -> number */
    int32_t *chars;    /* scratch, code points */
    size_t chars_cap;
    di_buf key;
} di_map_builder;

/* The White_Space property. */
static bool is_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static bool is_mark(int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME;
}

/* NFKC and then NFD, which together are NFKD. */
static di_status decompose(di_map_builder *builder, const di_token *token, size_t *n)
{
    const utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    const utf8proc_uint8_t *text = (const utf8proc_uint8_t *)token->bytes;
    utf8proc_ssize_t need = utf8proc_decompose(text, token->n_bytes, NULL, 0, options);
    if (need > 0) {
        DI_TRY(DI_GROW(&builder->chars, &builder->chars_cap, (size_t)need));
        need = utf8proc_decompose(text, token->n_bytes, builder->chars, need, options);
    }
    if (need < 0)
        return di_fail(DI_ERR_INPUT, "token \"%.60s\" cannot be normalized: %s", token->text,
                       utf8proc_errmsg(need));
    *n = (size_t)need;
    return DI_OK;
}

/* Drops marks, lowercases, and makes each run of [space tab CR LF] one space; the new length. */
static size_t fold(int32_t *chars, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_mark(chars[i]))
            continue;
        int32_t c = utf8proc_tolower(chars[i]);
        if (c == '\t' || c == '\r' || c == '\n')
            c = ' ';
        if (c != ' ' || kept == 0 || chars[kept - 1] != ' ')
            chars[kept++] = c;
    }
    return kept;
}

/* builder->key = the folded text of the token without white space at its ends. A lone space stays:
 * the reference stands U+E000 in for it, and turns every U+E000 back to a space at the end. */
static di_status make_key(di_map_builder *builder, const di_token *token)
{
    enum { SENTINEL = 0xe000 };
    size_t n;
    DI_TRY(decompose(builder, token, &n));
    n = fold(builder->chars, n);
    const int32_t *chars = builder->chars;
    size_t begin = 0;
    if (!(n == 1 && chars[0] == ' ')) {
        while (begin < n && is_space(chars[begin]))
            begin++;
        while (n > begin && is_space(chars[n - 1]))
            n--;
    }
    di_buf_clear(&builder->key);
    for (size_t i = begin; i < n; i++) {
        utf8proc_uint8_t utf8[4];
        const utf8proc_ssize_t len =
            utf8proc_encode_char(chars[i] == SENTINEL ? ' ' : chars[i], utf8);
        DI_TRY(di_buf_append(&builder->key, utf8, (size_t)len));
    }
    if (builder->key.len == 0)
        return di_buf_append(&builder->key, token->bytes, token->n_bytes);
    return DI_OK;
}

/* A decode of the token alone would show U+FFFD. */
static bool has_replacement(const di_token *token)
{
    return di_utf8_valid_prefix(token->bytes, token->n_bytes) != token->n_bytes ||
           memmem(token->bytes, token->n_bytes, DI_UTF8_REPLACEMENT, 3) != NULL;
}

static di_status number_of(di_map_builder *builder, const di_token *token, int64_t *next,
                           int32_t *out)
{
    di_buf_clear(&builder->key);
    if (has_replacement(token))
        DI_TRY(di_buf_append(&builder->key, token->text, token->text_len));
    else
        DI_TRY(make_key(builder, token));
    int64_t number;
    if (!di_strmap_get(&builder->numbers, di_buf_str(&builder->key), builder->key.len, &number)) {
        number = (*next)++;
        DI_TRY(di_strmap_put(&builder->numbers, di_buf_str(&builder->key), builder->key.len, number,
                             NULL));
    }
    *out = (int32_t)number;
    return DI_OK;
}

static di_status build(di_map_builder *builder, const di_tokenizer *tokenizer, int64_t vocab_size,
                       int32_t *map, int64_t *n_distinct)
{
    int64_t next = 0;
    for (int64_t id = 0; id < vocab_size; id++) {
        const di_token *token = di_tokenizer_token(tokenizer, id);
        if (token && token->text)
            DI_TRY(number_of(builder, token, &next, &map[id]));
        else
            map[id] = (int32_t)next++;
    }
    *n_distinct = next;
    return DI_OK;
}

di_status di_token_map_build(const di_tokenizer *tokenizer, int64_t vocab_size, int32_t *map,
                             int64_t *n_distinct)
{
    if (vocab_size > INT32_MAX || vocab_size < di_tokenizer_n_ids(tokenizer))
        return di_fail(DI_ERR_INPUT, "%s: found ids up to %d, wanted ids below vocab_size %lld",
                       di_tokenizer_name(tokenizer), di_tokenizer_n_ids(tokenizer) - 1,
                       (long long)vocab_size);
    di_map_builder builder = {0};
    const di_status status = build(&builder, tokenizer, vocab_size, map, n_distinct);
    di_strmap_free(&builder.numbers);
    free(builder.chars);
    di_buf_free(&builder.key);
    return status;
}
