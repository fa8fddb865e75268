/* grammar/json_schema.h feature by feature: what is written, in which order and layout, and how the
 * rest is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema.h"
#include "grammar/matcher.h"

static const di_json_schema_options free_layout = {.max_whitespace = DI_WHITESPACE_UNBOUNDED};

static di_status compile(const char *schema, const di_json_schema_options *options,
                         di_buf *not_enforced, di_acceptor **out)
{
    const di_grammar_limits limits = {0};
    di_grammar_builder *builder;
    di_grammar *grammar = NULL;
    uint32_t root;
    assert_int_equal(di_grammar_builder_create(&limits, &builder), DI_OK);
    di_status status =
        di_json_schema_parse(builder, schema, strlen(schema), options, not_enforced, &root);
    if (status == DI_OK)
        status = di_grammar_build(builder, root, &grammar);
    di_grammar_builder_destroy(builder);
    if (status != DI_OK)
        return status;
    assert_int_equal(di_acceptor_create(grammar, NULL, out), DI_OK);
    di_grammar_unref(grammar);
    return DI_OK;
}

static bool accepts(di_acceptor *acceptor, const char *text)
{
    di_matcher *matcher;
    bool accepted;
    assert_int_equal(di_matcher_create(acceptor, &matcher), DI_OK);
    assert_int_equal(di_matcher_accept(matcher, text, strlen(text), &accepted), DI_OK);
    accepted = accepted && di_matcher_may_end(matcher);
    di_matcher_destroy(matcher);
    return accepted;
}

/* `texts`: separated by " ; ", those after " ! " must be refused. */
static void check(const char *schema, const di_json_schema_options *options, const char *yes,
                  const char *no)
{
    di_acceptor *acceptor;
    if (compile(schema, options, NULL, &acceptor) != DI_OK)
        fail_msg("%s: %s", schema, di_last_error());
    for (int wanted = 0; wanted < 2; wanted++) {
        char copy[1024];
        snprintf(copy, sizeof copy, "%s", wanted ? yes : no);
        for (char *text = copy, *next; text != NULL && *text != 0; text = next) {
            next = strstr(text, " ; ");
            if (next != NULL) {
                *next = 0;
                next += 3;
            }
            if (accepts(acceptor, text) != wanted)
                fail_msg("%s: %s: wanted %d", schema, text, wanted);
        }
    }
    di_acceptor_unref(acceptor);
}

static void writes(const char *schema, const char *yes, const char *no)
{
    check(schema, &free_layout, yes, no);
}

static void refused(const char *schema, di_status status, const char *text)
{
    di_acceptor *acceptor;
    if (compile(schema, &free_layout, NULL, &acceptor) != status)
        fail_msg("%s: wanted status %d, found: %s", schema, status, di_last_error());
    if (strstr(di_last_error(), text) == NULL)
        fail_msg("%s: found \"%s\", wanted \"%s\"", schema, di_last_error(), text);
}

static void malformed(void **state)
{
    (void)state;
    const di_status BAD = DI_ERR_INPUT;
    refused("{", BAD, "JSON schema: line 1, column 2:");
    refused("{\"a\": 1, \"a\": 2}", BAD, "the key \"a\" stands twice");
    refused("{\"type\": \"strin\"}", BAD, "#/type: found a string, wanted the name of a type");
    refused("{\"properties\": {\"a\": 3}}", BAD, "#/properties/a: found a number, wanted a schema");
    refused("{\"properties\": []}", BAD, "#/properties: found an array");
    refused("{\"minLength\": -1}", BAD, "#/minLength: found a number, wanted an integer from 0");
    refused("{\"minItems\": 1.5}", BAD, "#/minItems");
    refused("{\"required\": true}", BAD, "#/required: found true, wanted an array of names");
    refused("{\"anyOf\": []}", BAD, "#/anyOf: found an array, wanted a list of schemas");
    refused("{\"enum\": 1}", BAD, "#/enum");
    refused("{\"multipleOf\": 0}", BAD, "#/multipleOf");
    refused("{\"$ref\": \"#/$defs/a~1b\"}", BAD, "#/$ref: found \"#/$defs/a~1b\"");
    refused("{\"$ref\": \"#\"}", BAD, "#/$ref");
    refused("{\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"allOf\": [{\"$ref\": \"#/$defs/a\"}, "
            "{\"type\": \"null\"}]}}}",
            BAD, "refer to itself");
    refused("{\"pattern\": \"(\"}", BAD, "#/pattern: ");
}

