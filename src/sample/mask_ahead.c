#include "sample/mask_ahead.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"

typedef struct ahead_item {
    di_constraint *constraint;
    const int32_t *next;
    int32_t n_next;
} ahead_item;

struct di_mask_ahead {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t start; /* something to find, or the end */
    pthread_cond_t done;  /* the thread has found one */
    ahead_item *items;
    size_t n_items, cap;
    size_t n_ready; /* the thread may take those before it */
    size_t next;    /* the first that it has not taken */
    bool is_finding, is_ending;
};

static void *thread_main(void *arg)
{
    di_mask_ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->is_ending) {
        if (a->next == a->n_ready) {
            pthread_cond_wait(&a->start, &a->lock);
            continue;
        }
        const ahead_item item = a->items[a->next++];
        a->is_finding = true;
        pthread_mutex_unlock(&a->lock);
        di_constraint_prepare(item.constraint, item.next, item.n_next);
        pthread_mutex_lock(&a->lock);
        a->is_finding = false;
        pthread_cond_signal(&a->done);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

di_status di_mask_ahead_create(di_mask_ahead **out)
{
    di_mask_ahead *a = calloc(1, sizeof *a);
    if (a == NULL)
        return di_fail_memory(sizeof *a, "the thread of token masks");
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->start, NULL);
    pthread_cond_init(&a->done, NULL);
    if (pthread_create(&a->thread, NULL, thread_main, a) != 0) {
        pthread_cond_destroy(&a->start);
        pthread_cond_destroy(&a->done);
        pthread_mutex_destroy(&a->lock);
        free(a);
        return di_fail(DI_ERR_MEMORY, "cannot start the thread of token masks");
    }
    *out = a;
    return DI_OK;
}

void di_mask_ahead_destroy(di_mask_ahead *a)
{
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->lock);
    a->is_ending = true;
    pthread_cond_signal(&a->start);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->start);
    pthread_cond_destroy(&a->done);
    pthread_mutex_destroy(&a->lock);
    free(a->items);
    free(a);
}

/* The thread looks at items only below n_ready, which is 0 here. */
void di_mask_ahead_add(di_mask_ahead *a, di_constraint *constraint, const int32_t *next,
                       int32_t n_next)
{
    const bool may_be_on =
        di_constraint_is_on(constraint) || (constraint->matcher != NULL && n_next > 0);
    if (!may_be_on || DI_GROW(&a->items, &a->cap, a->n_items + 1) != DI_OK)
        return;
    a->items[a->n_items++] = (ahead_item){constraint, next, n_next};
}

void di_mask_ahead_start(di_mask_ahead *a)
{
    if (a->n_items == 0)
        return;
    pthread_mutex_lock(&a->lock);
    a->n_ready = a->n_items;
    pthread_cond_signal(&a->start);
    pthread_mutex_unlock(&a->lock);
}

void di_mask_ahead_join(di_mask_ahead *a)
{
    if (a->n_items == 0)
        return;
    pthread_mutex_lock(&a->lock);
    a->next = a->n_ready;
    while (a->is_finding)
        pthread_cond_wait(&a->done, &a->lock);
    a->next = a->n_ready = a->n_items = 0;
    pthread_mutex_unlock(&a->lock);
}
