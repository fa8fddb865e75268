/* apps/hub.h: what a download asks for, what it leaves in the cache, what it tells, and which names
 * and settings it takes. Faults are in hub_fault_test.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub_cache.h"
#include "hub_digest.h"
#include "hub_fixture.h"
#include "hub_progress.h"

enum { SHARD_1_BYTES = 300000, SHARDS_BYTES = 300000 + 200001 + 65536 };

static void a_fresh_download_fills_the_cache(void **state)
{
    di_hub_fixture *f = *state;
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/api/"), 1);
    assert_int_equal(di_fake_hub_count(&f->hub, "/resolve/"), 7);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/"), 3);
    assert_int_equal(di_fake_hub_count(&f->hub, "/resolve/" DI_FAKE_COMMIT "/"), 7);
}

static void a_second_run_needs_no_network(void **state)
{
    di_hub_fixture *f = *state;
    di_hub_fixture_succeed(f);
    di_fake_hub_forget(&f->hub);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, NULL), 0);
    f->options.is_offline = true;
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
}

/* Whatever is missing makes the snapshot incomplete; blobs that are there are not fetched again. */
static void a_partial_snapshot_is_completed(void **state)
{
    di_hub_fixture *f = *state;
    static const char *const names[] = {"config.json", "tokenizer.json",
                                        "model.safetensors.index.json",
                                        "model-00002-of-00003.safetensors"};
    di_hub_fixture_succeed(f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = di_hub_fixture_path(f, "snapshots/" DI_FAKE_COMMIT, names[i]);
        assert_int_equal(unlink(path), 0);
        di_hub_fixture_check_none(f);
        di_fake_hub_forget(&f->hub);
        di_hub_fixture_succeed(f);
        di_hub_fixture_check_snapshot(f);
        assert_int_equal(di_fake_hub_count(&f->hub, NULL), 1); /* the listing */
    }
    const char *etag = di_fake_hub_file(&f->hub, names[3])->etag;
    assert_int_equal(unlink(di_hub_fixture_path(f, "blobs", etag)), 0); /* a dangling link */
    di_hub_fixture_check_none(f);
    di_fake_hub_forget(&f->hub);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/"), 1);
}

static void one_file_of_weights(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_remove(&f->hub, "model.safetensors.index.json");
    di_fake_hub_remove(&f->hub, "generation_config.json"); /* optional */
    di_fake_hub_add(&f->hub, "model.safetensors", "weights", 7, true);
    di_hub_fixture_succeed(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/"), 1);
    char path[DI_HUB_PATH_BYTES];
    struct stat info;
    snprintf(path, sizeof path, "%s/model.safetensors", f->dir);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 7);
    di_fake_hub_forget(&f->hub);
    di_hub_fixture_succeed(f);
    assert_int_equal(di_fake_hub_count(&f->hub, NULL), 0);
    assert_int_equal(unlink(path), 0);
    di_hub_fixture_check_none(f);
}

static void an_empty_file_is_fine(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_add(&f->hub, "model-00003-of-00003.safetensors", "", 0, true);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
}

/* The server answers no weight request before all three are open. */
static void shards_come_in_parallel(void **state)
{
    di_hub_fixture *f = *state;
    f->hub.n_barrier = 3;
    f->options.n_parallel = 3;
    di_hub_fixture_succeed(f);
    assert_int_equal(atomic_load(&f->hub.n_waiting), 3);
    di_hub_fixture_check_snapshot(f);
}

/* As a mirror that knows no ?blobs=true: sizes and checksums come from the headers of each file. */
static void a_listing_of_names_is_enough(void **state)
{
    di_hub_fixture *f = *state;
    f->hub.has_bare_listing = true;
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_string_equal(di_fake_hub_request(&f->hub, "/resolve/", 0).method, "HEAD");
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/"), 3);
}

static void the_token_stays_at_the_endpoint(void **state)
{
    di_hub_fixture *f = *state;
    snprintf(f->options.token, sizeof f->options.token, "%s", DI_FAKE_TOKEN);
    di_hub_fixture_succeed(f);
    int n_endpoint = 0, n_cdn = 0;
    for (int i = 0; i < f->hub.n_requests; i++) {
        const di_fake_request *request = &f->hub.requests[i];
        assert_string_equal(request->http.authorization,
                            request->is_cdn ? "" : "Bearer " DI_FAKE_TOKEN);
        n_cdn += request->is_cdn;
        n_endpoint += !request->is_cdn;
    }
    assert_int_equal(n_endpoint, 8);
    assert_int_equal(n_cdn, 3);
}

