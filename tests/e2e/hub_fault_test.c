/* apps/hub.h against a hub that breaks connections, lies and refuses: what is kept is resumed, what
 * is wrong is never put in place, and no answer makes an incomplete snapshot look whole. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub_fixture.h"
#include "hub_list.h"

#define SHARD_1 "model-00001-of-00003.safetensors"
#define SHARD_2 "model-00002-of-00003.safetensors"

enum {
    SHARD_1_BYTES = 300000,
    SHARDS_BYTES = 300000 + 200001 + 65536,
    CUT = 123456,
    ATTEMPTS = 6 /* the first and five more */
};

static const char *incomplete(di_hub_fixture *f, const char *name)
{
    static char part[128];
    snprintf(part, sizeof part, "%s.incomplete", di_fake_hub_file(&f->hub, name)->etag);
    return part;
}

static int64_t blob_size(di_hub_fixture *f, const char *name)
{
    return di_hub_fixture_size(f, "blobs", di_fake_hub_file(&f->hub, name)->etag);
}

static int64_t part_size(di_hub_fixture *f, const char *name)
{
    return di_hub_fixture_size(f, "blobs", incomplete(f, name));
}

/* --------------------------------------------------------------------------------------- resuming
 */

static void a_dropped_connection_is_resumed(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CUT, CUT, 1});
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/" SHARD_1), 2);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 0).range_begin, -1);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 1).range_begin, CUT);
    assert_int_equal(di_http_server_sent_bytes(f->hub.cdn), SHARDS_BYTES);
}

static void a_body_without_length_is_resumed(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_NO_LENGTH_CUT, CUT, 1});
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_http_server_sent_bytes(f->hub.cdn), SHARDS_BYTES);
}

static void a_later_run_goes_on(void **state)
{
    di_hub_fixture *f = *state;
    f->options.n_parallel = 1;
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CUT, CUT, 1});
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CODE, 404, 1});
    di_hub_fixture_fail(f, DI_ERR_IO, SHARD_1 ": the file server answered HTTP 404");
    assert_int_equal(part_size(f, SHARD_1), CUT);
    assert_int_equal(blob_size(f, SHARD_1), -1);
    di_hub_fixture_check_none(f);

    di_fake_hub_no_faults(&f->hub);
    di_fake_hub_forget(&f->hub);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 0).range_begin, CUT);
    assert_int_equal(di_http_server_sent_bytes(f->hub.cdn), SHARDS_BYTES + 5); /* + the 404 page */
}

static void a_part_that_is_whole_is_only_checked(void **state)
{
    di_hub_fixture *f = *state;
    const di_fake_file *file = di_fake_hub_file(&f->hub, SHARD_1);
    di_hub_fixture_leave_part(f, SHARD_1, file->data, file->bytes);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, SHARD_1), 0);
}

static void a_part_that_is_too_long_is_dropped(void **state)
{
    di_hub_fixture *f = *state;
    const di_fake_file *file = di_fake_hub_file(&f->hub, SHARD_1);
    char *data = calloc(1, file->bytes + 1);
    assert_non_null(data);
    memcpy(data, file->data, file->bytes);
    di_hub_fixture_leave_part(f, SHARD_1, data, file->bytes + 1);
    free(data);
    char *text = NULL;
    size_t bytes = 0;
    f->options.progress = open_memstream(&text, &bytes);
    di_hub_fixture_succeed(f);
    fclose(f->options.progress);
    assert_null(strstr(text, "checksum")); /* not read at all */
    free(text);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 0).range_begin, -1);
}

static void a_damaged_part_is_fetched_anew(void **state)
{
    di_hub_fixture *f = *state;
    di_hub_fixture_leave_part(f, SHARD_1, "not what the file begins with", 29);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 0).range_begin, 29);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 1).range_begin, -1);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/" SHARD_1), 2);
}

static void a_server_without_ranges_sends_all_again(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CUT, CUT, 1});
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_NO_RANGE, 0, 1});
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_http_server_sent_bytes(f->hub.cdn), SHARDS_BYTES + CUT);
}

