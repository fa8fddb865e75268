/* `deepinfer batch` on the tiny checkpoint: answers, errors, and going on after a kill. */
#define _GNU_SOURCE /* memrchr */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli_fixtures.h"
#include "process.h"

enum { MAX_ARGS = 32 };

/* ------------------------------------------------------------------------------------ the program
 */

static void start(const char *in, const char *out, const char *const *extra, di_process *process)
{
    static char in_path[256], out_path[256];
    snprintf(in_path, sizeof in_path, "%s/%s", di_cli_tmp, in);
    snprintf(out_path, sizeof out_path, "%s/%s", di_cli_tmp, out);
    const char *args[MAX_ARGS] = {"batch", "-m", DI_CLI_TINY, "-i", in_path, "-o", out_path};
    for (size_t i = 0; extra && extra[i]; i++)
        args[7 + i] = extra[i];
    di_process_start(&(di_process_options){.args = args}, process);
}

/* Its stderr, valid until the next run. */
static const char *run(int wanted_code, const char *in, const char *out, const char *const *extra)
{
    static di_process process;
    di_process_free(&process);
    start(in, out, extra, &process);
    di_process_wait(&process);
    if (process.code != wanted_code)
        fail_msg("code %d, wanted %d; stderr: %s", process.code, wanted_code, process.err);
    assert_int_equal(process.out_bytes, 0);
    return process.err;
}
#define EXTRA(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Takes away what two runs of one request may differ in. */
static void normalise(json_t *line)
{
    json_t *response = json_object_get(line, "response");
    json_t *body = json_object_get(response, "body");
    assert_true(strlen(json_string_value(json_object_get(line, "id"))) > 10);
    json_object_del(line, "id");
    json_object_del(response, "request_id");
    json_object_del(body, "id");
    json_object_del(body, "created");
}

/* {custom_id or "line N": the line}; each once. */
static json_t *results(const char *name)
{
    size_t bytes = 0;
    char *text = di_cli_read(name, &bytes);
    assert_non_null(text);
    assert_true(bytes == 0 || text[bytes - 1] == '\n');
    json_t *all = json_object();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (!object)
            fail_msg("no JSON: %s", line);
        normalise(object);
        char key[64];
        const char *id = json_string_value(json_object_get(object, "custom_id"));
        const long long number = json_integer_value(json_object_get(object, "line"));
        if (id)
            snprintf(key, sizeof key, "%s", id);
        else
            snprintf(key, sizeof key, "line %lld", number);
        assert_null(json_object_get(all, key));
        json_object_set_new(all, key, object);
    }
    free(text);
    return all;
}

static const json_t *at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        fail_msg("no %s", key);
    return value;
}

static const json_t *body_of(const json_t *all, const char *id)
{
    return at(at(at(all, id), "response"), "body");
}

static const json_t *choice_of(const json_t *all, const char *id, size_t index)
{
    const json_t *choice = json_array_get(at(body_of(all, id), "choices"), index);
    assert_non_null(choice);
    return choice;
}

static json_int_t status_of(const json_t *all, const char *id)
{
    return json_integer_value(at(at(at(all, id), "response"), "status_code"));
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(at(object, key));
    assert_non_null(text);
    return text;
}

static void write_text(const char *name, const char *text)
{
    di_cli_write(name, text, strlen(text));
}

static void add_line(FILE *out, const char *id, const char *path, const char *body)
{
    fprintf(out,
            "{\"custom_id\": \"%s\", \"method\": \"POST\", \"url\": \"/v1/%s\", \"body\": %s}\n",
            id, path, body);
}