static void no_token_is_sent_if_there_is_none(void **state)
{
    di_hub_fixture *f = *state;
    di_hub_fixture_succeed(f);
    for (int i = 0; i < f->hub.n_requests; i++)
        assert_string_equal(f->hub.requests[i].http.authorization, "");
}

/* ---------------------------------------------------------------------------- disk, locks, texts
 */

static void a_full_disk_is_seen_before_the_weights(void **state)
{
    di_hub_fixture *f = *state;
    char *text = NULL;
    size_t bytes = 0;
    f->options.free_bytes = SHARDS_BYTES - 1;
    f->options.progress = open_memstream(&text, &bytes);
    di_hub_fixture_fail(f, DI_ERR_IO, "(565536 bytes) free");
    assert_non_null(strstr(f->error.text, "wanted 565.5 kB (565537 bytes)"));
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/"), 0);
    di_hub_fixture_check_none(f);
    fclose(f->options.progress);
    assert_non_null(strstr(text, "3 weight files, 565.5 kB; to download: 565.5 kB"));
    free(text);

    /* What is there already needs no room. */
    const di_fake_file *shard = di_fake_hub_file(&f->hub, "model-00001-of-00003.safetensors");
    di_hub_fixture_leave_part(f, shard->name, shard->data, 1);
    f->options.progress = NULL;
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
}

static void the_file_system_is_asked_for_its_room(void **state)
{
    di_hub_fixture *f = *state;
    int64_t bytes = -1;
    f->options.free_bytes = -1;
    assert_int_equal(di_hub_free_bytes(&f->options, f->options.cache_dir, &bytes, &f->error),
                     DI_OK);
    assert_true(bytes > 0);
    assert_int_equal(di_hub_free_bytes(&f->options, "/nonexistent", &bytes, &f->error), DI_ERR_IO);
}

typedef struct resolver {
    pthread_t thread;
    di_hub_fixture *fixture;
    char *dir;
    di_hub_error error;
    di_status status;
} resolver;

static void *resolve_in_thread(void *user)
{
    resolver *r = user;
    r->status = di_hub_resolve(DI_FAKE_REPO, &r->fixture->options, &r->dir, &r->error);
    return NULL;
}

/* Two downloads at once share the work: every byte of the weights is sent once. */
static void two_downloads_fetch_everything_once(void **state)
{
    di_hub_fixture *f = *state;
    resolver both[2] = {{.fixture = f}, {.fixture = f}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&both[i].thread, NULL, resolve_in_thread, &both[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(both[i].thread, NULL), 0);
        assert_int_equal(both[i].status, DI_OK);
        assert_string_equal(both[i].dir, di_hub_fixture_path(f, "snapshots", DI_FAKE_COMMIT));
        free(both[i].dir);
    }
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/"), 3);
    assert_int_equal(di_http_server_sent_bytes(f->hub.cdn), SHARDS_BYTES);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
}

static char *progress_text(di_hub_fixture *f, bool is_tty)
{
    char *text = NULL;
    size_t bytes = 0;
    f->options.is_progress_tty = is_tty;
    f->options.progress = open_memstream(&text, &bytes);
    di_hub_fixture_succeed(f);
    fclose(f->options.progress);
    f->options.progress = NULL;
    return text;
}

static void progress_lines_without_a_terminal(void **state)
{
    char *text = progress_text(*state, false);
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, DI_FAKE_REPO " (0123456789ab): 3 weight files, 565.5 kB; to "
                                              "download: 565.5 kB; free in "));
    assert_non_null(strstr(text, "\n100% 565.5 kB of 565.5 kB, "));
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(text);
}

