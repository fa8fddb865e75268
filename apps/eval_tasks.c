#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval.h"
#include "ids_file.h"
#include "json_out.h"
#include "model.h"

/* One line of a file. */
typedef struct task {
    json_t *object;   /* the line */
    const char *name; /* of its kind, borrowed from object */
    char *request;    /* the chat request */
    bool is_thinking;
    di_request_id id; /* while it runs, else 0 */
    bool has_ended;   /* its last output has come */
    bool is_done;
    bool is_right;
    char *answer; /* malloc'ed; NULL if it failed */
    char *error;
    size_t n_tokens;
    di_finish_reason finish_reason;
} task;

typedef struct task_list {
    task *items;
    size_t n;
} task_list;

static void free_tasks(task_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        json_decref(list->items[i].object);
        free(list->items[i].request);
        free(list->items[i].answer);
        free(list->items[i].error);
    }
    free(list->items);
}

/* -------------------------------------------------------------------------------------- reading */

static bool is_text_list(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            return false;
    return json_is_array(value);
}

/* What is wrong with a line; NULL: nothing. */
static const char *problem_of(const json_t *object)
{
    const json_t *expected = json_object_get(object, "expected");
    const json_t *accept = json_object_get(object, "accept");
    const json_t *name = json_object_get(object, "task");
    if (!json_is_object(object))
        return "found no object";
    if (json_array_size(json_object_get(object, "messages")) == 0)
        return "\"messages\": found none, wanted an array of messages";
    if (expected != NULL && !json_is_string(expected))
        return "\"expected\": wanted a text";
    if (accept != NULL && !is_text_list(accept))
        return "\"accept\": wanted an array of texts";
    if (expected == NULL && json_array_size(accept) == 0)
        return "no \"expected\" and no \"accept\": wanted a right answer";
    if (name != NULL && !json_is_string(name))
        return "\"task\": wanted a text";
    return NULL;
}

static bool has_role(const json_t *message, const char *role)
{
    const char *found = json_string_value(json_object_get(message, "role"));
    return found != NULL && strcmp(found, role) == 0;
}

/* The line as a chat request: the answer that a last assistant message gives is left out. */
static char *request_of(const json_t *object)
{
    static const char *const keys[] = {"thinking_mode", "reasoning_effort", "tools"};
    const json_t *all = json_object_get(object, "messages");
    size_t n = json_array_size(all);
    if (has_role(json_array_get(all, n - 1), "assistant"))
        n--;
    json_t *messages = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append(messages, json_array_get(all, i));
    json_t *request = json_pack("{s:o}", "messages", messages);
    for (size_t i = 0; i < DI_COUNT(keys); i++)
        if (json_object_get(object, keys[i]) != NULL)
            json_object_set(request, keys[i], json_object_get(object, keys[i]));
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    if (text == NULL)
        di_app_out_of_memory();
    return text;
}

static di_exit add_line(task_list *list, const char *line, size_t bytes, const char *where)
{
    json_t *object = NULL;
    const di_exit code = di_app_json_parse(line, bytes, where, &object);
    if (code != DI_EXIT_OK)
        return code;
    const char *problem = problem_of(object);
    if (problem != NULL) {
        json_decref(object);
        return di_app_fail(DI_EXIT_INPUT, "%s: %s", where, problem);
    }
    const char *name = json_string_value(json_object_get(object, "task"));
    const char *mode = json_string_value(json_object_get(object, "thinking_mode"));
    list->items = di_app_grow(list->items, list->n, sizeof *list->items);
    list->items[list->n++] = (task){.object = object,
                                    .name = name != NULL ? name : "task",
                                    .request = request_of(object),
                                    .is_thinking = mode != NULL && strcmp(mode, "thinking") == 0};
    return DI_EXIT_OK;
}

