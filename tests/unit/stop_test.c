/* sample/stop.h against searching the whole text, cut in every way. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/philox.h"
#include "sample/stop.h"

enum { MOST_STOPS = 4, MOST_TEXT = 24 };

typedef struct scene {
    char stop_text[MOST_STOPS][8];
    const char *stop[MOST_STOPS];
    size_t n_stop;
    char text[MOST_TEXT + 1];
    size_t len;
} scene;

typedef struct verdict {
    int matched;
    size_t n_out; /* bytes of text given out in the end */
} verdict;

/* The match that ends first, of those the longest; one that ends within the first n_disabled bytes
 * does not count. */
static verdict reference(const scene *s, size_t n_disabled)
{
    for (size_t end = n_disabled + 1; end <= s->len; end++) {
        int found = -1;
        size_t longest = 0;
        for (size_t i = 0; i < s->n_stop; i++) {
            const size_t len = strlen(s->stop[i]);
            if (len <= end && len > longest && memcmp(s->text + end - len, s->stop[i], len) == 0) {
                longest = len;
                found = (int)i;
            }
        }
        if (found >= 0)
            return (verdict){found, end - longest};
    }
    return (verdict){-1, s->len};
}

/* Longest end of the first n bytes that is a proper beginning of a stop string. */
static size_t reference_held(const scene *s, size_t n)
{
    size_t held = 0;
    for (size_t i = 0; i < s->n_stop; i++) {
        const size_t len = strlen(s->stop[i]);
        for (size_t k = 1; k < len && k <= n; k++)
            if (k > held && memcmp(s->text + n - k, s->stop[i], k) == 0)
                held = k;
    }
    return held;
}

/* Feeds the pieces text[cuts[i], cuts[i + 1]) and checks what comes out at every moment. */
static void run(const scene *s, const size_t *cuts, size_t n_pieces, size_t n_disabled)
{
    const verdict want = reference(s, n_disabled);
    di_stop_matcher *matcher;
    DI_BUF_AUTO out = {0};
    int matched = -1;
    assert_int_equal(di_stop_create(s->stop, s->n_stop, &matcher), DI_OK);
    for (size_t i = 0; i < n_pieces && matched < 0; i++) {
        const size_t begin = cuts[i], end = cuts[i + 1];
        const bool is_enabled = begin >= n_disabled;
        assert_int_equal(
            di_stop_push(matcher, s->text + begin, end - begin, is_enabled, &out, &matched), DI_OK);
        if (matched < 0) {
            const size_t held = reference_held(s, end);
            assert_int_equal(di_stop_held_bytes(matcher), held);
            assert_int_equal(out.len, end - held);
        }
    }
    assert_int_equal(matched, want.matched);
    int again = 0;
    if (matched >= 0) {
        assert_int_equal(di_stop_push(matcher, "later", 5, true, &out, &again), DI_OK);
        assert_int_equal(again, -1);
    }
    assert_int_equal(di_stop_finish(matcher, &out), DI_OK);
    assert_int_equal(di_stop_held_bytes(matcher), 0);
    assert_int_equal(out.len, want.n_out);
    assert_memory_equal(di_buf_str(&out), s->text, want.n_out);
    di_stop_destroy(matcher);
}

static void all_cuts(const scene *s)
{
    size_t cuts[MOST_TEXT + 1];
    for (size_t i = 0; i <= s->len; i++)
        cuts[i] = i;
    for (size_t n_disabled = 0; n_disabled <= s->len; n_disabled++)
        run(s, cuts, s->len, n_disabled); /* byte by byte */
    for (size_t a = 0; a <= s->len; a++) {
        for (size_t b = a; b <= s->len; b++) {
            const size_t three[] = {0, a, b, s->len};
            run(s, three, 3, 0);
            if (a > 0)
                run(s, three, 3, a);
        }
    }
}

static scene make_scene(const char *text, size_t n_stop, const char *const *stop)
{
    scene s = {.n_stop = n_stop, .len = strlen(text)};
    memcpy(s.text, text, s.len + 1);
    for (size_t i = 0; i < n_stop; i++)
        s.stop[i] = stop[i];
    return s;
}

