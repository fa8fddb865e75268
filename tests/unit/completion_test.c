/* text/completion.h: the strict parser against the reference's cases; the streaming parser gives
 * the same for every cut, never markup, never less than it was given, in linear work. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "deepinfer/tools.h"
#include "text/completion.h"
#include "text/encoding.h"
#include "dsml.h"
#include "xz.h"

#define CASES DI_TEST_DATA "/cases/"

/* ------------------------------------------------------------------- events as one short text */

/* Deltas written down as R"..." C"..." T name {...}, runs of one kind joined. */
typedef struct record {
    di_buf text;
    di_delta_kind kind;
    size_t n_deltas;
    bool has_run;
    bool has_half_character;
} record;

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static bool write_delta(void *user, di_delta_kind kind, const char *name, const char *text,
                        size_t len)
{
    record *r = user;
    r->n_deltas++;
    assert_true(len > 0);
    r->has_half_character |= is_continuation(text[0]);
    if (kind == DI_DELTA_TOOL_CALL) {
        assert_int_equal(
            di_buf_printf(&r->text, "%sT %s %.*s\n", r->has_run ? "\n" : "", name, (int)len, text),
            DI_OK);
        r->has_run = false;
        return true;
    }
    assert_null(name);
    if (!r->has_run || r->kind != kind)
        assert_int_equal(di_buf_printf(&r->text, "%s%c ", r->has_run ? "\n" : "",
                                       kind == DI_DELTA_REASONING ? 'R' : 'C'),
                         DI_OK);
    assert_int_equal(di_buf_append(&r->text, text, len), DI_OK);
    r->has_run = true;
    r->kind = kind;
    return true;
}

static void push_range(di_completion_stream *stream, const char *text, size_t begin, size_t end)
{
    if (di_completion_push(stream, text + begin, end - begin) != DI_OK)
        fail_msg("%s: %s", text, di_last_error());
}

/* Pieces of `step` bytes, or two pieces cut at `cut` when step is 0. */
static void run_stream(const char *text, const char *mode, size_t step, size_t cut, record *out)
{
    di_completion_stream *stream;
    const size_t len = strlen(text);
    *out = (record){0};
    assert_int_equal(di_completion_open(mode, write_delta, out, &stream), DI_OK);
    if (step) {
        for (size_t at = 0; at < len; at += step)
            push_range(stream, text, at, at + step < len ? at + step : len);
    } else {
        push_range(stream, text, 0, cut);
        push_range(stream, text, cut, len);
    }
    assert_int_equal(di_completion_finish(stream), DI_OK);
    di_completion_close(stream);
}

/* All cuts into two pieces, pieces of one byte and of three. */
static void assert_stream(const char *mode, const char *text, const char *wanted)
{
    record r;
    const size_t len = strlen(text);
    for (size_t cut = 0; cut <= len + 2; cut++) {
        const size_t step = cut <= len ? 0 : cut == len + 1 ? 1 : 3;
        run_stream(text, mode, step, cut, &r);
        if (strcmp(di_buf_str(&r.text), wanted) != 0)
            fail_msg("%s\ncut at %zu of %zu gave\n%s\nwanted\n%s", text, cut, len,
                     di_buf_str(&r.text), wanted);
        di_buf_free(&r.text);
    }
}

/* ------------------------------------------------------------------------------- given cases */

/* What a message's stream looks like in write_delta's spelling. */
static void record_of(const json_t *message, di_buf *out)
{
    const char *reasoning = json_string_value(json_object_get(message, "reasoning_content"));
    const char *content = json_string_value(json_object_get(message, "content"));
    if (reasoning[0])
        assert_int_equal(di_buf_printf(out, "R %s", reasoning), DI_OK);
    if (content[0])
        assert_int_equal(di_buf_printf(out, "%sC %s", out->len ? "\n" : "", content), DI_OK);
    bool has_run = out->len > 0;
    size_t i;
    json_t *call;
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        const json_t *function = json_object_get(call, "function");
        assert_int_equal(di_buf_printf(out, "%sT %s %s\n", has_run ? "\n" : "",
                                       json_string_value(json_object_get(function, "name")),
                                       json_string_value(json_object_get(function, "arguments"))),
                         DI_OK);
        has_run = false;
    }
}