static di_exit read_tasks(const char *path, int64_t limit, task_list *list)
{
    char *data = NULL;
    size_t bytes = 0;
    di_exit code = di_app_read_file(path, &data, &bytes);
    int64_t n_added = 0;
    size_t number = 1;
    for (size_t at = 0; code == DI_EXIT_OK && at < bytes && (limit == 0 || n_added < limit);
         number++) {
        const char *end = memchr(data + at, '\n', bytes - at);
        const size_t n = end != NULL ? (size_t)(end - data) - at : bytes - at;
        if (n > 0 && strspn(data + at, " \t\r") < n) {
            char *where = di_app_text("%s: line %zu", di_app_file_name(path), number);
            code = add_line(list, data + at, n, where);
            free(where);
            n_added++;
        }
        at += n + 1;
    }
    free(data);
    if (code == DI_EXIT_OK && n_added == 0)
        code = di_app_fail(DI_EXIT_INPUT, "%s: found no task", di_app_file_name(path));
    return code;
}

/* -------------------------------------------------------------------------------------- judging */

typedef struct span {
    const char *text;
    size_t n;
} span;

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static span trim(const char *text)
{
    while (is_space(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && is_space(text[n - 1]))
        n--;
    return (span){text, n};
}

static bool is_equal(const char *answer, const char *wanted)
{
    const span a = trim(answer), b = trim(wanted);
    return a.n == b.n && memcmp(a.text, b.text, a.n) == 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Without ASCII case and without a full stop at the end. */
static bool is_alike(const char *answer, const char *wanted)
{
    span a = trim(answer), b = trim(wanted);
    a.n -= a.n > 0 && a.text[a.n - 1] == '.';
    b.n -= b.n > 0 && b.text[b.n - 1] == '.';
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.text[i]) != lower(b.text[i]))
            return false;
    return true;
}

static bool is_right(const json_t *object, const char *answer)
{
    const json_t *expected = json_object_get(object, "expected");
    const json_t *accept = json_object_get(object, "accept");
    if (expected != NULL && is_equal(answer, json_string_value(expected)))
        return true;
    for (size_t i = 0; i < json_array_size(accept); i++)
        if (is_alike(answer, json_string_value(json_array_get(accept, i))))
            return true;
    return false;
}

/* The content of a completion; the whole text if it cannot be read as a message. */
static char *content_of(const task *self, const di_result *result)
{
    char *message = NULL;
    const char *mode = self->is_thinking ? "thinking" : "chat";
    char *content = NULL;
    if (di_chat_parse_text(result->text, result->text_bytes, mode, &message) == DI_OK) {
        json_t *object = json_loads(message, JSON_ALLOW_NUL, NULL);
        const char *text = json_string_value(json_object_get(object, "content"));
        content = di_app_text("%s", text != NULL ? text : "");
        json_decref(object);
    }
    di_free(message);
    return content != NULL ? content : di_app_text("%s", result->text);
}

/* -------------------------------------------------------------------------------------- running */

typedef struct run {
    const di_eval_tasks_args *args;
    di_engine *engine;
    task_list tasks;
    size_t n_submitted, n_running, n_done;
    bool is_tty;
    di_exit code; /* of the first task that failed */
} run;

static void fail_task(run *self, task *t, di_status status, const char *error)
{
    const char *id = json_string_value(json_object_get(t->object, "id"));
    t->error = di_app_text("%s", error[0] != '\0' ? error : di_status_name(status));
    t->is_done = true;
    self->n_done++;
    const di_exit code = status == DI_ERR_ARGUMENT ? DI_EXIT_INPUT : di_exit_of_status(status);
    di_app_fail(code, "task %zu%s%s: %s", (size_t)(t - self->tasks.items) + 1,
                id != NULL ? ", " : "", id != NULL ? id : "", t->error);
    self->code = di_exit_first(self->code, code);
}

static void submit(run *self, task *t)
{
    di_request request = DI_REQUEST_INIT;
    request.messages_json = t->request;
    request.sampling.temperature = 0;
    request.sampling.max_tokens = self->args->max_tokens;
    const di_status status = di_engine_submit(self->engine, &request, &t->id);
    if (status == DI_OK)
        self->n_running++;
    else
        fail_task(self, t, status, di_last_error());
}

static void judge(task *t, const di_result *result)
{
    t->answer = content_of(t, result);
    t->is_right = is_right(t->object, t->answer);
    t->n_tokens = result->n_token_ids;
    t->finish_reason = result->finish_reason;
}