static void unsatisfiable(void **state)
{
    (void)state;
    const char *const schemas[] = {
        "false",
        "{\"enum\": []}",
        "{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}",
        "{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 2}",
        "{\"type\": \"string\", \"pattern\": \"^a$\", \"minLength\": 2}",
        "{\"type\": \"object\", \"properties\": {\"a\": false}, \"required\": [\"a\"]}",
        "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
        "{\"type\": \"array\", \"items\": false, \"minItems\": 1}",
        "{\"allOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}",
        "{\"const\": 1, \"not\": {\"type\": \"integer\"}}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        refused(schemas[i], DI_ERR_INPUT, "nothing satisfies");
}

static void named(void **state)
{
    (void)state;
    const di_status NO = DI_ERR_UNSUPPORTED;
    refused("{\"$ref\": \"http://example.com/a.json\"}", NO,
            "#/$ref: $ref cannot be enforced: what it names is not in this document");
    refused("{\"properties\": {\"a\": {\"uniqueItems\": true}}}", NO,
            "#/properties/a/uniqueItems: uniqueItems cannot be enforced: the items are not a few "
            "known values");
    refused("{\"type\": \"string\", \"pattern\": \"^(?!a)\"}", NO,
            "#/pattern: pattern cannot be enforced: ");
    refused("{\"type\": \"string\", \"format\": \"regex\"}", NO,
            "#/format: format cannot be enforced");
    refused("{\"type\": \"object\", \"not\": {\"patternProperties\": {\"a\": {\"type\": "
            "\"null\"}}}}",
            NO, "#/not: not cannot be enforced: #/not/patternProperties cannot be negated");
    refused("{\"type\": \"array\", \"not\": {\"uniqueItems\": true}}", NO, "#/not: not cannot");
}

static void lenient(void **state)
{
    (void)state;
    const di_json_schema_options options = {.max_whitespace = DI_WHITESPACE_UNBOUNDED,
                                            .lenient = true};
    DI_BUF_AUTO lines = {0};
    di_acceptor *acceptor;
    assert_int_equal(compile("{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, "
                             "\"uniqueItems\": true, \"not\": {\"uniqueItems\": true}}",
                             &options, &lines, &acceptor),
                     DI_OK);
    assert_true(accepts(acceptor, "[1,1]"));
    assert_false(accepts(acceptor, "[null]"));
    di_acceptor_unref(acceptor);
    assert_non_null(strstr(di_buf_str(&lines), "#/uniqueItems: uniqueItems cannot be enforced"));
    assert_non_null(strstr(di_buf_str(&lines), "#/not: not cannot be enforced"));
}

static void scalars(void **state)
{
    (void)state;
    writes("{\"type\": [\"null\", \"boolean\"]}", "null ; true ; false", "0 ; \"\" ; nul ;  true");
    writes("{\"type\": \"integer\"}", "0 ; -7 ; 120", "-0 ; 1.0 ; 01 ; + ; 1e3");
    writes("{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 1.5}", "0.01 ; 1 ; 1.50",
           "0 ; 1.51 ; -1 ; 2");
    writes("{\"$schema\": \"http://json-schema.org/draft-04/schema#\", \"type\": \"integer\", "
           "\"minimum\": 1, \"exclusiveMinimum\": true}",
           "2", "1");
    writes("{\"type\": \"integer\", \"allOf\": [{\"multipleOf\": 4}, {\"multipleOf\": 6}]}",
           "0 ; 12 ; -24", "4 ; 6 ; 8");
    writes("{\"type\": \"string\", \"nullable\": true}", "null ; \"\"", "1");
    writes("{\"enum\": [1, \"1\", [1], {\"a\": null}, 2.50, \"\\u00e9/\"]}",
           "1 ; \"1\" ; [1] ; {\"a\":null} ; 2.5 ; 2.50 ; \"é/\"", "[ 1] ; 2 ; \"é\\/\"");
    writes("{\"enum\": [1, 2, \"a\"], \"minimum\": 2}", "2 ; \"a\"", "1");
}

static void strings(void **state)
{
    (void)state;
    writes("{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
           "\"ab\" ; \"é日\" ; \"\\n\\u0041x\"", "\"a\" ; \"abcd\"");
    writes("{\"type\": \"string\", \"pattern\": \"b\"}", "\"abc\" ; \"b\" ; \"\\\"b\"", "\"ac\"");
    writes("{\"type\": \"string\", \"pattern\": \"^a*$\", \"minLength\": 2, \"maxLength\": 3}",
           "\"aa\" ; \"aaa\"", "\"a\" ; \"aaaa\" ; \"ab\"");
    writes("{\"type\": \"string\", \"pattern\": \"^(ab)*$\", \"minLength\": 3, \"maxLength\": 5}",
           "\"abab\"", "\"ab\" ; \"aba\" ; \"ababab\"");
    writes("{\"type\": \"string\", \"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"b\"}], "
           "\"not\": {\"pattern\": \"c\"}}",
           "\"ab\" ; \"xbax\"", "\"a\" ; \"abc\"");
    writes("{\"type\": \"string\", \"not\": {\"enum\": [\"a\", \"\\\"\"]}}",
           "\"\" ; \"b\" ; \"aa\" ; \"\\n\"", "\"a\" ; \"\\\"\"");
    writes("{\"type\": \"string\", \"format\": \"date\"}", "\"2024-02-29\"", "\"2023-02-29\"");
    writes("{\"type\": \"string\", \"format\": \"x-unknown\"}", "\"\"", "0");
}

static void arrays(void **state)
{
    (void)state;
    writes(
        "{\"type\": \"array\", \"items\": {\"type\": \"null\"}, \"minItems\": 1, \"maxItems\": 2}",
        "[null] ; [ null , null ]", "[] ; [null,null,null] ; [null,]");
    writes("{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"items\": "
           "{\"const\": 3}, \"minItems\": 1}",
           "[1] ; [1,2] ; [1,2,3,3]", "[] ; [2] ; [1,3]");
    writes("{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"type\": \"array\", "
           "\"items\": [{\"const\": 1}], \"additionalItems\": false}",
           "[] ; [1]", "[1,1]");
    writes(
        "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"contains\": {\"const\": 1}, "
        "\"maxContains\": 2, \"maxItems\": 4}",
        "[1] ; [0,1,1] ; [1,5,6,1]", "[] ; [0] ; [1,1,1] ; [1,0,0,0,0]");
    writes("{\"type\": \"array\", \"items\": {\"enum\": [1, 2, 3]}, \"uniqueItems\": true, "
           "\"minItems\": 1}",
           "[2] ; [3,1,2]", "[] ; [1,1] ; [1,2,1]");
    writes("{\"type\": \"array\", \"prefixItems\": [true], \"unevaluatedItems\": false}",
           "[] ; [0]", "[0,0]");
}

static void objects(void **state)
{
    (void)state;
    writes("{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}}, "
           "\"required\": [\"b\"], \"additionalProperties\": false}",
           "{\"b\":2} ; { \"a\" : 1 , \"b\" : 2 }",
           "{} ; {\"a\":1} ; {\"b\":2,\"a\":1} ; {\"c\":1}");
    writes("{\"type\": \"object\", \"properties\": {\"ab\": {\"const\": 1}}, "
           "\"additionalProperties\": {\"const\": 0}}",
           "{} ; {\"ab\":1,\"a\":0,\"abc\":0,\"é\":0,\"\\n\":0}",
           "{\"ab\":0} ; {\"a\":1} ; {\"\\u0061b\":0}");
    writes(
        "{\"type\": \"object\", \"patternProperties\": {\"^a\": {\"type\": \"integer\"}, \"b$\": "
        "{\"minimum\": 5}}, \"additionalProperties\": false}",
        "{\"a\":1,\"b\":\"x\",\"ab\":5}", "{\"ab\":4} ; {\"a\":\"x\"} ; {\"c\":1}");
    writes("{\"type\": \"object\", \"propertyNames\": {\"maxLength\": 2}, \"minProperties\": 1, "
           "\"maxProperties\": 2}",
           "{\"a\":0} ; {\"a\":0,\"bc\":1}", "{} ; {\"abc\":0} ; {\"a\":0,\"b\":0,\"c\":0}");
    writes("{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}}, \"dependentRequired\": "
           "{\"a\": [\"b\"]}}",
           "{} ; {\"b\":0} ; {\"a\":1,\"b\":0}", "{\"a\":1} ; {\"a\":1,\"c\":1}");
    writes(
        "{\"allOf\": [{\"properties\": {\"b\": true}}, {\"$ref\": \"#/$defs/x\"}], \"type\": "
        "\"object\", \"properties\": {\"a\": true}, \"unevaluatedProperties\": false, \"$defs\": "
        "{\"x\": {\"required\": [\"c\"], \"properties\": {\"c\": {\"type\": \"null\"}}}}}",
        "{\"c\":null} ; {\"b\":0,\"c\":null,\"a\":0}", "{} ; {\"c\":0} ; {\"c\":null,\"d\":0}");
}

static void choices(void **state)
{
    (void)state;
    writes("{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\", \"minimum\": 2}]}",
           "1 ; 2.5 ; -3", "2 ; 1.5 ; \"a\"");
    writes("{\"type\": \"object\", \"oneOf\": [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]}",
           "{\"a\":1} ; {\"b\":1,\"c\":2}", "{} ; {\"a\":1,\"b\":1}");
    writes("{\"if\": {\"type\": \"string\"}, \"then\": {\"maxLength\": 1}, \"else\": {\"type\": "
           "\"null\"}}",
           "\"a\" ; null", "\"ab\" ; 1");
    writes(
        "{\"anyOf\": [{\"type\": \"null\"}, {\"$ref\": \"#/$defs/list\"}], \"$defs\": {\"list\": "
        "{\"type\": \"object\", \"properties\": {\"next\": {\"$ref\": \"#\"}}, \"required\": "
        "[\"next\"], \"additionalProperties\": false}}}",
        "null ; {\"next\":{\"next\":null}}", "{} ; {\"next\":{}}");
    writes("{\"not\": {\"type\": [\"object\", \"array\", \"string\"]}}", "1.5 ; null ; true",
           "{} ; [] ; \"\"");
    writes("{\"$id\": \"http://a/b/root.json\", \"$ref\": \"item.json#x\", \"$defs\": {\"y\": "
           "{\"$id\": \"item.json\", \"$defs\": {\"z\": {\"$anchor\": \"x\", \"const\": 1}}}}}",
           "1", "2");
    writes("{\"$ref\": \"#/$defs/a~1b%25\", \"$defs\": {\"a/b%\": {\"const\": 1}}}", "1", "2");
}

static void layouts(void **state)
{
    (void)state;
    const char *schema = "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"array\", "
                         "\"items\": {\"const\": 1}}, \"b\": {}}, \"additionalProperties\": false}";
    const di_json_schema_options two = {.max_whitespace = 2}, none = {.max_whitespace = 0},
                                 line = {.fixed_layout = true, .indent = -1},
                                 indented = {.fixed_layout = true, .indent = 2},
                                 custom = {.fixed_layout = true,
                                           .indent = -1,
                                           .item_separator = ",",
                                           .key_separator = " : "};
    check(schema, &two, "{  } ; {\"a\" : [  1 ],\n\t\"b\":0}", "{   } ; {\"a\":[   ]} ;  {}");
    check(schema, &none, "{\"a\":[1,1],\"b\":{\"c\":[]}}", "{ } ; {\"a\": []}");
    check(schema, &line, "{\"a\": [1, 1], \"b\": {\"c\": [0, {}]}} ; {}", "{\"a\":[]} ; { }");
    check(schema, &indented,
          "{} ; {\n  \"a\": [\n    1,\n    1\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}",
          "{\n} ; {\"a\": []} ; {\n  \"a\": [1]\n}");
    check(schema, &custom, "{\"a\" : [1,1],\"b\" : 0}", "{\"a\": []}");
}

static void orders(void **state)
{
    (void)state;
    const char *schema = "{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}, \"b\": "
                         "{\"const\": 2}}, \"required\": [\"a\"]}";
    const di_json_schema_options any = {.max_whitespace = 0, .any_order = true},
                                 strict = {.max_whitespace = 0, .strict = true};
    check(schema, &any, "{\"b\":2,\"x\":0,\"a\":1} ; {\"a\":1}",
          "{\"b\":2} ; {\"a\":1,\"a\":1} ; {\"b\":1,\"a\":1}");
    check(schema, &strict, "{\"a\":1} ; {\"a\":1,\"b\":2}", "{\"a\":1,\"x\":0}");
    check("{\"properties\": {\"a\": {\"type\": \"object\"}}}", &strict, "{\"a\":{\"x\":0}} ; [1]",
          "{\"x\":0}");
}

/* As large as real schemas get, and as deep: an answer in reasonable time. */
static void large(void **state)
{
    (void)state;
    DI_BUF_AUTO schema = {0};
    assert_int_equal(di_buf_puts(&schema, "{\"enum\": ["), DI_OK);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(di_buf_printf(&schema, "%s\"value %d\"", i > 0 ? "," : "", i), DI_OK);
    assert_int_equal(di_buf_puts(&schema, "]}"), DI_OK);
    writes(di_buf_str(&schema), "\"value 0\" ; \"value 4095\"", "\"value 4096\" ; \"value\"");
    di_buf_clear(&schema);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(di_buf_puts(&schema, "["), DI_OK);
    refused(di_buf_str(&schema), DI_ERR_UNSUPPORTED, "levels");
    di_buf_clear(&schema);
    assert_int_equal(di_buf_puts(&schema, "{\"$ref\": \"#/$defs/0\", \"$defs\": {"), DI_OK);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(di_buf_printf(&schema,
                                       "\"%d\": {\"type\": \"array\", \"items\": {\"$ref\": "
                                       "\"#/$defs/%d\"}},",
                                       i, i + 1),
                         DI_OK);
    assert_int_equal(di_buf_puts(&schema, "\"5000\": {}}}"), DI_OK);
    writes(di_buf_str(&schema), "[[[[]]]]", "[0] ; {}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed), cmocka_unit_test(unsatisfiable), cmocka_unit_test(named),
        cmocka_unit_test(lenient),   cmocka_unit_test(scalars),       cmocka_unit_test(strings),
        cmocka_unit_test(arrays),    cmocka_unit_test(objects),       cmocka_unit_test(choices),
        cmocka_unit_test(layouts),   cmocka_unit_test(orders),        cmocka_unit_test(large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
