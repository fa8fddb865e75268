#include "grammar/token_static.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/mask.h"
#include "grammar/token_walk.h"

enum {
    WIDE_BYTES = 32, /* a state that reads so many bytes is worth sharing between grammars */
    MAX_SHARED_BYTES = 64 << 20,
};

/* Stands for the tokens of a state whose walk is under way, so that none waits for itself. */
static di_token_static in_progress = {.is_shared = true};

void di_token_static_free(di_token_static *t)
{
    if (t == NULL)
        return;
    free(t->bits);
    free(t->ids);
    free(t->needs);
    free(t->returns);
    free(t->not_base);
    free(t);
}

bool di_token_static_is_under_way(const di_acceptor *a, uint32_t state)
{
    return a->statics[state] == &in_progress;
}

void di_statics_free(di_acceptor *a)
{
    for (uint32_t i = 0; a->statics != NULL && i < a->grammar->n_states; i++)
        if (a->statics[i] != NULL && !a->statics[i]->is_shared)
            di_token_static_free(a->statics[i]);
    free(a->statics);
    a->statics = NULL;
}

/* --- the result --- */

static di_status keep_ids(di_token_walk *w, di_token_static *t)
{
    const uint32_t n_words = w->a->vocab->n_words;
    const uint32_t most = w->is_relative ? w->a->vocab->n_ids : DI_MASK_LIST;
    t->n_ids = di_mask_count(w->bits, n_words, most);
    if (t->n_ids > DI_MASK_LIST) {
        t->bits = malloc(n_words * sizeof *t->bits);
        if (t->bits == NULL)
            return di_fail_memory(n_words * sizeof *t->bits, "a token mask");
        memcpy(t->bits, w->bits, n_words * sizeof *t->bits);
        t->bytes += n_words * sizeof *t->bits;
        if (!w->is_relative)
            return DI_OK;
    }
    t->ids = malloc(((size_t)t->n_ids + 1) * sizeof *t->ids);
    if (t->ids == NULL)
        return di_fail_memory(t->n_ids * sizeof *t->ids, "a token mask");
    t->bytes += t->n_ids * sizeof *t->ids;
    di_mask_ids(w->bits, n_words, t->ids);
    return DI_OK;
}

/* Sorts the ids by the counts they need. */
static di_status keep_needs(di_token_walk *w, di_token_static *t)
{
    for (uint32_t i = 0; i < t->n_ids; i++)
        if (w->needs[t->ids[i]] >= t->n_needs)
            t->n_needs = w->needs[t->ids[i]] + 1u;
    uint32_t *ids = malloc(((size_t)t->n_ids + 1) * sizeof *ids);
    uint32_t *next = malloc(((size_t)t->n_needs + 1) * sizeof *next);
    t->needs = calloc((size_t)t->n_needs + 1, sizeof *t->needs);
    if (ids == NULL || next == NULL || t->needs == NULL) {
        free(ids);
        free(next);
        return di_fail_memory(t->n_ids * sizeof *ids, "a token mask");
    }
    for (uint32_t i = 0; i < t->n_ids; i++)
        t->needs[w->needs[t->ids[i]] + 1]++;
    for (uint32_t k = 0; k < t->n_needs; k++)
        t->needs[k + 1] += t->needs[k];
    memcpy(next, t->needs, ((size_t)t->n_needs + 1) * sizeof *next);
    for (uint32_t i = 0; i < t->n_ids; i++)
        ids[next[w->needs[t->ids[i]]]++] = t->ids[i];
    free(next);
    free(t->ids);
    t->ids = ids;
    t->bytes += ((size_t)t->n_needs + 1) * sizeof *t->needs;
    return DI_OK;
}

static di_status keep(di_token_walk *w, di_token_static *t)
{
    DI_TRY(keep_ids(w, t));
    if (w->is_relative)
        DI_TRY(keep_needs(w, t));
    if (w->n_returns > 0) {
        t->returns = malloc(w->n_returns * sizeof *t->returns);
        if (t->returns == NULL)
            return di_fail_memory(w->n_returns * sizeof *t->returns, "a token mask");
        memcpy(t->returns, w->returns, w->n_returns * sizeof *t->returns);
    }
    t->n_returns = (uint32_t)w->n_returns;
    t->base = w->base;
    if (w->n_not_base > 0) {
        t->not_base = malloc(w->n_not_base * sizeof *t->not_base);
        if (t->not_base == NULL)
            return di_fail_memory(w->n_not_base * sizeof *t->not_base, "a token mask");
        memcpy(t->not_base, w->not_base, w->n_not_base * sizeof *t->not_base);
        t->n_not_base = w->n_not_base;
    }
    t->bytes += sizeof *t + w->n_returns * sizeof *t->returns;
    return DI_OK;
}

