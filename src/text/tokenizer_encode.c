#include <string.h>

#include "text/tokenizer_impl.h"

struct di_encoder {
    const di_tokenizer *tokenizer;
    di_split_scratch *split;
    di_bpe_scratch bpe;
    uint64_t n_whole_lookups;
    di_ids *out; /* of the run at work */
};

di_status di_encoder_create(const di_tokenizer *tokenizer, di_encoder **out)
{
    di_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder)
        return di_fail_memory(sizeof *encoder, "an encoder");
    encoder->tokenizer = tokenizer;
    const di_status status = di_split_scratch_create(&encoder->split);
    if (status != DI_OK) {
        free(encoder);
        return status;
    }
    *out = encoder;
    return DI_OK;
}

void di_encoder_destroy(di_encoder *encoder)
{
    if (!encoder)
        return;
    di_split_scratch_destroy(encoder->split);
    di_bpe_scratch_free(&encoder->bpe);
    free(encoder);
}

uint64_t di_encoder_n_steps(const di_encoder *encoder)
{
    return encoder->n_whole_lookups + encoder->bpe.n_lookups + encoder->bpe.n_moves;
}

/* Most words are one token. That the vocabulary has the word does not prove that BPE gets there, so
 * BPE decides the first time and the answer is kept. Threads may race for it: all write the same.
 */
static di_status encode_piece(void *user, const char *piece, size_t len)
{
    di_encoder *encoder = user;
    const di_tokenizer *t = encoder->tokenizer;
    if (len > t->max_word_bytes)
        return di_bpe_encode(&t->bpe, &encoder->bpe, piece, len, encoder->out);
    encoder->n_whole_lookups++;
    const int32_t id = di_token_index_find(t, &t->by_bytes, piece, len);
    if (id < 0)
        return di_bpe_encode(&t->bpe, &encoder->bpe, piece, len, encoder->out);
    const uint8_t known = __atomic_load_n(&t->whole[id], __ATOMIC_RELAXED);
    if (t->ignore_merges || known == DI_WHOLE_YES)
        return di_ids_push(encoder->out, id);
    const size_t start = encoder->out->len;
    DI_TRY(di_bpe_encode(&t->bpe, &encoder->bpe, piece, len, encoder->out));
    if (known == DI_WHOLE_UNKNOWN) {
        const bool whole = encoder->out->len == start + 1 && encoder->out->data[start] == id;
        __atomic_store_n(&t->whole[id], whole ? DI_WHOLE_YES : DI_WHOLE_NO, __ATOMIC_RELAXED);
    }
    return DI_OK;
}

static di_status encode_stretch(di_encoder *encoder, const char *text, size_t len)
{
    return di_pretokenize(&encoder->tokenizer->pretokenizer, encoder->split, text, len,
                          encode_piece, encoder);
}

/* [begin, end) holds no token of `added`; finds those of `added_normalized`. */
static di_status encode_between(di_encoder *encoder, di_added_search *search, size_t begin,
                                size_t end)
{
    di_text_span match;
    int32_t id;
    while (di_added_search_next(search, begin, end, &match, &id)) {
        DI_TRY(encode_stretch(encoder, search->text + begin, match.begin - begin));
        DI_TRY(di_ids_push(encoder->out, id));
        begin = match.end;
    }
    return encode_stretch(encoder, search->text + begin, end - begin);
}

static di_status encode_all(di_encoder *encoder, const char *text, size_t len,
                            const di_text_span *plain, size_t n_plain)
{
    const di_tokenizer *t = encoder->tokenizer;
    di_added_search search = {
        .tokens = &t->added, .text = text, .plain = plain, .n_plain = n_plain};
    di_added_search inner = search;
    inner.tokens = &t->added_normalized;
    size_t begin = 0;
    di_text_span match;
    int32_t id;
    while (di_added_search_next(&search, begin, len, &match, &id)) {
        DI_TRY(encode_between(encoder, &inner, begin, match.begin));
        DI_TRY(di_ids_push(encoder->out, id));
        begin = match.end;
    }
    return encode_between(encoder, &inner, begin, len);
}

static di_status check_spans(size_t len, const di_text_span *plain, size_t n_plain)
{
    size_t from = 0;
    for (size_t i = 0; i < n_plain; i++) {
        if (plain[i].begin < from || plain[i].end < plain[i].begin || plain[i].end > len)
            return di_fail(DI_ERR_ARGUMENT,
                           "plain span %zu: found [%zu, %zu), wanted a span within [%zu, %zu)", i,
                           plain[i].begin, plain[i].end, from, len);
        from = plain[i].end;
    }
    return DI_OK;
}

di_status di_encoder_run(di_encoder *encoder, const char *text, size_t len,
                         const di_text_span *plain, size_t n_plain, di_ids *out)
{
    DI_TRY(check_spans(len, plain, n_plain));
    const size_t start = out->len;
    encoder->out = out;
    const di_status status = encode_all(encoder, text, len, plain, n_plain);
    encoder->out = NULL;
    if (status != DI_OK)
        out->len = start;
    return status;
}

di_status di_tokenizer_encode(const di_tokenizer *tokenizer, const char *text, size_t len,
                              const di_text_span *plain, size_t n_plain, di_ids *out)
{
    di_encoder *encoder;
    DI_TRY(di_encoder_create(tokenizer, &encoder));
    const di_status status = di_encoder_run(encoder, text, len, plain, n_plain, out);
    di_encoder_destroy(encoder);
    return status;
}
