/* From a description of a constraint to an acceptor, and a cache of them by description. */
#ifndef DI_GRAMMAR_COMPILE_H
#define DI_GRAMMAR_COMPILE_H

#include "grammar/json_schema.h"
#include "grammar/matcher.h"

/* DI_ERR_ARGUMENT if the options do not fit the type or are out of range. */
DI_WARN_UNUSED di_status di_so_args_check(const di_so_args *args);

/* For texts. *not_enforced (may be NULL): with args->lenient, a line for each keyword that is not
 * enforced. */
DI_WARN_UNUSED di_status di_grammar_compile(const di_so_args *args, di_buf *not_enforced,
                                            di_grammar **out);
/* For the tokens of a vocabulary, see di_grammar_use_tokens. */
DI_WARN_UNUSED di_status di_grammar_compile_for(const di_so_args *args, const di_vocab *vocab,
                                                di_buf *not_enforced, di_grammar **out);

/* Finds the token sets of what nearly every JSON schema has (the insides of strings, bounded ones,
 * and of free names), so that no request pays for them: about as long as making the vocabulary. */
DI_WARN_UNUSED di_status di_vocab_warm(di_vocab *vocab);

/* Acceptors by description, those used last. Locks by itself; compiling holds no lock. */
typedef struct di_grammar_cache di_grammar_cache;

/* The tokenizer is borrowed; its vocabulary is prepared when the first constraint comes. */
DI_WARN_UNUSED di_status di_grammar_cache_create(const di_tokenizer *tokenizer,
                                                 di_grammar_cache **out);
void di_grammar_cache_destroy(di_grammar_cache *cache);
/* Acceptors that are made from now on get this bound, see di_acceptor_limit: for tests. */
void di_grammar_cache_limit(di_grammar_cache *cache, size_t most_bytes);
/* *out is a new reference. */
DI_WARN_UNUSED di_status di_grammar_cache_get(di_grammar_cache *cache, const di_so_args *args,
                                              di_acceptor **out);

#endif
