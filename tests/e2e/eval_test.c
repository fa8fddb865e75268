/* `deepinfer eval` on the tiny checkpoint: its numbers against di_score's and di_generate's. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_fixtures.h"
#include "deepinfer/tools.h"
#include "process.h"

enum { MAX_ARGS = 24 };

static const char text_a[] = "Once upon a time there was a king who had three daughters.\n";
static const char text_b[] = "The fox ran.";

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

/* Runs `deepinfer eval KIND -m TINY ARGS...` with {TMP} filled in. */
static void run_eval(di_process *process, const char *kind, int wanted, const char *const *extra)
{
    const char *args[MAX_ARGS] = {"eval", kind, "-m", DI_CLI_TINY};
    char *owned[MAX_ARGS] = {NULL};
    for (size_t i = 0; extra[i] != NULL; i++)
        args[4 + i] = owned[i] = di_cli_expand(extra[i]);
    di_process_run(&(di_process_options){.args = args}, process);
    for (size_t i = 0; owned[i] != NULL; i++)
        free(owned[i]);
    if (process->code != wanted)
        fail_msg("code %d, wanted %d; stderr: %s", process->code, wanted, process->err);
}
#define RUN_EVAL(process, kind, wanted, ...)                                                       \
    run_eval(process, kind, wanted, (const char *const[]){__VA_ARGS__, NULL})

static json_t *eval_json(const char *kind, const char *const *extra)
{
    di_process process;
    run_eval(&process, kind, 0, extra);
    json_error_t error;
    json_t *object = json_loads(process.out, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (object == NULL)
        fail_msg("no JSON: %s: %s", error.text, process.out);
    di_process_free(&process);
    return object;
}
#define EVAL_JSON(kind, ...) eval_json(kind, (const char *const[]){__VA_ARGS__, NULL})

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("no number %s", key);
    return json_number_value(value);
}

static void expect_near(double found, double wanted, double slack)
{
    if (!(fabs(found - wanted) <= slack))
        fail_msg("found %.12g, wanted %.12g within %g", found, wanted, slack);
}

/* ------------------------------------------------------------------------------------------ ppl */

typedef struct log_rows {
    const int32_t *targets;
    double *bits; /* of each row's target */
} log_rows;

static bool on_row(void *user, int64_t position, const float *logits, int32_t vocab_size)
{
    const log_rows *rows = user;
    double sum = 0;
    for (int32_t i = 0; i < vocab_size; i++)
        sum += exp((double)logits[i]);
    rows->bits[position] = log2(sum) - (double)logits[rows->targets[position]] / log(2);
    return true;
}

/* Bits of tokens [first, end) of a text when [begin, end) follow the begin-of-sentence token. */
static double window_bits(di_model *model, const int32_t *ids, int64_t begin, int64_t first,
                          int64_t end)
{
    int32_t input[128] = {di_model_bos_id(model)};
    double bits[128], sum = 0;
    assert_in_range(end - begin, 1, 128);
    memcpy(input + 1, ids + begin, (size_t)(end - begin - 1) * sizeof *ids);
    log_rows rows = {ids + begin, bits};
    require(di_score(model, NULL, input, (size_t)(end - begin), NULL, on_row, &rows));
    for (int64_t i = first; i < end; i++)
        sum += bits[i - begin];
    return sum;
}

static void expect_cost(const json_t *cost, double bits, size_t tokens, size_t bytes)
{
    assert_int_equal((size_t)number(cost, "tokens"), tokens);
    assert_int_equal((size_t)number(cost, "bytes"), bytes);
    expect_near(number(cost, "bits"), bits, 1e-6 * bits);
    expect_near(number(cost, "bits_per_byte"), bits / (double)bytes, 1e-6);
    expect_near(number(cost, "nats_per_token"), bits * log(2) / (double)tokens, 1e-5);
    const double perplexity = pow(2, bits / (double)tokens);
    expect_near(number(cost, "perplexity"), perplexity, 1e-5 * perplexity);
}

