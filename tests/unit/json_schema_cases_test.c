/* grammar/json_schema.h on the conformance rows: schemas of the official test suite and of the real
 * world with texts that must or must not be written, open and strict, in order and in any order. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "xz.h"

enum { CORE, EXTENDED, BEYOND, N_TIERS };

typedef struct score {
    int right, wrong_accept, wrong_reject;
    int refused_right; /* a schema that no row of satisfies */
    int unsupported;   /* a named keyword, where a row does */
    int refused_wrong; /* another error, where a row does */
} score;

typedef struct run {
    di_json_schema_options options;
    const char *label; /* "valid", "valid_closed" */
    bool is_silent;    /* wrong rows are not printed */
    score tiers[N_TIERS];
} run;

static int tier_of(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "tier"));
    if (name == NULL || strcmp(name, "core") == 0)
        return CORE;
    return strcmp(name, "extended") == 0 ? EXTENDED : BEYOND;
}

/* The acceptor, or NULL if the schema was refused. */
static di_acceptor *compile(const char *schema, size_t len, const di_json_schema_options *options)
{
    const di_grammar_limits limits = {0};
    di_grammar_builder *builder;
    di_grammar *grammar = NULL;
    di_acceptor *acceptor = NULL;
    uint32_t root;
    assert_int_equal(di_grammar_builder_create(&limits, &builder), DI_OK);
    di_status status = di_json_schema_parse(builder, schema, len, options, NULL, &root);
    if (status == DI_OK)
        status = di_grammar_build(builder, root, &grammar);
    di_grammar_builder_destroy(builder);
    if (status != DI_OK) {
        assert_true(status == DI_ERR_INPUT || status == DI_ERR_UNSUPPORTED);
        return NULL;
    }
    assert_int_equal(di_acceptor_create(grammar, NULL, &acceptor), DI_OK);
    di_grammar_unref(grammar);
    return acceptor;
}

static bool accepts(di_acceptor *acceptor, const char *text, size_t len, bool *is_prefix)
{
    di_matcher *matcher;
    assert_int_equal(di_matcher_create(acceptor, &matcher), DI_OK);
    assert_int_equal(di_matcher_accept(matcher, text, len, is_prefix), DI_OK);
    const bool may_end = *is_prefix && di_matcher_may_end(matcher);
    di_matcher_destroy(matcher);
    return may_end;
}

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

static void score_row(const json_t *row, di_acceptor *acceptor, bool wanted, const run *r, score *s)
{
    const char *id = json_string_value(json_object_get(row, "id"));
    const json_t *text = json_object_get(row, "text");
    bool is_prefix;
    const bool found =
        accepts(acceptor, json_string_value(text), json_string_length(text), &is_prefix);
    if (json_is_true(json_object_get(row, "prefix")) && !r->options.strict && !is_prefix)
        fail_msg("%s: a prefix of a valid text was refused", id);
    if (found != wanted && found && is_mislabelled(id))
        return;
    s->right += found == wanted;
    s->wrong_accept += found && !wanted;
    s->wrong_reject += !found && wanted;
    if (found != wanted && !r->is_silent)
        print_message("%s: %s\n", id, found ? "accepted" : "refused");
}

static void score_schema(const json_t *line, run *r)
{
    const json_t *schema = json_object_get(line, "schema"), *rows = json_object_get(line, "rows");
    const json_t *row;
    size_t i;
    bool has_valid = false;
    json_array_foreach(rows, i, row) has_valid |= json_is_true(json_object_get(row, r->label));
    di_acceptor *acceptor =
        compile(json_string_value(schema), json_string_length(schema), &r->options);
    const bool is_named = acceptor == NULL && strstr(di_last_error(), "cannot be enforced") != NULL;
    json_array_foreach(rows, i, row)
    {
        const json_t *label = json_object_get(row, r->label);
        score *s = &r->tiers[tier_of(row)];
        if (label == NULL)
            continue;
        if (acceptor != NULL)
            score_row(row, acceptor, json_is_true(label), r, s);
        else if (!has_valid)
            s->refused_right++;
        else if (is_named)
            s->unsupported++;
        else
            s->refused_wrong++;
    }
    di_acceptor_unref(acceptor);
}

