/* Requests through the engine, as many at once as it takes. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

/* One request in the engine: its prompts are requests of the engine's own. */
typedef struct job {
    di_batch_item *item;
    di_api_request *request;
    di_result **results; /* [n_prompts], NULL = not there yet */
    size_t n_submitted, n_finished;
    bool has_failed;
    di_api_error error;
} job;

typedef struct ticket {
    di_request_id id;
    job *owner;
    size_t prompt;
} ticket;

typedef struct desk {
    di_batch_run *run;
    ticket *tickets; /* in the engine; ids rise */
    size_t n, capacity;
    size_t n_seqs; /* samples of all tickets */
    size_t next;   /* item to look at */
} desk;

/* ------------------------------------------------------------------------------------- results */

static void free_job(job *j)
{
    if (j->request != NULL)
        for (size_t i = 0; i < j->request->n_prompts; i++)
            di_result_free(j->results[i]);
    di_api_request_free(j->request);
    free(j->results);
    free(j);
}

static di_exit write_result(desk *self, di_batch_item *item, const di_api_error *error,
                            const char *body, size_t bytes)
{
    di_batch_run *run = self->run;
    const di_api_batch_result result = {
        .custom_id = item->custom_id,
        .line = item->line,
        .hash = item->hash,
        .http_status = error != NULL ? error->http_status : 200,
        .body = body,
        .body_bytes = bytes,
        .error = error,
    };
    const di_exit code = di_batch_output_add(run->output, &result);
    if (code != DI_EXIT_OK)
        return code;
    item->is_done = true;
    run->progress->n_done++;
    run->progress->n_failed += error != NULL;
    return DI_EXIT_OK;
}

/* The response of a job whose results are all there; on failure its error is set. */
static di_status write_response(const desk *self, job *j, char **body, size_t *bytes)
{
    di_api_response response;
    di_status status = di_api_response_begin(j->request, self->run->model_name, &response);
    if (status == DI_OK)
        status = di_api_response_write(self->run->model, j->request, &response,
                                       (const di_result *const *)j->results, body, bytes);
    if (status != DI_OK) {
        di_api_error_set(status, di_last_error(), &j->error);
        j->has_failed = true;
    }
    return status;
}

static void count_tokens(di_batch_progress *progress, const job *j)
{
    for (size_t i = 0; i < j->request->n_prompts; i++)
        if (j->results[i] != NULL)
            progress->n_prompt_tokens += j->results[i]->n_prompt_token_ids;
}

static di_exit finish_job(desk *self, job *j)
{
    char *body = NULL;
    size_t bytes = 0;
    if (!j->has_failed)
        (void)!write_response(self, j, &body, &bytes);
    count_tokens(self->run->progress, j);
    const di_exit code = write_result(self, j->item, j->has_failed ? &j->error : NULL, body, bytes);
    di_free(body);
    free_job(j);
    return code;
}

/* ---------------------------------------------------------------------------------- submission */

static void fail_job(desk *self, job *j, di_status status, const char *text)
{
    if (j->has_failed)
        return;
    j->has_failed = true;
    di_api_error_set(status, text, &j->error);
    for (size_t i = 0; i < self->n; i++)
        if (self->tickets[i].owner == j)
            di_engine_cancel(self->run->engine, self->tickets[i].id);
}

static void add_ticket(desk *self, di_request_id id, job *j, size_t prompt)
{
    if (self->n == self->capacity) {
        self->capacity = self->capacity > 0 ? 2 * self->capacity : 64;
        self->tickets = di_app_resize(self->tickets, self->capacity, sizeof *self->tickets);
    }
    self->tickets[self->n++] = (ticket){.id = id, .owner = j, .prompt = prompt};
    self->n_seqs += (size_t)j->request->prompts[prompt].sampling.n;
}

static di_exit submit_job(desk *self, job *j)
{
    for (size_t i = 0; i < j->request->n_prompts && !j->has_failed; i++) {
        di_request_id id = 0;
        const di_status status = di_engine_submit(self->run->engine, &j->request->prompts[i], &id);
        if (status != DI_OK) {
            fail_job(self, j, status, di_last_error());
            break;
        }
        add_ticket(self, id, j, i);
        j->n_submitted++;
    }
    return j->n_submitted == 0 ? finish_job(self, j) : DI_EXIT_OK;
}

static di_exit start_request(desk *self, di_batch_item *item, const di_api_batch_line *line)
{
    di_api_request *request = NULL;
    di_api_error error;
    di_status status = di_api_request_read(self->run->model, line->endpoint, line->body,
                                           line->body_bytes, &request, &error);
    if (status == DI_OK && request->is_stream) {
        status = DI_ERR_UNSUPPORTED;
        di_api_error_set(status, "stream: found true, wanted false: a batch file has no streams",
                         &error);
    }
    if (status != DI_OK) {
        di_api_request_free(request);
        return write_result(self, item, &error, NULL, 0);
    }
    job *j = di_app_alloc(sizeof *j);
    *j = (job){.item = item, .request = request};
    j->results = di_app_alloc(request->n_prompts * sizeof(di_result *));
    for (size_t i = 0; i < request->n_prompts; i++)
        j->results[i] = NULL;
    return submit_job(self, j);
}

