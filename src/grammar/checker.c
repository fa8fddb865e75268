/* The checker of tools.h: constraints without a model. */
#include <stdlib.h>

#include "deepinfer/tools.h"
#include "grammar/compile.h"

struct di_checker {
    di_acceptor *acceptor;
    di_matcher *matcher; /* of the text in progress */
    di_matcher *whole;   /* of texts, where `matcher` reads tokens that no text has; or NULL */
    di_buf not_enforced;
};

di_status di_vocab_open(const di_tokenizer *tokenizer, di_vocab **out)
{
    if (tokenizer == NULL || out == NULL)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_vocab_open: found NULL, wanted a tokenizer and an output");
    di_vocab *vocab;
    DI_TRY(di_vocab_from_tokenizer(tokenizer, &vocab));
    const di_status status = di_vocab_warm(vocab);
    if (status != DI_OK) {
        di_vocab_unref(vocab);
        return status;
    }
    *out = vocab;
    return DI_OK;
}

void di_vocab_close(di_vocab *vocab)
{
    di_vocab_unref(vocab);
}

static di_status create_matcher(const di_so_args *args, di_vocab *vocab, di_buf *not_enforced,
                                di_acceptor **acceptor, di_matcher **matcher)
{
    di_grammar *grammar;
    DI_TRY(di_grammar_compile_for(args, vocab, not_enforced, &grammar));
    const di_status status = di_acceptor_create(grammar, vocab, acceptor);
    di_grammar_unref(grammar);
    DI_TRY(status);
    return di_matcher_create(*acceptor, matcher);
}

static di_status create(const di_so_args *args, di_vocab *vocab, di_checker *checker)
{
    DI_TRY(
        create_matcher(args, vocab, &checker->not_enforced, &checker->acceptor, &checker->matcher));
    if (vocab == NULL || args->schema_type != DI_SCHEMA_TOOL_CALLS)
        return DI_OK;
    di_acceptor *acceptor = NULL;
    const di_status status = create_matcher(args, NULL, NULL, &acceptor, &checker->whole);
    di_acceptor_unref(acceptor);
    return status;
}

di_status di_checker_create(const di_so_args *args, di_vocab *vocab, di_checker **out)
{
    if (args == NULL || out == NULL)
        return di_fail(DI_ERR_ARGUMENT,
                       "di_checker_create: found NULL, wanted arguments and an output");
    di_checker *checker = calloc(1, sizeof *checker);
    if (checker == NULL)
        return di_fail_memory(sizeof *checker, "a checker");
    const di_status status = create(args, vocab, checker);
    if (status != DI_OK) {
        di_checker_destroy(checker);
        return status;
    }
    *out = checker;
    return DI_OK;
}

void di_checker_destroy(di_checker *checker)
{
    if (checker == NULL)
        return;
    di_matcher_destroy(checker->matcher);
    di_matcher_destroy(checker->whole);
    di_acceptor_unref(checker->acceptor);
    di_buf_free(&checker->not_enforced);
    free(checker);
}

const char *di_checker_not_enforced(const di_checker *checker)
{
    return di_buf_str(&checker->not_enforced);
}

di_status di_checker_begin(di_checker *checker)
{
    di_matcher_rollback(checker->matcher, di_matcher_n_accepted(checker->matcher));
    return DI_OK;
}

di_status di_checker_match(di_checker *checker, const char *text, size_t bytes, bool *accepted)
{
    di_matcher *matcher = checker->whole != NULL ? checker->whole : checker->matcher;
    di_matcher_rollback(matcher, di_matcher_n_accepted(matcher));
    DI_TRY(di_matcher_accept(matcher, text, bytes, accepted));
    *accepted = *accepted && di_matcher_may_end(matcher);
    return DI_OK;
}

size_t di_checker_mask_words(const di_checker *checker)
{
    const di_vocab *vocab = di_acceptor_vocab(checker->acceptor);
    return vocab == NULL ? 0 : vocab->n_words;
}

static di_status check_vocab(const di_checker *checker)
{
    if (di_acceptor_vocab(checker->acceptor) != NULL)
        return DI_OK;
    return di_fail(DI_ERR_ARGUMENT, "checker: found no vocabulary, wanted one to read tokens");
}

di_status di_checker_mask(di_checker *checker, uint64_t *words)
{
    DI_TRY(check_vocab(checker));
    return di_matcher_mask(checker->matcher, words);
}

di_status di_checker_accept(di_checker *checker, int32_t token_id, bool *accepted)
{
    DI_TRY(check_vocab(checker));
    return di_matcher_accept_token(checker->matcher, (uint32_t)token_id, accepted);
}

bool di_checker_may_end(const di_checker *checker)
{
    return di_matcher_may_end(checker->matcher);
}
