/* Random walks through the masks of tool calls: what comes out is what the parser of completions
 * reads back as calls, with arguments that the tools' schemas allow. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <strings.h>

#include "grammar/compile.h"
#include "grammar/mask.h"
#include "text/completion.h"
#include "text/encoding_json.h"
#include "tokenizers.h"
#include "tool_calls.h"

/* ---- random walks through masks */

typedef struct tool_row {
    const char *name, *schema;
    bool is_closed; /* the schema alone allows parameters that calls do not have */
} tool_row;

static const tool_row tools[] = {
    {"now", "{\"type\": \"object\", \"properties\": {}}", true},
    {"weather",
     OBJECT("\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\", "
            "\"minimum\": 1, \"maximum\": 70}, \"unit\": {\"enum\": [\"c\", \"f\", 7, "
            "null, \"｜\"]}",
            ", \"required\": [\"city\", \"unit\"]"),
     true},
    {"text",
     OBJECT("\"short\": {\"type\": \"string\", \"maxLength\": 9}, \"long\": {\"type\": "
            "\"string\", \"minLength\": 20}, \"date\": {\"type\": \"string\", \"format\": "
            "\"date\"}, \"p\": {\"type\": \"string\", \"pattern\": \"^[^a]{2}\"}",
            ", \"minProperties\": 2, \"additionalProperties\": false"),
     false},
    {"deep",
     OBJECT("\"list\": {\"type\": \"array\", \"maxItems\": 3, \"items\": {\"$ref\": "
            "\"#/$defs/item\"}}, \"any\": {\"type\": [\"string\", \"boolean\", "
            "\"object\"], \"maxProperties\": 2}",
            ", \"required\": [\"list\"], \"$defs\": {\"item\": {\"type\": \"object\", "
            "\"properties\": {\"a｜\": {\"type\": \"string\", \"pattern\": \"^.｜?.$\"}}, "
            "\"required\": [\"a｜\"], \"additionalProperties\": {\"type\": \"boolean\"}, "
            "\"maxProperties\": 3}}"),
     true},
    {"free",
     "{\"type\": \"object\", \"patternProperties\": {\"^x\": {\"type\": \"integer\"}}, "
     "\"additionalProperties\": {\"type\": \"string\", \"maxLength\": 5}}",
     false},
};
enum { N_TOOLS = sizeof tools / sizeof *tools };

typedef struct fixture {
    di_tokenizer *tokenizer;
    di_vocab *vocab;
    int32_t mark;
    di_checker *arguments[N_TOOLS]; /* of the schemas */
    uint64_t *bits;
} fixture;

/* Escapes that calls need where others do not: the mark's first character. */
static void without_escapes(const char *text, size_t len, di_buf *out)
{
    for (size_t i = 0; i < len; i++) {
        const bool is_escape = text[i] == '\\';
        if (is_escape && i + 5 < len && text[i + 1] == 'u' &&
            strncasecmp(text + i + 2, "ff5c", 4) == 0) {
            OK(di_buf_puts(out, "｜"));
            i += 5;
            continue;
        }
        OK(di_buf_append(out, text + i, 1 + is_escape));
        i += is_escape;
    }
}

typedef struct reading {
    fixture *f;
    int n_calls, n_parameters;
    size_t n_other; /* bytes of content */
} reading;

static bool read_part(void *user, di_delta_kind kind, const char *name, const char *text,
                      size_t len)
{
    reading *r = user;
    if (kind != DI_DELTA_TOOL_CALL) {
        r->n_other += len;
        return true;
    }
    size_t i = 0;
    bool accepted;
    while (i < N_TOOLS && strcmp(tools[i].name, name) != 0)
        i++;
    assert_true(i < N_TOOLS);
    DI_BUF_AUTO plain = {0};
    without_escapes(text, len, &plain);
    OK(di_checker_match(r->f->arguments[i], di_buf_str(&plain), plain.len, &accepted));
    if (!accepted)
        fail_msg("%s: arguments %s", name, text);
    di_arena arena = {0};
    const di_jval *arguments;
    OK(di_jval_parse(&arena, text, len, DI_JSYNTAX, &arguments));
    for (const di_jval *m = arguments->first; m != NULL; m = m->next)
        r->n_parameters++;
    di_arena_free(&arena);
    r->n_calls++;
    return true;
}

static int count_marks(const char *text, size_t len)
{
    const size_t n = strlen(DI_CHAT_DSML);
    int count = 0;
    for (size_t i = 0; i + n <= len; i++)
        count += memcmp(text + i, DI_CHAT_DSML, n) == 0;
    return count;
}