static void chosen_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *stop[3], *want;
        int matched;
    } cases[] = {
        {"hello world", {"wor"}, "hello ", 0},
        {"abcd", {"abcd", "bc"}, "a", 1},   /* complete first */
        {"xabcd", {"bcd", "abcd"}, "x", 1}, /* complete together: began first */
        {"aaab", {"aab"}, "a", 0},          /* falls back inside itself */
        {"abababc", {"ababc"}, "ab", 0},    /* the same */
        {"a stop", {"stopp", "top!"}, "a stop", -1},
        {"stop", {"stop"}, "", 0},
        {"one\n\ntwo", {"\n\n", "\n"}, "one", 1},
        {"naïve é", {"é"}, "naïve ", 0},
        {"èé", {"é"}, "è", 0}, /* shares the first byte */
        {"", {"x"}, "", -1},
        {"no stops", {NULL}, "no stops", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = 0;
        while (n < 3 && cases[i].stop[n])
            n++;
        const scene s = make_scene(cases[i].text, n, cases[i].stop);
        const verdict v = reference(&s, 0);
        assert_int_equal(v.matched, cases[i].matched);
        assert_int_equal(v.n_out, strlen(cases[i].want));
        all_cuts(&s);
    }
}

/* Two letters only, so that borders and overlaps of all kinds come up. */
static void random_texts(void **state)
{
    (void)state;
    int n_matched = 0;
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t bits[4];
        scene s = {0};
        di_philox4x32((di_philox_counter){{round, 0, 0, 0}}, 5, bits);
        s.n_stop = 1 + bits[0] % MOST_STOPS;
        s.len = bits[1] % (MOST_TEXT + 1);
        for (uint32_t i = 0; i < s.n_stop; i++) {
            di_philox4x32((di_philox_counter){{round, 1, i, 0}}, 5, bits);
            const uint32_t len = 1 + bits[0] % 6;
            for (uint32_t k = 0; k < len; k++)
                s.stop_text[i][k] = bits[1] >> k & 1 ? 'a' : 'b';
            s.stop[i] = s.stop_text[i];
        }
        for (uint32_t i = 0; i < s.len; i++) {
            di_philox4x32((di_philox_counter){{round, 2, i, 0}}, 5, bits);
            s.text[i] = bits[0] & 1 ? 'a' : 'b';
        }
        n_matched += reference(&s, 0).matched >= 0;
        all_cuts(&s);
    }
    assert_true(n_matched > 100 && n_matched < 400);
}

/* A string completed too early (min_tokens) is ordinary text; one that began then counts. */
static void matching_can_be_off(void **state)
{
    (void)state;
    static const char *const stop[] = {"END"};
    di_stop_matcher *matcher;
    DI_BUF_AUTO out = {0};
    int matched;
    assert_int_equal(di_stop_create(stop, 1, &matcher), DI_OK);
    assert_int_equal(di_stop_push(matcher, "an END, E", 9, false, &out, &matched), DI_OK);
    assert_int_equal(matched, -1);
    assert_string_equal(di_buf_str(&out), "an END, ");
    assert_int_equal(di_stop_push(matcher, "ND", 2, true, &out, &matched), DI_OK);
    assert_int_equal(matched, 0);
    assert_string_equal(di_buf_str(&out), "an END, ");
    di_stop_destroy(matcher);
}

static void bytes_that_are_nul(void **state)
{
    (void)state;
    static const char *const stop[] = {"ab"};
    di_stop_matcher *matcher;
    DI_BUF_AUTO out = {0};
    int matched;
    assert_int_equal(di_stop_create(stop, 1, &matcher), DI_OK);
    assert_int_equal(di_stop_push(matcher, "a\0b\0ab", 6, true, &out, &matched), DI_OK);
    assert_int_equal(matched, 0);
    assert_int_equal(out.len, 4);
    assert_memory_equal(out.data, "a\0b\0", 4);
    di_stop_destroy(matcher);

    /* Also right after a string that was complete but did not count. */
    di_buf_clear(&out);
    assert_int_equal(di_stop_create(stop, 1, &matcher), DI_OK);
    assert_int_equal(di_stop_push(matcher, "ab\0", 3, false, &out, &matched), DI_OK);
    assert_int_equal(di_stop_held_bytes(matcher), 0);
    assert_int_equal(di_stop_push(matcher, "ab", 2, true, &out, &matched), DI_OK);
    assert_int_equal(matched, 0);
    assert_int_equal(out.len, 3);
    di_stop_destroy(matcher);
}

static void empty_strings_are_refused(void **state)
{
    (void)state;
    static const char *const empty[] = {"a", ""}, *const missing[] = {NULL};
    di_stop_matcher *matcher;
    assert_int_equal(di_stop_create(empty, 2, &matcher), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), "stop[1]: found an empty text"));
    assert_int_equal(di_stop_create(missing, 1, &matcher), DI_ERR_ARGUMENT);
    assert_non_null(strstr(di_last_error(), "stop[0]: found NULL"));
    di_stop_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_texts),
        cmocka_unit_test(random_texts),
        cmocka_unit_test(matching_can_be_off),
        cmocka_unit_test(bytes_that_are_nul),
        cmocka_unit_test(empty_strings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