typedef struct texts {
    di_model *model;
    int32_t *a, *b;
    size_t n_a, n_b;
} texts;

static texts open_texts(void)
{
    texts t = {NULL};
    di_cli_write("a.txt", text_a, strlen(text_a));
    di_cli_write("b.txt", text_b, strlen(text_b));
    require(di_model_open(DI_CLI_TINY, NULL, &t.model));
    require(di_tokenize(t.model, text_a, strlen(text_a), false, &t.a, &t.n_a));
    require(di_tokenize(t.model, text_b, strlen(text_b), false, &t.b, &t.n_b));
    assert_true(t.n_a > 16 && t.n_a < 100 && t.n_b > 1 && t.n_b < 16);
    return t;
}

static void close_texts(texts *t)
{
    di_free(t->a);
    di_free(t->b);
    di_model_close(t->model);
}

static void whole_texts(void **state)
{
    (void)state;
    texts t = open_texts();
    json_t *found = EVAL_JSON("ppl", "--json", "{TMP}/a.txt", "{TMP}/b.txt");
    const json_t *files = json_object_get(found, "files");
    assert_int_equal(json_array_size(files), 2);
    const double a = window_bits(t.model, t.a, 0, 0, (int64_t)t.n_a);
    const double b = window_bits(t.model, t.b, 0, 0, (int64_t)t.n_b);
    expect_cost(json_array_get(files, 0), a, t.n_a, strlen(text_a));
    expect_cost(json_array_get(files, 1), b, t.n_b, strlen(text_b));
    expect_cost(json_object_get(found, "total"), a + b, t.n_a + t.n_b,
                strlen(text_a) + strlen(text_b));
    assert_int_equal((int)number(found, "ctx"), 512); /* the context limit */
    assert_int_equal((int)number(found, "stride"), 512);
    json_decref(found);
    close_texts(&t);
}