static di_status compute(di_token_walk *w, di_token_static *t)
{
    const di_vocab *v = w->a->vocab;
    w->bits = calloc(v->n_words + 1, sizeof *w->bits);
    w->sets = malloc(((size_t)v->max_len + 2) * sizeof *w->sets);
    if (w->is_relative)
        w->needs = malloc(((size_t)v->n_ids + 1) * sizeof *w->needs);
    if (w->bits == NULL || w->sets == NULL || (w->is_relative && w->needs == NULL))
        return di_fail_memory(v->n_words * sizeof *w->bits, "a token mask");
    if (w->is_relative)
        memset(w->needs, 0xff, v->n_ids * sizeof *w->needs);
    DI_TRY(di_token_walk_run(w));
    return keep(w, t);
}

static di_status make(di_acceptor *a, uint32_t state, di_token_static **out)
{
    di_token_walk w = {.a = a, .state = state};
    const di_rule *rule = &a->grammar->rules[a->grammar->states[state].rule];
    w.is_relative = rule->is_loop;
    w.returns_matter = rule->is_called;
    di_token_static *t = calloc(1, sizeof *t);
    if (t == NULL)
        return di_fail_memory(sizeof *t, "a token mask");
    const di_status status = compute(&w, t);
    free(w.bits);
    free(w.needs);
    free(w.sets);
    free(w.returns);
    if (status != DI_OK) {
        di_token_static_free(t);
        return status;
    }
    *out = t;
    return DI_OK;
}

/* --- sharing --- */

static bool is_wide(const di_grammar *g, uint32_t state)
{
    const di_state *s = &g->states[state];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_bytes; i++)
        n += (uint32_t)(g->edges[s->first_edge + i].last - g->edges[s->first_edge + i].first) + 1;
    return n >= WIDE_BYTES;
}

static di_token_static *find_shared(di_vocab *v, const char *key, size_t len)
{
    for (size_t i = 0; i < v->n_shared; i++)
        if (v->shared[i].len == len && memcmp(v->shared[i].key, key, len) == 0)
            return v->shared[i].tokens;
    return NULL;
}

/* Takes key; *tokens becomes the one that is kept. */
static di_status add_shared(di_vocab *v, char *key, size_t len, di_token_static **tokens)
{
    pthread_mutex_lock(&v->lock);
    di_token_static *other = find_shared(v, key, len);
    di_status status = DI_OK;
    if (other != NULL) {
        di_token_static_free(*tokens);
        *tokens = other;
    } else if (v->shared_bytes + (*tokens)->bytes <= MAX_SHARED_BYTES) {
        status = DI_GROW(&v->shared, &v->cap_shared, v->n_shared + 1);
        if (status == DI_OK) {
            (*tokens)->is_shared = true;
            v->shared[v->n_shared++] = (di_shared_static){key, len, *tokens};
            v->shared_bytes += (*tokens)->bytes;
            key = NULL;
        }
    }
    pthread_mutex_unlock(&v->lock);
    free(key);
    return status;
}

static di_status make_shared(di_acceptor *a, uint32_t state, di_token_static **out)
{
    char *key;
    size_t len;
    DI_TRY(di_state_signature(a->grammar, state, &key, &len));
    if (len == 0)
        return make(a, state, out);
    pthread_mutex_lock(&a->vocab->lock);
    di_token_static *found = find_shared(a->vocab, key, len);
    pthread_mutex_unlock(&a->vocab->lock);
    if (found != NULL) {
        free(key);
        *out = found;
        return DI_OK;
    }
    const di_status status = make(a, state, out);
    if (status != DI_OK) {
        free(key);
        return status;
    }
    return add_shared(a->vocab, key, len, out);
}

di_status di_token_static_of(di_acceptor *a, uint32_t state, const di_token_static **out)
{
    if (a->statics[state] == NULL) {
        di_token_static *tokens = NULL;
        a->statics[state] = &in_progress;
        const di_status status =
            is_wide(a->grammar, state) ? make_shared(a, state, &tokens) : make(a, state, &tokens);
        a->statics[state] = status == DI_OK ? tokens : NULL;
        DI_TRY(status);
    }
    *out = a->statics[state];
    return DI_OK;
}