/* A result may come a step after the last output, while a pass with the task is under way. */
static void take(run *self, task *t, bool has_work)
{
    di_result *result = NULL;
    const di_status status = di_engine_take_result(self->engine, t->id, &result);
    if (status == DI_ERR_ARGUMENT && has_work)
        return;
    t->id = 0;
    self->n_running--;
    if (status != DI_OK) {
        fail_task(self, t, status, di_last_error());
    } else if (result->finish_reason == DI_FINISH_ERROR) {
        fail_task(self, t, result->status, result->error);
    } else {
        judge(t, result);
        t->is_done = true;
        self->n_done++;
    }
    di_result_free(result);
}

static task *find(run *self, di_request_id id)
{
    for (size_t i = self->n_submitted; i-- > 0;)
        if (self->tasks.items[i].id == id)
            return &self->tasks.items[i];
    return NULL;
}

static void drain(run *self, bool has_work)
{
    di_output output;
    while (di_engine_poll(self->engine, &output)) {
        task *t = find(self, output.id);
        if (t != NULL && output.finish_reason != DI_FINISH_NONE)
            t->has_ended = true;
    }
    for (size_t i = 0; i < self->n_submitted; i++) {
        task *t = &self->tasks.items[i];
        if (t->has_ended && t->id != 0)
            take(self, t, has_work);
    }
    if (self->is_tty)
        fprintf(stderr, "\rdeepinfer: %zu of %zu tasks%s", self->n_done, self->tasks.n,
                self->n_done == self->tasks.n ? "\n" : "");
}

static di_exit run_all(run *self)
{
    while (self->n_done < self->tasks.n) {
        while (self->n_running < (size_t)self->args->batch && self->n_submitted < self->tasks.n)
            submit(self, &self->tasks.items[self->n_submitted++]);
        if (di_app_interrupted())
            return di_app_fail(DI_EXIT_INTERRUPTED, "interrupted after %zu of %zu tasks",
                               self->n_done, self->tasks.n);
        if (self->n_running == 0)
            continue;
        bool has_work = false;
        const di_status status = di_engine_step(self->engine, &has_work);
        if (status != DI_OK)
            return di_app_fail_status(status, NULL);
        drain(self, has_work);
        if (!has_work && self->n_running > 0)
            return di_app_fail(DI_EXIT_RUNTIME, "the engine lost %zu tasks", self->n_running);
    }
    return DI_EXIT_OK;
}

/* --------------------------------------------------------------------------------------- report */

/* Of one kind of task, or of all. */
typedef struct score {
    const char *name;
    size_t n, n_right, n_failed, n_cut;
} score;

static void count(score *s, const task *t)
{
    s->n++;
    s->n_right += t->is_right;
    s->n_failed += t->error != NULL;
    s->n_cut += t->error == NULL && t->finish_reason == DI_FINISH_LENGTH;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const score *)a)->name, ((const score *)b)->name);
}

/* By name; *n of them. Only what is done counts. */
static score *count_kinds(const task_list *tasks, size_t *n)
{
    score *kinds = NULL;
    *n = 0;
    for (size_t i = 0; i < tasks->n; i++) {
        const task *t = &tasks->items[i];
        if (!t->is_done)
            continue;
        size_t k = 0;
        while (k < *n && strcmp(kinds[k].name, t->name) != 0)
            k++;
        if (k == *n) {
            kinds = di_app_grow(kinds, *n, sizeof *kinds);
            kinds[(*n)++] = (score){.name = t->name};
        }
        count(&kinds[k], t);
    }
    if (*n > 1)
        qsort(kinds, *n, sizeof *kinds, compare_names);
    return kinds;
}

static double rate(const score *s)
{
    return s->n > 0 ? (double)s->n_right / (double)s->n : 0;
}

static void print_row(const score *s)
{
    printf("%8zu %8zu %8.2f%% %8zu %8zu  %s\n", s->n, s->n_right, 100 * rate(s), s->n_cut,
           s->n_failed, s->name);
}