static void windows(void **state)
{
    (void)state;
    texts t = open_texts();
    const int64_t n = (int64_t)t.n_a;
    static const struct {
        const char *ctx, *stride;
        int64_t window, step;
    } cases[] = {{"7", NULL, 7, 7}, {"8", "3", 8, 3}, {"5", "1", 5, 1}, {"1", NULL, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *stride = cases[i].stride != NULL ? "--stride" : NULL;
        json_t *found = EVAL_JSON("ppl", "--json", "--ctx", cases[i].ctx, "{TMP}/a.txt", stride,
                                  cases[i].stride);
        double bits = 0;
        for (int64_t token = 0; token < n; token++) {
            /* the first window that holds it */
            int64_t begin = 0;
            while (begin + cases[i].window <= token)
                begin += cases[i].step;
            bits += window_bits(t.model, t.a, begin, token, token + 1);
        }
        expect_cost(json_object_get(found, "total"), bits, t.n_a, strlen(text_a));
        json_decref(found);
    }
    close_texts(&t);
}

static void a_limit_counts_the_bytes_it_keeps(void **state)
{
    (void)state;
    texts t = open_texts();
    char *text = NULL;
    size_t bytes = 0;
    require(di_detokenize(t.model, t.a, 5, false, &text, &bytes));
    di_free(text);
    json_t *found = EVAL_JSON("ppl", "--json", "--limit", "5", "{TMP}/a.txt");
    expect_cost(json_object_get(found, "total"), window_bits(t.model, t.a, 0, 0, 5), 5, bytes);
    json_decref(found);
    close_texts(&t);
}

static void a_table_of_texts(void **state)
{
    (void)state;
    texts t = open_texts();
    char wanted[64];
    const double bits = window_bits(t.model, t.b, 0, 0, (int64_t)t.n_b);
    snprintf(wanted, sizeof wanted, "%10zu %10zu ", t.n_b, strlen(text_b));
    di_process process;
    RUN_EVAL(&process, "ppl", 0, "{TMP}/b.txt");
    assert_non_null(strstr(process.out, wanted));
    snprintf(wanted, sizeof wanted, " %10.5f  ", bits / (double)strlen(text_b));
    assert_non_null(strstr(process.out, wanted));
    assert_null(strstr(process.out, "  all\n"));
    di_process_free(&process);
    close_texts(&t);
}

/* ---------------------------------------------------------------------------------------- tasks */

enum { N_QUESTIONS = 12 };

/* What the model answers to "question I", through `run`. */
static json_t *ask(int i)
{
    char messages[256];
    const int n = snprintf(messages, sizeof messages,
                           "[{\"role\": \"user\", \"content\": \"question %d\"}]", i);
    di_cli_write("question.json", messages, (size_t)n);
    char *path = di_cli_expand("{TMP}/question.json");
    di_process process;
    di_process_run_args(&process, "run", "--json", "-m", DI_CLI_TINY, "--messages", path,
                        "--temperature", "0", "--max-tokens", "4");
    assert_int_equal(process.code, 0);
    json_t *result = json_loads(process.out, 0, NULL);
    assert_non_null(result);
    json_t *content = json_object_get(json_object_get(result, "message"), "content");
    assert_true(json_is_string(content));
    json_incref(content);
    json_decref(result);
    di_process_free(&process);
    free(path);
    return content;
}

/* The text with another case and a full stop. */
static char *disguise(const char *text)
{
    char *out = malloc(strlen(text) + 4);
    assert_non_null(out);
    snprintf(out, strlen(text) + 4, " %s. ", text);
    for (char *c = out; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    return out;
}

/* Line I by kind: 0 the right answer with white space round it, 1 a wrong one, 2 a disguised one
 * among "accept", 3 a disguised one as "expected" (wrong unless the disguise is none). */
static void add_line(FILE *out, int i, const char *answer)
{
    static const char *const kinds[] = {"exact", "wrong", "accepted", "strict"};
    char content[32], id[32];
    snprintf(content, sizeof content, "question %d", i);
    snprintf(id, sizeof id, "q%d", i);
    json_t *line = json_pack("{s:s, s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "id", id, "task",
                             kinds[i % 4], "messages", "role", "user", "content", content, "role",
                             "assistant", "content", "not looked at");
    assert_non_null(line);
    char *other = disguise(answer);
    char padded[512];
    snprintf(padded, sizeof padded, "\n %s  ", answer);
    if (i % 4 == 0)
        json_object_set_new(line, "expected", json_string(padded));
    else if (i % 4 == 1)
        json_object_set_new(line, "expected", json_string("no such answer"));
    else if (i % 4 == 2)
        json_object_set_new(line, "accept", json_pack("[s, s]", "nor this", other));
    else
        json_object_set_new(line, "expected", json_string(other));
    json_dumpf(line, out, JSON_COMPACT);
    fputs(i == 5 ? "\n\n" : "\n", out);
    json_decref(line);
    free(other);
}

static json_t *answers; /* of the model, [N_QUESTIONS] */

static void write_tasks(void)
{
    if (answers != NULL)
        return;
    answers = json_array();
    char *lines = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&lines, &n);
    assert_non_null(out);
    for (int i = 0; i < N_QUESTIONS; i++) {
        json_t *answer = ask(i);
        add_line(out, i, json_string_value(answer));
        json_array_append_new(answers, answer);
    }
    assert_int_equal(fclose(out), 0);
    di_cli_write("tasks.jsonl", lines, n);
    free(lines);
}

static void expect_score(const json_t *score, int n, int right, int cut, int failed)
{
    assert_int_equal((int)number(score, "n"), n);
    assert_int_equal((int)number(score, "right"), right);
    assert_int_equal((int)number(score, "cut"), cut);
    assert_int_equal((int)number(score, "failed"), failed);
    expect_near(number(score, "rate"), (double)right / n, 1e-12);
}

static void tasks_by_kind(void **state)
{
    (void)state;
    write_tasks();
    json_t *found = EVAL_JSON("tasks", "--json", "--max-tokens", "4", "{TMP}/tasks.jsonl");
    const json_t *kinds = json_object_get(found, "tasks");
    assert_int_equal(json_object_size(kinds), 4);
    expect_score(json_object_get(kinds, "exact"), 3, 3, 3, 0);
    expect_score(json_object_get(kinds, "wrong"), 3, 0, 3, 0);
    expect_score(json_object_get(kinds, "accepted"), 3, 3, 3, 0);
    expect_score(json_object_get(kinds, "strict"), 3, 0, 3, 0);
    expect_score(json_object_get(found, "total"), 12, 6, 12, 0);
    json_decref(found);
}

static void a_limit_takes_the_first(void **state)
{
    (void)state;
    write_tasks();
    json_t *found = EVAL_JSON("tasks", "--json", "--max-tokens", "4", "--limit", "5",
                              "{TMP}/tasks.jsonl", "{TMP}/tasks.jsonl");
    expect_score(json_object_get(found, "total"), 10, 6, 10, 0);
    json_decref(found);
}

static void answers_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    write_tasks();
    static const char *const batches[] = {"1", "5", "64"};
    char *first = NULL;
    for (size_t i = 0; i < 3; i++) {
        di_process process;
        RUN_EVAL(&process, "tasks", 0, "--max-tokens", "4", "--batch", batches[i],
                 "{TMP}/tasks.jsonl", "-o", "{TMP}/answers.jsonl");
        assert_non_null(strstr(process.out, "      12        6    50.00%       12        0  all"));
        di_process_free(&process);
        size_t n = 0;
        char *written = di_cli_read("answers.jsonl", &n);
        assert_non_null(written);
        if (first == NULL)
            first = strdup(written);
        assert_string_equal(written, first);
        free(written);
    }
    size_t i = 0;
    for (char *line = strtok(first, "\n"); line != NULL; line = strtok(NULL, "\n"), i++) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        assert_int_equal((int)number(object, "index"), i);
        assert_int_equal((int)number(object, "tokens"), 4);
        assert_true(json_equal(json_object_get(object, "answer"), json_array_get(answers, i)));
        assert_int_equal(json_is_true(json_object_get(object, "right")), i % 2 == 0);
        json_decref(object);
    }
    assert_int_equal(i, N_QUESTIONS);
    free(first);
}

