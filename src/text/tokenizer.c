#include <string.h>

#include "base/strmap.h"
#include "text/tokenizer_impl.h"

/* ------------------------------------------------------------------------------ byte alphabet */

/* GPT-2 writes a vocabulary of bytes as text: bytes that print stand for themselves, the other 68
 * are U+0100, U+0101, ... in order. */
static bool byte_prints(uint8_t byte)
{
    return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
}

uint32_t di_byte_alphabet_char(uint8_t byte)
{
    if (byte_prints(byte))
        return byte;
    uint32_t c = 0x100;
    for (uint8_t b = 0; b < byte; b++)
        c += !byte_prints(b);
    return c;
}

/* -1 if the character stands for no byte. */
static int byte_of_char(uint32_t c)
{
    if (c < 0x100)
        return byte_prints((uint8_t)c) ? (int)c : -1;
    if (c <= 0x120)
        return (int)(c - 0x100);
    if (c <= 0x142)
        return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

bool di_byte_alphabet_decode(const char *text, size_t len, char *bytes, size_t *n_bytes)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t c = s[i];
        if (c >= 0x80) {
            if (c < 0xc2 || c > 0xc5 || i + 1 == len || (s[i + 1] & 0xc0) != 0x80)
                return false;
            c = (c & 0x1f) << 6 | (s[++i] & 0x3f);
        }
        const int byte = byte_of_char(c);
        if (byte < 0)
            return false;
        bytes[n++] = (char)byte;
    }
    *n_bytes = n;
    return true;
}

/* -------------------------------------------------------------------------------------- index */

static const char *index_key(const di_tokenizer *t, const di_token_index *index, int32_t id,
                             size_t *len)
{
    const di_token *token = &t->tokens[id];
    const bool by_text = index == &t->by_text;
    *len = by_text ? token->text_len : token->n_bytes;
    return by_text ? token->text : token->bytes;
}

static int32_t *index_slot(const di_tokenizer *t, const di_token_index *index, const char *key,
                           size_t len)
{
    const size_t mask = index->n_slots - 1;
    for (size_t i = di_hash_bytes(key, len) & mask;; i = (i + 1) & mask) {
        int32_t *slot = &index->slots[i];
        if (*slot < 0)
            return slot;
        size_t have_len;
        const char *have = index_key(t, index, *slot, &have_len);
        if (have_len == len && memcmp(have, key, len) == 0)
            return slot;
    }
}

di_status di_token_index_init(di_token_index *index, di_arena *arena, size_t n)
{
    size_t n_slots = 64;
    while (n_slots < n * 2)
        n_slots *= 2;
    DI_TRY(DI_ARENA_NEW(arena, n_slots, &index->slots));
    memset(index->slots, 0xff, n_slots * sizeof *index->slots); /* -1 */
    index->n_slots = n_slots;
    return DI_OK;
}

void di_token_index_add(di_tokenizer *tokenizer, di_token_index *index, int32_t id,
                        int32_t *existing)
{
    size_t len;
    const char *key = index_key(tokenizer, index, id, &len);
    int32_t *slot = index_slot(tokenizer, index, key, len);
    *existing = *slot;
    if (*slot < 0)
        *slot = id;
}

int32_t di_token_index_find(const di_tokenizer *tokenizer, const di_token_index *index,
                            const char *key, size_t len)
{
    return *index_slot(tokenizer, index, key, len);
}

/* ------------------------------------------------------------------------------------ queries */

int32_t di_tokenizer_n_ids(const di_tokenizer *tokenizer)
{
    return tokenizer->n_ids;
}

int32_t di_tokenizer_n_tokens(const di_tokenizer *tokenizer)
{
    return tokenizer->n_tokens;
}

const char *di_tokenizer_name(const di_tokenizer *tokenizer)
{
    return tokenizer->name;
}

di_status di_tokenizer_set_vocab_size(di_tokenizer *tokenizer, int64_t vocab_size)
{
    if (vocab_size > INT32_MAX || tokenizer->n_file_ids > vocab_size)
        return di_fail(DI_ERR_INPUT,
                       "%s: found ids up to %d, wanted ids below the config's vocab_size %lld",
                       tokenizer->name, tokenizer->n_file_ids - 1, (long long)vocab_size);
    tokenizer->n_ids = (int32_t)vocab_size;
    return DI_OK;
}

const di_token *di_tokenizer_token(const di_tokenizer *tokenizer, int64_t id)
{
    static const di_token none = {0};
    if (id < 0 || id >= tokenizer->n_ids)
        return NULL;
    return id < tokenizer->n_file_ids ? &tokenizer->tokens[id] : &none;
}

bool di_tokenizer_is_special(const di_tokenizer *tokenizer, int64_t id)
{
    const di_token *token = di_tokenizer_token(tokenizer, id);
    return token && token->is_special;
}

int32_t di_tokenizer_find(const di_tokenizer *tokenizer, const char *text, size_t len)
{
    return di_token_index_find(tokenizer, &tokenizer->by_text, text, len);
}

/* ------------------------------------------------------------------------------------- decode */

static di_status decode(const di_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                        bool skip_special, di_buf *out)
{
    for (size_t i = 0; i < n_ids; i++) {
        const di_token *token = di_tokenizer_token(tokenizer, ids[i]);
        if (!token)
            return di_fail(DI_ERR_ARGUMENT, "token %zu of %zu: found id %d, wanted 0 to %d", i,
                           n_ids, ids[i], tokenizer->n_ids - 1);
        if (!(skip_special && token->is_special))
            DI_TRY(di_buf_append(out, token->bytes, token->n_bytes));
    }
    return DI_OK;
}

di_status di_tokenizer_decode(const di_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                              bool skip_special, di_buf *out)
{
    const size_t start = out->len;
    const di_status status = decode(tokenizer, ids, n_ids, skip_special, out);
    if (status != DI_OK && out->data) {
        out->len = start;
        out->data[start] = 0;
    }
    return status;
}

/* --------------------------------------------------------------------------------- public API */

di_status di_tokenizer_encode_text(const di_tokenizer *tokenizer, const char *text,
                                   size_t text_bytes, bool parse_special, int32_t **ids,
                                   size_t *n_ids)
{
    if (!tokenizer || (!text && text_bytes) || !ids || !n_ids)
        return di_fail(DI_ERR_ARGUMENT,
                       "tokenize: found NULL, wanted a tokenizer, text and outputs");
    const di_text_span whole = {.begin = 0, .end = text_bytes};
    di_ids found = {0};
    di_status status = DI_GROW(&found.data, &found.cap, 1);
    if (status == DI_OK)
        status =
            di_tokenizer_encode(tokenizer, text, text_bytes, &whole, parse_special ? 0 : 1, &found);
    if (status != DI_OK) {
        di_ids_free(&found);
        return status;
    }
    *ids = found.data;
    *n_ids = found.len;
    return DI_OK;
}

di_status di_tokenizer_decode_ids(const di_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                                  bool skip_special, char **text, size_t *text_bytes)
{
    if (!tokenizer || (!ids && n_ids) || !text || !text_bytes)
        return di_fail(DI_ERR_ARGUMENT,
                       "detokenize: found NULL, wanted a tokenizer, ids and outputs");
    di_buf found = {0};
    di_status status = di_buf_append(&found, "", 0); /* not NULL, whatever comes */
    if (status == DI_OK)
        status = di_tokenizer_decode(tokenizer, ids, n_ids, skip_special, &found);
    if (status != DI_OK) {
        di_buf_free(&found);
        return status;
    }
    *text = found.data;
    *text_bytes = found.len;
    return DI_OK;
}