/* The encoder writes the parsed message back to the same text. */
static void check_inverse(const json_t *message, const char *mode, const char *text)
{
    json_t *request = json_pack("{s:s, s:[{s:s, s:s}, O]}", "thinking_mode", mode, "messages",
                                "role", "user", "content", "q", message);
    di_chat_prompt prompt = {0};
    assert_int_equal(di_chat_render(request, &prompt), DI_OK);
    assert_true(prompt.text.len > strlen(text));
    assert_string_equal(prompt.text.data + prompt.text.len - strlen(text), text);
    di_chat_prompt_free(&prompt);
    json_decref(request);
}

static bool check_parse(const json_t *row)
{
    const char *text = json_string_value(json_object_get(row, "text"));
    const char *mode = json_string_value(json_object_get(row, "thinking_mode"));
    const json_t *wanted = json_object_get(row, "message");
    char *found_text = NULL;
    const di_status status = di_chat_parse_text(text, strlen(text), mode, &found_text);
    if (!wanted) {
        free(found_text);
        return status == DI_ERR_INPUT && json_is_true(json_object_get(row, "error"));
    }
    json_t *found = status == DI_OK ? json_loads(found_text, 0, NULL) : NULL;
    const bool is_right = found && json_equal(found, wanted);
    if (!is_right)
        print_error("%s: %s\n", text, status == DI_OK ? found_text : di_last_error());
    free(found_text);
    if (is_right) {
        DI_BUF_AUTO stream = {0};
        record_of(wanted, &stream);
        assert_stream(mode, text, di_buf_str(&stream));
        check_inverse(found, mode, text);
    }
    json_decref(found);
    return is_right;
}

static void given_completions(void **state)
{
    (void)state;
    DI_BUF_AUTO text = {0};
    assert_int_equal(di_test_xz_read(CASES "chat/chat_parse.jsonl.xz", &text), DI_OK);
    size_t at = 0, len;
    const char *line;
    int n = 0, n_right = 0;
    for (; di_test_next_line(&text, &at, &line, &len); n++) {
        json_t *row;
        assert_int_equal(di_json_parse(line, len, "case", false, &row), DI_OK);
        n_right += check_parse(row);
        json_decref(row);
    }
    assert_int_equal(n, 100);
    assert_int_equal(n_right, 100);
}

/* --------------------------------------------------------------------------------- bug rows */

static json_t *load_bug(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, CASES "bugs/%s", name);
    json_t *value;
    assert_int_equal(di_json_load(path, 1 << 20, &value), DI_OK);
    return value;
}

/* The row is written in V4's spelling; in V4.1's, tags have a space and the block is named calls.
 */
static void to_v41(const char *v4, di_buf *out)
{
    static const char mark[] = "｜DSML｜", old_name[] = "tool_calls";
    while (*v4) {
        const char *found = strstr(v4, mark);
        const size_t n = found ? (size_t)(found - v4) + strlen(mark) : strlen(v4);
        assert_int_equal(di_buf_append(out, v4, n), DI_OK);
        v4 += n;
        if (!found)
            continue;
        assert_int_equal(di_buf_puts(out, " "), DI_OK);
        if (strncmp(v4, old_name, strlen(old_name)) == 0)
            v4 += strlen("tool_");
    }
}

static void v01_every_cut(void **state)
{
    (void)state;
    json_t *row = load_bug("V01/chunks.json");
    const char *v4 = json_string_value(json_object_get(row, "text"));
    DI_BUF_AUTO text = {0}, whole = {0};
    to_v41(v4, &text);
    assert_stream("chat", di_buf_str(&text),
                  "C Ok.\nT record_item {\"alpha\": \"a < b\\n2 <\", \"n\": [1,2]}\n");
    /* V04: V4's own spelling is ordinary text here */
    assert_int_equal(di_buf_printf(&whole, "C %s", v4), DI_OK);
    assert_stream("chat", v4, di_buf_str(&whole));
    json_decref(row);
}