static FILE *create(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", di_cli_tmp, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

/* ---------------------------------------------------------------------------------- the bug cases
 */

static json_t *bug_case(const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s/cases/bugs/%s", DI_TEST_DATA, path);
    json_t *list = json_load_file(full, JSON_ALLOW_NUL, NULL);
    assert_non_null(list);
    return list;
}

/* Each request as a line with the id of its index; `more` is added to every body. */
static void write_case(const char *name, const json_t *list, const char *more)
{
    FILE *out = create(name);
    size_t i;
    json_t *request;
    json_array_foreach(list, i, request)
    {
        json_t *body = json_loads(more, 0, NULL);
        assert_non_null(body);
        json_object_update(body, request);
        json_object_del(body, "expect");
        json_object_del(body, "logits_hint");
        char id[32];
        snprintf(id, sizeof id, "%zu", i);
        char *text = json_dumps(body, 0);
        add_line(out, id, json_object_get(body, "messages") ? "chat/completions" : "completions",
                 text);
        free(text);
        json_decref(body);
    }
    fclose(out);
}

static void empty_prompts_are_refused_and_the_others_answer(void **state)
{
    (void)state;
    json_t *list = bug_case("K01/requests.json");
    assert_int_equal(json_array_size(list), 6);
    write_case("k01.jsonl", list, "{\"max_tokens\": 4}");
    const char *err = run(3, "k01.jsonl", "k01.out", NULL);
    assert_non_null(strstr(err, "6 of 6 requests done, 4 failed, 0 kept from before"));
    json_t *all = results("k01.out");
    assert_int_equal(json_object_size(all), 6);
    static const char *const refused[] = {"0", "1", "2", "3"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(status_of(all, refused[i]), 400);
        const json_t *error = at(body_of(all, refused[i]), "error");
        assert_string_equal(text_at(error, "param"), i < 3 ? "prompt" : "prompt_token_ids");
        assert_string_equal(text_at(at(at(all, refused[i]), "error"), "message"),
                            text_at(error, "message"));
    }
    for (const char *id = "4"; *id < '6'; id = *id == '4' ? "5" : "6") {
        assert_int_equal(status_of(all, id), 200);
        assert_true(json_is_null(at(at(all, id), "error")));
        assert_string_equal(text_at(choice_of(all, id, 0), "finish_reason"), "length");
        assert_int_equal(json_integer_value(at(at(body_of(all, id), "usage"), "completion_tokens")),
                         4);
    }
    assert_string_equal(text_at(at(choice_of(all, "4", 0), "message"), "role"), "assistant");
    json_decref(all);
    json_decref(list);
}

static void logit_biases_are_refused_by_name_or_work(void **state)
{
    (void)state;
    json_t *list = bug_case("M08/requests.json");
    json_array_append_new(list, json_pack("{s:{s:f}}", "logit_bias", "77", 1e30));
    write_case("m08.jsonl", list,
               "{\"prompt\": \"ok\", \"max_tokens\": 3, \"return_token_ids\": true}");
    run(3, "m08.jsonl", "m08.out", NULL);
    json_t *all = results("m08.out");
    /* 33310 is outside the tiny vocabulary too. */
    static const char *const keys[] = {"191222", "-1", "abc", "33310", "33310"};
    static const char *const ids[] = {"0", "1", "2", "3", "4"};
    for (size_t i = 0; i < 5; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted,
                 "logit_bias: found the key \"%s\", wanted a token id from 0 to 1279", keys[i]);
        assert_string_equal(text_at(at(body_of(all, ids[i]), "error"), "message"), wanted);
        assert_string_equal(text_at(at(body_of(all, ids[i]), "error"), "param"), "logit_bias");
    }
    const json_t *tokens = at(choice_of(all, "5", 0), "token_ids");
    assert_int_equal(json_array_size(tokens), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_integer_value(json_array_get(tokens, i)), 77);
    json_decref(all);
    json_decref(list);
}

/* --------------------------------------------------------------------------------------- sampling
 */

static const char seeded[] = "{\"prompt\": \"Once\", \"temperature\": 0.8, \"max_tokens\": 16, "
                             "\"seed\": 42, \"n\": 2, \"return_token_ids\": true}";

static void a_seed_means_the_same_in_any_company(void **state)
{
    (void)state;
    json_t *first = NULL;
    static const int neighbours[] = {0, 1, 31, 31};
    for (size_t i = 0; i < 4; i++) {
        FILE *out = create("m01.jsonl");
        for (int k = 0; k < neighbours[i]; k++) {
            char id[16];
            snprintf(id, sizeof id, "n%d", k);
            add_line(out, id, "completions",
                     "{\"prompt\": \"A neighbour\", \"temperature\": 0.8, \"max_tokens\": 16}");
            if (k == neighbours[i] / 2)
                add_line(out, "seeded", "completions", seeded);
        }
        if (neighbours[i] == 0)
            add_line(out, "seeded", "completions", seeded);
        fclose(out);
        run(0, "m01.jsonl", "m01.out",
            i == 3 ? EXTRA("--overwrite", "--max-seqs", "3", "--async-scheduling", "off")
                   : EXTRA("--overwrite"));
        json_t *all = results("m01.out");
        assert_int_equal(json_object_size(all), neighbours[i] + 1);
        json_t *choices = json_deep_copy(at(body_of(all, "seeded"), "choices"));
        assert_int_equal(json_array_size(choices), 2);
        if (!first)
            first = json_incref(choices);
        assert_true(json_equal(first, choices));
        json_decref(choices);
        json_decref(all);
    }
    const json_t *a = at(json_array_get(first, 0), "token_ids");
    const json_t *b = at(json_array_get(first, 1), "token_ids");
    assert_false(json_equal(a, b)); /* samples have their own noise */
    json_decref(first);
}

