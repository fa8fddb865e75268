/* --weight-cache and --stats through the program, with the small model that comes along. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_fixtures.h"
#include "process.h"

#define NANO DI_TEST_DATA "/../models/nano"

static const di_process *run(int wanted_code, const char *const *args)
{
    static di_process process;
    di_process_free(&process);
    di_process_run(&(di_process_options){.args = args}, &process);
    if (process.code != wanted_code)
        fail_msg("code %d, wanted %d; stderr: %s", process.code, wanted_code, process.err);
    return &process;
}
#define RUN(code, ...) run(code, (const char *const[]){__VA_ARGS__, NULL})
#define PROMPT         "run", "-m", NANO, "-p", "Once upon a time", "--max-tokens", "40", "--seed", "5"

typedef struct counts {
    unsigned long long n_hits, n_misses;
    double hit_rate, read_mb, token_mb, waited_s;
} counts;

static counts read_counts(const char *err)
{
    counts c;
    const char *line = strstr(err, "experts: ");
    assert_non_null(line);
    assert_int_equal(sscanf(line,
                            "experts: %llu uses in memory, %llu not (%lf%% hits), %lf MB read, "
                            "%lf MB a token, %lf s waited",
                            &c.n_hits, &c.n_misses, &c.hit_rate, &c.read_mb, &c.token_mb,
                            &c.waited_s),
                     6);
    return c;
}

/* The fewest experts it may hold (3 of 24,576 bytes), some more, all. */
static void the_cache_changes_no_text(void **state)
{
    (void)state;
    static const char *const sizes[] = {"73728", "300000", "5000000"};
    /* How many drafts are verified depends on time, and with it how many experts are used. */
    const di_process *p = RUN(0, PROMPT, "--stats", "--speculation", "off");
    char *wanted = strdup(p->out);
    const counts in_place = read_counts(p->err);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        p = RUN(0, PROMPT, "--stats", "--speculation", "off", "--weight-cache", sizes[i]);
        assert_string_equal(p->out, wanted);
        const counts c = read_counts(p->err);
        assert_int_equal(c.n_hits + c.n_misses, in_place.n_hits + in_place.n_misses);
        assert_true(c.n_misses > 0 && c.read_mb > 0 && c.token_mb > 0 && c.token_mb <= c.read_mb);
        if (i == 2) /* 8 layers of 16 experts, each read once at most */
            assert_true(c.n_misses <= 128 && c.n_hits > c.n_misses && c.hit_rate > 50);
    }
    free(wanted);
}

static void the_plan_has_it(void **state)
{
    (void)state;
    const di_process *p = RUN(0, "inspect", NANO, "--memplan", "--weight-cache", "4194304");
    assert_non_null(strstr(p->out, "weight cache                                    4194304 B"));
    p = RUN(0, "inspect", NANO, "--memplan");
    assert_null(strstr(p->out, "weight cache"));
}

static void bad_sizes_are_refused(void **state)
{
    (void)state;
    const di_process *p = RUN(2, PROMPT, "--weight-cache", "73727");
    assert_string_equal(p->err, "deepinfer: weight_cache: found 73727, wanted at least 73728, the "
                                "experts of one token in one layer (24576 bytes each)\n");
    p = RUN(2, PROMPT, "--weight-cache", "4G");
    assert_non_null(strstr(p->err, "--weight-cache: '4G' is not a whole number"));
}

static void batch_prints_the_counts(void **state)
{
    (void)state;
    static const char request[] =
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
        "{\"prompt\": \"Once\", \"max_tokens\": 4, \"temperature\": 0}}\n";
    di_cli_write("requests.jsonl", request, sizeof request - 1);
    char *in = di_cli_expand("{TMP}/requests.jsonl"), *out = di_cli_expand("{TMP}/results.jsonl");
    const di_process *p = RUN(0, "batch", "-m", NANO, "-i", in, "-o", out, "-q", "--stats",
                              "--weight-cache", "100000");
    assert_true(read_counts(p->err).n_misses > 0);
    free(in);
    free(out);
}

/* Two lines for each way to the experts; with all of them in the cache the second is all hits. */
static void bench_reads_experts(void **state)
{
    (void)state;
    const di_process *p = RUN(0, "bench", "experts", "-m", NANO, "--tokens", "5", "--repeat", "50",
                              "--weight-cache", "5000000");
    assert_int_equal(strncmp(p->out, "8 layers, 3 of 16 experts of ", 29), 0);
    double ms, rate, hits, read_mb, wait_ms;
    const char *line = strstr(p->out, "\nmapping, faults        first ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " mapping, faults first %lf %lf -", &ms, &rate), 2);
    assert_true(ms > 0 && rate >= 0);
    assert_non_null(strstr(line, "\nmapping, read-ahead    first "));
    line = strstr(line, "\nweight cache           first ");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line, " weight cache first %lf %lf %lf %lf", &ms, &rate, &hits, &read_mb), 4);
    assert_true(hits < 100 && read_mb > 0);
    line = strchr(line + 1, '\n');
    assert_int_equal(
        sscanf(line, " again %lf %lf %lf %lf %lf", &ms, &rate, &hits, &read_mb, &wait_ms), 5);
    assert_true(hits == 100 && read_mb == 0 && wait_ms == 0);
    p = RUN(0, "bench", "experts", "-m", NANO, "--tokens", "1");
    assert_null(strstr(p->out, "weight cache"));
    RUN(2, "bench", "experts", "-m", NANO, "--repeat", "101");
    RUN(2, "bench", "experts", "-m", NANO, "--weight-cache", "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_changes_no_text), cmocka_unit_test(the_plan_has_it),
        cmocka_unit_test(bad_sizes_are_refused),     cmocka_unit_test(batch_prints_the_counts),
        cmocka_unit_test(bench_reads_experts),
    };
    return cmocka_run_group_tests(tests, di_cli_setup, di_cli_teardown);
}
