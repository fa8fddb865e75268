/* `deepinfer run` and `score` on the tiny checkpoint: the shape of their results. */
#define _GNU_SOURCE /* asprintf */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_fixtures.h"
#include "process.h"

enum { VOCAB_SIZE = 1280, MAX_ARGS = 32 };

/* Runs `deepinfer run --json -m TINY ARGS...` and gives its lines as an array of objects. */
static json_t *run_json(int wanted_code, const char *const *extra, const char **err)
{
    static di_process process; /* its stderr lives until the next run */
    const char *args[MAX_ARGS] = {"run", "--json", "-m", DI_CLI_TINY};
    for (size_t i = 0; extra[i] != NULL; i++)
        args[4 + i] = extra[i];
    di_process_free(&process);
    di_process_run(&(di_process_options){.args = args}, &process);
    if (process.code != wanted_code)
        fail_msg("code %d, wanted %d; stderr: %s", process.code, wanted_code, process.err);
    json_t *lines = json_array();
    for (char *line = strtok(process.out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_error_t error;
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        if (object == NULL)
            fail_msg("no JSON: %s: %s", error.text, line);
        json_array_append_new(lines, object);
    }
    if (err != NULL)
        *err = process.err;
    return lines;
}
#define RUN_JSON(code, err, ...) run_json(code, (const char *const[]){__VA_ARGS__, NULL}, err)

static const json_t *line(const json_t *lines, size_t i)
{
    const json_t *object = json_array_get(lines, i);
    assert_non_null(object);
    return object;
}

static json_int_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    assert_non_null(value);
    return value;
}

static size_t count(const json_t *object, const char *key)
{
    const json_t *list = json_object_get(object, key);
    assert_true(json_is_array(list));
    return json_array_size(list);
}

static void assert_same_ids(const json_t *a, const json_t *b)
{
    assert_true(json_equal(json_object_get(a, "token_ids"), json_object_get(b, "token_ids")));
}

/* ------------------------------------------------------------------------------- shape of JSON */

static void check_logprob(const json_t *entry)
{
    const json_int_t id = integer(entry, "token_id");
    assert_in_range(id, 0, VOCAB_SIZE - 1);
    assert_in_range(integer(entry, "rank"), 1, VOCAB_SIZE);
    const json_t *logprob = json_object_get(entry, "logprob");
    assert_true(json_is_number(logprob) && json_number_value(logprob) <= 0);
    if (json_is_null(json_object_get(entry, "token")))
        assert_true(count(entry, "bytes") > 0);
    else
        assert_true(strlen(text(entry, "token")) > 0 || id == 191); /* 191: NUL */
}

