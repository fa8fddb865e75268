/* Tool calls against the conformance rows of JSON Schema: a schema as the parameters of a tool, and
 * as the one parameter of a tool, with the rows' texts as arguments. What is taken must be valid,
 * and what is valid must be taken, but for what docs/structured-output.md says about calls. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "deepinfer/tools.h"
#include "dsml.h"
#include "grammar/json_schema_dom.h"
#include "xz.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != DI_OK)                                                                       \
            fail_msg("%s", di_last_error());                                                       \
    } while (0)

typedef struct score {
    int right, wrong_accept, wrong_reject;
    int refused; /* rows of schemas that were refused, valid ones */
} score;

typedef struct run {
    bool is_parameter, is_strict;
    const char *label;
    score score;
} run;

/* ---- a text of JSON as arguments */

static const char *skip_blank(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Behind the JSON value at `at`, which is well-formed. */
static const char *skip_value(const char *at)
{
    int depth = 0;
    bool is_string = false;
    for (; *at != '\0'; at++) {
        if (is_string && *at == '\\') {
            at++;
        } else if (is_string) {
            is_string = *at != '"';
            if (!is_string && depth == 0)
                return at + 1;
        } else if (*at == '"') {
            is_string = true;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if (*at == '}' || *at == ']') {
            if (depth == 0)
                return at;
            if (--depth == 0)
                return at + 1;
        } else if (depth == 0 && (*at == ',' || strchr(" \t\r\n", *at) != NULL)) {
            return at;
        }
    }
    return at;
}

/* JSON in calls has no mark's first character but as an escape. */
static void put_json(const char *text, size_t len, di_buf *out)
{
    static const char mark[] = "｜";
    for (size_t i = 0; i < len; i++) {
        const bool is_mark = i + 3 <= len && memcmp(text + i, mark, 3) == 0;
        OK(is_mark ? di_buf_puts(out, "\\uff5c") : di_buf_append(out, text + i, 1));
        i += is_mark ? 2 : 0;
    }
}

static void put_parameter(const char *key, size_t key_len, const di_sj_value *value,
                          const char *text, size_t len, di_buf *out)
{
    const bool is_string = value->type == DI_SJ_STRING;
    OK(di_buf_puts(out, "<｜DSML｜ parameter name=\""));
    OK(di_buf_append(out, key, key_len));
    OK(di_buf_printf(out, "\" string=\"%s\">", is_string ? "true" : "false"));
    if (is_string)
        OK(di_buf_append(out, value->text, value->len));
    else
        put_json(text, len, out);
    OK(di_buf_puts(out, "</｜DSML｜ parameter>"));
}

static void put_parameters(const di_sj_value *object, const char *text, di_buf *out)
{
    const char *at = skip_blank(text) + 1;
    for (uint32_t i = 0; i < object->n; i++) {
        const di_sj_value *value = &object->items[i];
        at = skip_blank(skip_value(skip_blank(at))) + 1; /* key and colon */
        at = skip_blank(at);
        const char *end = skip_value(at);
        OK(di_buf_puts(out, i > 0 ? "\n" : ""));
        put_parameter(value->key, value->key_len, value, at, (size_t)(end - at), out);
        at = skip_blank(end) + 1;
    }
}

/* The call with a row's text; false if it is no text that arguments can be made of. */
static bool call_of(const run *r, const char *text, size_t len, di_buf *out)
{
    di_arena arena = {0};
    di_sj_document document;
    bool can_be = strlen(text) == len && len > 0 && strchr(" \t\r\n", text[0]) == NULL &&
                  strchr(" \t\r\n", text[len - 1]) == NULL &&
                  di_sj_parse(&arena, text, len, 200, &document) == DI_OK;
    can_be = can_be && (r->is_parameter || document.root->type == DI_SJ_OBJECT);
    OK(di_buf_puts(out, "\n\n" CALLS "\n" INVOKE("f")));
    if (can_be && r->is_parameter)
        put_parameter("v", 1, document.root, text, len, out);
    else if (can_be)
        put_parameters(document.root, text, out);
    OK(di_buf_puts(out, "\n" INVOKE_END "\n" CALLS_END));
    di_arena_free(&arena);
    return can_be;
}

/* ---- rows */

/* The validator behind these labels takes a member `__proto__` for undeclared. */
static bool is_mislabelled(const char *id)
{
    static const char *const ids[] = {"js20-properties-5-6", "js20-properties-5t-6",
                                      "js7-properties-5-6"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (strcmp(ids[i], id) == 0)
            return true;
    return false;
}

static void score_row(run *r, di_checker *checker, const json_t *row)
{
    const char *id = json_string_value(json_object_get(row, "id"));
    const json_t *text = json_object_get(row, "text"), *label = json_object_get(row, r->label);
    DI_BUF_AUTO call = {0};
    bool found;
    if (label == NULL || !call_of(r, json_string_value(text), json_string_length(text), &call))
        return;
    const bool wanted = json_is_true(label);
    if (checker == NULL) {
        r->score.refused += wanted;
        return;
    }
    OK(di_checker_match(checker, di_buf_str(&call), call.len, &found));
    if (found && !wanted && is_mislabelled(id))
        return;
    r->score.right += found == wanted;
    r->score.wrong_accept += found && !wanted;
    r->score.wrong_reject += !found && wanted;
    if (found && !wanted)
        print_message("%s: accepted\n", id);
}

/* May become a part of another one: with an identifier its references stay its own. */
static bool is_movable(const char *schema)
{
    static const char *const words[] = {"$id", "$schema", "\"id\"", "$dynamic", "$recursive"};
    if (strncmp(schema, "{\"", 2) != 0)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(schema, words[i]) != NULL)
            return false;
    return true;
}

static void score_schema(run *r, const json_t *line)
{
    const char *schema = json_string_value(json_object_get(line, "schema"));
    const json_t *row;
    size_t i;
    di_checker *checker = NULL;
    DI_BUF_AUTO tools = {0};
    if (r->is_parameter && !is_movable(schema))
        return;
    OK(di_buf_printf(
        &tools, "[{\"function\": {\"name\": \"f\", \"strict\": %s, \"parameters\": %s%s%s}}]",
        r->is_strict ? "true" : "false",
        r->is_parameter ? "{\"properties\": {\"v\": {\"$id\": \"http://v.test/v\", " : "",
        schema + r->is_parameter, r->is_parameter ? "}, \"required\": [\"v\"]}" : ""));
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = DI_SCHEMA_TOOL_CALLS;
    args.schema = di_buf_str(&tools);
    args.max_whitespace = -1;
    args.any_order = true;
    if (di_checker_create(&args, NULL, &checker) != DI_OK)
        checker = NULL;
    json_array_foreach(json_object_get(line, "rows"), i, row) score_row(r, checker, row);
    di_checker_destroy(checker);
}

static score run_file(const char *name, run r)
{
    DI_BUF_AUTO path = {0};
    DI_BUF_AUTO text = {0};
    const char *line;
    size_t at = 0, len;
    OK(di_buf_printf(&path, "%s/cases/structured/%s", DI_TEST_DATA, name));
    OK(di_test_xz_read(di_buf_str(&path), &text));
    while (di_test_next_line(&text, &at, &line, &len)) {
        json_t *value = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        score_schema(&r, value);
        json_decref(value);
    }
    print_message(
        "%s, as %s: %d right, %d accepted and %d refused wrongly; %d of refused schemas\n", name,
        r.is_parameter ? "a parameter" : "parameters", r.score.right, r.score.wrong_accept,
        r.score.wrong_reject, r.score.refused);
    return r.score;
}

/* Refused although they are valid: several parameters of a kind that the schema does not name, or
 * one where it says nothing of such, and a string that holds the format's own tag. */
static void as_parameters(void **state)
{
    (void)state;
    run r = {.is_strict = true, .label = "valid_closed"};
    score s = run_file("json_schema.jsonl.xz", r);
    assert_int_equal(s.wrong_accept, 0);
    assert_in_range(s.right, 2663, INT32_MAX);
    assert_in_range(s.wrong_reject, 0, 30);
    r = (run){.label = "valid"}; /* these schemas are silent, mostly */
    s = run_file("json_schema_random.jsonl.xz", r);
    assert_int_equal(s.wrong_accept, 0);
    assert_in_range(s.right, 870, INT32_MAX);
}

static void as_a_parameter(void **state)
{
    (void)state;
    const run r = {.is_parameter = true, .label = "valid"};
    const score s = run_file("json_schema.jsonl.xz", r);
    const score random = run_file("json_schema_random.jsonl.xz", r);
    assert_int_equal(s.wrong_accept + s.wrong_reject, 0);
    assert_in_range(s.right, 1818, INT32_MAX);
    assert_int_equal(random.wrong_accept + random.wrong_reject, 0);
    assert_in_range(random.right, 4142, INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_parameters),
                                       cmocka_unit_test(as_a_parameter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