static void a_bar_on_a_terminal(void **state)
{
    char *text = progress_text(*state, true);
    assert_non_null(strstr(text, "\r[####################] 100% 565.5 kB of 565.5 kB"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(text);
}

static void amounts(void **state)
{
    (void)state;
    assert_string_equal(di_hub_amount_of(0).text, "0 B");
    assert_string_equal(di_hub_amount_of(999).text, "999 B");
    assert_string_equal(di_hub_amount_of(1000).text, "1.0 kB");
    assert_string_equal(di_hub_amount_of(999949).text, "999.9 kB");
    assert_string_equal(di_hub_amount_of(999960).text, "1.0 MB");
    assert_string_equal(di_hub_amount_of(INT64_C(510286023000)).text, "510.3 GB");
    assert_string_equal(di_hub_amount_of(INT64_MAX).text, "9223.4 PB");
}

/* Known digests, from sha256sum and git hash-object. */
static void digests_are_those_of_the_hub(void **state)
{
    (void)state;
    static const char *const etags[] = {
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        "ce013625030ba8dba906f756967f9e9ca394464a",
    };
    for (size_t i = 0; i < 2; i++) {
        di_hub_file file = {.name = "x", .size = 6};
        memcpy(file.etag, etags[i], strlen(etags[i]) + 1);
        di_hub_digest digest = {0};
        di_hub_error error;
        assert_int_equal(di_hub_digest_begin(&digest, &file, &error), DI_OK);
        assert_true(di_hub_digest_add(&digest, "wrong", 5));
        assert_int_equal(di_hub_digest_check(&digest, &error), DI_ERR_INPUT);
        assert_int_equal(di_hub_digest_begin(&digest, &file, &error), DI_OK);
        assert_true(di_hub_digest_add(&digest, "hel", 3));
        assert_true(di_hub_digest_add(&digest, "lo\n", 3));
        assert_int_equal(di_hub_digest_check(&digest, &error), DI_OK);
        di_hub_digest_free(&digest);
    }
}

/* --------------------------------------------------------------------------- names and settings */

static void names_of_models(void **state)
{
    di_hub_fixture *f = *state;
    char *dir = NULL;
    assert_int_equal(di_hub_resolve(f->options.cache_dir, &f->options, &dir, &f->error), DI_OK);
    assert_string_equal(dir, f->options.cache_dir);
    free(dir);
    assert_string_equal(di_hub_alias("v4.1-flash"), "deepseek-ai/DeepSeek-V4.1-Flash-1017");
    assert_null(di_hub_alias("v4"));

    static const char *const bad[] = {"",     "nothing", "a/b/c",  "../x",  "a/..",
                                      "a/.b", "/a",      "a/",     "a b/c", "a/b?x",
                                      "-a/b", "a--b/c",  "a/b%2f", "a/b\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(di_hub_resolve(bad[i], &f->options, &dir, &f->error), DI_ERR_IO);
        assert_non_null(strstr(f->error.text, "no such directory"));
        assert_null(strchr(f->error.text, '\n'));
    }
    assert_int_equal(di_hub_resolve("/dev/null", &f->options, &dir, &f->error), DI_ERR_INPUT);
    assert_int_equal(di_fake_hub_count(&f->hub, NULL), 0);

    f->options.is_offline = true;
    assert_int_equal(di_hub_resolve("v4.1-flash", &f->options, &dir, &f->error), DI_ERR_IO);
    assert_non_null(strstr(f->error.text, "deepseek-ai/DeepSeek-V4.1-Flash-1017"));
    f->options.cache_dir[0] = 0;
    assert_int_equal(di_hub_resolve("a/b", &f->options, &dir, &f->error), DI_ERR_ARGUMENT);
    assert_non_null(strstr(f->error.text, "set HF_HUB_CACHE"));
}

static const char *const variables[] = {"HF_HUB_CACHE", "HF_HOME",  "XDG_CACHE_HOME", "HOME",
                                        "HF_ENDPOINT",  "HF_TOKEN", "HF_HUB_OFFLINE", NULL};

static int clear_environment(void **state)
{
    (void)state;
    for (const char *const *name = variables; *name; name++)
        unsetenv(*name);
    return 0;
}

static void where_the_cache_is(void **state)
{
    (void)state;
    di_hub_options options;
    di_hub_error error;
    assert_int_equal(di_hub_options_read(&options, &error), DI_OK);
    assert_string_equal(options.cache_dir, "");
    static const char *const steps[][3] = {
        {"HOME", "/h", "/h/.cache/huggingface/hub"},
        {"XDG_CACHE_HOME", "/x", "/x/huggingface/hub"},
        {"HF_HOME", "~/hf", "/h/hf/hub"},
        {"HF_HOME", "/hf", "/hf/hub"},
        {"HF_HUB_CACHE", "", "/hf/hub"},
        {"HF_HUB_CACHE", "/cache", "/cache"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        setenv(steps[i][0], steps[i][1], 1);
        assert_int_equal(di_hub_options_read(&options, &error), DI_OK);
        assert_string_equal(options.cache_dir, steps[i][2]);
    }
    char path[DI_HUB_PATH_BYTES + 1];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = 0;
    setenv("HF_HUB_CACHE", path, 1);
    assert_int_equal(di_hub_options_read(&options, &error), DI_ERR_ARGUMENT);
}

static void other_settings(void **state)
{
    (void)state;
    di_hub_options options;
    di_hub_error error;
    assert_int_equal(di_hub_options_read(&options, &error), DI_OK);
    assert_string_equal(options.endpoint, "https://huggingface.co");
    assert_string_equal(options.token, "");
    assert_false(options.is_offline);
    assert_int_equal(options.n_parallel, 4);
    assert_true(options.free_bytes < 0);
    setenv("HF_ENDPOINT", "http://localhost:8080/hf//", 1);
    setenv("HF_TOKEN", "hf_abc", 1);
    setenv("HF_HUB_OFFLINE", "Yes", 1);
    assert_int_equal(di_hub_options_read(&options, &error), DI_OK);
    assert_string_equal(options.endpoint, "http://localhost:8080/hf");
    assert_string_equal(options.token, "hf_abc");
    assert_true(options.is_offline);
    setenv("HF_HUB_OFFLINE", "0", 1);
    assert_int_equal(di_hub_options_read(&options, &error), DI_OK);
    assert_false(options.is_offline);
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"HF_ENDPOINT", "huggingface.co", "wanted http(s)://"},
        {"HF_ENDPOINT", "file:///etc", "wanted http(s)://"},
        {"HF_ENDPOINT", "http://user@host", "wanted http(s)://"},
        {"HF_ENDPOINT", "http://host/a b", "wanted http(s)://"},
        {"HF_ENDPOINT", "http://host/?x", "wanted http(s)://"},
        {"HF_TOKEN", "a\r\nX-Evil: 1", "HF_TOKEN: found 12 bytes that are no token"},
        {"HF_HUB_OFFLINE", "maybe", "HF_HUB_OFFLINE: found \"maybe\", wanted 1 or 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clear_environment(NULL);
        setenv(rows[i][0], rows[i][1], 1);
        di_hub_options options;
        di_hub_error error;
        assert_int_equal(di_hub_options_read(&options, &error), DI_ERR_ARGUMENT);
        if (!strstr(error.text, rows[i][2]))
            fail_msg("%s", error.text);
        assert_null(strstr(error.text, "X-Evil"));
    }
}

#define HUB_TEST(name)                                                                             \
    cmocka_unit_test_setup_teardown(name, di_hub_fixture_setup, di_hub_fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(a_fresh_download_fills_the_cache),
        HUB_TEST(a_second_run_needs_no_network),
        HUB_TEST(a_partial_snapshot_is_completed),
        HUB_TEST(one_file_of_weights),
        HUB_TEST(an_empty_file_is_fine),
        HUB_TEST(shards_come_in_parallel),
        HUB_TEST(a_listing_of_names_is_enough),
        HUB_TEST(the_token_stays_at_the_endpoint),
        HUB_TEST(no_token_is_sent_if_there_is_none),
        HUB_TEST(a_full_disk_is_seen_before_the_weights),
        HUB_TEST(the_file_system_is_asked_for_its_room),
        HUB_TEST(two_downloads_fetch_everything_once),
        HUB_TEST(progress_lines_without_a_terminal),
        HUB_TEST(a_bar_on_a_terminal),
        cmocka_unit_test(amounts),
        cmocka_unit_test(digests_are_those_of_the_hub),
        HUB_TEST(names_of_models),
        cmocka_unit_test_setup(where_the_cache_is, clear_environment),
        cmocka_unit_test_setup(other_settings, clear_environment),
        cmocka_unit_test_setup(bad_settings_are_refused, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