static void a_json_object_has_everything(void **state)
{
    (void)state;
    json_t *lines = RUN_JSON(0, NULL, "-p", "Once upon a time", "--max-tokens", "6", "--seed", "7",
                             "--logprobs", "3", "--prompt-logprobs", "--ignore-eos");
    assert_int_equal(json_array_size(lines), 1);
    const json_t *result = line(lines, 0);
    assert_int_equal(integer(result, "index"), 0);
    assert_int_equal(count(result, "token_ids"), 6);
    assert_string_equal(text(result, "finish_reason"), "length");
    assert_int_equal(integer(result, "seed"), 7);
    text(result, "text");
    const size_t n_prompt = count(result, "prompt_token_ids");
    assert_true(n_prompt > 4);
    assert_int_equal(
        json_integer_value(json_array_get(json_object_get(result, "prompt_token_ids"), 0)),
        0); /* BOS */

    const json_t *usage = json_object_get(result, "usage");
    assert_int_equal(integer(usage, "prompt_tokens"), n_prompt);
    assert_int_equal(integer(usage, "completion_tokens"), 6);
    assert_int_equal(integer(usage, "total_tokens"), n_prompt + 6);
    const json_t *timings = json_object_get(result, "timings");
    static const char *const keys[] = {"ttft_ms", "prefill_ms", "decode_ms", "tokens_per_second"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_true(json_number_value(json_object_get(timings, keys[i])) > 0);

    const json_t *ids = json_object_get(result, "token_ids");
    const json_t *logprobs = json_object_get(result, "logprobs");
    assert_int_equal(count(result, "logprobs"), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *position = json_array_get(logprobs, i);
        check_logprob(position);
        assert_int_equal(integer(position, "token_id"), json_integer_value(json_array_get(ids, i)));
        assert_int_equal(count(position, "top_logprobs"), 3);
        const json_t *top = json_object_get(position, "top_logprobs");
        for (size_t k = 0; k < 3; k++) {
            check_logprob(json_array_get(top, k));
            assert_int_equal(integer(json_array_get(top, k), "rank"), k + 1);
        }
    }
    assert_int_equal(count(result, "prompt_logprobs"), n_prompt);
    const json_t *prompt = json_object_get(result, "prompt_logprobs");
    assert_true(json_is_null(json_array_get(prompt, 0)));
    for (size_t i = 1; i < n_prompt; i++)
        check_logprob(json_array_get(prompt, i));
    json_decref(lines);
}

/* M07: nothing generated, the prompt's log probabilities given. */
static void max_tokens_0_scores_the_prompt(void **state)
{
    (void)state;
    json_t *lines = RUN_JSON(0, NULL, "-p", "Your answer: Yes", "--max-tokens", "0", "--echo",
                             "--logprobs", "1");
    const json_t *result = line(lines, 0);
    assert_int_equal(count(result, "token_ids"), 0);
    assert_string_equal(text(result, "text"), "");
    assert_string_equal(text(result, "prompt"), "Your answer: Yes");
    assert_int_equal(count(result, "prompt_logprobs"), count(result, "prompt_token_ids"));
    const json_t *second = json_array_get(json_object_get(result, "prompt_logprobs"), 1);
    check_logprob(second);
    assert_int_equal(count(second, "top_logprobs"), 1);
    json_decref(lines);
    lines = RUN_JSON(0, NULL, "-p", "Yes", "--max-tokens", "1", "--prompt-logprobs");
    check_logprob(json_array_get(json_object_get(line(lines, 0), "prompt_logprobs"), 1));
    assert_int_equal(count(line(lines, 0), "logprobs"), 1);
    json_decref(lines);

    di_process process;
    di_process_run_args(&process, "run", "-m", DI_CLI_TINY, "-p", "Your answer: Yes",
                        "--max-tokens", "0", "--echo", "--logprobs", "1");
    assert_int_equal(process.code, 0);
    assert_int_equal(strncmp(process.out, "Your answer: Yes\nprompt\t1\t", 26), 0);
    assert_string_equal(process.err, "");
    di_process_free(&process);
}

/* K01: what cannot run is refused by number, the others answer, and the code says so. */
static void empty_prompts_do_not_stop_the_others(void **state)
{
    (void)state;
    di_cli_write("k01.json", "[[], [5, 6]]", 12);
    static const char empty_message[] = "[{\"role\": \"user\", \"content\": \"\"}]";
    di_cli_write("empty-message.json", empty_message, strlen(empty_message));
    char *ids = di_cli_expand("{TMP}/k01.json");
    char *chat = di_cli_expand("{TMP}/empty-message.json");
    const char *err = NULL;
    json_t *lines = RUN_JSON(3, &err, "-p", "", "--token-ids", ids, "--messages", chat, "-p", "ok",
                             "--max-tokens", "2", "--ignore-eos");
    assert_int_equal(json_array_size(lines), 5);
    for (size_t i = 0; i < 5; i++) {
        const bool is_refused = i == 0 || i == 1;
        assert_int_equal(integer(line(lines, i), "index"), i);
        assert_true((json_object_get(line(lines, i), "error") != NULL) == is_refused);
        if (!is_refused)
            assert_int_equal(count(line(lines, i), "token_ids"), 2);
    }
    assert_string_equal(text(line(lines, 0), "error"), "the prompt is empty");
    assert_string_equal(text(json_object_get(line(lines, 3), "message"), "role"), "assistant");
    assert_string_equal(err, "deepinfer: prompt 1 of 5: the prompt is empty\n"
                             "deepinfer: prompt 2 of 5: the list of token ids is empty\n");
    json_decref(lines);
    free(ids);
    free(chat);
}

static void a_prompt_beyond_the_context_is_refused(void **state)
{
    (void)state;
    char list[4096];
    size_t n = 0;
    for (int i = 0; i < 600; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", i > 0 ? "," : "[", 5 + i);
    list[n++] = ']';
    di_cli_write("long.json", list, n);
    char *path = di_cli_expand("{TMP}/long.json");
    const char *err = NULL;
    json_t *lines = RUN_JSON(3, &err, "--token-ids", path, "-p", "ok", "--max-tokens", "1");
    assert_non_null(strstr(err, "600"));
    assert_non_null(strstr(err, "512"));
    assert_int_equal(count(line(lines, 1), "token_ids"), 1);
    json_decref(lines);
    lines = RUN_JSON(3, &err, "-p", "more than four tokens", "--max-context-len", "4");
    assert_non_null(strstr(err, " 4"));
    json_decref(lines);
    free(path);
}

/* C07: a prompt longer than a step. */
static void a_prompt_longer_than_a_step_is_the_same(void **state)
{
    (void)state;
#define PROMPT "-p", "a prompt of some more tokens than a step takes", "--seed", "3"
    json_t *whole = RUN_JSON(0, NULL, PROMPT, "--max-tokens", "8");
    json_t *parts = RUN_JSON(0, NULL, PROMPT, "--max-tokens", "8", "--max-step-tokens", "3");
    json_t *one = RUN_JSON(0, NULL, PROMPT, "--max-tokens", "8", "--threads", "1");
#undef PROMPT
    assert_true(count(line(whole, 0), "prompt_token_ids") > 3);
    assert_same_ids(line(whole, 0), line(parts, 0));
    assert_same_ids(line(whole, 0), line(one, 0));
    json_decref(whole);
    json_decref(parts);
    json_decref(one);
}

/* ----------------------------------------------------------------------------------- sampling */

/* M10 */
static void ignore_eos_gives_exactly_that_many(void **state)
{
    (void)state;
#define EOS "-p", "x", "--logit-bias", "1=1000", "--max-tokens", "200"
    json_t *lines = RUN_JSON(0, NULL, EOS);
    assert_int_equal(count(line(lines, 0), "token_ids"), 1);
    assert_string_equal(text(line(lines, 0), "finish_reason"), "stop");
    assert_string_equal(text(line(lines, 0), "text"), "");
    json_decref(lines);
    lines = RUN_JSON(0, NULL, EOS, "--ignore-eos");
    assert_int_equal(count(line(lines, 0), "token_ids"), 200);
    assert_string_equal(text(line(lines, 0), "finish_reason"), "length");
    json_decref(lines);
    lines = RUN_JSON(0, NULL, EOS, "--min-tokens", "5");
    assert_int_equal(count(line(lines, 0), "token_ids"), 6);
    json_decref(lines);
#undef EOS
    lines = RUN_JSON(0, NULL, "-p", "x", "--ignore-eos", "--logit-bias", "{\"67\": 1000}",
                     "--max-tokens", "200", "--stop", "aaaa");
    assert_int_equal(count(line(lines, 0), "token_ids"), 4);
    assert_string_equal(text(line(lines, 0), "finish_reason"), "stop");
    assert_string_equal(text(line(lines, 0), "text"), "");
    json_decref(lines);
    lines = RUN_JSON(0, NULL, "-p", "x", "--ignore-eos", "--logit-bias", "67=1000", "--stop-id",
                     "67", "--max-tokens", "200");
    assert_int_equal(count(line(lines, 0), "token_ids"), 1);
    assert_string_equal(text(line(lines, 0), "finish_reason"), "stop");
    json_decref(lines);
}

/* M02: without a seed each run differs, and the reported seed repeats it. */
static void a_reported_seed_repeats_the_run(void **state)
{
    (void)state;
#define ARGS "-p", "x", "--temperature", "1", "--max-tokens", "12", "--ignore-eos"
    json_t *first = RUN_JSON(0, NULL, ARGS);
    json_t *second = RUN_JSON(0, NULL, ARGS);
    const json_t *seed = json_object_get(line(first, 0), "seed");
    assert_true(json_is_integer(seed) && json_integer_value(seed) < INT64_C(1) << 53);
    assert_false(json_equal(seed, json_object_get(line(second, 0), "seed")));
    assert_false(json_equal(json_object_get(line(first, 0), "token_ids"),
                            json_object_get(line(second, 0), "token_ids")));
    char *number = NULL;
    assert_true(asprintf(&number, "%" JSON_INTEGER_FORMAT, json_integer_value(seed)) > 0);
    json_t *again = RUN_JSON(0, NULL, ARGS, "--seed", number);
#undef ARGS
    assert_same_ids(line(first, 0), line(again, 0));
    free(number);
    json_decref(first);
    json_decref(second);
    json_decref(again);
}

/* Drafts that are verified by rejection make the seed less than all there is; not so greedily, and
 * not without drafts. */
static void a_result_says_whether_its_seed_repeats_it(void **state)
{
    (void)state;
#define ARGS "-p", "x", "--max-tokens", "24", "--ignore-eos", "--seed", "5", "--verification"
    static const struct {
        const char *temperature, *speculation;
        bool is_reproducible;
    } cases[] = {{"1", "auto", false}, {"1", "off", true}, {"0", "auto", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *match = RUN_JSON(0, NULL, ARGS, "match", "--temperature", cases[i].temperature,
                                 "--speculation", cases[i].speculation);
        json_t *reject = RUN_JSON(0, NULL, ARGS, "reject", "--temperature", cases[i].temperature,
                                  "--speculation", cases[i].speculation);
        assert_true(json_is_true(json_object_get(line(match, 0), "reproducible")));
        const json_t *said = json_object_get(line(reject, 0), "reproducible");
        assert_true(json_is_boolean(said) && json_is_true(said) == cases[i].is_reproducible);
        assert_int_equal(count(line(reject, 0), "token_ids"), 24);
        if (cases[i].is_reproducible)
            assert_same_ids(line(match, 0), line(reject, 0));
        json_decref(match);
        json_decref(reject);
    }
#undef ARGS
}

/* M08 */
static void biases_are_applied_or_refused(void **state)
{
    (void)state;
    json_t *plain = RUN_JSON(0, NULL, "-p", "x", "--temperature", "0", "--max-tokens", "1");
    const json_int_t best =
        json_integer_value(json_array_get(json_object_get(line(plain, 0), "token_ids"), 0));
    char *bias = NULL;
    assert_true(asprintf(&bias, "%" JSON_INTEGER_FORMAT "=-100", best) > 0);
    json_t *biased = RUN_JSON(0, NULL, "-p", "x", "--temperature", "0", "--max-tokens", "1",
                              "--logit-bias", bias);
    assert_false(json_equal(json_object_get(line(plain, 0), "token_ids"),
                            json_object_get(line(biased, 0), "token_ids")));
    json_decref(plain);
    json_decref(biased);
    free(bias);
    static const char *const flags[] = {"--logit-bias", "--stop-id", "--logprobs"};
    static const char *const values[] = {"191222=-100", "191222", "191222"};
    for (size_t i = 0; i < 3; i++) {
        const char *err = NULL;
        json_t *none = RUN_JSON(2, &err, "-p", "x", flags[i], values[i]);
        assert_int_equal(json_array_size(none), 0);
        assert_non_null(strstr(err, flags[i]));
        assert_non_null(strstr(err, "191222"));
        assert_non_null(strstr(err, "1280"));
        json_decref(none);
    }
}

/* ---------------------------------------------------------------------------------------- text */

static void text_is_what_json_says(void **state)
{
    (void)state;
    json_t *lines = RUN_JSON(0, NULL, "-p", "x", "--logit-bias", "67=1000", "--max-tokens", "5");
    assert_string_equal(text(line(lines, 0), "text"), "aaaaa");
    json_decref(lines);
    di_process process;
    di_process_run(
        &(di_process_options){.args = (const char *const[]){"run", "-m", DI_CLI_TINY, "--echo",
                                                            "--logit-bias", "67=1000",
                                                            "--max-tokens", "5", "-v", NULL},
                              .in = "x\n"},
        &process);
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out, "xaaaaa\n");
    assert_non_null(strstr(process.err, "5 new tokens"));
    assert_int_equal(strncmp(process.err, "deepinfer: prompt 1: ", 21), 0);
    di_process_free(&process);

    di_process_run_args(&process, "run", "-m", DI_CLI_TINY, "-p", "x", "-p", "y", "--thinking",
                        "--logit-bias", "67=1000", "--max-tokens", "2");
    assert_int_equal(process.code, 0);
    assert_string_equal(process.out, "<think>\naa\n</think>\n\n<think>\naa\n</think>\n");
    di_process_free(&process);

    /* An empty line between two texts, none for a prompt that fails. */
    di_process_run_args(&process, "run", "-m", DI_CLI_TINY, "-p", "", "-p", "x", "-p", "", "-p",
                        "y", "--logit-bias", "67=1000", "--max-tokens", "2");
    assert_int_equal(process.code, 3);
    assert_string_equal(process.out, "aa\n\naa\n");
    di_process_free(&process);
}

/* T06: any bytes are a prompt. */
static void bytes_that_are_no_text_run(void **state)
{
    (void)state;
    static const char bytes[] = "\xe2\x80|\xff|\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80|a\xff"
                                "b|\0|";
    di_process process;
    static const char *const args[] = {"run",          "--json", "-m",     DI_CLI_TINY,
                                       "--max-tokens", "2",      "--echo", NULL};
    di_process_run(&(di_process_options){.args = args, .in = bytes, .in_bytes = sizeof bytes - 1},
                   &process);
    assert_int_equal(process.code, 0);
    json_t *object = json_loads(process.out, JSON_ALLOW_NUL, NULL);
    assert_non_null(object);
    assert_non_null(strstr(json_string_value(json_object_get(object, "prompt")), "a\xef\xbf\xbd"));
    json_decref(object);
    di_process_free(&process);
}

static void the_shipped_model_is_told(void **state)
{
    (void)state;
    di_process process;
    di_process_run_args(&process, "run", "-p", "x", "--max-tokens", "1");
    assert_int_equal(process.code, 0);
    assert_int_equal(strncmp(process.err, "deepinfer: no model given, using the small one in ", 50),
                     0);
    di_process_free(&process);
    static const char *const args[] = {"run", "-p", "x", "--max-tokens", "1", NULL};
    di_process_run(
        &(di_process_options){.args = args, .env = "DEEPINFER_HF_MODEL_DIR=" DI_CLI_TINY},
        &process);
    assert_int_equal(process.code, 0);
    assert_string_equal(process.err, "");
    di_process_free(&process);
}

static void chat_options_wrap_a_prompt(void **state)
{
    (void)state;
#define BAR "\xef\xbd\x9c"
    json_t *lines = RUN_JSON(0, NULL, "-p", "hi", "--system", "be brief", "--effort", "30",
                             "--echo", "--max-tokens", "0");
    const char *prompt = text(line(lines, 0), "prompt");
    assert_non_null(strstr(prompt, "Reasoning Effort: 30 "));
    assert_non_null(
        strstr(prompt, "be brief<" BAR "User" BAR ">hi<" BAR "Assistant" BAR "><think>"));
    json_decref(lines);
    lines = RUN_JSON(0, NULL, "-p", "hi", "--effort", "max", "--echo", "--max-tokens", "0");
    assert_non_null(strstr(text(line(lines, 0), "prompt"), "Reasoning Effort: 100 "));
    json_decref(lines);
    static const char chat[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"yo\"}], "
                               "\"thinking_mode\": \"thinking\", \"reasoning_effort\": 12}";
    di_cli_write("wrapped.json", chat, strlen(chat));
    di_cli_write("ids.json", "[67, 68]", 8);
    char *path = di_cli_expand("{TMP}/wrapped.json");
    char *ids = di_cli_expand("{TMP}/ids.json");
    lines = RUN_JSON(0, NULL, "--messages", path, "--token-ids", ids, "--echo", "--logit-bias",
                     "67=1000", "--max-tokens", "2");
    assert_non_null(strstr(text(line(lines, 0), "prompt"), "Reasoning Effort: 12 "));
    assert_string_equal(text(json_object_get(line(lines, 0), "message"), "reasoning_content"),
                        "aa");
    assert_string_equal(text(line(lines, 1), "prompt"), "ab");
    json_decref(lines);
    lines = RUN_JSON(0, NULL, "--messages", path, "--effort", "low", "--echo", "--max-tokens", "0");
    assert_non_null(strstr(text(line(lines, 0), "prompt"), "Reasoning Effort: 50 "));
    json_decref(lines);
    const char *err = NULL;
    lines = RUN_JSON(2, &err, "--messages", path, "--system", "x");
    assert_non_null(strstr(err, "--system cannot be used with --messages"));
    json_decref(lines);
    free(path);
    free(ids);
#undef BAR
}

/* --------------------------------------------------------------------------------------- score */

static char *score(const char *name, size_t *bytes, const char *const *extra)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", di_cli_tmp, name) > 0);
    char *ids = di_cli_expand("{TMP}/score.json");
    const char *args[MAX_ARGS] = {"score", "-m", DI_CLI_TINY, "--token-ids", ids, "-o", path};
    for (size_t i = 0; extra[i] != NULL; i++)
        args[7 + i] = extra[i];
    di_process process;
    di_process_run(&(di_process_options){.args = args}, &process);
    if (process.code != 0)
        fail_msg("code %d: %s", process.code, process.err);
    assert_string_equal(process.out, "");
    assert_string_equal(process.err, "");
    di_process_free(&process);
    char *data = di_cli_read(name, bytes);
    assert_non_null(data);
    free(path);
    free(ids);
    return data;
}
#define SCORE(name, bytes, ...) score(name, bytes, (const char *const[]){__VA_ARGS__, NULL})

static void score_writes_all_logits(void **state)
{
    (void)state;
    enum { N_IDS = 9 };
    static const char ids[] = "[0, 100, 200, 300, 400, 500, 600, 700, 800]";
    di_cli_write("score.json", ids, strlen(ids));
    size_t n = 0;
    char *whole = SCORE("whole.safetensors", &n, "--threads", "1");
    uint64_t header_bytes = 0;
    memcpy(&header_bytes, whole, sizeof header_bytes);
    assert_int_equal(header_bytes % 8, 0);
    assert_int_equal(n, 8 + header_bytes + N_IDS * VOCAB_SIZE * sizeof(float));
    json_t *header = json_loadb(whole + 8, header_bytes, 0, NULL);
    json_t *wanted = json_pack("{s:{s:s,s:[i,i],s:[i,i]}}", "logits", "dtype", "F32", "shape",
                               N_IDS, VOCAB_SIZE, "data_offsets", 0, N_IDS * VOCAB_SIZE * 4);
    assert_true(json_equal(header, wanted));
    json_decref(header);
    json_decref(wanted);
    int n_different = 0;
    float row[2][VOCAB_SIZE];
    for (size_t i = 0; i + 1 < N_IDS; i++) {
        const char *at = whole + 8 + header_bytes + i * sizeof row[0];
        memcpy(row, at, sizeof row);
        n_different += memcmp(row[0], row[1], sizeof row[0]) != 0;
        for (size_t k = 0; k < VOCAB_SIZE; k++)
            assert_true(isfinite(row[0][k]));
    }
    assert_int_equal(n_different, N_IDS - 1);

    size_t n_other = 0;
    char *chunks = SCORE("chunks.safetensors", &n_other, "--chunk", "2");
    assert_int_equal(n_other, n);
    assert_memory_equal(chunks, whole, n);
    free(chunks);
    char *decoded = SCORE("decoded.safetensors", &n_other, "--prefill", "3");
    assert_int_equal(n_other, n);
    assert_memory_equal(decoded, whole, n);
    free(decoded);
    free(whole);
}

static void score_leaves_nothing_after_a_failure(void **state)
{
    (void)state;
    static const char ids[] = "[0, 100, 1280]";
    di_cli_write("outside.json", ids, strlen(ids));
    di_cli_write("none.json", "[]", 2);
    static const char *const files[] = {"{TMP}/outside.json", "{TMP}/none.json"};
    for (size_t i = 0; i < 2; i++) {
        char *in = di_cli_expand(files[i]);
        char *out = di_cli_expand("{TMP}/failed.safetensors");
        di_process process;
        di_process_run_args(&process, "score", "-m", DI_CLI_TINY, "--token-ids", in, "-o", out);
        assert_int_equal(process.code, 3);
        assert_non_null(strstr(process.err, in));
        assert_int_equal(di_cli_count("failed"), 0);
        di_process_free(&process);
        free(in);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_json_object_has_everything),
        cmocka_unit_test(max_tokens_0_scores_the_prompt),
        cmocka_unit_test(empty_prompts_do_not_stop_the_others),
        cmocka_unit_test(a_prompt_beyond_the_context_is_refused),
        cmocka_unit_test(a_prompt_longer_than_a_step_is_the_same),
        cmocka_unit_test(ignore_eos_gives_exactly_that_many),
        cmocka_unit_test(a_reported_seed_repeats_the_run),
        cmocka_unit_test(a_result_says_whether_its_seed_repeats_it),
        cmocka_unit_test(biases_are_applied_or_refused),
        cmocka_unit_test(text_is_what_json_says),
        cmocka_unit_test(bytes_that_are_no_text_run),
        cmocka_unit_test(the_shipped_model_is_told),
        cmocka_unit_test(chat_options_wrap_a_prompt),
        cmocka_unit_test(score_writes_all_logits),
        cmocka_unit_test(score_leaves_nothing_after_a_failure),
    };
    return cmocka_run_group_tests_name("cli_run", tests, di_cli_setup, di_cli_teardown);
}