static void v02_types_are_declared(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "{\"zip\": \"01234\"}",
        "{\"n\": \"01234\"}", /* not JSON: kept as text */
        "{\"o\": {\"a\":{\"b\":[true,null]}}}",
        "{\"s\": \"true\"}",
        "{\"e\": \"\"}",
        "{\"arguments\": \"--x\"}",
    };
    json_t *rows = load_bug("V02/cases.json");
    assert_int_equal(json_array_size(rows), 7);
    for (size_t i = 0; i < 6; i++) {
        DI_BUF_AUTO parameter = {0}, text = {0}, events = {0};
        to_v41(json_string_value(json_object_get(json_array_get(rows, i), "param")), &parameter);
        assert_int_equal(
            di_buf_printf(&text, "\n\n" CALLS "\n" INVOKE("f") "%s\n" INVOKE_END "\n" CALLS_END EOS,
                          di_buf_str(&parameter)),
            DI_OK);
        assert_int_equal(di_buf_printf(&events, "T f %s\n", wanted[i]), DI_OK);
        assert_stream("chat", di_buf_str(&text), di_buf_str(&events));
        char *message = NULL;
        assert_int_equal(di_chat_parse_text(text.data, text.len, "chat", &message), DI_OK);
        json_t *parsed = json_loads(message, 0, NULL);
        const json_t *call = json_array_get(json_object_get(parsed, "tool_calls"), 0);
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(call, "function"), "arguments")),
            wanted[i]);
        json_decref(parsed);
        free(message);
    }
    assert_stream("chat",
                  json_string_value(json_object_get(json_array_get(rows, 6), "stream_ends_with")),
                  "C 2 <");
    json_decref(rows);
}

static void v04_block_ends_reasoning(void **state)
{
    (void)state;
    json_t *row = load_bug("V04/v41.json");
    assert_stream("thinking", json_string_value(json_object_get(row, "v41")),
                  "R need it\nT f {\"q\": \"x\"}\n");
    json_decref(row);
    assert_stream("thinking", "a ｜DSML｜ b <｜DSML｜ calls b" CALLS "\nno</think>c",
                  "R a ｜DSML｜ b <｜DSML｜ calls b" CALLS "\nno\nC c");
    assert_stream("thinking", "a\n\n<｜DSML｜tool_calls>\n</think>c",
                  "R a\n\n<｜DSML｜tool_calls>\n\nC c");
}

/* ---------------------------------------------------------------------------------- streams */

static void held_text_is_flushed(void **state)
{
    (void)state;
    static const char *const tails[] = {
        "<",         "\n",     "\n\n",           "\n\n<｜DS",
        "<｜end▁of", "</thin", "<｜DSML｜ call", "\n\n\n\n<｜DSML｜",
        "<\n<\n\n<", EOS "x"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        DI_BUF_AUTO text = {0}, events = {0}, reasoning = {0};
        assert_int_equal(di_buf_printf(&text, "a%s", tails[i]), DI_OK);
        assert_int_equal(di_buf_printf(&events, "C a%s", tails[i]), DI_OK);
        assert_int_equal(di_buf_printf(&reasoning, "R a%s", tails[i]), DI_OK);
        assert_stream("chat", di_buf_str(&text), di_buf_str(&events));
        assert_stream("thinking", di_buf_str(&text), di_buf_str(&reasoning));
    }
}

static void ends(void **state)
{
    (void)state;
    assert_stream("chat", "", "");
    assert_stream("chat", EOS, "");
    assert_stream("chat", "a" EOS, "C a");
    assert_stream("chat", "a" EOS EOS, "C a" EOS);
    assert_stream("thinking", "a" EOS, "R a");
    assert_stream("thinking", "<think>a</think>\n\nb" EOS, "R a\nC \n\nb");
    assert_stream("chat", "<think>a</think>b", "R a\nC b");
    assert_stream("chat", "a <think>b</think>", "C a <think>b</think>");
    assert_stream("thinking", "<thin", "R <thin");
}

static void blocks(void **state)
{
    (void)state;
    assert_stream("chat", "a" ONE_CALL EOS, "C a\nT f {\"q\": \"x\"}\n");
    assert_stream("chat", "a\n\n\n" CALLS "\n" CALLS_END "b", "C a\nb");
    /* white space of any kind, no blank line before */
    assert_stream("chat", "a" CALLS " \n\t" INVOKE("f") "  " INVOKE_END " " CALLS_END,
                  "C a\nT f {}\n");
    assert_stream("thinking", "r</think>a" ONE_CALL "b" ONE_CALL EOS,
                  "R r\nC a\nT f {\"q\": \"x\"}\nC b\nT f {\"q\": \"x\"}\n");
    /* the end tag of the block is missing: the calls count, markup is not shown */
    assert_stream("chat", CALLS "\n" INVOKE("f") "\n" INVOKE_END "\n</｜DSML｜ cal", "T f {}\n");
    assert_stream("chat", CALLS "\n" INVOKE("f") "\n" INVOKE_END "\n" EOS, "T f {}\n");
    assert_stream("chat", CALLS "\n" INVOKE("f") "\n" INVOKE_END, "T f {}\n");
    /* values and names keep what looks like markup */
    assert_stream("chat",
                  CALLS "\n" INVOKE("a::b\"c")
                      PARAMETER("k\" x", "true", "</think>" EOS CALLS "\n") "\n" INVOKE_END
                                                                            "\n" CALLS_END,
                  "T a::b\"c {\"k\\\" x\": \"</think>" EOS CALLS "\\n\"}\n");
}

