/* The first byte picks a grammar, the others are what is done with a matcher: bytes and tokens
 * read, masks, rollback, forks, forced text. A mask is the tokens that a fork reads; after every
 * change the matcher stands where one stands that reads the text anew. */
#include <stdlib.h>
#include <string.h>

#include "grammar/compile.h"
#include "grammar/mask.h"
#include "grammar/matcher.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { MOST_OPS = 48, MOST_TEXT = 512 };

static const di_so_args grammars[] = {
    {.schema_type = DI_SCHEMA_REGEX, .schema = "(ab|a{2,5}c)*[x-z\\u00e9]?"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "[^\"]{3,40}\"|(a|ab)(c|bcd)*"},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= \"(\" root? \")\" | [a-c]{1,6} | root root"},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= a* \"b\" | a \"c\"\na ::= \"a\" | \"aa\" | \"\""},
    {.schema_type = DI_SCHEMA_JSON, .schema = "{}", .max_whitespace = 2},
    {.schema_type = DI_SCHEMA_JSON,
     .schema =
         "{\"type\": \"object\", \"properties\": {\"ab\": {\"pattern\": \"^a+b\", \"maxLength\": "
         "5}, \"a\": {\"$ref\": \"#\"}}, \"required\": [\"ab\"], \"minProperties\": 1}"},
    {.schema_type = DI_SCHEMA_JSON,
     .schema = "{\"type\": \"array\", \"items\": {\"enum\": [1, 12, \"a\\\"b\", null, [[]]]}, "
               "\"maxItems\": 3}"},
    {.schema_type = DI_SCHEMA_JSON, .schema = "{\"const\": {\"a\": [true, \"\\u00e9\"]}}"},
};
enum { N_GRAMMARS = sizeof grammars / sizeof *grammars };

static di_vocab *vocab;
static di_acceptor *acceptors[N_GRAMMARS];

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* Every text over "ab" of up to three bytes, pieces of JSON, UTF-8 cut at all places. */
static void make_vocab(void)
{
    static const char *const words[] = {
        "\"",   "\"a",  "a\"",      "a\",",     "\":", "{\"",  "}",    "]",     "[",   ",",  "c",
        "],",   "\",",  "1",        "12",       "2",   "\xc3", "\xa9", "x",     "abc", "\\", "null",
        "\\u0", "\x80", "\xc3\xa9", "a\xc3",    "((",  "))",   "(a",   "\\\"",  " ",   "\n", "true",
        "0e",   "\"\"", "[[",       "\xe2\x82", ": ",  "nu",   "ll",   "a{\"b", "]}",  "-",  "."};
    di_vocab_token tokens[128];
    char text[128][4];
    uint32_t n = 0;
    for (uint32_t len = 1; len <= 3; len++)
        for (uint32_t code = 0; code < 1u << len; code++, n++) {
            for (uint32_t i = 0; i < len; i++)
                text[n][i] = code >> i & 1 ? 'b' : 'a';
            tokens[n] = (di_vocab_token){text[n], len};
        }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        tokens[n++] = (di_vocab_token){words[i], (uint32_t)strlen(words[i])};
    tokens[n++] = (di_vocab_token){NULL, 0};
    check(di_vocab_create(tokens, n, &vocab) == DI_OK);
}

static di_acceptor *acceptor_of(size_t i)
{
    if (!vocab)
        make_vocab();
    if (!acceptors[i]) {
        di_grammar *grammar;
        check(di_grammar_compile(&grammars[i], NULL, &grammar) == DI_OK);
        check(di_acceptor_create(grammar, vocab, &acceptors[i]) == DI_OK);
        di_grammar_unref(grammar);
    }
    return acceptors[i];
}

/* What was read, call by call. */
typedef struct history {
    char text[MOST_TEXT];
    size_t ends[MOST_OPS + 1];
    size_t n;
} history;

static void note(history *h, const char *bytes, size_t len)
{
    memcpy(h->text + h->ends[h->n], bytes, len);
    h->ends[h->n + 1] = h->ends[h->n] + len;
    h->n++;
}

static void check_mask(di_matcher *m, uint64_t *bits)
{
    check(di_matcher_mask(m, bits) == DI_OK);
    for (uint32_t id = 0; id < vocab->n_ids; id++) {
        di_matcher *fork;
        bool accepted = false;
        check(di_matcher_fork(m, &fork) == DI_OK);
        check(di_matcher_accept_token(fork, id, &accepted) == DI_OK);
        check(accepted == di_mask_has(bits, id));
        di_matcher_destroy(fork);
    }
}

/* It stands where a new one stands that reads the same. */
static void check_place(di_matcher *m, di_acceptor *acceptor, const history *h)
{
    uint64_t bits[4], anew[4];
    di_matcher *other;
    bool accepted;
    check(vocab->n_words <= 4 && di_matcher_n_accepted(m) == h->n);
    check(di_matcher_create(acceptor, &other) == DI_OK);
    check(di_matcher_accept(other, h->text, h->ends[h->n], &accepted) == DI_OK && accepted);
    check(di_matcher_may_end(m) == di_matcher_may_end(other));
    check(di_matcher_must_end(m) == di_matcher_must_end(other));
    check(di_matcher_mask(other, anew) == DI_OK);
    check_mask(m, bits);
    check(!memcmp(bits, anew, vocab->n_words * sizeof *bits));
    di_matcher_destroy(other);
}

static void read_forced(di_matcher *m, history *h)
{
    DI_BUF_AUTO forced = {0};
    bool accepted;
    check(di_matcher_forced(m, 24, &forced) == DI_OK);
    if (forced.len == 0 || h->ends[h->n] + forced.len > MOST_TEXT)
        return;
    check(di_matcher_accept(m, di_buf_str(&forced), forced.len, &accepted) == DI_OK && accepted);
    note(h, di_buf_str(&forced), forced.len);
}

static void read_text(di_matcher *m, history *h, const char *bytes, size_t len, uint32_t id)
{
    bool accepted;
    if (!bytes || h->ends[h->n] + len > MOST_TEXT)
        return;
    if (id < vocab->n_ids)
        check(di_matcher_accept_token(m, id, &accepted) == DI_OK);
    else
        check(di_matcher_accept(m, bytes, len, &accepted) == DI_OK);
    if (accepted)
        note(h, bytes, len);
}

static void step(di_matcher *m, history *h, unsigned char op, unsigned char value)
{
    const char byte = (char)value;
    const uint32_t id = value % vocab->n_ids;
    if (op % 8 < 5)
        read_text(m, h, vocab->tokens[id].bytes, vocab->tokens[id].len, id);
    else if (op % 8 == 5)
        read_text(m, h, &byte, 1, UINT32_MAX);
    else if (op % 8 == 6)
        read_forced(m, h);
    else if (h->n > 0) {
        const size_t n = value % (h->n + 1);
        di_matcher_rollback(m, n);
        h->n -= n;
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (size == 0)
        return 0;
    di_acceptor *acceptor = acceptor_of(data[0] % N_GRAMMARS);
    di_matcher *m;
    history h = {.n = 0};
    check(di_matcher_create(acceptor, &m) == DI_OK);
    for (size_t i = 1; i + 1 < size && i < 2 * MOST_OPS; i += 2) {
        step(m, &h, data[i], data[i + 1]);
        if (data[i] & 0x40)
            check_place(m, acceptor, &h);
    }
    check_place(m, acceptor, &h);
    di_matcher_destroy(m);
    return 0;
}
