/* The checker of tools.h: constraints without a model. */
#define _GNU_SOURCE /* memmem */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "deepinfer/tools.h"
#include "grammar/compile.h"
#include "grammar/mask.h"
#include "text/encoding.h"

struct di_checker {
    di_acceptor *acceptor;
    di_matcher *matcher; /* of the text in progress */
    bool has_marks;      /* tool calls: DI_CHAT_DSML is a token where the vocabulary has it */
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

static di_status create(const di_so_args *args, di_vocab *vocab, di_checker *checker)
{
    di_grammar *grammar;
    checker->has_marks = args->schema_type == DI_SCHEMA_TOOL_CALLS && vocab != NULL &&
                         di_vocab_has_added(vocab, DI_CHAT_DSML, strlen(DI_CHAT_DSML));
    DI_TRY(di_grammar_compile_for(args, vocab, &checker->not_enforced, &grammar));
    const di_status status = di_acceptor_create(grammar, vocab, &checker->acceptor);
    di_grammar_unref(grammar);
    DI_TRY(status);
    return di_matcher_create(checker->acceptor, &checker->matcher);
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

/* Where the next mark that is a token begins, from `at` on; `bytes` if there is none. */
static size_t next_mark(const di_checker *checker, const char *text, size_t at, size_t bytes)
{
    const char *found = checker->has_marks
                            ? memmem(text + at, bytes - at, DI_CHAT_DSML, strlen(DI_CHAT_DSML))
                            : NULL;
    return found != NULL ? (size_t)(found - text) : bytes;
}

/* Text up to a mark, and the byte that begins the mark's token. */
static di_status match_part(di_checker *checker, const char *text, size_t bytes, bool is_last,
                            bool *accepted)
{
    static const char added = (char)DI_VOCAB_ADDED;
    DI_TRY(di_matcher_accept(checker->matcher, text, bytes, accepted));
    if (!*accepted || is_last)
        return DI_OK;
    return di_matcher_accept(checker->matcher, &added, 1, accepted);
}

di_status di_checker_match(di_checker *checker, const char *text, size_t bytes, bool *accepted)
{
    DI_TRY(di_checker_begin(checker));
    size_t from = 0, end = next_mark(checker, text, 0, bytes);
    DI_TRY(match_part(checker, text, end, end == bytes, accepted));
    while (end < bytes && *accepted) {
        from = end;
        end = next_mark(checker, text, from + 1, bytes);
        DI_TRY(match_part(checker, text + from, end - from, end == bytes, accepted));
    }
    *accepted = *accepted && di_matcher_may_end(checker->matcher);
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

/* ------------------------------------------------------------------------------------- timed */

di_status di_vocab_open_timed(const di_tokenizer *tokenizer, di_check_times *times, di_vocab **out)
{
    di_vocab *vocab;
    const int64_t from = di_clock_ns();
    DI_TRY(di_vocab_open(tokenizer, &vocab));
    const di_status status = di_time_list_add(&times->vocab, di_clock_ns() - from);
    if (status != DI_OK)
        di_vocab_close(vocab);
    else
        *out = vocab;
    return status;
}

di_status di_checker_create_timed(const di_so_args *args, di_vocab *vocab, di_check_times *times,
                                  di_checker **out)
{
    di_checker *checker;
    const int64_t from = di_clock_ns();
    const di_status created = di_checker_create(args, vocab, &checker);
    const int64_t ns = di_clock_ns() - from;
    if (created != DI_OK)
        return created;
    const di_status status = di_time_list_add(&times->compile, ns);
    if (status != DI_OK)
        di_checker_destroy(checker);
    else
        *out = checker;
    return status;
}

/* *follows: the mask lets the token through. */
static di_status read_token(di_checker *checker, int32_t id, uint64_t *words, di_check_times *times,
                            bool *follows)
{
    bool is_read;
    const int64_t from = di_clock_ns();
    DI_TRY(di_checker_mask(checker, words));
    const int64_t masked = di_clock_ns();
    *follows = di_mask_has(words, (uint32_t)id);
    DI_TRY(di_checker_accept(checker, id, &is_read));
    const int64_t read = di_clock_ns();
    DI_TRY(di_time_list_add(&times->mask, masked - from));
    DI_TRY(di_time_list_add(&times->accept, read - masked));
    if (is_read != *follows)
        return di_fail(DI_ERR_RUNTIME, "token %d: found it %s the mask, and then %s", id,
                       *follows ? "in" : "not in", is_read ? "read" : "not read");
    return DI_OK;
}

static di_status read_tokens(di_checker *checker, const int32_t *ids, size_t n_ids, uint64_t *words,
                             di_check_times *times, bool *accepted)
{
    bool follows = true;
    DI_TRY(di_checker_begin(checker));
    for (size_t i = 0; i < n_ids && follows; i++)
        DI_TRY(read_token(checker, ids[i], words, times, &follows));
    *accepted = follows && di_checker_may_end(checker);
    return DI_OK;
}

/* Appends to ids. */
static di_status add_tokens(const di_tokenizer *tokenizer, const char *text, size_t bytes,
                            bool is_mark, int32_t *ids, size_t *n_ids)
{
    int32_t *more = NULL;
    size_t n = 0;
    DI_TRY(di_tokenizer_encode_text(tokenizer, text, bytes, is_mark, &more, &n));
    if (n > 0)
        memcpy(ids + *n_ids, more, n * sizeof *more);
    *n_ids += n;
    free(more);
    return DI_OK;
}

/* The marks of tool calls are tokens; all else is text, whatever it spells. ids [bytes]. */
static di_status encode(const di_checker *checker, const di_tokenizer *tokenizer, const char *text,
                        size_t bytes, int32_t *ids, size_t *n_ids)
{
    const size_t len = strlen(DI_CHAT_DSML);
    size_t at = 0, end = next_mark(checker, text, 0, bytes);
    for (; end < bytes; end = next_mark(checker, text, at, bytes)) {
        DI_TRY(add_tokens(tokenizer, text + at, end - at, false, ids, n_ids));
        DI_TRY(add_tokens(tokenizer, text + end, len, true, ids, n_ids));
        at = end + len;
    }
    return add_tokens(tokenizer, text + at, bytes - at, false, ids, n_ids);
}

di_status di_checker_match_tokens(di_checker *checker, const di_tokenizer *tokenizer,
                                  const char *text, size_t bytes, di_check_times *times,
                                  bool *accepted)
{
    const size_t n_words = di_checker_mask_words(checker);
    DI_TRY(check_vocab(checker));
    size_t n_ids = 0;
    int32_t *ids = calloc(bytes + 1, sizeof *ids);
    uint64_t *words = calloc(n_words + 1, sizeof *words);
    di_status status;
    if (ids == NULL || words == NULL)
        status = di_fail_memory((bytes + 1) * sizeof *ids + n_words * sizeof *words, "a text");
    else
        status = encode(checker, tokenizer, text, bytes, ids, &n_ids);
    if (status == DI_OK)
        status = read_tokens(checker, ids, n_ids, words, times, accepted);
    free(words);
    free(ids);
    return status;
}