static void a_refused_range_starts_over(void **state)
{
    di_hub_fixture *f = *state;
    di_hub_fixture_leave_part(f, SHARD_1, di_fake_hub_file(&f->hub, SHARD_1)->data, CUT);
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CODE, 416, 1});
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 0).range_begin, CUT);
    assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_1, 1).range_begin, -1);
}

static void another_range_is_refused(void **state)
{
    di_hub_fixture *f = *state;
    di_hub_fixture_leave_part(f, SHARD_1, di_fake_hub_file(&f->hub, SHARD_1)->data, CUT);
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_RANGE, 1, -1});
    di_hub_fixture_fail(f, DI_ERR_INPUT, "found bytes from 123457 of 300000, wanted from 123456");
    assert_int_equal(part_size(f, SHARD_1), CUT);
}

static di_fake_hub *stalling_hub;

static bool interrupt_at_stall(void)
{
    return atomic_load(&stalling_hub->has_stalled);
}

static void an_interrupt_keeps_what_has_come(void **state)
{
    di_hub_fixture *f = *state;
    stalling_hub = &f->hub;
    f->options.n_parallel = 1;
    f->options.is_interrupted = interrupt_at_stall;
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_2, DI_FAULT_STALL, CUT, 1});
    di_hub_fixture_fail(f, DI_ERR_CANCELLED, "the next run goes on from there");
    assert_int_equal(blob_size(f, SHARD_1), SHARD_1_BYTES);
    const int64_t kept = part_size(f, SHARD_2);
    assert_true(kept >= 0 && kept <= CUT);
    di_hub_fixture_check_none(f);

    f->options.is_interrupted = NULL;
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/" SHARD_1), 1);
    if (kept > 0)
        assert_int_equal(di_fake_hub_request(&f->hub, "/cdn/" SHARD_2, 1).range_begin, kept);
}

/* One transfer that fails for good ends the others, which keep their parts. */
static void one_failure_stops_the_others(void **state)
{
    di_hub_fixture *f = *state;
    f->hub.n_barrier = 3;
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CODE, 404, 1});
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_2, DI_FAULT_STALL, CUT, 1});
    di_hub_fixture_fail(f, DI_ERR_IO, SHARD_1 ": the file server answered HTTP 404");
    assert_true(part_size(f, SHARD_2) >= 0);
    di_hub_fixture_check_none(f);
}

/* ------------------------------------------------------------------------------------ wrong
 * content */

static void check_refused(di_hub_fixture *f, const char *name, di_fault fault, const char *text)
{
    di_fake_hub_fault(&f->hub, fault);
    di_hub_fixture_fail(f, DI_ERR_INPUT, text);
    assert_non_null(strstr(f->error.text, name));
    assert_int_equal(blob_size(f, name), -1);
    di_hub_fixture_check_none(f);
    di_fake_hub_no_faults(&f->hub);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
}

static void corrupted_weights_are_refused(void **state)
{
    di_hub_fixture *f = *state;
    char text[160];
    snprintf(text, sizeof text, "wanted %s", di_fake_hub_file(&f->hub, SHARD_1)->etag);
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CONTENT, 0, 1});
    di_hub_fixture_fail(f, DI_ERR_INPUT, text);
    assert_non_null(strstr(f->error.text, SHARD_1 ": found checksum "));
    assert_int_equal(blob_size(f, SHARD_1), -1);
    assert_int_equal(part_size(f, SHARD_1), -1);
    di_hub_fixture_check_none(f);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
}

static void a_corrupted_small_file_is_refused(void **state)
{
    di_hub_fixture *f = *state;
    check_refused(f, "tokenizer.json",
                  (di_fault){"/resolve/" DI_FAKE_COMMIT "/tokenizer.json", DI_FAULT_CONTENT, 0, 1},
                  "tokenizer.json: found checksum ");
    assert_int_equal(part_size(f, "tokenizer.json"), -1);
}

