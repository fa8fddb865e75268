/* Log probabilities in the two forms that OpenAI has. */
#include <math.h>
#include <string.h>

#include "api/writer.h"
#include "text/encoding_json.h"
#include "text/utf8.h"

/* JSON has no infinity: OpenAI's value for "never". */
static di_status write_logprob(float logprob, di_buf *out)
{
    return isfinite(logprob) ? di_json_write_real((double)logprob, out)
                             : di_buf_puts(out, "-9999.0");
}

static di_status write_bytes(const di_buf *bytes, di_buf *out)
{
    for (size_t i = 0; i < bytes->len; i++)
        DI_TRY(di_buf_printf(out, "%s%u", i ? ", " : "", (unsigned char)bytes->data[i]));
    return DI_OK;
}

static di_status write_chat_entry(const di_tokenizer *tokenizer, const di_logprob *entry,
                                  di_buf *out)
{
    DI_BUF_AUTO text = {0};
    DI_TRY(di_tokenizer_decode(tokenizer, &entry->token_id, 1, false, &text));
    DI_TRY(di_buf_puts(out, "{\"token\": "));
    DI_TRY(di_json_write_string(di_buf_str(&text), text.len, out));
    DI_TRY(di_buf_puts(out, ", \"logprob\": "));
    DI_TRY(write_logprob(entry->logprob, out));
    DI_TRY(di_buf_puts(out, ", \"bytes\": ["));
    DI_TRY(write_bytes(&text, out));
    return di_buf_puts(out, "]");
}

di_status di_api_chat_logprobs_append(const di_tokenizer *tokenizer, const di_result *result,
                                      di_buf *out)
{
    DI_TRY(di_buf_puts(out, "{\"content\": ["));
    for (size_t i = 0; i < result->n_token_ids; i++) {
        const di_position_logprobs *p = &result->logprobs[i];
        DI_TRY(di_buf_puts(out, i ? ", " : ""));
        DI_TRY(write_chat_entry(tokenizer, &p->entries[0], out));
        DI_TRY(di_buf_puts(out, ", \"top_logprobs\": ["));
        for (size_t k = 1; k < p->n_entries; k++) {
            DI_TRY(di_buf_puts(out, k > 1 ? ", " : ""));
            DI_TRY(write_chat_entry(tokenizer, &p->entries[k], out));
            DI_TRY(di_buf_puts(out, "}"));
        }
        DI_TRY(di_buf_puts(out, "]}"));
    }
    return di_buf_puts(out, "], \"refusal\": null}");
}

/* ------------------------------------------------------------------------------- completions */

/* The positions of a choice: the prompt's first if it is echoed. */
typedef struct positions {
    const di_result *result;
    size_t n_prompt, n;
    bool begins_with_bos;
} positions;

static int32_t token_at(const positions *p, size_t i)
{
    return i < p->n_prompt ? p->result->prompt_token_ids[i] : p->result->token_ids[i - p->n_prompt];
}

static const di_position_logprobs *logprobs_at(const positions *p, size_t i)
{
    static const di_position_logprobs none;
    if (i >= p->n_prompt)
        return &p->result->logprobs[i - p->n_prompt];
    return p->result->prompt_logprobs ? &p->result->prompt_logprobs[i] : &none;
}

/* A token as text; one that is no whole characters as "bytes:\xe2\x80", as OpenAI has it. */
static di_status token_text(const di_tokenizer *tokenizer, int32_t id, di_buf *text)
{
    DI_BUF_AUTO bytes = {0};
    di_buf_clear(text);
    DI_TRY(di_tokenizer_decode(tokenizer, &id, 1, false, &bytes));
    if (di_utf8_valid_prefix(di_buf_str(&bytes), bytes.len) == bytes.len)
        return di_buf_append(text, di_buf_str(&bytes), bytes.len);
    DI_TRY(di_buf_puts(text, "bytes:"));
    for (size_t i = 0; i < bytes.len; i++)
        DI_TRY(di_buf_printf(text, "\\x%02x", (unsigned char)bytes.data[i]));
    return DI_OK;
}