static void a_task_that_cannot_run_fails_alone(void **state)
{
    (void)state;
    write_tasks();
    size_t n = 0;
    char *line = malloc(16384);
    assert_non_null(line);
    n += (size_t)snprintf(line, 16384,
                          "{\"id\": \"long\", \"expected\": \"x\", \"messages\": "
                          "[{\"role\": \"user\", \"content\": \"");
    for (int i = 0; i < 2000; i++)
        n += (size_t)snprintf(line + n, 16384 - n, "word ");
    n += (size_t)snprintf(line + n, 16384 - n, "\"}]}\n");
    di_cli_write("long.jsonl", line, n);
    free(line);
    di_process process;
    RUN_EVAL(&process, "tasks", 3, "--json", "--max-tokens", "4", "{TMP}/long.jsonl",
             "{TMP}/tasks.jsonl");
    assert_non_null(strstr(process.err, "deepinfer: task 1, long: "));
    json_t *found = json_loads(process.out, 0, NULL);
    assert_non_null(found);
    expect_score(json_object_get(found, "total"), 13, 6, 12, 1);
    json_decref(found);
    di_process_free(&process);
}

/* ------------------------------------------------------------------------------------------- kl */

enum { PROMPT = 60, PREDICT = 8 };

/* log p of every token after each position from the prompt's last one on. */
typedef struct kl_rows {
    double *log_p; /* [PREDICT, vocab] */
    int n;
} kl_rows;