/* What is malformed comes out as the text that it is. */
static void malformed_blocks(void **state)
{
    (void)state;
    static const char *const rests[] = {
        "\n" INVOKE("f") PARAMETER("q", "maybe", "x") "\n" INVOKE_END "\n" CALLS_END,
        "\n" INVOKE("f") PARAMETER("q", "true", "x") PARAMETER("r", "true", "x") " y",
        "\n" INVOKE("f")
            PARAMETER("q", "true", "x") "\n" PARAMETER("q", "true", "x") "\n" INVOKE_END,
        "\n<｜DSML｜ invoke nam=\"f\">\n" INVOKE_END "\n" CALLS_END,
        "\n" INVOKE("f") PARAMETER("q", "true", "x") "\n",
        "\n" INVOKE("f") "<｜DSML｜ parameter name=\"q\" string=\"tr",
        "\n" INVOKE("f") "\n</｜DSML｜ invoke ",
        "\n" INVOKE("f") "\n</｜DSML｜ invok",
        "\n<｜DSML｜ invo",
        "\n",
        "",
        " mentioned",
        "\n" INVOKE("f") "\n</｜DSML｜ invoke x" ONE_CALL,
    };
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        DI_BUF_AUTO text = {0}, events = {0}, reasoning = {0};
        assert_int_equal(di_buf_printf(&text, "a\n\n" CALLS "%s", rests[i]), DI_OK);
        assert_int_equal(di_buf_printf(&events, "C a\n\n" CALLS "%s", rests[i]), DI_OK);
        assert_stream("chat", di_buf_str(&text), di_buf_str(&events));
        /* in a reasoning it is part of that, and the answer has its calls */
        assert_int_equal(di_buf_puts(&text, "</think>c" ONE_CALL EOS), DI_OK);
        assert_int_equal(
            di_buf_printf(&reasoning, "R a\n\n" CALLS "%s\nC c\nT f {\"q\": \"x\"}\n", rests[i]),
            DI_OK);
        const bool is_cut_value = i == 5; /* its value would run on into the answer */
        if (!is_cut_value && i != 12)
            assert_stream("thinking", di_buf_str(&text), di_buf_str(&reasoning));
    }
    /* a mention does not hide the block behind it; complete calls stay calls */
    assert_stream("chat", "use " CALLS " so" ONE_CALL, "C use " CALLS " so\nT f {\"q\": \"x\"}\n");
    assert_stream("chat", CALLS "\n" INVOKE("f") "\n" INVOKE_END "\n?" CALLS_END EOS,
                  "T f {}\nC \n?" CALLS_END);
}

static void whole_characters(void **state)
{
    (void)state;
    static const char *const text =
        "é<｜é\n你<／think>🙂</thé" ONE_CALL "🙂<｜end▁of▁é";
    record r = {0};
    di_completion_stream *stream;
    assert_int_equal(di_completion_open("thinking", write_delta, &r, &stream), DI_OK);
    for (size_t at = 0, len = strlen(text); at < len;) {
        size_t end = at + 1;
        while (end < len && is_continuation(text[end]))
            end++;
        push_range(stream, text, at, end);
        at = end;
    }
    assert_int_equal(di_completion_finish(stream), DI_OK);
    assert_false(r.has_half_character);
    assert_string_equal(
        di_buf_str(&r.text),
        "R é<｜é\n你<／think>🙂</thé\nT f {\"q\": \"x\"}\nC 🙂<｜end▁of▁é");
    di_completion_close(stream);
    di_buf_free(&r.text);
}