/* Every mark is its token, and every token a mark of a tag. */
static void check_text(fixture *f, const di_buf *text, int n_marks, int n_calls_most)
{
    reading r = {.f = f};
    di_completion_parser *parser;
    OK(di_completion_parser_create(false, DI_COMPLETION_STRICT, read_part, &r, &parser));
    OK(di_completion_parser_push(parser, di_buf_str(text), text->len));
    OK(di_completion_parser_finish(parser));
    di_completion_parser_free(parser);
    assert_int_equal(r.n_other, 0);
    assert_in_range(r.n_calls, 1, n_calls_most);
    assert_int_equal(n_marks, 2 + 2 * r.n_calls + 2 * r.n_parameters);
    assert_int_equal(count_marks(di_buf_str(text), text->len), n_marks);
    reading lenient = {.f = f};
    OK(di_completion_parser_create(false, DI_COMPLETION_LENIENT, read_part, &lenient, &parser));
    for (size_t i = 0; i < text->len; i += 7)
        OK(di_completion_parser_push(parser, text->data + i,
                                     text->len - i < 7 ? text->len - i : 7));
    OK(di_completion_parser_finish(parser));
    di_completion_parser_free(parser);
    assert_int_equal(lenient.n_calls, r.n_calls);
    assert_int_equal(lenient.n_other, 0);
}

/* The mask is what trying every token says. */
static void check_mask(const fixture *f, di_matcher *m)
{
    for (uint32_t id = 0; id < f->vocab->n_ids; id++) {
        bool accepted;
        OK(di_matcher_accept_token(m, id, &accepted));
        if (accepted)
            di_matcher_rollback(m, 1);
        if (di_mask_has(f->bits, id) != accepted)
            fail_msg("token %u: mask %d, tried %d", id, !accepted, accepted);
    }
}

/* Whether a token leads towards the end, given the byte before it: "</" and the mark close tags,
 * quotes and brackets JSON. */
static bool leads_on(const fixture *f, uint32_t id, char last)
{
    const di_vocab_token *token = &f->vocab->tokens[id];
    if (last == '<' || last == '/')
        return last == '<' ? token->bytes[0] == '/' : id == (uint32_t)f->mark;
    return token->len == 1 && strchr("<\"}]>\n", token->bytes[0]) != NULL;
}

/* A token that may come next: one that leads on where texts have become long, else any. */
static uint32_t choose(const fixture *f, size_t step, char last, uint64_t *state)
{
    const bool hurries = step > 80 || di_test_random(state) % 4 == 0;
    for (int pass = hurries ? 0 : 1; pass < 2; pass++) {
        uint32_t n = 0, chosen = UINT32_MAX;
        for (uint32_t id = 0; id < f->vocab->n_ids; id++)
            if (di_mask_has(f->bits, id) && (pass == 1 || leads_on(f, id, last)) &&
                di_test_random(state) % ++n == 0)
                chosen = id;
        if (chosen != UINT32_MAX)
            return chosen;
    }
    fail_msg("step %zu: a dead end", step);
    return 0;
}

static bool walk(fixture *f, di_acceptor *acceptor, uint64_t seed, int n_calls_most)
{
    di_matcher *m;
    DI_BUF_AUTO text = {0};
    int n_marks = 0;
    bool has_ended = false;
    OK(di_matcher_create(acceptor, &m));
    for (size_t step = 0; step < 1500 && !has_ended; step++) {
        bool accepted;
        OK(di_matcher_mask(m, f->bits));
        if (step % 17 == seed % 17)
            check_mask(f, m);
        const uint32_t id = choose(f, step, text.len > 0 ? text.data[text.len - 1] : 0, &seed);
        const di_token *token = di_tokenizer_token(f->tokenizer, id);
        assert_int_equal(token->is_added, id == (uint32_t)f->mark);
        n_marks += token->is_added;
        OK(di_buf_append(&text, token->bytes, token->n_bytes));
        OK(di_matcher_accept_token(m, id, &accepted));
        assert_true(accepted);
        assert_int_equal(di_matcher_may_end(m), di_matcher_must_end(m));
        has_ended = di_matcher_may_end(m);
    }
    di_matcher_destroy(m);
    if (has_ended)
        check_text(f, &text, n_marks, n_calls_most);
    return has_ended;
}

static void write_request(int only, bool is_one, di_buf *out)
{
    OK(di_buf_puts(out, "{\"tools\": ["));
    for (int i = 0; i < N_TOOLS; i++)
        OK(di_buf_printf(out, "%s" TOOL("%s", "%s"), i > 0 ? ", " : "", tools[i].name,
                         tools[i].schema));
    OK(di_buf_printf(out, "], \"parallel_tool_calls\": %s", is_one ? "false" : "true"));
    if (only >= 0)
        OK(di_buf_printf(out,
                         ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": "
                         "\"%s\"}}",
                         tools[only].name));
    OK(di_buf_puts(out, "}"));
}

static void walks(void **state)
{
    fixture *f = *state;
    int n_ended = 0, n = 0;
    for (int only = -1; only < N_TOOLS; only++) {
        DI_BUF_AUTO request = {0};
        write_request(only, only % 2 != 0, &request);
        const di_so_args args = args_of(di_buf_str(&request));
        di_grammar *grammar;
        di_acceptor *acceptor;
        OK(di_grammar_compile_for(&args, f->vocab, NULL, &grammar));
        OK(di_acceptor_create(grammar, f->vocab, &acceptor));
        for (uint64_t seed = 1; seed <= 12; seed++, n++)
            n_ended += walk(f, acceptor, seed * 7919 + 1, only % 2 != 0 ? 1 : 1000);
        di_acceptor_unref(acceptor);
        di_grammar_unref(grammar);
    }
    assert_true(n_ended > n * 3 / 4);
}

