/* The mask of a constraint on scores: tokens that cannot follow, and every end where the text may
 * end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

#include "grammar/compile.h"
#include "sample/constraint.h"

enum { N_IDS = 80, N_EOS = 12, FIRST_EOS = 60 };

static void every_end(void **state)
{
    (void)state;
    di_vocab_token tokens[N_IDS] = {{"a", 1}, {"b", 1}, {"ab", 2}};
    int32_t eos[N_EOS];
    for (int i = 0; i < N_EOS; i++)
        eos[i] = FIRST_EOS + i; /* on both sides of a word of the mask */
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = DI_SCHEMA_REGEX;
    args.schema = "ab?";
    di_grammar *grammar;
    di_vocab *vocab;
    di_constraint_setup setup = {.begins_after = -1, .eos_ids = eos, .n_eos_ids = N_EOS};
    di_constraint constraint;
    assert_int_equal(di_vocab_create(tokens, N_IDS, &vocab), DI_OK);
    assert_int_equal(di_grammar_compile(&args, NULL, &grammar), DI_OK);
    assert_int_equal(di_acceptor_create(grammar, vocab, &setup.acceptor), DI_OK);
    assert_int_equal(di_constraint_init(&constraint, &setup), DI_OK);
    static const struct {
        bool allowed[3]; /* a, b, ab */
        bool may_end, must_end;
        int32_t next;
    } steps[] = {{{true, false, true}, false, false, 0},
                 {{false, true, false}, true, false, 1},
                 {{false, false, false}, true, true, FIRST_EOS + N_EOS - 1}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        float scores[N_IDS] = {0};
        bool must_end;
        assert_int_equal(di_constraint_apply(&constraint, scores, N_IDS, &must_end), DI_OK);
        assert_int_equal(must_end, steps[i].must_end);
        for (int32_t id = 0; id < N_IDS; id++) {
            const bool is_eos = id >= FIRST_EOS && id < FIRST_EOS + N_EOS;
            const bool allowed = id < 3 ? steps[i].allowed[id] : is_eos && steps[i].may_end;
            assert_true(allowed ? scores[id] == 0 : scores[id] == -INFINITY);
        }
        assert_int_equal(di_constraint_append(&constraint, steps[i].next), DI_OK);
    }
    di_constraint_free(&constraint);
    di_acceptor_unref(setup.acceptor);
    di_grammar_unref(grammar);
    di_vocab_unref(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