static bool on_kl_row(void *user, int64_t position, const float *logits, int32_t vocab_size)
{
    kl_rows *rows = user;
    assert_int_equal(position, PROMPT - 1 + rows->n);
    double sum = 0, *row = rows->log_p + (int64_t)rows->n++ * vocab_size;
    for (int32_t i = 0; i < vocab_size; i++)
        sum += exp((double)logits[i]);
    for (int32_t i = 0; i < vocab_size; i++)
        row[i] = (double)logits[i] - log(sum);
    return true;
}

/* The first window's mean KL by di_score. */
static double window_kl(di_model *model, const char *mode, const int32_t *ids)
{
    const int32_t vocab = di_model_vocab_size(model);
    int32_t input[PROMPT + PREDICT - 1] = {di_model_bos_id(model)};
    memcpy(input + 1, ids, (PROMPT + PREDICT - 2) * sizeof *ids);
    const char *const modes[] = {"off", mode};
    kl_rows rows[2];
    for (int i = 0; i < 2; i++) {
        const di_options options = {.prefill_truncation = modes[i], .prefill_keep = 28};
        const di_score_options score = {.prefill = -1, .chunk = 17, .prompt = PROMPT};
        rows[i] = (kl_rows){calloc((size_t)(PREDICT * vocab), sizeof(double)), 0};
        assert_non_null(rows[i].log_p);
        require(
            di_score(model, &options, input, PROMPT + PREDICT - 1, &score, on_kl_row, &rows[i]));
        assert_int_equal(rows[i].n, PREDICT);
    }
    double kl = 0;
    for (int64_t i = 0; i < PREDICT * vocab; i++)
        kl += exp(rows[0].log_p[i]) * (rows[0].log_p[i] - rows[1].log_p[i]);
    free(rows[0].log_p);
    free(rows[1].log_p);
    return kl / PREDICT;
}

static void kl_is_what_truncation_changes(void **state)
{
    (void)state;
    char text[512];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + (i * i + i / 7) % 26);
    di_cli_write("long.txt", text, sizeof text);
    texts t;
    require(di_model_open(DI_CLI_TINY, NULL, &t.model));
    require(di_tokenize(t.model, text, sizeof text, false, &t.a, &t.n_a));
    const char *const modes[] = {"off", "exact", "compact"};
    for (int i = 0; i < 3; i++) {
        json_t *found =
            EVAL_JSON("kl", "--json", "--prompt", "60", "--predict", "8", "--limit", "67",
                      "--prefill-keep", "28", "--prefill-truncation", modes[i], "{TMP}/long.txt");
        const json_t *total = json_object_get(found, "total");
        assert_int_equal((int)number(total, "tokens"), PREDICT);
        const double kl = number(total, "mean_kl");
        expect_near(kl, window_kl(t.model, modes[i], t.a), 1e-4 * kl + 1e-9);
        assert_int_equal(kl > 0, i == 2);
        assert_true(number(total, "max_kl") >= kl);
        if (i < 2)
            expect_near(number(total, "nats_per_token"), number(total, "nats_per_token_whole"),
                        1e-5);
        json_decref(found);
    }
    di_process process;
    RUN_EVAL(&process, "kl", 0, "--prompt", "60", "--predict", "8", "{TMP}/long.txt",
             "{TMP}/long.txt");
    assert_non_null(strstr(process.out, "100.000%"));
    assert_non_null(strstr(process.out, "  all\n"));
    di_process_free(&process);
    di_free(t.a);
    di_model_close(t.model);
}

/* --------------------------------------------------------------------------------------- errors */

