/* Plain text: its automaton against all code points, and masks of grammars that read nearly plain
 * text against trying every token of a vocabulary made for it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/compile.h"
#include "grammar/mask.h"
#include "grammar/plain.h"

enum { N_IDS = 4000, MAX_BYTES = 24 };

static char texts[N_IDS][MAX_BYTES];
static di_vocab *vocab;

/* Characters of all lengths and at all edges, what JSON escapes, and what is no UTF-8. */
static const char *const pieces[] = {"a",
                                     "b",
                                     "e",
                                     "n",
                                     "u",
                                     "0",
                                     "9",
                                     "A",
                                     "F",
                                     " ",
                                     "a",
                                     "e",
                                     "ab",
                                     "  ",
                                     ",",
                                     "/",
                                     "-",
                                     "\"",
                                     "\\",
                                     "\n",
                                     "\t",
                                     "\x7f",
                                     "\xc2\xa0",
                                     "\xc3\xa9",
                                     "\xd0\xb6",
                                     "\xdf\xbf",
                                     "\xe0\xa0\x80",
                                     "\xe2\x80\xa8",
                                     "\xe2\x82\xac",
                                     "\xe3\x80\x80",
                                     "\xe4\xb8\xad",
                                     "\xe4\xb8\xad\xe6\x96\x87",
                                     "\xed\x9f\xbf",
                                     "\xee\x80\x80",
                                     "\xef\xbb\xbf",
                                     "\xf0\x90\x80\x80",
                                     "\xf0\x9f\x98\x80",
                                     "\xf4\x8f\xbf\xbf",
                                     "\xc0\x80",
                                     "\xe0\x80\x80",
                                     "\xed\xa0\x80",
                                     "\xf4\x90\x80\x80",
                                     "\xff"};

static uint32_t below(unsigned *seed, uint32_t n)
{
    return (uint32_t)rand_r(seed) % n;
}

/* Some pieces, the first ones more often than others; sometimes cut within a character. */
static uint32_t make_text(unsigned *seed, char *text)
{
    const uint32_t n_pieces = sizeof pieces / sizeof *pieces, n = 1 + below(seed, 5);
    char whole[64];
    uint32_t len = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t most = below(seed, 2) == 0 ? n_pieces : 16;
        const char *piece = pieces[below(seed, most)];
        memcpy(whole + len, piece, strlen(piece));
        len += (uint32_t)strlen(piece);
    }
    const uint32_t first = below(seed, 8) == 0 ? below(seed, len) : 0;
    len -= first;
    if (len > 1 && below(seed, 8) == 0)
        len -= below(seed, 3 < len ? 3 : len);
    len = len < MAX_BYTES ? len : MAX_BYTES;
    memcpy(text, whole + first, len);
    return len;
}

static int make_vocab(void **state)
{
    (void)state;
    static di_vocab_token tokens[N_IDS];
    unsigned seed = 1;
    for (uint32_t i = 0; i < N_IDS; i++)
        tokens[i] = (di_vocab_token){texts[i], make_text(&seed, texts[i])};
    return di_vocab_create(tokens, N_IDS, &vocab) == DI_OK ? 0 : -1;
}

static int free_vocab(void **state)
{
    (void)state;
    di_vocab_unref(vocab);
    return 0;
}

static uint8_t read_plain(const char *bytes, uint32_t n)
{
    uint8_t state = DI_PLAIN_BETWEEN;
    for (uint32_t i = 0; i < n && state != DI_PLAIN_DEAD; i++)
        state = di_plain_step(state, (uint8_t)bytes[i]);
    return state;
}

static uint32_t encode(uint32_t c, char *bytes)
{
    const uint32_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (uint32_t i = n; i-- > 1; c >>= 6)
        bytes[i] = (char)(0x80 | (c & 0x3F));
    bytes[0] = (char)(marks[n] | c);
    return n;
}

/* Texts of one character: from a state to between characters. */
static uint64_t n_ways(uint8_t state)
{
    uint64_t n = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        const uint8_t next = di_plain_step(state, (uint8_t)byte);
        n += next == DI_PLAIN_DEAD ? 0 : next == DI_PLAIN_BETWEEN ? 1 : n_ways(next);
    }
    return n;
}

/* All that should be read is read, and their number says that nothing else is. */
static void every_character(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (uint32_t c = 0x20; c < 0x110000; c++) {
        char bytes[4];
        if (c == '"' || c == '\\' || (c >= 0xD800 && c < 0xE000))
            continue;
        assert_int_equal(read_plain(bytes, encode(c, bytes)), DI_PLAIN_BETWEEN);
        n++;
    }
    assert_true(n_ways(DI_PLAIN_BETWEEN) == n);
}

static void plain_tokens(void **state)
{
    (void)state;
    uint32_t n_plain = 0, n_wide = 0;
    for (uint32_t id = 0; id < N_IDS; id++) {
        const di_vocab_token *token = &vocab->tokens[id];
        const bool is_plain =
            token->len > 0 && read_plain(token->bytes, token->len) != DI_PLAIN_DEAD;
        assert_int_equal(di_mask_has(vocab->plain, id), is_plain);
        n_plain += is_plain;
    }
    for (uint32_t i = 0; i < vocab->n_nodes; i++) {
        uint64_t bytes[4] = {0};
        for (uint32_t k = i + 1; k < vocab->nodes[i].skip; k++)
            bytes[vocab->nodes[k].byte / 64] |= (uint64_t)1 << (vocab->nodes[k].byte % 64);
        if (vocab->wide[i] == UINT32_MAX)
            continue;
        assert_memory_equal(bytes, vocab->wide_bytes[vocab->wide[i]], sizeof bytes);
        n_wide++;
    }
    assert_true(n_plain > 1000 && n_plain < 3500 && n_wide > 100);
}

