#include "hub_transfer.h"

#include <pthread.h>
#include <time.h>

#include "hub_blob.h"

enum { MAX_PARALLEL = 64, DRAW_MS = 100 };

typedef struct transfer {
    const di_hub_source *source;
    const di_hub_files *files;
    di_hub_progress progress;
    atomic_size_t next;  /* file to be taken by the next free worker */
    atomic_bool is_over; /* a worker has failed: the others stop */

    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t ended;
    int n_running;
    di_status status; /* the first failure */
    di_hub_error *error;
} transfer;

di_status di_hub_file_url(const di_hub_source *source, const char *name, char *out,
                          size_t out_bytes, di_hub_error *error)
{
    return di_hub_format(error, out, out_bytes, "%s/%s/resolve/%s/%s", source->options->endpoint,
                         source->repo->id, source->commit, name);
}

static di_status fetch_files(transfer *t, di_hub_error *error)
{
    di_hub_http http;
    DI_HUB_TRY(di_hub_http_open(t->source->options, error, &http));
    http.progress = &t->progress;
    http.is_over = &t->is_over;
    di_status status = DI_OK;
    while (status == DI_OK && !atomic_load(&t->is_over)) {
        const size_t i = atomic_fetch_add(&t->next, 1);
        if (i >= t->files->n)
            break;
        status = di_hub_blob_fetch(t->source, &t->files->items[i], &http);
    }
    di_hub_http_close(&http);
    return status;
}

static void *work(void *user)
{
    transfer *t = user;
    di_hub_error error = {""};
    const di_status status = fetch_files(t, &error);
    pthread_mutex_lock(&t->mutex);
    if (status != DI_OK && t->status == DI_OK) {
        t->status = status;
        *t->error = error;
        atomic_store(&t->is_over, true);
    }
    t->n_running--;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

/* Draws until all workers have ended. */
static void watch(transfer *t)
{
    pthread_mutex_lock(&t->mutex);
    while (t->n_running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += DRAW_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&t->ended, &t->mutex, &until);
        pthread_mutex_unlock(&t->mutex);
        di_hub_progress_draw(&t->progress);
        pthread_mutex_lock(&t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
}

static void run(transfer *t, int n_workers)
{
    pthread_t threads[MAX_PARALLEL];
    int n_started = 0;
    t->n_running = n_workers;
    while (n_started < n_workers && !pthread_create(&threads[n_started], NULL, work, t))
        n_started++;
    pthread_mutex_lock(&t->mutex);
    t->n_running -= n_workers - n_started;
    if (n_started == 0)
        t->status = di_hub_fail(t->error, DI_ERR_MEMORY, "cannot start a thread to download with");
    pthread_mutex_unlock(&t->mutex);
    watch(t);
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
}

di_status di_hub_transfer(const di_hub_source *source, const di_hub_files *files, bool is_shown,
                          di_hub_error *error)
{
    transfer t = {
        .source = source,
        .files = files,
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .ended = PTHREAD_COND_INITIALIZER,
        .error = error,
    };
    int64_t total = 0;
    for (size_t i = 0; i < files->n; i++)
        total += files->items[i].size;
    int n_workers = source->options->n_parallel;
    n_workers = n_workers < 1 ? 1 : n_workers > MAX_PARALLEL ? MAX_PARALLEL : n_workers;
    if ((size_t)n_workers > files->n)
        n_workers = (int)files->n;
    di_hub_progress_begin(&t.progress, source->options, total, is_shown);
    run(&t, n_workers);
    di_hub_progress_end(&t.progress);
    pthread_cond_destroy(&t.ended);
    pthread_mutex_destroy(&t.mutex);
    return t.status;
}
