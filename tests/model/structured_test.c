/* Structured output through the engine: what ends is whole, what is cut says so, what is refused is
 * refused alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "deepinfer/tools.h"
#include "engine/model.h"
#include "engine_check.h"
#include "grammar/compile.h"

static di_model *model;
static di_engine *engine;

#define OBJECT                                                                                     \
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 6}, " \
    "\"size\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 99}}, \"required\": "          \
    "[\"name\", \"size\"], \"additionalProperties\": false}"

#define TOOLS                                                                                      \
    "[{\"function\": {\"name\": \"f\", \"parameters\": " OBJECT                                    \
    "}}, {\"function\": {\"name\": \"g\"}}]"

static const di_so_args rows[] = {
    {.schema_type = DI_SCHEMA_JSON, .schema = OBJECT, .max_whitespace = 32, .indent = -1},
    {.schema_type = DI_SCHEMA_JSON, .schema = OBJECT, .is_fixed_layout = true, .indent = 2},
    {.schema_type = DI_SCHEMA_REGEX, .schema = "[a-z]{3,12}( [a-z]{3,12}){2}[.!?]"},
    {.schema_type = DI_SCHEMA_EBNF,
     .schema = "list ::= \"[\" (item (\", \" item){0,3})? \"]\"\nitem ::= [0-9]{1,3} | list",
     .root = "list"},
    {.schema_type = DI_SCHEMA_TOOL_CALLS, .schema = TOOLS, .max_whitespace = 8, .indent = -1},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static di_request make_request(const di_so_args *so, uint64_t seed)
{
    di_request r = DI_REQUEST_INIT;
    r.text = "Once upon a time";
    r.so_args = so;
    r.sampling.temperature = 1.0;
    r.sampling.has_seed = true;
    r.sampling.seed = seed;
    r.sampling.max_tokens = 400;
    return r;
}

static bool is_accepted(const di_so_args *so, const char *text, size_t bytes)
{
    di_checker *checker;
    bool accepted;
    di_require(di_checker_create(so, NULL, &checker));
    di_require(di_checker_match(checker, text, bytes, &accepted));
    di_checker_destroy(checker);
    return accepted;
}

static void whole_or_cut(void **state)
{
    (void)state;
    int n_whole = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        for (int i = 0; i < N_ROWS; i++) {
            const di_request request = make_request(&rows[i], seed);
            di_result *result;
            di_require(di_generate(engine, &request, NULL, NULL, &result));
            const bool accepted = is_accepted(&rows[i], result->text, result->text_bytes);
            if (accepted != (result->finish_reason == DI_FINISH_STOP))
                fail_msg("row %d, seed %d: %s, finish reason %s", i, (int)seed, result->text,
                         di_finish_reason_name(result->finish_reason));
            n_whole += accepted;
            di_result_free(result);
        }
    }
    assert_true(n_whole > 16);
}

static void a_short_answer_says_so(void **state)
{
    (void)state;
    di_request request = make_request(&rows[0], 1);
    request.sampling.max_tokens = 5;
    di_result *result;
    di_require(di_generate(engine, &request, NULL, NULL, &result));
    assert_int_equal(result->finish_reason, DI_FINISH_LENGTH);
    assert_int_equal(result->n_token_ids, 5);
    di_result_free(result);
}

/* Also against min_tokens: when nothing can follow, the answer ends. */
static void the_end_is_the_end(void **state)
{
    (void)state;
    static const di_so_args so = {.schema_type = DI_SCHEMA_REGEX, .schema = "yes|no"};
    di_request request = make_request(&so, 3);
    request.sampling.min_tokens = 50;
    di_result *result;
    di_require(di_generate(engine, &request, NULL, NULL, &result));
    assert_int_equal(result->finish_reason, DI_FINISH_STOP);
    assert_true(strcmp(result->text, "yes") == 0 || strcmp(result->text, "no") == 0);
    di_result_free(result);
    request.sampling.min_tokens = 0;
    request.sampling.ignore_eos = true;
    di_request_id id;
    assert_int_equal(di_engine_submit(engine, &request, &id), DI_ERR_ARGUMENT);
}

/* Logits that want white space for ever. */
static void white_space_is_bounded(void **state)
{
    (void)state;
    di_logit_bias bias[64];
    size_t n = 0;
    for (int32_t id = 0; id < di_model_vocab_size(model) && n < 64; id++) {
        const di_token *token = di_tokenizer_token(model->tokenizer, id);
        if (token->text != NULL && token->n_bytes > 0 &&
            strspn(token->bytes, " \n") == token->n_bytes)
            bias[n++] = (di_logit_bias){id, 80.0f};
    }
    assert_true(n > 0);
    di_request request = make_request(&rows[0], 5);
    request.sampling.logit_bias = bias;
    request.sampling.n_logit_bias = n;
    request.sampling.max_tokens = 1000;
    di_result *result;
    di_require(di_generate(engine, &request, NULL, NULL, &result));
    size_t longest = 0;
    for (const char *at = result->text; *at != '\0'; at++) {
        const size_t run = strspn(at, " \n\t");
        longest = run > longest ? run : longest;
    }
    assert_in_range(longest, 20, 32);
    assert_int_equal(result->finish_reason, DI_FINISH_STOP);
    assert_true(is_accepted(&rows[0], result->text, result->text_bytes));
    di_result_free(result);
}