static const di_so_args grammars[] = {
    {.schema_type = DI_SCHEMA_REGEX, .schema = ".*"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "[^\\s]+"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "[^\"\\\\\\n]*"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "a.*b.*|[^a]*"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "([^e]{2})*e?.{0,9}"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "[\\w\\s-]+"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "(\\p{L}|[ -/])*"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "[^\\u{4E2D}\\u{1F600}]*\\u{4E2D}?"},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "[\\0-\\x7f\\u{10000}-\\u{10FFFF}]*"},
    {.schema_type = DI_SCHEMA_JSON, .schema = "{\"type\": \"string\"}", .indent = -1},
    {.schema_type = DI_SCHEMA_JSON, .schema = "{\"type\": \"string\", \"pattern\": \"^.*$\"}"},
    {.schema_type = DI_SCHEMA_JSON, .schema = "{\"pattern\": \"^/[^\\u0000]+$\"}"},
    {.schema_type = DI_SCHEMA_JSON, .schema = "{\"type\": \"string\", \"pattern\": \"a[^e]*\"}"},
    {.schema_type = DI_SCHEMA_JSON,
     .schema = "{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 40, \"pattern\": \"e\"}"},
    {.schema_type = DI_SCHEMA_JSON,
     .schema = "{\"patternProperties\": {\"^a.*\": {\"pattern\": \"^[^ ]*$\"}, \"b$\": {}}}",
     .max_whitespace = -1},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= text (\",\" text)*\ntext ::= [^,]* | \"\\\"\" [^\"]* \"\\\"\""},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= \"a\" free | free\nfree ::= [^ab] free | "
               "\"b\""},
    /* Returns out of plain text, before and after its end; slices with returns beside it. */
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= (\",\" text \"\\\"\" [a-e]* \"\\n\")*\ntext ::= [^\"\\\\\\x00-\\x1f]+"},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= (line [,a-e])*\nline ::= [^\"\\\\\\x00-\\x1f-]* \"-\""},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema =
         "root ::= item (\",\" item)*\nitem ::= [^\"\\\\,\\x00-\\x1f]+ | \"\\\"\" free \"/a\"\n"
         "free ::= [^/]*"},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= item (\",\" item)*\n"
               "item ::= [^\"\\\\,nu\\x00-\\x1f] text | \"n\" less \"en\" | "
               "\"u\" (\"a\" less \"en\" | \"n\" text)\n"
               "text ::= [^\"\\\\,z\\x00-\\x1f]* \"\\\"\"\nless ::= [^/]* \"0\""},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "root ::= TagDispatch((\"ab\", tag), excludes=(\"ee\"))\ntag ::= [^-]* \"-\""},
};

/* Follows random tokens, if there are such, those whose mask is large before others. */
static void check_masks(di_acceptor *acceptor, unsigned seed, const char *name)
{
    static uint32_t allowed[N_IDS];
    uint64_t *bits = malloc(vocab->n_words * sizeof *bits);
    di_matcher *m;
    assert_non_null(bits);
    assert_int_equal(di_matcher_create(acceptor, &m), DI_OK);
    for (int step = 0; step < 7; step++) {
        uint32_t n = 0;
        assert_int_equal(di_matcher_mask(m, bits), DI_OK);
        for (uint32_t id = 0; id < N_IDS; id++) {
            bool accepted;
            assert_int_equal(di_matcher_accept_token(m, id, &accepted), DI_OK);
            if (di_mask_has(bits, id) != accepted)
                fail_msg("%s: step %d, token %u \"%.*s\": mask %d, tried %d", name, step, id,
                         (int)vocab->tokens[id].len, vocab->tokens[id].bytes, di_mask_has(bits, id),
                         accepted);
            if (accepted) {
                di_matcher_rollback(m, 1);
                allowed[n++] = id;
            }
        }
        bool accepted = n > 0;
        if (n > 0)
            assert_int_equal(di_matcher_accept_token(m, allowed[below(&seed, n)], &accepted),
                             DI_OK);
        if (!accepted)
            break;
    }
    di_matcher_destroy(m);
    free(bits);
}

static void masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        di_grammar *grammar;
        di_acceptor *acceptor;
        if (di_grammar_compile(&grammars[i], NULL, &grammar) != DI_OK)
            fail_msg("%s: %s", grammars[i].schema, di_last_error());
        assert_int_equal(di_acceptor_create(grammar, vocab, &acceptor), DI_OK);
        for (unsigned seed = 1; seed <= 3; seed++)
            check_masks(acceptor, seed, grammars[i].schema);
        di_acceptor_unref(acceptor);
        di_grammar_unref(grammar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_character),
                                       cmocka_unit_test(plain_tokens), cmocka_unit_test(masks)};
    return cmocka_run_group_tests(tests, make_vocab, free_vocab);
}
