/* Drafts at the ends of texts, on the null device with a scripted target and a drafter that mostly
 * follows it: EOS and stop strings inside a block, a grammar's end, text that a grammar forces. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "traffic.h"

enum { MOST_SCRIPT = 64, DRAFT_LEN = 7, MOST_PROMPTS = 16 };

/* The target's likeliest tokens after one prompt. */
typedef struct script {
    int32_t ids[MOST_SCRIPT];
    size_t n;
    uint64_t histories[MOST_SCRIPT]; /* before each */
} script;

static void add_text(script *s, const char *text)
{
    int32_t *ids;
    size_t n;
    di_require(di_tokenize(di_traffic_model, text, strlen(text), false, &ids, &n));
    assert_true(s->n + n < MOST_SCRIPT);
    memcpy(s->ids + s->n, ids, n * sizeof *ids);
    s->n += n;
    di_free(ids);
}

static void set_prompt(script *s, const int32_t *prompt, size_t n_prompt)
{
    uint64_t history = DI_NULL_HISTORY;
    for (size_t i = 0; i < n_prompt; i++)
        history = di_null_history(history, prompt[i]);
    for (size_t i = 0; i < s->n; i++) {
        s->histories[i] = history;
        history = di_null_history(history, s->ids[i]);
    }
}

static void follow(void *user, uint64_t history, int64_t position, float *logits)
{
    (void)position;
    const script *s = user;
    for (size_t i = 0; i < s->n; i++)
        if (s->histories[i] == history)
            logits[s->ids[i]] = 30.0f;
}

/* ------------------------------------------------------------------------------- running */

typedef struct setting {
    const char *speculation, *async;
    int wrong_drafts; /* di_null_device's */
} setting;

static const setting plain = {"off", "off", 1};

static di_engine *make_engine(const setting *s, script *target, di_null_device *device)
{
    const di_options options = {
        .n_threads = 1,
        .max_seqs = 8,
        .prefix_cache = "exact",
        .async_scheduling = s->async,
        .speculation = s->speculation,
        .draft_len = DRAFT_LEN,
        .draft_varlen = "off",
    };
    *device =
        (di_null_device){.pace = strcmp(s->async, "on") ? DI_NULL_AT_LAUNCH : DI_NULL_AT_COLLECT,
                         .wrong_drafts = s->wrong_drafts,
                         .bend = target ? follow : NULL,
                         .user = target};
    di_engine *engine;
    di_require(di_null_engine_create(device, di_traffic_model, &options, &engine));
    return engine;
}

static di_result *generate(di_engine *engine, const di_null_device *device, const di_request *r)
{
    di_result *result;
    di_require(di_generate(engine, r, NULL, NULL, &result));
    bool has_work = true; /* what is still in flight of it */
    while (has_work)
        di_require(di_engine_step(engine, &has_work));
    di_check_idle(engine, device);
    return result;
}

static void assert_same(const di_result *a, const di_result *b)
{
    assert_int_equal(a->status, DI_OK);
    assert_int_equal(b->status, DI_OK);
    assert_int_equal(a->finish_reason, b->finish_reason);
    assert_int_equal(a->n_token_ids, b->n_token_ids);
    if (a->n_token_ids)
        assert_memory_equal(a->token_ids, b->token_ids, a->n_token_ids * sizeof *a->token_ids);
    assert_string_equal(a->text, b->text);
}

static void destroy(di_engine *engine, di_engine_stats *total)
{
    di_engine_stats stats;
    di_engine_get_stats(engine, &stats);
    total->n_steps += stats.n_steps;
    total->generated_tokens += stats.generated_tokens;
    total->drafted_tokens += stats.drafted_tokens;
    total->verified_drafts += stats.verified_drafts;
    total->accepted_drafts += stats.accepted_drafts;
    di_engine_destroy(engine);
}

/* ------------------------------------------------------------------------------- D04 */

