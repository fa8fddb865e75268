/* The walk over the trie of a vocabulary that finds what tokens can follow at a place, as far as
 * that does not depend on its callers. Internal to the folder. */
#ifndef DI_GRAMMAR_TOKEN_WALK_H
#define DI_GRAMMAR_TOKEN_WALK_H

#include "grammar/token_static.h"

#define DI_NO_NEED UINT16_MAX

/* The owner of the walk makes and frees all arrays. */
typedef struct di_token_walk {
    di_acceptor *a;
    uint32_t state; /* of the place */
    bool is_relative;
    bool returns_matter; /* something can follow the rule */
    uint32_t *sets;      /* [max_len + 1] by depth */

    /* What is found. */
    uint64_t *bits;  /* [n_words] accepted; 0 before */
    uint16_t *needs; /* [n_ids] relative: counts a token needs; DI_NO_NEED before */
    di_token_return *returns;
    size_t n_returns, cap_returns;
    const di_token_static *base; /* as in di_token_static */
    uint32_t not_base[256], n_not_base;

    bool is_plain; /* bits began as the plain tokens: what cannot follow is to be taken out */
} di_token_walk;

DI_WARN_UNUSED di_status di_token_walk_run(di_token_walk *walk);

#endif