static void run_file(const char *name, run *r)
{
    DI_BUF_AUTO path = {0};
    DI_BUF_AUTO text = {0};
    const char *line;
    size_t at = 0, len;
    assert_int_equal(di_buf_printf(&path, "%s/cases/structured/%s", DI_TEST_DATA, name), DI_OK);
    assert_int_equal(di_test_xz_read(di_buf_str(&path), &text), DI_OK);
    while (di_test_next_line(&text, &at, &line, &len)) {
        json_t *value = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        score_schema(value, r);
        json_decref(value);
    }
    static const char *const tiers[] = {"core", "extended", "beyond"};
    for (int i = 0; i < N_TIERS; i++) {
        const score s = r->tiers[i];
        print_message("%s, %s, %s: %d right, %d accepted and %d refused wrongly; schemas refused: "
                      "%d rightly, %d by name, %d wrongly\n",
                      name, r->label, tiers[i], s.right, s.wrong_accept, s.wrong_reject,
                      s.refused_right, s.unsupported, s.refused_wrong);
    }
}

static run run_of(bool strict, bool any_order)
{
    return (run){.options = {.max_whitespace = DI_WHITESPACE_UNBOUNDED,
                             .indent = -1,
                             .strict = strict,
                             .any_order = any_order},
                 .label = strict ? "valid_closed" : "valid"};
}

/* Core: everything. Beyond it: nothing accepted or refused wrongly; a keyword is named where a
 * schema is refused, and that is no more than it was. */
static void check(const run *r, int n_core, int extended_most, int beyond_most)
{
    const score core = r->tiers[CORE], extended = r->tiers[EXTENDED], beyond = r->tiers[BEYOND];
    assert_int_equal(core.right + core.refused_right, n_core);
    assert_int_equal(core.wrong_accept + core.wrong_reject + core.refused_wrong, 0);
    assert_int_equal(core.unsupported, 0);
    assert_int_equal(extended.wrong_accept + extended.wrong_reject + extended.refused_wrong, 0);
    assert_in_range(extended.unsupported, 0, extended_most);
    assert_int_equal(beyond.wrong_accept + beyond.wrong_reject + beyond.refused_wrong, 0);
    assert_in_range(beyond.unsupported, 0, beyond_most);
}

static void open_objects(void **state)
{
    (void)state;
    run r = run_of(false, false);
    run_file("json_schema.jsonl.xz", &r);
    check(&r, 2778, 0, 73);
}

static void strict_objects(void **state)
{
    (void)state;
    run r = run_of(true, false);
    run_file("json_schema.jsonl.xz", &r);
    check(&r, 2615, 0, 19);
}

static void any_order(void **state)
{
    (void)state;
    run r = run_of(false, true);
    run_file("json_schema_anyorder.jsonl.xz", &r);
    assert_int_equal(r.tiers[CORE].right, 208);
    assert_int_equal(r.tiers[EXTENDED].right, 55);
    assert_int_equal(r.tiers[BEYOND].wrong_accept, 0);
}

/* Random schemas of most keywords, labelled by a validator: an answer that it shares, or a name. */
static void random_schemas(void **state)
{
    (void)state;
    run r = run_of(false, true);
    run_file("json_schema_random.jsonl.xz", &r);
    assert_int_equal(r.tiers[CORE].wrong_accept + r.tiers[CORE].wrong_reject, 0);
    assert_int_equal(r.tiers[CORE].refused_wrong, 0);
    assert_in_range(r.tiers[CORE].right, 4142, INT32_MAX);
}

/* Rows on which validators disagree, or of another spelling: an answer, whichever. */
static void either(void **state)
{
    (void)state;
    run r = run_of(false, false), strict = run_of(true, true);
    r.is_silent = strict.is_silent = true;
    run_file("json_schema_either.jsonl.xz", &r);
    run_file("json_schema_either.jsonl.xz", &strict);
    assert_int_equal(r.tiers[CORE].refused_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_objects), cmocka_unit_test(strict_objects),
        cmocka_unit_test(any_order),    cmocka_unit_test(random_schemas),
        cmocka_unit_test(either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