static void without_a_seed_runs_differ_and_can_be_repeated(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\": \"Once\", \"temperature\": 0.7, \"max_tokens\": 16, "
                               "\"return_token_ids\": true%s}";
    FILE *out = create("m02.jsonl");
    static const char *const ids[] = {"a", "b", "c"};
    char text[256];
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, body, "");
        add_line(out, ids[i], "completions", text);
    }
    fclose(out);
    run(0, "m02.jsonl", "m02.out", NULL);
    json_t *all = results("m02.out");
    for (size_t i = 0; i < 3; i++)
        assert_false(json_equal(at(choice_of(all, ids[i], 0), "token_ids"),
                                at(choice_of(all, ids[(i + 1) % 3], 0), "token_ids")));
    char seed[64];
    snprintf(seed, sizeof seed, ", \"seed\": %lld",
             (long long)json_integer_value(at(choice_of(all, "b", 0), "seed")));
    snprintf(text, sizeof text, body, seed);
    out = create("m02b.jsonl");
    add_line(out, "again", "completions", text);
    fclose(out);
    run(0, "m02b.jsonl", "m02b.out", NULL);
    json_t *again = results("m02b.out");
    assert_true(json_equal(choice_of(again, "again", 0), choice_of(all, "b", 0)));
    json_decref(again);
    json_decref(all);
}

static void several_prompts_and_logprobs(void **state)
{
    (void)state;
    FILE *out = create("many.jsonl");
    add_line(out, "many", "completions",
             "{\"prompt\": [[5, 6], [5, 6, 7]], \"n\": 2, \"max_tokens\": 3, \"seed\": 1, "
             "\"ignore_eos\": true, \"logprobs\": 1, \"echo\": true}");
    add_line(out, "chat", "chat/completions",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"max_tokens\": 3, "
             "\"seed\": 1, \"ignore_eos\": true, \"logprobs\": true, \"top_logprobs\": 2}");
    add_line(out, "echo", "completions",
             "{\"prompt\": \"née\", \"max_tokens\": 0, \"logprobs\": 0, \"echo\": true}");
    fclose(out);
    run(0, "many.jsonl", "many.out", NULL);
    json_t *all = results("many.out");
    const json_t *usage = at(body_of(all, "many"), "usage");
    assert_int_equal(json_integer_value(at(usage, "prompt_tokens")), 2 + 3);
    assert_int_equal(json_integer_value(at(usage, "completion_tokens")), 4 * 3);
    assert_int_equal(json_integer_value(at(usage, "total_tokens")), 17);
    assert_int_equal(json_array_size(at(body_of(all, "many"), "choices")), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *choice = choice_of(all, "many", i);
        const size_t n_prompt = i < 2 ? 2 : 3;
        assert_int_equal(json_integer_value(at(choice, "index")), i);
        const json_t *logprobs = at(choice, "logprobs");
        static const char *const lists[] = {"tokens", "token_logprobs", "top_logprobs",
                                            "text_offset"};
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(json_array_size(at(logprobs, lists[k])), n_prompt + 3);
        assert_true(json_is_null(json_array_get(at(logprobs, "token_logprobs"), 0)));
        for (size_t k = 1; k < n_prompt + 3; k++)
            assert_true(json_number_value(json_array_get(at(logprobs, "token_logprobs"), k)) <= 0);
    }
    const json_t *echo = choice_of(all, "echo", 0);
    assert_string_equal(text_at(echo, "text"), "née");
    assert_string_equal(text_at(echo, "finish_reason"), "length");
    assert_int_equal(json_array_size(at(at(echo, "logprobs"), "tokens")),
                     json_integer_value(at(at(body_of(all, "echo"), "usage"), "prompt_tokens")));
    const json_t *content = at(at(choice_of(all, "chat", 0), "logprobs"), "content");
    assert_int_equal(json_array_size(content), 3);
    assert_int_equal(json_array_size(at(json_array_get(content, 0), "top_logprobs")), 2);
    json_decref(all);
}