static void a_wrong_length_is_refused(void **state)
{
    check_refused(*state, SHARD_1, (di_fault){"/cdn/" SHARD_1, DI_FAULT_LENGTH, 1000, -1},
                  "found 301000 bytes, wanted 300000");
}

static void a_shorter_length_is_refused(void **state)
{
    check_refused(*state, SHARD_1, (di_fault){"/cdn/" SHARD_1, DI_FAULT_LENGTH, -1, -1},
                  "found 299999 bytes, wanted 300000");
}

static void too_many_bytes_are_refused(void **state)
{
    check_refused(*state, SHARD_1, (di_fault){"/cdn/" SHARD_1, DI_FAULT_TOO_LONG, 0, 1},
                  "found more than 300000 bytes");
}

static void another_etag_is_refused(void **state)
{
    check_refused(*state, SHARD_1,
                  (di_fault){"/resolve/" DI_FAKE_COMMIT "/" SHARD_1, DI_FAULT_ETAG, 0, -1},
                  "found etag ");
}

static void another_commit_is_refused(void **state)
{
    check_refused(*state, "config.json", (di_fault){"/config.json", DI_FAULT_COMMIT, 0, -1},
                  "found commit fedcba9876543210, wanted " DI_FAKE_COMMIT);
}

static void another_linked_size_is_refused(void **state)
{
    check_refused(*state, SHARD_1, (di_fault){SHARD_1, DI_FAULT_LINKED_SIZE, 5, -1},
                  "found a size of 300005 bytes, wanted 300000");
}

/* ------------------------------------------------------------------------------- refusals, retries
 */

static void busy_servers_are_asked_again(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_fault(&f->hub, (di_fault){"/api/", DI_FAULT_CODE, 503, 2});
    di_fake_hub_fault(&f->hub,
                      (di_fault){"/resolve/" DI_FAKE_COMMIT "/config.json", DI_FAULT_CODE, 429, 1});
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_NO_ANSWER, 0, 2});
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_2, DI_FAULT_CODE, 403, 1});
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/api/"), 3);
    assert_int_equal(di_fake_hub_count(&f->hub, "/config.json"), 2);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/" SHARD_1), 3);
    /* A refusal of the file server means an address that has run out: a new one is asked for. */
    assert_int_equal(di_fake_hub_count(&f->hub, "/resolve/" DI_FAKE_COMMIT "/" SHARD_2), 2);
}

static void retries_are_bounded(void **state)
{
    di_hub_fixture *f = *state;
    char *text = NULL;
    size_t bytes = 0;
    f->options.progress = open_memstream(&text, &bytes);
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CODE, 503, -1});
    di_hub_fixture_fail(f, DI_ERR_IO, SHARD_1 ": the file server answered HTTP 503");
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/" SHARD_1), ATTEMPTS);
    fclose(f->options.progress);
    f->options.progress = NULL;
    assert_non_null(strstr(text, "HTTP 503; trying again in 0.0 s\n"));
    free(text);

    di_fake_hub_no_faults(&f->hub);
    di_fake_hub_forget(&f->hub);
    di_fake_hub_fault(&f->hub, (di_fault){"/api/", DI_FAULT_CODE, 500, -1});
    di_hub_fixture_fail(f, DI_ERR_IO, "answered HTTP 500");
    assert_int_equal(di_fake_hub_count(&f->hub, NULL), ATTEMPTS);

    /* A little of the body each time is no progress that would go on for ever. */
    di_fake_hub_no_faults(&f->hub);
    di_fake_hub_forget(&f->hub);
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CUT, 10, -1});
    di_hub_fixture_fail(f, DI_ERR_IO, SHARD_1);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/" SHARD_1), ATTEMPTS);
    assert_int_equal(part_size(f, SHARD_1), 10 * ATTEMPTS);
}

static char *notes;
static size_t notes_bytes;

static bool interrupt_at_first_note(void)
{
    return notes && strstr(notes, "trying again");
}