static di_status write_tokens(const di_tokenizer *tokenizer, const positions *p, di_buf *out)
{
    DI_BUF_AUTO text = {0};
    for (size_t i = 0; i < p->n; i++) {
        DI_TRY(token_text(tokenizer, token_at(p, i), &text));
        DI_TRY(di_buf_puts(out, i ? ", " : ""));
        DI_TRY(di_json_write_string(di_buf_str(&text), text.len, out));
    }
    return DI_OK;
}

static di_status write_token_logprobs(const positions *p, di_buf *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const di_position_logprobs *l = logprobs_at(p, i);
        DI_TRY(di_buf_puts(out, i ? ", " : ""));
        DI_TRY(l->n_entries ? write_logprob(l->entries[0].logprob, out) : di_buf_puts(out, "null"));
    }
    return DI_OK;
}

static bool is_listed(const di_position_logprobs *l, size_t k)
{
    for (size_t i = 0; i < k; i++)
        if (l->entries[i].token_id == l->entries[k].token_id)
            return true;
    return false;
}

/* {token: logprob}, the chosen one among them, each token once. */
static di_status write_top(const di_tokenizer *tokenizer, const di_position_logprobs *l,
                           di_buf *out)
{
    DI_BUF_AUTO text = {0};
    if (!l->n_entries)
        return di_buf_puts(out, "null");
    DI_TRY(di_buf_puts(out, "{"));
    for (size_t k = 0; k < l->n_entries; k++) {
        if (is_listed(l, k))
            continue;
        DI_TRY(token_text(tokenizer, l->entries[k].token_id, &text));
        DI_TRY(di_buf_puts(out, k ? ", " : ""));
        DI_TRY(di_json_write_string(di_buf_str(&text), text.len, out));
        DI_TRY(di_buf_puts(out, ": "));
        DI_TRY(write_logprob(l->entries[k].logprob, out));
    }
    return di_buf_puts(out, "}");
}

/* Where each token's text begins, in characters. Special tokens of the output have no text. */
static di_status write_offsets(const di_tokenizer *tokenizer, const positions *p, di_buf *out)
{
    DI_BUF_AUTO bytes = {0};
    size_t offset = 0;
    for (size_t i = 0; i < p->n; i++) {
        const int32_t id = token_at(p, i);
        DI_TRY(di_buf_printf(out, "%s%zu", i ? ", " : "", offset));
        if (i == 0 && p->begins_with_bos)
            continue;
        di_buf_clear(&bytes);
        DI_TRY(di_tokenizer_decode(tokenizer, &id, 1, i >= p->n_prompt, &bytes));
        for (size_t b = 0; b < bytes.len; b++)
            offset += ((unsigned char)bytes.data[b] & 0xc0) != 0x80;
    }
    return DI_OK;
}

di_status di_api_text_logprobs_append(const di_tokenizer *tokenizer, const di_result *result,
                                      di_api_logprobs_form form, di_buf *out)
{
    const size_t n_prompt = form.has_echo ? result->n_prompt_token_ids : 0;
    const positions p = {.result = result,
                         .n_prompt = n_prompt,
                         .n = n_prompt + result->n_token_ids,
                         .begins_with_bos = form.has_echo && form.begins_with_bos};
    DI_TRY(di_buf_puts(out, "{\"tokens\": ["));
    DI_TRY(write_tokens(tokenizer, &p, out));
    DI_TRY(di_buf_puts(out, "], \"token_logprobs\": ["));
    DI_TRY(write_token_logprobs(&p, out));
    DI_TRY(di_buf_puts(out, "], \"top_logprobs\": ["));
    for (size_t i = 0; i < p.n; i++) {
        DI_TRY(di_buf_puts(out, i ? ", " : ""));
        DI_TRY(write_top(tokenizer, logprobs_at(&p, i), out));
    }
    DI_TRY(di_buf_puts(out, "], \"text_offset\": ["));
    DI_TRY(write_offsets(tokenizer, &p, out));
    return di_buf_puts(out, "]}");
}