/* ------------------------------------------------------------------------------------- per request
 */

static void errors_do_not_end_the_run(void **state)
{
    (void)state;
    FILE *out = create("errors.jsonl");
    add_line(out, "good", "completions", "{\"prompt\": \"x\", \"max_tokens\": 2}");
    add_line(out, "stream", "completions", "{\"prompt\": \"x\", \"stream\": true}");
    add_line(out, "url", "embeddings", "{}");
    add_line(out, "role", "chat/completions", "{\"messages\": [{\"role\": \"x\"}]}");
    add_line(out, "image", "chat/completions",
             "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
             "\"image_url\": {\"url\": \"u\"}}]}]}");
    fputs("\n{not json\n", out);
    add_line(out, "late", "completions",
             "{\"prompt\": [\"x\", \"y\"], \"n\": 2, \"max_tokens\": 100000, \"ignore_eos\": "
             "true, \"timeout\": 0.001}");
    fprintf(out, "{\"custom_id\": \"long\", \"method\": \"POST\", \"url\": \"/v1/completions\", "
                 "\"body\": {\"prompt\": [\"fits\", [5");
    for (int i = 0; i < 200000; i++)
        fputs(",5", out);
    fputs("]]}}\n", out);
    fclose(out);
    /* The mixed prompt list of "long" is refused as a whole. */
    run(3, "errors.jsonl", "errors.out", EXTRA("-q"));
    json_t *all = results("errors.out");
    assert_int_equal(json_object_size(all), 8);
    assert_int_equal(status_of(all, "good"), 200);
    static const struct {
        const char *id, *code, *message;
        int status;
    } rows[] = {
        {"stream", "unsupported_value",
         "stream: found true, wanted false: a batch file has no streams", 400},
        {"url", "invalid_line",
         "url: found \"/v1/embeddings\", wanted /v1/chat/completions or /v1/completions", 400},
        {"role", "invalid_value", "messages[0].role: found \"x\", wanted", 400},
        {"image", "unsupported_value", "messages: found 1 images, wanted none", 400},
        {"late", "timeout", "timeout", 408},
        {"long", "invalid_value", "prompt[1]: found an array, wanted a string", 400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *error = at(at(all, rows[i].id), "error");
        assert_int_equal(status_of(all, rows[i].id), rows[i].status);
        assert_string_equal(text_at(error, "code"), rows[i].code);
        if (strncmp(text_at(error, "message"), rows[i].message, strlen(rows[i].message)) != 0)
            fail_msg("%s: %s", rows[i].id, text_at(error, "message"));
    }
    assert_string_equal(text_at(at(at(all, "line 7"), "error"), "code"), "invalid_line");
    assert_true(json_is_null(at(at(all, "line 7"), "response")));
    json_decref(all);
    /* Nothing is left to do: the exit code is that of the results. */
    const char *err = run(3, "errors.jsonl", "errors.out", NULL);
    assert_non_null(strstr(err, "8 of 8 requests done, 7 failed, 8 kept from before"));
}

/* ---------------------------------------------------------------------------------------- resuming
 */

enum { N_REQUESTS = 40 };

static void write_requests(const char *name)
{
    FILE *out = create(name);
    for (int i = 0; i < N_REQUESTS; i++) {
        char id[16], body[256];
        snprintf(id, sizeof id, "r%d", i);
        snprintf(body, sizeof body,
                 i % 7 == 3 ? "{\"prompt\": \"\"}"
                            : "{\"prompt\": \"Request %d\", \"max_tokens\": %d, \"seed\": %d, "
                              "\"n\": %d, \"ignore_eos\": true}",
                 i, 8 + i % 5, i, 1 + i % 3);
        add_line(out, id, "completions", body);
        if (i == 20)
            fputs("no request\n", out);
    }
    fclose(out);
}

static size_t count_lines(const char *name)
{
    size_t bytes = 0, n = 0;
    char *text = di_cli_read(name, &bytes);
    for (size_t i = 0; text && i < bytes; i++)
        n += text[i] == '\n';
    free(text);
    return n;
}

/* Kills the run once it has written n_lines more. */
static void run_killed(const char *in, const char *out, size_t n_lines, int signal_number)
{
    di_process process;
    const size_t n_before = count_lines(out);
    start(in, out, EXTRA("--max-seqs", "4"), &process);
    while (count_lines(out) < n_before + n_lines)
        usleep(500);
    assert_int_equal(kill(process.pid, signal_number), 0);
    di_process_wait(&process);
    assert_int_equal(process.code, signal_number == SIGKILL ? 128 + SIGKILL : 130);
    di_process_free(&process);
    assert_true(count_lines(out) >= n_before + n_lines);
}

static void a_killed_run_goes_on(void **state)
{
    (void)state;
    write_requests("resume.jsonl");
    run(3, "resume.jsonl", "whole.out", NULL);
    json_t *whole = results("whole.out");
    assert_int_equal(json_object_size(whole), N_REQUESTS + 1);
    for (size_t i = 0; i < 4; i++)
        run_killed("resume.jsonl", "killed.out", 1 + 2 * i, i == 2 ? SIGINT : SIGKILL);
    size_t bytes = 0;
    char *before = di_cli_read("killed.out", &bytes);
    const char *last = memrchr(before, '\n', bytes); /* the rest may be torn */
    const size_t n_kept = (size_t)(last + 1 - before);
    const char *err = run(3, "resume.jsonl", "killed.out", NULL);
    char wanted[64];
    size_t n_lines = 0;
    for (size_t i = 0; i < n_kept; i++)
        n_lines += before[i] == '\n';
    assert_in_range(n_lines, 16, N_REQUESTS);
    snprintf(wanted, sizeof wanted, ", %zu kept from before", n_lines);
    assert_non_null(strstr(err, wanted));
    size_t bytes_after = 0;
    char *after = di_cli_read("killed.out", &bytes_after);
    assert_true(bytes_after > n_kept);
    assert_memory_equal(before, after, n_kept); /* finished lines are kept as they are */
    json_t *killed = results("killed.out");
    assert_true(json_equal(killed, whole));
    json_decref(killed);
    json_decref(whole);
    free(before);
    free(after);
}

static void a_torn_line_is_cut(void **state)
{
    (void)state;
    write_requests("torn.jsonl");
    run(3, "torn.jsonl", "torn.out", NULL);
    json_t *whole = results("torn.out");
    size_t bytes = 0;
    char *text = di_cli_read("torn.out", &bytes);
    text[bytes - 1] = '\0';
    const size_t n_last = strlen(strrchr(text, '\n') + 1);
    static const size_t cuts[] = {1, 2, 9, 30, 100};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        /* The last one without its newline too: it may be whole, but nothing says so. */
        const size_t left = i == 0 ? n_last : cuts[i];
        text[bytes - 1] = '\n';
        di_cli_write("torn.out", text, bytes - 1 - n_last + left);
        const char *err = run(3, "torn.jsonl", "torn.out", NULL);
        assert_non_null(strstr(err, "torn.out: cutting off the unfinished line 41"));
        assert_non_null(strstr(err, ", 40 kept from before"));
        json_t *again = results("torn.out");
        assert_true(json_equal(again, whole));
        json_decref(again);
    }
    free(text);
    json_decref(whole);
}