/* The prompt with its output and a few tokens more: what the cache holds of them must be theirs,
 * which the device looks at. With drafts that may be one token more: the last one had a row. */
static di_result *go_on(di_engine *engine, const di_null_device *device, const di_result *before)
{
    enum { MOST = 128 };
    int32_t ids[MOST];
    const size_t n_prompt = before->n_prompt_token_ids, n = n_prompt + before->n_token_ids;
    assert_true(n + 4 < MOST);
    memcpy(ids, before->prompt_token_ids, n_prompt * sizeof *ids);
    memcpy(ids + n_prompt, before->token_ids, before->n_token_ids * sizeof *ids);
    memcpy(ids + n, di_counting, 4 * sizeof *ids);
    const di_request r = di_plain_request(ids, n + 4, 3);
    return generate(engine, device, &r);
}

/* The results of one prompt and of what goes on from it: results[2]. */
static void run_prompt(const setting *how, script *s, size_t n_prompt, const char *stop,
                       di_result **results, di_engine_stats *total)
{
    int32_t prompt[96];
    for (size_t i = 0; i < n_prompt; i++)
        prompt[i] = (int32_t)(3 + (i * 7919 + n_prompt) % 1200);
    set_prompt(s, prompt, n_prompt);
    di_null_device device;
    di_engine *engine = make_engine(how, s, &device);
    di_request r = di_plain_request(prompt, n_prompt, 40);
    r.sampling.stop = &stop;
    r.sampling.n_stop = stop ? 1 : 0;
    results[0] = generate(engine, &device, &r);
    results[1] = go_on(engine, &device, results[0]);
    destroy(engine, total);
}

/* Speculating or not, the same; prompts end before, at and behind the seam of KV blocks. */
static void check_end(script *s, const char *stop, const char *text, size_t n_tokens)
{
    const setting fast[] = {{"auto", "off", 1}, {"auto", "on", 1}, {"auto", "on", 12}};
    di_engine_stats off = {0}, on[3] = {{0}};
    for (size_t i = 0; i < MOST_PROMPTS; i++) {
        di_result *want[2], *got[2];
        run_prompt(&plain, s, 52 + i, stop, want, &off);
        assert_string_equal(want[0]->text, text);
        assert_int_equal(want[0]->n_token_ids, n_tokens);
        assert_int_equal(want[0]->finish_reason, DI_FINISH_STOP);
        for (int k = 0; k < 3; k++) {
            run_prompt(&fast[k], s, 52 + i, stop, got, &on[k]);
            for (int j = 0; j < 2; j++) {
                assert_same(want[j], got[j]);
                di_result_free(got[j]);
            }
        }
        di_result_free(want[0]);
        di_result_free(want[1]);
    }
    for (int k = 0; k < 3; k++)
        assert_int_equal(off.generated_tokens, on[k].generated_tokens);
    assert_int_equal(off.drafted_tokens, 0);
    assert_true(on[0].n_steps < off.n_steps * 3 / 4); /* blocks were accepted */
    assert_true(on[2].verified_drafts > 2 * on[2].accepted_drafts);
}

/* D04: behind EOS the target would go on with what the drafter drafts. */
static void eos_inside_a_block(void **state)
{
    (void)state;
    script s = {.n = 0};
    add_text(&s, "yes yes yes");
    const size_t n_text = s.n;
    s.ids[s.n++] = DI_TRAFFIC_EOS;
    add_text(&s, " foo bar");
    check_end(&s, NULL, "yes yes yes", n_text + 1);
}

/* D04: the stop string lies across tokens, in the middle of a block. */
static void stop_string_inside_a_block(void **state)
{
    (void)state;
    script s = {.n = 0};
    add_text(&s, "yes");
    const size_t n_yes = s.n;
    add_text(&s, " foo");
    const size_t n_foo = s.n;
    add_text(&s, " bar and more of it");
    size_t n_tokens = n_yes + 1; /* "s f" ends in the first token of " foo", or the one behind */
    char *first;
    size_t n_bytes;
    di_require(di_detokenize(di_traffic_model, s.ids + n_yes, 1, false, &first, &n_bytes));
    n_tokens += n_bytes < 2;
    di_free(first);
    assert_true(n_tokens <= n_foo);
    check_end(&s, "s f", "ye", n_tokens);
}