static di_exit start_item(desk *self, di_batch_item *item)
{
    di_api_batch_line *line = NULL;
    const di_status status = di_api_batch_line_read(item->text, item->bytes, &line);
    if (status != DI_OK)
        return di_app_fail_status(status, self->run->input->name);
    const di_exit code = line->is_bad ? write_result(self, item, &line->error, NULL, 0)
                                      : start_request(self, item, line);
    di_api_batch_line_free(line);
    return code;
}

static di_exit fill(desk *self)
{
    di_batch_input *input = self->run->input;
    di_exit code = DI_EXIT_OK;
    while (code == DI_EXIT_OK && self->next < input->n && self->n_seqs < self->run->max_seqs &&
           !di_app_interrupted()) {
        di_batch_item *item = &input->items[self->next++];
        if (!item->is_done)
            code = start_item(self, item);
        di_batch_progress_update(self->run->progress);
    }
    return code;
}

/* ------------------------------------------------------------------------------------- the loop */

static ticket *find_ticket(const desk *self, di_request_id id)
{
    size_t low = 0;
    size_t high = self->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (self->tickets[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < self->n && self->tickets[low].id == id ? &self->tickets[low] : NULL;
}

/* Takes a ticket's result if all its samples have finished, and ends its job if it was the last. */
static di_exit collect(desk *self, ticket *t)
{
    job *j = t->owner;
    const size_t prompt = t->prompt;
    const di_status status = di_engine_take_result(self->run->engine, t->id, &j->results[prompt]);
    if (status == DI_ERR_ARGUMENT)
        return DI_EXIT_OK; /* unfinished */
    if (status != DI_OK)
        return di_app_fail_status(status, NULL);
    const size_t at = (size_t)(t - self->tickets);
    memmove(t, t + 1, (self->n - at - 1) * sizeof *t);
    self->n--;
    self->n_seqs -= (size_t)j->request->prompts[prompt].sampling.n;
    for (const di_result *r = j->results[prompt]; r != NULL; r = r->next)
        if (r->finish_reason == DI_FINISH_ERROR)
            fail_job(self, j, r->status, r->error);
    j->n_finished++;
    return j->n_finished == j->n_submitted ? finish_job(self, j) : DI_EXIT_OK;
}

static di_exit drain(desk *self)
{
    di_output output;
    di_exit code = DI_EXIT_OK;
    while (code == DI_EXIT_OK && di_engine_poll(self->run->engine, &output)) {
        self->run->progress->n_new_tokens += output.n_token_ids;
        ticket *t = output.finish_reason != DI_FINISH_NONE ? find_ticket(self, output.id) : NULL;
        if (t != NULL)
            code = collect(self, t);
    }
    return code;
}

/* Requests that are in the engine when it has no work left have finished without an output. */
static di_exit collect_silent(desk *self)
{
    while (self->n > 0) {
        const size_t n = self->n;
        const di_exit code = collect(self, &self->tickets[n - 1]);
        if (code != DI_EXIT_OK)
            return code;
        if (self->n == n)
            return di_app_fail(DI_EXIT_RUNTIME, "the engine has lost a request");
    }
    return DI_EXIT_OK;
}

static di_exit work(desk *self)
{
    for (;;) {
        di_exit code = fill(self);
        if (code != DI_EXIT_OK)
            return code;
        if (di_app_interrupted())
            return DI_EXIT_INTERRUPTED;
        if (self->n == 0 && self->next == self->run->input->n)
            return DI_EXIT_OK;
        bool has_work = false;
        const di_status status = di_engine_step(self->run->engine, &has_work);
        if (status != DI_OK)
            return di_app_fail_status(status, NULL);
        code = drain(self);
        if (code == DI_EXIT_OK && !has_work)
            code = collect_silent(self);
        if (code != DI_EXIT_OK)
            return code;
        di_batch_progress_update(self->run->progress);
    }
}

di_exit di_batch_run_all(di_batch_run *run)
{
    desk self = {.run = run};
    const di_exit code = work(&self);
    while (self.n > 0) { /* interrupted or failed: what is under way is done by the next run */
        job *j = self.tickets[0].owner;
        size_t n_kept = 0;
        for (size_t i = 0; i < self.n; i++)
            if (self.tickets[i].owner != j)
                self.tickets[n_kept++] = self.tickets[i];
        self.n = n_kept;
        free_job(j);
    }
    free(self.tickets);
    return code;
}
