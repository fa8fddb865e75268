#include "text/detokenizer.h"

#include <string.h>

#include "text/utf8.h"

/* Of what is held back and a token: joined without memory of its own. */
enum { SHORT_BYTES = 64 };

void di_detokenizer_init(di_detokenizer *detokenizer, const di_tokenizer *tokenizer,
                         bool skip_special)
{
    *detokenizer = (di_detokenizer){.tokenizer = tokenizer, .skip_special = skip_special};
}

/* Length of the beginning of a character that [p, p + n) ends in; 0 if it ends in none. */
static size_t cut_tail(const char *p, size_t n)
{
    for (size_t back = n < 3 ? n : 3; back > 0; back--) {
        size_t len;
        if (di_utf8_next(p + n - back, back, &len) == DI_UTF8_CUT)
            return back;
    }
    return 0;
}

/* All of the bytes but a character cut at their end, which is held back. */
static di_status give_out(di_detokenizer *detokenizer, const char *bytes, size_t n, di_buf *out)
{
    const size_t held = cut_tail(bytes, n);
    DI_TRY(di_utf8_append_lossy(out, bytes, n - held));
    memcpy(detokenizer->pending, bytes + n - held, held);
    detokenizer->n_pending = (uint8_t)held;
    return DI_OK;
}

static di_status push_short(di_detokenizer *detokenizer, const di_token *token, di_buf *out)
{
    char bytes[SHORT_BYTES];
    memcpy(bytes, detokenizer->pending, detokenizer->n_pending);
    memcpy(bytes + detokenizer->n_pending, token->bytes, token->n_bytes);
    return give_out(detokenizer, bytes, detokenizer->n_pending + token->n_bytes, out);
}

di_status di_detokenizer_push(di_detokenizer *detokenizer, int32_t id, di_buf *out)
{
    const di_tokenizer *tokenizer = detokenizer->tokenizer;
    const di_token *token = di_tokenizer_token(tokenizer, id);
    if (!token)
        return di_fail(DI_ERR_ARGUMENT, "found token id %d, wanted 0 to %d", id,
                       di_tokenizer_n_ids(tokenizer) - 1);
    if (token->n_bytes == 0 || (detokenizer->skip_special && token->is_special))
        return DI_OK;
    if (!detokenizer->n_pending && token->is_whole)
        return di_buf_append(out, token->bytes, token->n_bytes);
    if (detokenizer->n_pending + token->n_bytes <= SHORT_BYTES)
        return push_short(detokenizer, token, out);
    DI_BUF_AUTO bytes = {0};
    DI_TRY(di_buf_append(&bytes, detokenizer->pending, detokenizer->n_pending));
    DI_TRY(di_buf_append(&bytes, token->bytes, token->n_bytes));
    return give_out(detokenizer, bytes.data, bytes.len, out);
}

di_status di_detokenizer_finish(di_detokenizer *detokenizer, di_buf *out)
{
    DI_TRY(di_utf8_append_lossy(out, detokenizer->pending, detokenizer->n_pending));
    detokenizer->n_pending = 0;
    return DI_OK;
}