/* ------------------------------------------------------------------------------- D06 */

/* D06: the grammar ends where the target would go on. */
static void a_grammar_ends_inside_a_block(void **state)
{
    (void)state;
    di_so_args so = DI_SO_ARGS_INIT;
    so.schema_type = DI_SCHEMA_JSON;
    so.schema = "{\"const\": 1}";
    so.is_fixed_layout = true;
    script s = {.n = 0};
    add_text(&s, "1");
    add_text(&s, "\nx and more");
    set_prompt(&s, di_counting, 10);
    const setting settings[] = {{"off", "off", 1},
                                {"auto", "off", 1},
                                {"auto", "on", 1},
                                {"auto", "off", 0},
                                {"auto", "on", 0}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        di_null_device device;
        di_engine *engine = make_engine(&settings[i], &s, &device);
        di_request r = di_plain_request(di_counting, 10, 20);
        r.so_args = &so;
        di_result *result = generate(engine, &device, &r);
        assert_int_equal(result->status, DI_OK);
        assert_int_equal(result->finish_reason, DI_FINISH_STOP);
        assert_string_equal(result->text, "1");
        assert_int_equal(result->n_token_ids, 2); /* with EOS */
        assert_int_equal(result->token_ids[1], DI_TRAFFIC_EOS);
        di_result_free(result);
        di_engine_destroy(engine);
    }
}

/* 200 objects at random: none ends in an error, and drafts change none. */
static void json_objects(void **state)
{
    (void)state;
    di_so_args so = DI_SO_ARGS_INIT;
    so.schema_type = DI_SCHEMA_JSON;
    so.schema = "{\"type\": \"object\"}";
    so.max_whitespace = 1;
    const setting settings[] = {plain, {"auto", "off", 1}, {"auto", "on", 5}, {"auto", "on", 0}};
    di_engine_stats totals[4] = {{0}};
    di_null_device device;
    di_result *want[200];
    for (int k = 0; k < 4; k++) {
        di_engine *engine = make_engine(&settings[k], NULL, &device);
        for (int i = 0; i < 200; i++) {
            di_request r = di_plain_request(di_counting + i % 10, (size_t)(1 + i % 17), 30);
            r.so_args = &so;
            r.sampling.temperature = i % 4 ? 1.0 : 0.0;
            r.sampling.seed = (uint64_t)i;
            di_result *result = generate(engine, &device, &r);
            if (k == 0) {
                assert_int_equal(result->status, DI_OK);
                want[i] = result;
                continue;
            }
            assert_same(want[i], result);
            di_result_free(result);
        }
        destroy(engine, &totals[k]);
    }
    int n_ended = 0;
    for (int i = 0; i < 200; i++) {
        n_ended += want[i]->finish_reason == DI_FINISH_STOP;
        di_result_free(want[i]);
    }
    print_message("%d of 200 objects ended; %llu and %llu of %llu drafts accepted\n", n_ended,
                  (unsigned long long)totals[1].accepted_drafts,
                  (unsigned long long)totals[2].accepted_drafts,
                  (unsigned long long)totals[1].verified_drafts);
    assert_true(n_ended > 10);
    assert_true(totals[1].accepted_drafts > totals[1].verified_drafts / 2);
}

/* ------------------------------------------------------------------------------- forced text */

#define FORCED_HEAD "{\"the name of the answer\": \""
#define FORCED_TAIL "\", \"and something else that is known\": [1,2,3,4]}"

/* Without a drafter: what a grammar forces is drafted in the tokens that the tokenizer makes of it,
 * which are those of a target that writes as the tokenizer does. */