static void what_cannot_be_enforced_is_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {"[",
                                           "(",
                                           "a{2,1}",
                                           "*a",
                                           "(?P<x",
                                           "\\",
                                           "[z-a]",
                                           "(?<=a)b",
                                           "(?=a)b",
                                           "(?!a)b",
                                           "\\1(a)",
                                           "a\\Zb",
                                           "a{99999999999999999999}"};
    di_request_id good, bad;
    const di_request first = make_request(&rows[2], 7);
    di_require(di_engine_submit(engine, &first, &good));
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const di_so_args so = {.schema_type = DI_SCHEMA_REGEX, .schema = patterns[i]};
        const di_request request = make_request(&so, 1);
        const di_status status = di_engine_submit(engine, &request, &bad);
        if (status != DI_ERR_INPUT && status != DI_ERR_UNSUPPORTED)
            fail_msg("%s: status %d", patterns[i], status);
        assert_non_null(strstr(di_last_error(), "position"));
    }
    for (bool has_work = true; has_work;)
        di_require(di_engine_step(engine, &has_work));
    di_result *result;
    di_require(di_engine_take_result(engine, good, &result));
    assert_int_equal(result->status, DI_OK);
    di_result_free(result);
    di_output output;
    while (di_engine_poll(engine, &output))
        assert_true(output.id == good);
}

/* In a thinking answer the constraint begins after the thoughts. */
static void thoughts_are_free(void **state)
{
    (void)state;
    const int32_t begin = di_tokenizer_find(model->tokenizer, "<think>", 7);
    const int32_t end = di_tokenizer_find(model->tokenizer, "</think>", 8);
    assert_true(begin >= 0 && end >= 0);
    static const di_so_args words = {.schema_type = DI_SCHEMA_REGEX, .schema = "yes|no"};
    const int32_t prompt[] = {0, 35, 36, begin};
    const di_logit_bias bias = {end, 9.0f}; /* a few tokens of thought */
    int n_thoughts = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const di_so_args *so = seed <= 6 ? &words : &rows[N_ROWS - 1];
        di_request request = make_request(so, seed);
        request.text = NULL;
        request.token_ids = prompt;
        request.n_token_ids = sizeof prompt / sizeof *prompt;
        request.sampling.logit_bias = &bias;
        request.sampling.n_logit_bias = 1;
        di_result *result;
        di_require(di_generate(engine, &request, NULL, NULL, &result));
        size_t at = 0;
        while (at < result->n_token_ids && result->token_ids[at] != end)
            at++;
        if (at == result->n_token_ids) { /* thoughts that did not end */
            di_result_free(result);
            continue;
        }
        char *answer;
        size_t bytes;
        di_require(di_detokenize(model, result->token_ids + at + 1, result->n_token_ids - at - 1,
                                 true, &answer, &bytes));
        if (result->finish_reason == DI_FINISH_STOP)
            assert_true(is_accepted(so, answer, bytes));
        n_thoughts += at > 0 && result->finish_reason == DI_FINISH_STOP && so != &words;
        di_free(answer);
        di_result_free(result);
    }
    assert_true(n_thoughts > 0);
}

/* Texts that are told apart by all of their last letters, with a bound of a MiB on what is kept of
 * them: that request fails, those beside it do not notice. */
static void too_manifold_alone(void **state)
{
    (void)state;
    static const di_so_args manifold = {.schema_type = DI_SCHEMA_REGEX,
                                        .schema = "[a-z]*[aeiou][a-z]{60}"};
    di_result *alone[N_ROWS], *result;
    di_request_id ids[N_ROWS], bad;
    for (int i = 0; i < N_ROWS; i++) {
        const di_request request = make_request(&rows[i], 21);
        di_require(di_generate(engine, &request, NULL, NULL, &alone[i]));
    }
    di_grammar_cache_limit(model->grammars, (size_t)1 << 20);
    di_request request = make_request(&manifold, 21);
    request.sampling.max_tokens = 4000;
    di_require(di_engine_submit(engine, &request, &bad));
    di_grammar_cache_limit(model->grammars, DI_ACCEPTOR_MOST_BYTES);
    for (int i = 0; i < N_ROWS; i++) {
        const di_request beside = make_request(&rows[i], 21);
        di_require(di_engine_submit(engine, &beside, &ids[i]));
    }
    for (bool has_work = true; has_work;)
        di_require(di_engine_step(engine, &has_work));
    di_require(di_engine_take_result(engine, bad, &result));
    assert_int_equal(result->status, DI_ERR_UNSUPPORTED);
    assert_non_null(strstr(result->error, "too manifold: more than 1 MiB"));
    assert_true(result->n_token_ids > 0);
    di_result_free(result);
    for (int i = 0; i < N_ROWS; i++) {
        di_require(di_engine_take_result(engine, ids[i], &result));
        assert_int_equal(result->status, DI_OK);
        assert_string_equal(result->text, alone[i]->text);
        di_result_free(result);
        di_result_free(alone[i]);
    }
    di_output output;
    while (di_engine_poll(engine, &output))
        continue;
}

static int open_all(void **state)
{
    (void)state;
    di_require(di_model_open(DI_TEST_DATA "/golden/tiny", NULL, &model));
    di_require(di_engine_create(model, NULL, &engine));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    di_engine_destroy(engine);
    di_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_or_cut),
        cmocka_unit_test(a_short_answer_says_so),
        cmocka_unit_test(the_end_is_the_end),
        cmocka_unit_test(white_space_is_bounded),
        cmocka_unit_test(what_cannot_be_enforced_is_refused),
        cmocka_unit_test(thoughts_are_free),
        cmocka_unit_test(too_manifold_alone),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