static void check_untouched(const char *name, const char *data, size_t bytes)
{
    size_t n = 0;
    char *now = di_cli_read(name, &n);
    assert_int_equal(n, bytes);
    assert_memory_equal(now, data, bytes);
    free(now);
}

static void a_changed_input_is_noticed(void **state)
{
    (void)state;
    static const char format[] =
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
        "{\"prompt\": \"%s\", \"max_tokens\": 2}}\n";
    char text[256];
    snprintf(text, sizeof text, format, "one");
    write_text("changed.jsonl", text);
    run(0, "changed.jsonl", "changed.out", NULL);
    size_t bytes = 0;
    char *first = di_cli_read("changed.out", &bytes);

    snprintf(text, sizeof text, format, "two");
    write_text("changed.jsonl", text);
    assert_non_null(strstr(run(3, "changed.jsonl", "changed.out", NULL),
                           "changed.out: line 1: found a result of another request \"a\" than "
                           "line 1 of"));
    check_untouched("changed.out", first, bytes);

    text[15] = 'b';
    write_text("changed.jsonl", text);
    assert_non_null(strstr(run(3, "changed.jsonl", "changed.out", NULL),
                           "found a result of \"a\" (line 1), which is not in"));
    check_untouched("changed.out", first, bytes);
    free(first);

    run(0, "changed.jsonl", "changed.out", EXTRA("--overwrite"));
    json_t *all = results("changed.out");
    assert_int_equal(json_object_size(all), 1);
    assert_int_equal(status_of(all, "b"), 200);
    json_decref(all);

    /* More requests than before are fine. */
    char more[512];
    snprintf(more, sizeof more, "%s", text);
    text[15] = 'c';
    strncat(more, text, sizeof more - strlen(more) - 1);
    write_text("changed.jsonl", more);
    assert_non_null(strstr(run(0, "changed.jsonl", "changed.out", NULL), "1 kept from before"));
    assert_int_equal(count_lines("changed.out"), 2);
}

