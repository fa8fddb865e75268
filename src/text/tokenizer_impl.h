/* The inside of a tokenizer, for text/tokenizer*.c only. */
#ifndef DI_TEXT_TOKENIZER_IMPL_H
#define DI_TEXT_TOKENIZER_IMPL_H

#include "base/arena.h"
#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

enum {
    DI_TOKENIZER_MAX_IDS = 1 << 20
}; /* far above any vocabulary; bounds what a file can claim */

/* Ids by a string each of them has. */
typedef struct di_token_index {
    int32_t *slots; /* [n_slots], a power of two, open addressing; -1 = free */
    size_t n_slots;
} di_token_index;

/* Whether BPE gives exactly this token for the bytes of the token: found out on first use. */
enum { DI_WHOLE_UNKNOWN, DI_WHOLE_YES, DI_WHOLE_NO };

struct di_tokenizer {
    di_arena arena;
    char *name;
    di_token *tokens;   /* [n_file_ids] */
    int32_t n_file_ids; /* largest id of the file + 1 */
    int32_t n_ids;      /* valid ids: n_file_ids, or the vocab_size set later */
    int32_t n_tokens;
    di_token_index by_text;  /* every token */
    di_token_index by_bytes; /* those BPE can give */
    uint32_t max_word_bytes; /* longest of by_bytes */
    uint8_t *whole; /* [n_file_ids] DI_WHOLE_*; a cache: relaxed atomic access, also when const */
    di_bpe bpe;
    bool ignore_merges; /* a pre-token that is a token as a whole is that token */
    di_pretokenizer pretokenizer;
    di_added_tokens added;            /* normalized = false: found first */
    di_added_tokens added_normalized; /* normalized = true */
};

/* Room for n tokens. */
DI_WARN_UNUSED di_status di_token_index_init(di_token_index *index, di_arena *arena, size_t n);
/* Adds `id` under its text or its bytes. *existing = the id already there under that string, which
 * stays, or -1. */
void di_token_index_add(di_tokenizer *tokenizer, di_token_index *index, int32_t id,
                        int32_t *existing);
int32_t di_token_index_find(const di_tokenizer *tokenizer, const di_token_index *index,
                            const char *key, size_t len);

/* Bytes behind a string in GPT-2's byte alphabet: true and `*n_bytes` written to `bytes` (room for
 * len), or false if a character is not of the alphabet. */
bool di_byte_alphabet_decode(const char *text, size_t len, char *bytes, size_t *n_bytes);
/* The character that stands for a byte. */
uint32_t di_byte_alphabet_char(uint8_t byte);

#endif
