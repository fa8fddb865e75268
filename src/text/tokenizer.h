/* Tokenizer of a Hugging Face tokenizer.json: byte-level BPE with added tokens. The file alone
 * decides; tokenizer_config.json is never read. A tokenizer does not change once it is open and
 * di_tokenizer_set_vocab_size was called; every function that takes it const is free-threaded. */
#ifndef DI_TEXT_TOKENIZER_H
#define DI_TEXT_TOKENIZER_H

#include "core/ids.h"
#include "deepinfer/tools.h"
#include "text/added_tokens.h"

/* As di_tokenizer_open, from memory. `name` stands for the file in error texts. */
DI_WARN_UNUSED di_status di_tokenizer_load(const char *json, size_t len, const char *name,
                                           di_tokenizer **out);

/* Makes every id below vocab_size (the config's) valid: those the file gives no token have no text.
 * DI_ERR_INPUT if the file has ids beyond it. */
DI_WARN_UNUSED di_status di_tokenizer_set_vocab_size(di_tokenizer *tokenizer, int64_t vocab_size);

/* Appends the ids of text to out; on failure out is as before. text may hold any bytes.
 *
 * Added tokens are found first (those with normalized = false, then the others in what is left),
 * leftmost-longest; each stretch between two of them is cut into pre-tokens and encoded in one
 * pass. `plain` are the spans that a user wrote: an added token that would cover a byte of one of
 * them is not found, but the spans' ends cut nothing. They are sorted and do not overlap. */
DI_WARN_UNUSED di_status di_tokenizer_encode(const di_tokenizer *tokenizer, const char *text,
                                             size_t len, const di_text_span *plain, size_t n_plain,
                                             di_ids *out);

/* The same for many texts: keeps the scratch memory. One per thread. */
typedef struct di_encoder di_encoder;
DI_WARN_UNUSED di_status di_encoder_create(const di_tokenizer *tokenizer, di_encoder **out);
void di_encoder_destroy(di_encoder *encoder);
DI_WARN_UNUSED di_status di_encoder_run(di_encoder *encoder, const char *text, size_t len,
                                        const di_text_span *plain, size_t n_plain, di_ids *out);
/* Steps of BPE work done since di_encoder_create: table lookups, symbols scanned, heap levels. */
uint64_t di_encoder_n_steps(const di_encoder *encoder);

/* Appends the bytes of the ids to out; they need not be valid UTF-8 (text/utf8.h makes them so).
 * skip_special leaves out tokens the file calls special. On failure out is as before. */
DI_WARN_UNUSED di_status di_tokenizer_decode(const di_tokenizer *tokenizer, const int32_t *ids,
                                             size_t n_ids, bool skip_special, di_buf *out);

/* One id's token. `text` is the string in the file: for ordinary tokens in GPT-2's byte alphabet
 * ("Ġthe"); `bytes` is what it stands for (" the"). For added tokens both are the content. */
typedef struct di_token {
    const char *text; /* NULL: the id has no token */
    const char *bytes;
    uint32_t text_len;
    uint32_t n_bytes;
    bool is_added;
    bool is_special;
    bool is_whole; /* bytes are whole characters of UTF-8 */
} di_token;

/* Ids are 0 .. n_ids - 1; n_tokens of them have a token. */
int32_t di_tokenizer_n_ids(const di_tokenizer *tokenizer);
int32_t di_tokenizer_n_tokens(const di_tokenizer *tokenizer);
/* NULL if the id is out of range. Lives as long as the tokenizer. */
const di_token *di_tokenizer_token(const di_tokenizer *tokenizer, int64_t id);
bool di_tokenizer_is_special(const di_tokenizer *tokenizer, int64_t id);
/* Id of the token whose `text` this is, added ones included; -1 if there is none. */
int32_t di_tokenizer_find(const di_tokenizer *tokenizer, const char *text, size_t len);
/* The name it was opened under. */
const char *di_tokenizer_name(const di_tokenizer *tokenizer);

#endif