static void other_files_are_left_alone(void **state)
{
    (void)state;
    write_text("one.jsonl", "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": "
                            "\"/v1/completions\", \"body\": {\"prompt\": \"x\"}}\n");
    static const char *const files[] = {"a letter to somebody", "two\nlines\n", "{\"x\": 1}\n"};
    for (size_t i = 0; i < 3; i++) {
        write_text("letter", files[i]);
        assert_non_null(strstr(run(3, "one.jsonl", "letter", NULL),
                               "letter: line 1: not a result of this program"));
        check_untouched("letter", files[i], strlen(files[i]));
    }
    assert_non_null(strstr(run(2, "one.jsonl", "one.jsonl", NULL), "it is the requests file too"));
    assert_non_null(strstr(run(2, "one.jsonl", "", NULL), "cannot write"));

    /* One run at a time. */
    char path[256];
    snprintf(path, sizeof path, "%s/locked.out", di_cli_tmp);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_non_null(strstr(run(2, "one.jsonl", "locked.out", NULL), "another run is writing it"));
    close(fd);
}

static void bad_files_are_told_before_a_model_is_opened(void **state)
{
    (void)state;
    write_text("twice.jsonl", "{\"custom_id\": \"a\"}\n{\"custom_id\": \"b\"}\n\n{\"custom_id\": "
                              "\"a\"}\n");
    assert_non_null(strstr(run(3, "twice.jsonl", "twice.out", NULL),
                           "twice.jsonl: line 4: custom_id \"a\" is that of line 1 too"));
    assert_false(di_cli_exists("twice.out"));
    assert_non_null(strstr(run(3, "missing.jsonl", "twice.out", NULL), "cannot open"));
    di_process process;
    di_process_run_args(&process, "batch", "-o", "x");
    assert_int_equal(process.code, 2);
    assert_string_equal(process.err, "deepinfer: no requests: give -i FILE\n");
    di_process_free(&process);
    di_process_run_args(&process, "batch", "-i", "x");
    assert_int_equal(process.code, 2);
    assert_string_equal(process.err, "deepinfer: no file for the results: give -o FILE\n");
    di_process_free(&process);
    write_text("empty.jsonl", "\n \n");
    assert_non_null(strstr(run(0, "empty.jsonl", "empty.out", NULL), "0 of 0 requests done"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_prompts_are_refused_and_the_others_answer),
        cmocka_unit_test(logit_biases_are_refused_by_name_or_work),
        cmocka_unit_test(a_seed_means_the_same_in_any_company),
        cmocka_unit_test(without_a_seed_runs_differ_and_can_be_repeated),
        cmocka_unit_test(several_prompts_and_logprobs),
        cmocka_unit_test(errors_do_not_end_the_run),
        cmocka_unit_test(a_killed_run_goes_on),
        cmocka_unit_test(a_torn_line_is_cut),
        cmocka_unit_test(a_changed_input_is_noticed),
        cmocka_unit_test(other_files_are_left_alone),
        cmocka_unit_test(bad_files_are_told_before_a_model_is_opened),
    };
    return cmocka_run_group_tests(tests, di_cli_setup, di_cli_teardown);
}