static void mistakes(void **state)
{
    (void)state;
    di_cli_write("empty.txt", "", 0);
    di_cli_write("b.txt", text_b, strlen(text_b));
    static const char *const lines[][2] = {
        {"{", "line 1"},
        {"[1]", "found no object"},
        {"{\"expected\": \"x\"}", "\"messages\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", "no \"expected\""},
        {"{\"messages\": [{}], \"expected\": 5}", "\"expected\""},
        {"{\"messages\": [{}], \"accept\": [5]}", "\"accept\""},
        {"{\"messages\": [{}], \"expected\": \"x\", \"task\": 1}", "\"task\""},
        {"\n \n", "found no task"},
    };
    di_process process;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        di_cli_write("bad.jsonl", lines[i][0], strlen(lines[i][0]));
        RUN_EVAL(&process, "tasks", 3, "{TMP}/bad.jsonl");
        if (strstr(process.err, lines[i][1]) == NULL)
            fail_msg("%s -> %s", lines[i][0], process.err);
        assert_string_equal(process.out, "");
        di_process_free(&process);
    }
    static const struct {
        int code;
        const char *kind, *args[4], *error;
    } cases[] = {
        {3, "ppl", {"{TMP}/empty.txt"}, "the text is empty"},
        {3, "ppl", {"{TMP}/missing.txt"}, "cannot open"},
        {3, "tasks", {"{TMP}/missing.jsonl"}, "cannot open"},
        {2, "ppl", {NULL}, "FILE is missing"},
        {2, "tasks", {NULL}, "FILE is missing"},
        {2, "ppl", {"--ctx", "513", "{TMP}/b.txt"}, "wanted at most 512"},
        {2, "ppl", {"--ctx", "5", "--stride=6", "{TMP}/b.txt"}, "more than --ctx 5"},
        {2, "ppl", {"--stride", "0", "{TMP}/b.txt"}, "--stride"},
        {2, "task", {NULL}, "did you mean 'tasks'?"},
        {2, "nothing", {NULL}, "wanted ppl, tasks or kl"},
        {2, "kl", {NULL}, "FILE is missing"},
        {2, "kl", {"--prompt", "500", "{TMP}/b.txt"}, "found 563 tokens, wanted at most 512"},
        {3, "kl", {"--prompt", "90", "{TMP}/b.txt"}, "wanted at least a window of 153"},
        {2, "kl", {"--prefill-truncation", "on", "{TMP}/b.txt"}, "prefill_truncation: found"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *extra[5] = {NULL};
        memcpy(extra, cases[i].args, sizeof cases[i].args);
        run_eval(&process, cases[i].kind, cases[i].code, extra);
        if (strstr(process.err, cases[i].error) == NULL)
            fail_msg("case %d: %s", (int)i, process.err);
        assert_string_equal(process.out, "");
        di_process_free(&process);
    }
}

static void help(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "eval", "--help");
    assert_int_equal(process.code, 0);
    assert_non_null(strstr(process.out, "deepinfer eval tasks [OPTION...] FILE..."));
    di_process_free(&process);
    di_process_run_args(&process, "eval", "tasks", "--help");
    assert_int_equal(process.code, 0);
    assert_non_null(strstr(process.out, "Usage: deepinfer eval tasks "));
    assert_non_null(strstr(process.out, "--max-tokens"));
    di_process_free(&process);
    di_process_run_args(&process, "eval");
    assert_int_equal(process.code, 2);
    di_process_free(&process);
}

static int teardown(void **state)
{
    json_decref(answers);
    return di_cli_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_texts),
        cmocka_unit_test(windows),
        cmocka_unit_test(a_limit_counts_the_bytes_it_keeps),
        cmocka_unit_test(a_table_of_texts),
        cmocka_unit_test(tasks_by_kind),
        cmocka_unit_test(a_limit_takes_the_first),
        cmocka_unit_test(answers_do_not_depend_on_the_batch),
        cmocka_unit_test(a_task_that_cannot_run_fails_alone),
        cmocka_unit_test(kl_is_what_truncation_changes),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(help),
    };
    return cmocka_run_group_tests(tests, di_cli_setup, teardown);
}