static void write_score(const score *s)
{
    printf("{\"n\": %zu, \"right\": %zu, \"rate\": %.17g, \"cut\": %zu, \"failed\": %zu}", s->n,
           s->n_right, rate(s), s->n_cut, s->n_failed);
}

static void report(const run *self)
{
    size_t n = 0;
    score *kinds = count_kinds(&self->tasks, &n);
    score total = {.name = "all"};
    for (size_t i = 0; i < self->tasks.n; i++)
        if (self->tasks.items[i].is_done)
            count(&total, &self->tasks.items[i]);
    if (self->args->is_json)
        fputs("{\"tasks\": {", stdout);
    else
        printf("%8s %8s %9s %8s %8s  %s\n", "tasks", "right", "rate", "cut", "failed", "kind");
    for (size_t i = 0; i < n; i++) {
        if (!self->args->is_json) {
            print_row(&kinds[i]);
            continue;
        }
        fputs(i > 0 ? ", " : "", stdout);
        di_out_text(stdout, kinds[i].name, strlen(kinds[i].name));
        fputs(": ", stdout);
        write_score(&kinds[i]);
    }
    if (self->args->is_json) {
        fputs("}, \"total\": ", stdout);
        write_score(&total);
        fputs("}\n", stdout);
    } else {
        print_row(&total);
    }
    free(kinds);
}

static void write_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, ", \"%s\": ", key);
    di_out_text(out, text, strlen(text));
}

static void write_answer(FILE *out, size_t index, const task *t)
{
    const json_t *expected = json_object_get(t->object, "expected");
    const json_t *id = json_object_get(t->object, "id");
    fprintf(out, "{\"index\": %zu", index);
    if (json_is_string(id))
        write_text(out, "id", json_string_value(id));
    write_text(out, "task", t->name);
    if (expected != NULL)
        write_text(out, "expected", json_string_value(expected));
    if (t->error != NULL)
        write_text(out, "error", t->error);
    else
        write_text(out, "answer", t->answer);
    fprintf(out, ", \"right\": %s", t->is_right ? "true" : "false");
    if (t->error == NULL)
        fprintf(out, ", \"finish_reason\": \"%s\", \"tokens\": %zu",
                di_finish_reason_name(t->finish_reason), t->n_tokens);
    fputs("}\n", out);
}

/* ------------------------------------------------------------------------------------ the whole */

static di_exit run_with_model(run *self)
{
    di_model *model = NULL;
    di_exit code = di_app_model_open(&self->args->engine, &model);
    if (code != DI_EXIT_OK)
        return code;
    const di_status status = di_engine_create(model, &self->args->engine.options, &self->engine);
    code = status == DI_OK ? run_all(self) : di_app_fail_status(status, NULL);
    if (status == DI_OK && self->n_done > 0)
        report(self);
    di_engine_destroy(self->engine);
    di_model_close(model);
    return code == DI_EXIT_OK ? self->code : code;
}

static di_exit run_with_output(run *self)
{
    di_out_file out;
    const char *path = self->args->output;
    di_exit code = path != NULL ? di_out_file_open(path, &out) : DI_EXIT_OK;
    if (code != DI_EXIT_OK)
        return code;
    code = run_with_model(self);
    if (path == NULL)
        return code;
    for (size_t i = 0; i < self->tasks.n; i++)
        if (self->tasks.items[i].is_done)
            write_answer(out.file, i, &self->tasks.items[i]);
    if (self->n_done > 0)
        code = di_exit_first(code, di_out_file_commit(&out));
    di_out_file_abandon(&out);
    return code;
}

di_exit di_eval_tasks(const di_eval_tasks_args *args)
{
    run self = {.args = args, .is_tty = isatty(STDERR_FILENO) == 1};
    di_exit code = DI_EXIT_OK;
    for (size_t i = 0; i < args->files.n && code == DI_EXIT_OK; i++)
        code = read_tasks(args->files.items[i], args->limit, &self.tasks);
    if (code == DI_EXIT_OK)
        code = run_with_output(&self);
    free_tasks(&self.tasks);
    return code;
}