/* Text that can be shown is shown at once: nothing but the start of a mark is held back. */
static void text_is_not_delayed(void **state)
{
    (void)state;
    record r = {0};
    di_completion_stream *stream;
    assert_int_equal(di_completion_open("chat", write_delta, &r, &stream), DI_OK);
    push_range(stream, "Hello, world", 0, 12);
    assert_string_equal(di_buf_str(&r.text), "C Hello, world");
    push_range(stream, "\n\n<｜D", 0, strlen("\n\n<｜D"));
    assert_string_equal(di_buf_str(&r.text), "C Hello, world");
    push_range(stream, "x", 0, 1);
    assert_string_equal(di_buf_str(&r.text), "C Hello, world\n\n<｜Dx");
    assert_int_equal(r.n_deltas, 2);
    di_completion_close(stream);
    di_buf_free(&r.text);
}

/* ----------------------------------------------------------------------------------- limits */

static bool ignore_delta(void *user, di_delta_kind kind, const char *name, const char *text,
                         size_t len)
{
    (void)kind;
    (void)name;
    (void)text;
    *(size_t *)user += len;
    return true;
}

/* Work of n repetitions of `unit` (a # in it is its number) behind `head`, in pieces of `step`
 * bytes. */
static size_t measure(const char *head, const char *unit, size_t n, size_t step, size_t *text_len)
{
    DI_BUF_AUTO text = {0};
    size_t n_out = 0;
    assert_int_equal(di_buf_puts(&text, head), DI_OK);
    for (size_t i = 0; i < n; i++)
        for (const char *c = unit; *c; c++)
            assert_int_equal(
                *c == '#' ? di_buf_printf(&text, "%zu", i) : di_buf_append(&text, c, 1), DI_OK);
    di_completion_parser *parser;
    assert_int_equal(
        di_completion_parser_create(true, DI_COMPLETION_LENIENT, ignore_delta, &n_out, &parser),
        DI_OK);
    for (size_t at = 0; at < text.len; at += step)
        assert_int_equal(di_completion_parser_push(parser, text.data + at,
                                                   at + step < text.len ? step : text.len - at),
                         DI_OK);
    assert_int_equal(di_completion_parser_finish(parser), DI_OK);
    const size_t work = di_completion_parser_work(parser);
    di_completion_parser_free(parser);
    *text_len = text.len;
    return work;
}

static void work_is_linear(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "word "},
        {"", "<"},
        {"", "\n"},
        {"", "\n\n<"},
        {"", "<｜DSML｜ call"},
        {"", CALLS},
        {"", CALLS "\n"},
        {"", CALLS "\n<｜DSML｜ invoke"},
        {"", EOS},
        {"", "</think"},
        {CALLS, " "},
        {CALLS "\n" INVOKE("f"), "x"},
        {CALLS "\n" INVOKE("f"), "<｜DSML｜ paramete"},
        {CALLS "\n" INVOKE("f") "<｜DSML｜ parameter", "\" string=\"true\""},
        {CALLS "\n" INVOKE("f") PARAMETER("q", "true", "x"), " "},
        {CALLS "\n" INVOKE("f") PARAMETER("q", "true", "x"),
         "\n<｜DSML｜ parameter name=\"#\" string=\"true\">x</｜DSML｜ parameter>"},
        {CALLS, "\n" INVOKE("f") "\n" INVOKE_END},
        {CALLS, "\n" INVOKE("f") PARAMETER("q", "false", "[1]") "\n" INVOKE_END},
        {"", ONE_CALL},
    };
    enum {
        N = 2000,
        MOST = 100
    }; /* comparisons a byte: an open mark is tried again with each piece */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const size_t steps[] = {1, 7, SIZE_MAX / 4};
        for (size_t j = 0; j < sizeof steps / sizeof *steps; j++) {
            size_t len, len_twice;
            const size_t once = measure(cases[i][0], cases[i][1], N, steps[j], &len);
            const size_t twice = measure(cases[i][0], cases[i][1], 2 * N, steps[j], &len_twice);
            const double each = (double)once / (double)len;
            if ((double)twice / (double)len_twice > 1.05 * each + 0.1 || each > MOST)
                fail_msg("case %zu, pieces of %zu: %zu for %zu bytes, %zu for %zu", i, steps[j],
                         once, len, twice, len_twice);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_completions),
        cmocka_unit_test(v01_every_cut),
        cmocka_unit_test(v02_types_are_declared),
        cmocka_unit_test(v04_block_ends_reasoning),
        cmocka_unit_test(held_text_is_flushed),
        cmocka_unit_test(ends),
        cmocka_unit_test(blocks),
        cmocka_unit_test(malformed_blocks),
        cmocka_unit_test(whole_characters),
        cmocka_unit_test(text_is_not_delayed),
        cmocka_unit_test(work_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