/* ---- the vocabulary, the cache */

/* Without the token the marks are spelled by others. */
static void other_vocabularies(void **state)
{
    (void)state;
    di_vocab_token tokens[256];
    char bytes[256];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = (di_vocab_token){&bytes[i], 1};
    }
    di_vocab *vocab;
    OK(di_vocab_create(tokens, 255, &vocab));
    const di_so_args args = args_of("[" NOW "]");
    di_checker *checker;
    bool accepted;
    OK(di_checker_create(&args, vocab, &checker));
    OK(di_checker_begin(checker));
    const char *text = BLOCK(CALL("now", ""));
    uint64_t bits[4];
    for (const char *at = text; *at != '\0'; at++) {
        OK(di_checker_mask(checker, bits));
        assert_true(di_mask_has(bits, (unsigned char)*at));
        OK(di_checker_accept(checker, (unsigned char)*at, &accepted));
        assert_true(accepted);
    }
    assert_true(di_checker_may_end(checker));
    assert_true(takes(checker, text));
    di_checker_destroy(checker);
    di_vocab_unref(vocab);
}

static void cached(void **state)
{
    fixture *f = *state;
    di_grammar_cache *cache;
    di_acceptor *first, *again, *other;
    OK(di_grammar_cache_create(f->tokenizer, &cache));
    di_so_args args = args_of("[" NOW "]");
    OK(di_grammar_cache_get(cache, &args, &first));
    OK(di_grammar_cache_get(cache, &args, &again));
    assert_ptr_equal(first, again);
    di_acceptor_unref(again);
    args.schema_type = DI_SCHEMA_JSON;
    args.schema = "{}";
    OK(di_grammar_cache_get(cache, &args, &other));
    di_acceptor_unref(other);
    args = args_of("{\"tools\": [" NOW "], \"parallel_tool_calls\": false}");
    OK(di_grammar_cache_get(cache, &args, &other));
    assert_ptr_not_equal(first, other);
    di_acceptor_unref(other);
    di_acceptor_unref(first);
    di_grammar_cache_destroy(cache);
}

/* Tokens read by a checker are those of its masks, and texts are texts. */
static void checker_reads_tokens(void **state)
{
    fixture *f = *state;
    const di_so_args args = args_of("[" NOW "]");
    di_checker *checker;
    bool accepted;
    OK(di_checker_create(&args, f->vocab, &checker));
    assert_true(takes(checker, BLOCK(CALL("now", ""))));
    OK(di_checker_begin(checker));
    DI_IDS_AUTO ids = {0};
    const char *text = BLOCK(CALL("now", ""));
    OK(di_tokenizer_encode(f->tokenizer, text, strlen(text), NULL, 0, &ids));
    for (size_t i = 0; i < ids.len; i++) {
        assert_false(di_checker_may_end(checker));
        OK(di_checker_accept(checker, ids.data[i], &accepted));
        assert_true(accepted);
    }
    assert_true(di_checker_may_end(checker));
    assert_true(takes(checker, text));
    static const char *const wrong[] = {"", DI_CHAT_DSML, DI_CHAT_DSML DI_CHAT_DSML,
                                        "\n\n<" DI_CHAT_DSML, "\n\n<\xff" DI_CHAT_DSML " calls>"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(takes(checker, wrong[i]));
    di_checker_destroy(checker);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->tokenizer = di_test_tokenizer(DI_TEST_GOLDEN_TOKENIZER);
    assert_non_null(f->tokenizer);
    f->mark = di_tokenizer_find(f->tokenizer, DI_CHAT_DSML, strlen(DI_CHAT_DSML));
    assert_true(f->mark >= 0);
    OK(di_vocab_from_tokenizer(f->tokenizer, &f->vocab));
    f->bits = calloc(f->vocab->n_words, sizeof *f->bits);
    assert_non_null(f->bits);
    for (int i = 0; i < N_TOOLS; i++) {
        di_so_args args = DI_SO_ARGS_INIT;
        args.schema_type = DI_SCHEMA_JSON;
        args.schema = tools[i].schema;
        args.any_order = true;
        args.is_strict = tools[i].is_closed && i < 2; /* deeper objects of the others are open */
        OK(di_checker_create(&args, NULL, &f->arguments[i]));
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < N_TOOLS; i++)
        di_checker_destroy(f->arguments[i]);
    di_vocab_unref(f->vocab);
    di_tokenizer_close(f->tokenizer);
    free(f->bits);
    free(f);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks),
        cmocka_unit_test(cached),
        cmocka_unit_test(other_vocabularies),
        cmocka_unit_test(checker_reads_tokens),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
