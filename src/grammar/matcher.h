/* A constrained text in progress: which bytes and tokens may come next, and whether it may end. An
 * acceptor (grammar and vocabulary, with all that was found out about them) is shared by any number
 * of matchers and threads; a matcher belongs to one thread at a time. */
#ifndef DI_GRAMMAR_MATCHER_H
#define DI_GRAMMAR_MATCHER_H

#include "base/buf.h"
#include "grammar/grammar.h"
#include "grammar/vocab.h"

typedef struct di_acceptor di_acceptor;
typedef struct di_matcher di_matcher;

/* vocab NULL: bytes only. Both are referenced. */
DI_WARN_UNUSED di_status di_acceptor_create(di_grammar *grammar, di_vocab *vocab,
                                            di_acceptor **out);
di_acceptor *di_acceptor_ref(di_acceptor *acceptor);
void di_acceptor_unref(di_acceptor *acceptor);
const di_vocab *di_acceptor_vocab(const di_acceptor *acceptor); /* NULL without */
/* What it holds by now, without masks (64 MiB at most). It grows with the situations that texts
 * come to, up to DI_ACCEPTOR_MOST_BYTES: then reading on is DI_ERR_UNSUPPORTED. */
size_t di_acceptor_n_bytes(di_acceptor *acceptor);
#define DI_ACCEPTOR_MOST_BYTES ((size_t)1 << 30)
/* Another bound from now on: so that tests reach it. */
void di_acceptor_limit(di_acceptor *acceptor, size_t most_bytes);

DI_WARN_UNUSED di_status di_matcher_create(di_acceptor *acceptor, di_matcher **out);
void di_matcher_destroy(di_matcher *matcher);
/* A matcher at the same place that knows nothing of what came before: O(1). */
DI_WARN_UNUSED di_status di_matcher_fork(const di_matcher *matcher, di_matcher **out);

/* Reads bytes; *accepted false and nothing read if they cannot follow. */
DI_WARN_UNUSED di_status di_matcher_accept(di_matcher *matcher, const char *bytes, size_t n,
                                           bool *accepted);
DI_WARN_UNUSED di_status di_matcher_accept_token(di_matcher *matcher, uint32_t id, bool *accepted);
/* Takes back the last n accepted calls of the two above; n at most di_matcher_n_accepted. */
void di_matcher_rollback(di_matcher *matcher, size_t n);
size_t di_matcher_n_accepted(const di_matcher *matcher);
/* The text so far is complete. */
bool di_matcher_may_end(const di_matcher *matcher);
/* It is complete and nothing can follow. */
bool di_matcher_must_end(const di_matcher *matcher);
/* bits [vocab->n_words]: the tokens of which every byte can follow. End-of-text tokens are not
 * among them: see di_matcher_may_end. */
DI_WARN_UNUSED di_status di_matcher_mask(di_matcher *matcher, uint64_t *bits);
/* Appends the bytes that must follow, at most max_bytes; none if there is a choice or the text may
 * end. An added token is DI_VOCAB_ADDED and its text. */
DI_WARN_UNUSED di_status di_matcher_forced(di_matcher *matcher, size_t max_bytes, di_buf *out);

#endif