static void forced_text_is_drafted_without_a_drafter(void **state)
{
    (void)state;
    di_so_args so = DI_SO_ARGS_INIT;
    so.schema_type = DI_SCHEMA_JSON;
    so.schema = "{\"type\": \"object\", \"properties\": {\"the name of the answer\": {\"enum\": "
                "[\"yes\", \"no\"]}, \"and something else that is known\": {\"const\": [1, 2, 3, "
                "4]}}, \"required\": [\"the name of the answer\", \"and something else that is "
                "known\"], \"additionalProperties\": false}";
    so.is_fixed_layout = true;
    script s = {.n = 0};
    add_text(&s, FORCED_HEAD);
    add_text(&s, "yes");
    add_text(&s, FORCED_TAIL);
    set_prompt(&s, di_counting, 10);
    const setting settings[] = {{"off", "off", 0}, {"auto", "off", 0}, {"auto", "on", 0}};
    di_result *want = NULL;
    for (int k = 0; k < 3; k++) {
        di_null_device device;
        di_engine *engine = make_engine(&settings[k], &s, &device);
        di_request r = di_plain_request(di_counting, 10, MOST_SCRIPT);
        r.so_args = &so;
        di_result *result = generate(engine, &device, &r);
        di_engine_stats total = {0};
        destroy(engine, &total);
        assert_string_equal(result->text, FORCED_HEAD "yes" FORCED_TAIL);
        print_message("%llu tokens in %llu passes; of %llu forced drafts %llu were verified and "
                      "%llu accepted\n",
                      (unsigned long long)total.generated_tokens, (unsigned long long)total.n_steps,
                      (unsigned long long)total.drafted_tokens,
                      (unsigned long long)total.verified_drafts,
                      (unsigned long long)total.accepted_drafts);
        if (k == 0) {
            assert_int_equal(total.drafted_tokens, 0);
            want = result;
            continue;
        }
        assert_same(want, result);
        di_result_free(result);
        assert_true(total.n_steps < total.generated_tokens / 2);
        assert_true(total.verified_drafts <= total.drafted_tokens);
        assert_true(total.accepted_drafts >= total.verified_drafts * 9 / 10);
    }
    di_result_free(want);
}

/* A target that does not write as the tokenizer does: the same tokens with and without. */
static void forced_text_in_other_tokens(void **state)
{
    (void)state;
    di_so_args so = DI_SO_ARGS_INIT;
    so.schema_type = DI_SCHEMA_REGEX;
    so.schema = "the same words (again|and again) and nothing else than that";
    di_result *want[20];
    const setting settings[] = {{"off", "off", 0}, {"auto", "off", 0}, {"auto", "on", 3}};
    for (int k = 0; k < 3; k++) {
        di_null_device device;
        di_engine *engine = make_engine(&settings[k], NULL, &device);
        for (int i = 0; i < 20; i++) {
            di_request r = di_plain_request(di_counting, (size_t)(1 + i), 80);
            r.so_args = &so;
            di_result *result = generate(engine, &device, &r);
            if (k == 0) {
                want[i] = result;
                continue;
            }
            assert_same(want[i], result);
            di_result_free(result);
        }
        di_engine_stats total = {0};
        destroy(engine, &total);
        assert_int_equal(k == 0, total.drafted_tokens == 0);
    }
    for (int i = 0; i < 20; i++)
        di_result_free(want[i]);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eos_inside_a_block),
        cmocka_unit_test(stop_string_inside_a_block),
        cmocka_unit_test(a_grammar_ends_inside_a_block),
        cmocka_unit_test(json_objects),
        cmocka_unit_test(forced_text_is_drafted_without_a_drafter),
        cmocka_unit_test(forced_text_in_other_tokens),
    };
    return cmocka_run_group_tests(tests, di_traffic_open_model, di_traffic_close_model);
}