/* The server's wish is followed, up to a minute. */
static void waits_are_those_the_server_asks_for(void **state)
{
    di_hub_fixture *f = *state;
    static const struct {
        int asked_s;
        const char *text;
    } rows[] = {{7, "HTTP 429; trying again in 7.0 s\n"}, {7200, "trying again in 60.0 s\n"}};
    for (size_t i = 0; i < 2; i++) {
        di_fake_hub_no_faults(&f->hub);
        di_fake_hub_fault(&f->hub, (di_fault){"/api/", DI_FAULT_BUSY, rows[i].asked_s, -1});
        notes = NULL;
        f->options.progress = open_memstream(&notes, &notes_bytes);
        f->options.is_interrupted = interrupt_at_first_note;
        di_hub_fixture_fail(f, DI_ERR_CANCELLED, "interrupted");
        fclose(f->options.progress);
        assert_non_null(strstr(notes, rows[i].text));
        free(notes);
    }
    f->options.progress = NULL;
}

/* More breaks than retries, but with progress between them. */
static void progress_renews_the_retries(void **state)
{
    di_hub_fixture *f = *state;
    const size_t cut = 1 << 20, bytes = (ATTEMPTS + 2) * cut;
    char *data = calloc(1, bytes);
    assert_non_null(data);
    di_fake_hub_add(&f->hub, SHARD_1, data, bytes, true);
    free(data);
    di_fake_hub_fault(&f->hub, (di_fault){"/cdn/" SHARD_1, DI_FAULT_CUT, (int64_t)cut, -1});
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/" SHARD_1), ATTEMPTS + 2);
}

/* As for a repository that was renamed: the token goes along within the endpoint. */
static void redirects_within_the_endpoint(void **state)
{
    di_hub_fixture *f = *state;
    snprintf(f->options.token, sizeof f->options.token, "%s", DI_FAKE_TOKEN);
    di_fake_hub_fault(&f->hub, (di_fault){"/config.json", DI_FAULT_LOOP, 0, 1});
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
    assert_int_equal(di_fake_hub_count(&f->hub, "/config.json"), 2);
    const di_http_request second = di_fake_hub_request(&f->hub, "/resolve/x/config.json", 0);
    assert_string_equal(second.authorization, "Bearer " DI_FAKE_TOKEN);
}

