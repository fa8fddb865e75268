#include "grammar/matcher.h"

#include <stdlib.h>

#include "grammar/acceptor.h"
#include "grammar/mask.h"

struct di_matcher {
    di_acceptor *acceptor;
    uint32_t *sets; /* [n_accepted + 1]: before and after each accepted call */
    size_t n_accepted, cap;
};

static di_status create_at(di_acceptor *acceptor, uint32_t set, di_matcher **out)
{
    di_matcher *m = calloc(1, sizeof *m);
    if (m == NULL)
        return di_fail_memory(sizeof *m, "a matcher");
    m->acceptor = di_acceptor_ref(acceptor);
    const di_status status = DI_GROW(&m->sets, &m->cap, 1);
    if (status != DI_OK) {
        di_matcher_destroy(m);
        return status;
    }
    m->sets[0] = set;
    *out = m;
    return DI_OK;
}

di_status di_matcher_create(di_acceptor *acceptor, di_matcher **out)
{
    return create_at(acceptor, acceptor->start, out);
}

static uint32_t current(const di_matcher *m)
{
    return m->sets[m->n_accepted];
}

di_status di_matcher_fork(const di_matcher *m, di_matcher **out)
{
    return create_at(m->acceptor, current(m), out);
}

void di_matcher_destroy(di_matcher *m)
{
    if (m == NULL)
        return;
    di_acceptor_unref(m->acceptor);
    free(m->sets);
    free(m);
}

static di_status read_bytes(di_acceptor *a, uint32_t *set, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && *set != DI_SET_DEAD; i++)
        DI_TRY(di_acceptor_step(a, *set, (uint8_t)bytes[i], set));
    return DI_OK;
}

di_status di_matcher_accept(di_matcher *m, const char *bytes, size_t n, bool *accepted)
{
    uint32_t set = current(m);
    DI_TRY(DI_GROW(&m->sets, &m->cap, m->n_accepted + 2));
    pthread_mutex_lock(&m->acceptor->lock);
    const di_status status = read_bytes(m->acceptor, &set, bytes, n);
    pthread_mutex_unlock(&m->acceptor->lock);
    DI_TRY(status);
    *accepted = set != DI_SET_DEAD;
    if (*accepted)
        m->sets[++m->n_accepted] = set;
    return DI_OK;
}

di_status di_matcher_accept_token(di_matcher *m, uint32_t id, bool *accepted)
{
    const di_vocab *v = m->acceptor->vocab;
    if (id >= v->n_ids || v->tokens[id].bytes == NULL) {
        *accepted = false;
        return DI_OK;
    }
    return di_matcher_accept(m, v->tokens[id].bytes, v->tokens[id].len, accepted);
}

void di_matcher_rollback(di_matcher *m, size_t n)
{
    m->n_accepted -= n;
}

size_t di_matcher_n_accepted(const di_matcher *m)
{
    return m->n_accepted;
}

bool di_matcher_may_end(const di_matcher *m)
{
    pthread_mutex_lock(&m->acceptor->lock);
    const bool accepts = m->acceptor->sets[current(m)].accepts;
    pthread_mutex_unlock(&m->acceptor->lock);
    return accepts;
}

bool di_matcher_must_end(const di_matcher *m)
{
    pthread_mutex_lock(&m->acceptor->lock);
    const di_set *set = &m->acceptor->sets[current(m)];
    const bool must_end = set->accepts && set->n_items == 0;
    pthread_mutex_unlock(&m->acceptor->lock);
    return must_end;
}

di_status di_matcher_mask(di_matcher *m, uint64_t *bits)
{
    pthread_mutex_lock(&m->acceptor->lock);
    const di_status status = di_acceptor_mask(m->acceptor, current(m), bits);
    pthread_mutex_unlock(&m->acceptor->lock);
    return status;
}

/* The only byte that can follow; *n_ways: 0, 1, or 2 for more. */
static di_status only_byte(di_acceptor *a, uint32_t set, uint8_t *byte, uint32_t *next, int *n_ways)
{
    *n_ways = 0;
    for (int b = 0; b < 256 && *n_ways < 2; b++) {
        uint32_t to;
        DI_TRY(di_acceptor_step(a, set, (uint8_t)b, &to));
        if (to == DI_SET_DEAD)
            continue;
        *byte = (uint8_t)b;
        *next = to;
        ++*n_ways;
    }
    return DI_OK;
}

static di_status forced(di_acceptor *a, uint32_t set, size_t max_bytes, di_buf *out)
{
    for (size_t i = 0; i < max_bytes && !a->sets[set].accepts; i++) {
        uint8_t byte = 0;
        int n_ways;
        uint32_t next = set;
        DI_TRY(only_byte(a, set, &byte, &next, &n_ways));
        if (n_ways != 1)
            return DI_OK;
        DI_TRY(di_buf_append(out, &byte, 1));
        set = next;
    }
    return DI_OK;
}

di_status di_matcher_forced(di_matcher *m, size_t max_bytes, di_buf *out)
{
    pthread_mutex_lock(&m->acceptor->lock);
    const di_status status = forced(m->acceptor, current(m), max_bytes, out);
    pthread_mutex_unlock(&m->acceptor->lock);
    return status;
}