static void refusals_say_what_to_do(void **state)
{
    di_hub_fixture *f = *state;
    static const struct {
        int code;
        const char *token, *text;
    } rows[] = {
        {401, "",
         DI_FAKE_REPO ": access refused (HTTP 401): no such repository, or a private or "
                      "gated one; set HF_TOKEN to a token with access to it"},
        {403, "", "set HF_TOKEN"},
        {403, DI_FAKE_TOKEN, "HF_TOKEN is set, but gives no access to it"},
        {404, "", DI_FAKE_REPO ": not found at http://127.0.0.1:"},
        {418, "", "answered HTTP 418"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        di_fake_hub_no_faults(&f->hub);
        di_fake_hub_forget(&f->hub);
        snprintf(f->options.token, sizeof f->options.token, "%s", rows[i].token);
        di_fake_hub_fault(&f->hub, (di_fault){"/api/", DI_FAULT_CODE, rows[i].code, -1});
        di_hub_fixture_fail(f, DI_ERR_IO, rows[i].text);
        assert_null(strstr(f->error.text, DI_FAKE_TOKEN));
        assert_null(strchr(f->error.text, '\n'));
        assert_int_equal(di_fake_hub_count(&f->hub, NULL), 1);
    }
}

static void a_circle_of_redirects_ends(void **state)
{
    di_hub_fixture *f = *state;
    di_fake_hub_fault(&f->hub, (di_fault){"/config.json", DI_FAULT_LOOP, 0, -1});
    di_hub_fixture_fail(f, DI_ERR_IO, "config.json: found more than 8 redirects");
}

static void nobody_listens(void **state)
{
    di_hub_fixture *f = *state;
    di_http_server_stop(f->hub.endpoint);
    f->hub.endpoint = NULL;
    di_hub_fixture_fail(f, DI_ERR_IO, DI_FAKE_REPO ": ");
}

static void a_folder_that_cannot_be_made(void **state)
{
    di_hub_fixture *f = *state;
    char cache[sizeof f->options.cache_dir];
    memcpy(cache, f->options.cache_dir, sizeof cache);
    snprintf(f->options.cache_dir, sizeof f->options.cache_dir, "/dev/null/cache");
    di_hub_fixture_fail(f, DI_ERR_IO, "cannot create /dev/null");
    memcpy(f->options.cache_dir, cache, sizeof cache);
}

/* The optional file is linked before the one that makes a snapshot: whatever ends the work between
 * the two, nothing looks whole. */
static void a_snapshot_that_cannot_be_finished(void **state)
{
    di_hub_fixture *f = *state;
    di_hub_fixture_leave_part(f, SHARD_1, "", 0); /* makes the folders above */
    char path[DI_HUB_PATH_BYTES];
    static const char *const folders[] = {"snapshots", "snapshots/" DI_FAKE_COMMIT,
                                          "snapshots/" DI_FAKE_COMMIT "/generation_config.json"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s", di_hub_fixture_path(f, folders[i], ""));
        assert_int_equal(mkdir(path, 0777), 0);
    }
    di_hub_fixture_fail(f, DI_ERR_IO, "generation_config.json: Is a directory");
    assert_int_equal(di_hub_fixture_size(f, "refs", "main"), -1);
    assert_int_equal(di_hub_fixture_size(f, "snapshots/" DI_FAKE_COMMIT, "config.json"), -1);
    assert_int_equal(rmdir(path), 0);
    di_hub_fixture_succeed(f);
    di_hub_fixture_check_snapshot(f);
}

/* -------------------------------------------------------------------------------- hostile answers
 */

static void names_in_an_index_stay_in_the_folder(void **state)
{
    di_hub_fixture *f = *state;
    static const char *const names[] = {
        "../x.safetensors", "/tmp/x", "a/b.safetensors", ".x", "", "a\\nb", "..", "a b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char index[128];
        snprintf(index, sizeof index, "{\"weight_map\": {\"t\": \"%s\"}}", names[i]);
        di_fake_hub_stop(&f->hub);
        di_fake_hub_start(&f->hub);
        snprintf(f->options.endpoint, sizeof f->options.endpoint, "%s", f->hub.url);
        di_fake_hub_add(&f->hub, "model.safetensors.index.json", index, strlen(index), false);
        di_hub_fixture_fail(f, DI_ERR_INPUT, "weight_map of t: found ");
        assert_non_null(strstr(f->error.text, "wanted a plain file name"));
        assert_int_equal(di_fake_hub_count(&f->hub, "/cdn/"), 0);
    }
}

static void bad_indexes_are_refused(void **state)
{
    di_hub_fixture *f = *state;
    static const char *const rows[][2] = {
        {"{\"weight_map\": {}}", "found no tensors"},
        {"{}", "found no tensors"},
        {"[]", "found no tensors"},
        {"{\"weight_map\": {\"t\": 5}}", "wanted a plain file name"},
        {"{\"weight_map\": {\"t\": \"a\", \"t\": \"b\"}}", "duplicate"},
        {"{\"weight_map\": ", "line 1"},
        {"", "line"},
        {"{\"weight_map\": {\"t\": \"absent.safetensors\"}}", "has no absent.safetensors"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        di_fake_hub_stop(&f->hub);
        di_fake_hub_start(&f->hub);
        snprintf(f->options.endpoint, sizeof f->options.endpoint, "%s", f->hub.url);
        di_fake_hub_add(&f->hub, "model.safetensors.index.json", rows[i][0], strlen(rows[i][0]),
                        false);
        di_hub_fixture_fail(f, DI_ERR_INPUT, rows[i][1]);
    }
}

static void bad_listings_are_refused(void **state)
{
    di_hub_fixture *f = *state;
#define COMMIT "\"sha\": \"" DI_FAKE_COMMIT "\""
#define CONFIG "\"rfilename\": \"config.json\""
    static const char *const rows[][2] = {
        {"", "empty answer"},
        {"<html>", "list of files of " DI_FAKE_REPO ": line 1"},
        {"[]", "found no commit"},
        {"{\"siblings\": []}", "found no commit"},
        {"{\"sha\": \"../../../etc\", \"siblings\": []}", "found no commit"},
        {"{\"sha\": \"\", \"siblings\": []}", "found no commit"},
        {"{" COMMIT "}", "found no list of files"},
        {"{" COMMIT ", \"siblings\": {}}", "found no list of files"},
        {"{" COMMIT ", \"siblings\": []}", "has no config.json"},
        {"{" COMMIT ", \"siblings\": [5]}", "siblings[0]: found no \"rfilename\""},
        {"{" COMMIT ", \"siblings\": [{\"rfilename\": 1}]}", "found no \"rfilename\""},
        {"{" COMMIT ", \"siblings\": [{\"rfilename\": \"../config.json\"}]}", "has no config.json"},
        {"{" COMMIT ", \"siblings\": [{" CONFIG ", \"size\": -1}]}", "found a size of -1"},
        {"{" COMMIT ", \"siblings\": [{" CONFIG ", \"size\": 9000000000000000000}]}",
         "found a size of 9000000000000000000"},
        {"{" COMMIT ", \"siblings\": [{" CONFIG ", \"size\": 1, \"blobId\": \"../../x\"}]}",
         "wanted 40 hex digits"},
        {"{" COMMIT ", \"siblings\": [{" CONFIG ", \"lfs\": {\"size\": 1, \"sha256\": \"0\"}}]}",
         "wanted 64 hex digits"},
    };
#undef COMMIT
#undef CONFIG
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        f->hub.listing = rows[i][0];
        di_hub_fixture_fail(f, DI_ERR_INPUT, rows[i][1]);
        assert_int_equal(di_fake_hub_count(&f->hub, "/resolve/"), 0);
    }
}

#define HUB_TEST(name)                                                                             \
    cmocka_unit_test_setup_teardown(name, di_hub_fixture_setup, di_hub_fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HUB_TEST(a_dropped_connection_is_resumed),
        HUB_TEST(a_body_without_length_is_resumed),
        HUB_TEST(a_later_run_goes_on),
        HUB_TEST(a_part_that_is_whole_is_only_checked),
        HUB_TEST(a_part_that_is_too_long_is_dropped),
        HUB_TEST(a_damaged_part_is_fetched_anew),
        HUB_TEST(a_server_without_ranges_sends_all_again),
        HUB_TEST(a_refused_range_starts_over),
        HUB_TEST(another_range_is_refused),
        HUB_TEST(an_interrupt_keeps_what_has_come),
        HUB_TEST(one_failure_stops_the_others),
        HUB_TEST(corrupted_weights_are_refused),
        HUB_TEST(a_corrupted_small_file_is_refused),
        HUB_TEST(a_wrong_length_is_refused),
        HUB_TEST(a_shorter_length_is_refused),
        HUB_TEST(too_many_bytes_are_refused),
        HUB_TEST(another_etag_is_refused),
        HUB_TEST(another_commit_is_refused),
        HUB_TEST(another_linked_size_is_refused),
        HUB_TEST(busy_servers_are_asked_again),
        HUB_TEST(retries_are_bounded),
        HUB_TEST(progress_renews_the_retries),
        HUB_TEST(redirects_within_the_endpoint),
        HUB_TEST(waits_are_those_the_server_asks_for),
        HUB_TEST(refusals_say_what_to_do),
        HUB_TEST(a_circle_of_redirects_ends),
        HUB_TEST(nobody_listens),
        HUB_TEST(a_folder_that_cannot_be_made),
        HUB_TEST(a_snapshot_that_cannot_be_finished),
        HUB_TEST(names_in_an_index_stay_in_the_folder),
        HUB_TEST(bad_indexes_are_refused),
        HUB_TEST(bad_listings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
