/* How the parts of the JSON Schema front end work together.
 *
 * A *literal* is a schema, or everything but what satisfies it. A *goal* is a set of literals that
 * a value must satisfy together, in the order in which they were met; it becomes an expression
 * once (json_schema_goal.c). To get there it is expanded (json_schema_apply.c,
 * json_schema_negate.c) into *shapes*, of which a value must satisfy one: a shape is a set of types
 * and a list of *facts*, the keywords that hold. $ref and allOf add facts to a shape; anyOf,
 * oneOf, if and negations make several shapes of one. Values of properties and items stay goals,
 * so that recursion ends. */
#ifndef DI_GRAMMAR_JSON_SCHEMA_IMPL_H
#define DI_GRAMMAR_JSON_SCHEMA_IMPL_H

#include "base/strmap.h"
#include "grammar/dfa.h"
#include "grammar/json_schema.h"
#include "grammar/json_schema_dom.h"
#include "grammar/json_schema_keyword.h"

typedef uint32_t di_js_lit; /* 2 * id of a schema, + 1 for its negation; or one of: */
#define DI_JS_FALSE   UINT32_MAX
#define DI_JS_TRUE    (UINT32_MAX - 1)
#define DI_JS_NO_RULE UINT32_MAX
#define DI_JS_MARK    0xFF5Cu /* first of DI_CHAT_DSML; calls: JSON has it as an escape only */

enum {
    DI_JS_NULL = 1,
    DI_JS_BOOL = 2,
    DI_JS_INTEGER = 4,
    DI_JS_FRACTION = 8, /* numbers that are no integers */
    DI_JS_NUMBER = DI_JS_INTEGER | DI_JS_FRACTION,
    DI_JS_STRING = 16,
    DI_JS_ARRAY = 32,
    DI_JS_OBJECT = 64,
    DI_JS_ANY = 127,
};

enum {
    DI_JS_SHAPES_MOST = 1024, /* alternatives of one goal */
    DI_JS_NEST_MOST = 512,    /* keywords inside keywords that apply to the same value */
};

typedef enum di_js_fact_kind {
    DI_JS_FACT_CONST,           /* value; is_negative */
    DI_JS_FACT_ENUM,            /* value: the array; is_negative */
    DI_JS_FACT_MINIMUM,         /* value; is_exclusive */
    DI_JS_FACT_MAXIMUM,         /* value; is_exclusive */
    DI_JS_FACT_MULTIPLE,        /* value; is_negative */
    DI_JS_FACT_MIN_LENGTH,      /* min */
    DI_JS_FACT_MAX_LENGTH,      /* max */
    DI_JS_FACT_PATTERN,         /* value; is_negative */
    DI_JS_FACT_FORMAT,          /* value; is_negative */
    DI_JS_FACT_MIN_ITEMS,       /* min */
    DI_JS_FACT_MAX_ITEMS,       /* max */
    DI_JS_FACT_ARRAY,           /* value: a schema with prefixItems or items */
    DI_JS_FACT_ITEM,            /* lit at index min */
    DI_JS_FACT_ITEMS,           /* lit for every item */
    DI_JS_FACT_CONTAINS,        /* min to max items satisfy lit; value: the keyword */
    DI_JS_FACT_UNIQUE,          /* value: the keyword */
    DI_JS_FACT_REST_ITEMS,      /* value: unevaluatedItems of the frame that ends here */
    DI_JS_FACT_MIN_PROPERTIES,  /* min */
    DI_JS_FACT_MAX_PROPERTIES,  /* max */
    DI_JS_FACT_OBJECT,          /* value: a schema with properties, patterns or additional ones */
    DI_JS_FACT_REQUIRED,        /* name */
    DI_JS_FACT_PROPERTY,        /* lit for the value of name, where there is one */
    DI_JS_FACT_NAMES,           /* lit for every name */
    DI_JS_FACT_REST_PROPERTIES, /* value: unevaluatedProperties of the frame that ends here */
    DI_JS_FACT_FRAME,           /* value: a schema with unevaluated...: here its keywords begin */
} di_js_fact_kind;

typedef struct di_js_fact di_js_fact;
struct di_js_fact {
    const di_js_fact *before;
    di_js_fact_kind kind;
    bool is_negative, is_exclusive;
    bool is_evaluating; /* OBJECT, ARRAY: not below a `not` */
    bool is_anywhere;   /* REQUIRED: on a condition only, so that the name has no place */
    di_js_lit lit;
    uint32_t min, max;
    const di_sj_value *value;
    const char *name;
    uint32_t name_len;
};

typedef struct di_js_shape {
    uint32_t types;
    const di_js_fact *last;
} di_js_shape;

typedef struct di_js_shapes {
    di_js_shape *items;
    size_t n, cap; /* in the scratch arena */
} di_js_shapes;

typedef struct di_js_lits {
    di_js_lit *items;
    size_t n, cap; /* in the scratch arena */
} di_js_lits;

typedef struct di_js_name {
    const char *text;
    uint32_t len;
} di_js_name;

typedef struct di_js_emission di_js_emission; /* of a goal, json_schema_goal.c */
typedef struct di_js_rules di_js_rules;       /* json_schema_rules.c */

typedef struct di_js {
    di_grammar_builder *builder;
    di_arena *arena;  /* of the builder: expressions */
    di_arena scratch; /* document, facts, shapes, goals */
    const di_json_schema_options *options;
    di_grammar_limits limits;
    di_buf *not_enforced;
    di_sj_document document;
    int draft;                   /* 4, 6, 7, 2019, 2020 */
    const di_sj_value **targets; /* [document.n_values]: what a $ref was found to name */

    /* json_schema_apply.c */
    const struct di_js_applying *applying; /* literals being applied, innermost first */
    uint32_t nest;
    uint32_t n_frames; /* unevaluated... waiting for the end of their schema */
    bool is_under_not;
    bool is_named; /* the error text already names a keyword */
    di_js_fact *free_facts;
    size_t n_free_facts;

    /* json_schema_goal.c */
    di_strmap goals; /* level and literals -> number of the emission */
    di_js_emission **emissions;
    size_t n_emissions, cap_emissions;
    di_strmap empty_goals; /* literals and types -> types that are left */
    uint32_t depth, empty_depth;
    di_strmap made; /* ids of schemas -> id of one made of them, json_schema_array.c */

    /* json_schema_string.c */
    di_strmap patterns; /* text -> number */
    struct di_js_pattern **pattern_items;
    size_t n_patterns, cap_patterns;

    /* json_schema_rules.c: expressions that stand in several places */
    di_strmap known; /* what they say -> number */
    const di_expr **known_items;
    size_t n_known, cap_known;
    di_js_rules *rules;

    /* json_schema_call.c: every text without the mark of the chat format, and those of them that
     * end like the beginning of a closing tag; NULL: not made yet */
    const di_dfa *unmarked, *unmarked_to_tag;
} di_js;

/* json_schema.c: DI_ERR_INPUT or DI_ERR_UNSUPPORTED with the pointer of `at`. di_js_refuse is
 * about the keyword `at`; DI_OK if lenient: then the caller leaves the keyword out. */
di_status di_js_malformed(const di_sj_value *at, const char *wanted);
DI_WARN_UNUSED di_status di_js_refuse(di_js *js, const di_sj_value *at, const char *why);
/* After a call that failed with `status` because of the keyword `at`: the same. */
DI_WARN_UNUSED di_status di_js_refuse_failed(di_js *js, const di_sj_value *at, di_status status);
/* A count (minLength, ...), clamped to what fits; integers only, but 2.0 is one. */
DI_WARN_UNUSED di_status di_js_count(const di_sj_value *at, uint32_t *out);

/* Whether the bound `at` (minimum, ...) excludes itself: by its keyword, or in draft 4 by the flag
 * beside it. */
bool di_js_is_exclusive(const di_sj_value *at, di_js_keyword keyword);
/* How many items `contains` asks for, by minContains and maxContains beside it. */
DI_WARN_UNUSED di_status di_js_contains_counts(const di_js *js, const di_sj_value *at,
                                               uint32_t *min, uint32_t *max);

/* DI_ERR_UNSUPPORTED if so much was made that the schema asks for too much. */
DI_WARN_UNUSED di_status di_js_check_work(const di_js *js);

static inline di_js_lit di_js_lit_of(const di_sj_value *schema)
{
    return 2 * schema->id;
}
/* Constants become DI_JS_TRUE and DI_JS_FALSE. */
di_js_lit di_js_negate(di_js_lit lit);
const di_sj_value *di_js_schema_of(const di_js *js, di_js_lit lit);

/* json_schema_ref.c */
DI_WARN_UNUSED di_status di_js_read_draft(di_js *js);
/* The schema that the keyword `ref` ($ref, $dynamicRef, ...) names; NULL if it was left out. */
DI_WARN_UNUSED di_status di_js_resolve(di_js *js, const di_sj_value *ref,
                                       const di_sj_value **target);
/* Up to draft 7 nothing beside $ref counts. */
bool di_js_is_only_ref(const di_js *js, const di_sj_value *schema);

/* json_schema_apply.c */
DI_WARN_UNUSED di_status di_js_expand(di_js *js, const di_js_lit *lits, size_t n,
                                      di_js_shapes *out);
DI_WARN_UNUSED di_status di_js_apply(di_js *js, di_js_lit lit, di_js_shapes *shapes);
DI_WARN_UNUSED di_status di_js_apply_negation(di_js *js, const di_sj_value *schema,
                                              di_js_shapes *shapes);
DI_WARN_UNUSED di_status di_js_add_fact(di_js *js, di_js_shapes *shapes, di_js_fact fact);
/* Drops the shapes that are left without a type. */
void di_js_restrict(di_js_shapes *shapes, uint32_t types);
/* A named property is there, or is not. */
DI_WARN_UNUSED di_status di_js_require(di_js *js, di_js_shapes *shapes, di_js_name name);
DI_WARN_UNUSED di_status di_js_forbid(di_js *js, di_js_shapes *shapes, di_js_name name);
DI_WARN_UNUSED di_status di_js_shapes_copy(di_js *js, const di_js_shapes *from, di_js_shapes *out);
DI_WARN_UNUSED di_status di_js_shapes_append(di_js *js, di_js_shapes *to, const di_js_shapes *more);
/* The draft of the schema knows the keyword. */
bool di_js_knows(const di_js *js, di_js_keyword keyword);
DI_WARN_UNUSED di_status di_js_types(const di_sj_value *at, uint32_t *types);
/* The facts of a shape in the order in which they were added. */
DI_WARN_UNUSED di_status di_js_facts(di_js *js, const di_js_shape *shape,
                                     const di_js_fact *const **facts, size_t *n);
/* Literal twice: nothing new. */
DI_WARN_UNUSED di_status di_js_lits_add(di_js *js, di_js_lits *lits, di_js_lit lit);
/* One of them is DI_JS_FALSE, or the schema `false`. */
bool di_js_has_false(const di_js *js, const di_js_lits *lits);

/* json_schema_check.c: does a value satisfy all literals? */
typedef enum di_js_verdict { DI_JS_NO, DI_JS_YES, DI_JS_UNKNOWN } di_js_verdict;
DI_WARN_UNUSED di_status di_js_check(di_js *js, const di_sj_value *value, di_js_lit lit,
                                     di_js_verdict *out);
DI_WARN_UNUSED di_status di_js_check_all(di_js *js, const di_sj_value *value, const di_js_lit *lits,
                                         size_t n, di_js_verdict *out);
/* A string that is no value of the document: a name. */
DI_WARN_UNUSED di_status di_js_check_name(di_js *js, di_js_name name, di_js_lit lit,
                                          di_js_verdict *out);
uint32_t di_js_type_of(const di_sj_value *value); /* one bit */

/* json_schema_goal.c: the literals without those that only name or join others; *is_false: one of
 * them is DI_JS_FALSE. */
DI_WARN_UNUSED di_status di_js_simplify(di_js *js, const di_js_lit *lits, size_t n, di_js_lits *out,
                                        bool *is_referred, bool *is_false);
/* The values of a goal at a level of nesting. */
DI_WARN_UNUSED di_status di_js_emit(di_js *js, const di_js_lit *lits, size_t n, uint32_t level,
                                    const di_expr **out);
/* The goals that were only referred to. */
DI_WARN_UNUSED di_status di_js_emit_rest(di_js *js);
/* Of `types` those that may have values: a quick look that may name too many. */
DI_WARN_UNUSED di_status di_js_types_left(di_js *js, const di_js_lit *lits, size_t n,
                                          uint32_t types, uint32_t *out);
/* Certainly no value at all. */
DI_WARN_UNUSED di_status di_js_is_empty(di_js *js, const di_js_lit *lits, size_t n, bool *out);

/* json_schema_disjoint.c: the two have no value in common, at a glance. */
DI_WARN_UNUSED di_status di_js_are_apart(di_js *js, const di_sj_value *a, const di_sj_value *b,
                                         bool *out);

/* What the facts of one shape say, collected. */
typedef struct di_js_view {
    const di_js_lit *lits; /* of the goal */
    size_t n_lits;
    const di_js_shape *shape;
    const di_js_fact *const *facts;
    size_t n_facts;
    uint32_t level;
    bool is_call; /* of an object: the parameters of a call */
} di_js_view;

DI_WARN_UNUSED di_status di_js_view_of(di_js *js, const di_js_lit *lits, size_t n,
                                       const di_js_shape *shape, di_js_view *view);
/* The values of a shape. */
DI_WARN_UNUSED di_status di_js_emit_shape(di_js *js, const di_js_view *view, const di_expr **out);

/* Where the schema begins whose unevaluated keyword is the fact number `end`. */
size_t di_js_frame_of(const di_js_view *view, size_t end);

/* json_schema_scalar.c, json_schema_string.c, json_schema_array.c, json_schema_object.c: the
 * values of one type. */
DI_WARN_UNUSED di_status di_js_emit_values(di_js *js, const di_js_view *view, bool *is_finite,
                                           const di_expr **out);
DI_WARN_UNUSED di_status di_js_emit_number(di_js *js, const di_js_view *view, const di_expr **out);
DI_WARN_UNUSED di_status di_js_emit_string(di_js *js, const di_js_view *view, const di_expr **out);
DI_WARN_UNUSED di_status di_js_emit_array(di_js *js, const di_js_view *view, const di_expr **out);
DI_WARN_UNUSED di_status di_js_emit_object(di_js *js, const di_js_view *view, const di_expr **out);
DI_WARN_UNUSED di_status di_js_array_is_empty(di_js *js, const di_js_view *view, bool *out);
DI_WARN_UNUSED di_status di_js_object_is_empty(di_js *js, const di_js_view *view, bool *out);
DI_WARN_UNUSED di_status di_js_string_is_empty(di_js *js, const di_js_view *view, bool *out);
bool di_js_number_is_empty(const di_js_view *view);
/* The values of a shape if it has a list of them. */
DI_WARN_UNUSED di_status di_js_shape_values(di_js *js, const di_js_view *view, bool *is_finite,
                                            const di_sj_value ***values, size_t *n_values);
/* Values of a goal that can be listed: finite is false if it has others as well. */
DI_WARN_UNUSED di_status di_js_list_values(di_js *js, const di_js_lit *lits, size_t n,
                                           bool *is_finite, const di_sj_value ***values,
                                           size_t *n_values);

/* json_schema_string.c: the strings of a shape that has no list of values, as they are, from which
 * texts with the mark of the chat format are taken out; with the tag that closes a parameter. */
DI_WARN_UNUSED di_status di_js_emit_raw_string(di_js *js, const di_js_view *view,
                                               const di_expr **out);

/* json_schema_call.c: calls of tools. Member lists of an object become parameters. */
DI_WARN_UNUSED di_status di_js_emit_call(di_js *js, di_js_lit root, const di_expr **out);
/* A declared parameter (`at`: a keyword for errors), or one of the names of an automaton. NOTHING
 * if it can have no value. */
DI_WARN_UNUSED di_status di_js_parameter(di_js *js, di_js_name name, const di_sj_value *at,
                                         const di_js_lits *lits, const di_expr **out);
DI_WARN_UNUSED di_status di_js_free_parameter(di_js *js, const di_dfa *names,
                                              const di_js_lits *lits, const di_expr **out);
/* All parameters in any order: each of `members` at most once, the last n_free of them for names
 * that are free. */
DI_WARN_UNUSED di_status di_js_parameters(di_js *js, const di_expr_members *members,
                                          uint32_t n_free, bool may_empty, const di_expr **out);
/* The tag that closes a parameter, or what is left of it after its first two characters. */
DI_WARN_UNUSED di_status di_js_closing_tag(di_js *js, bool is_begun, const di_expr **out);
/* Every text without the mark; those that end in "</" as well. */
DI_WARN_UNUSED di_status di_js_unmarked(di_js *js, bool to_tag, const di_dfa **out);
/* The text has the mark. */
bool di_js_is_marked(const char *text, size_t len);

/* Texts of strings that satisfy the literals, without quotes. */
DI_WARN_UNUSED di_status di_js_string_dfa(di_js *js, const di_js_lit *lits, size_t n,
                                          const di_dfa **dfa);
typedef struct di_js_pattern {
    const di_sj_value *value; /* the first place it was met at */
    const di_expr *expr;      /* NULL: left out (lenient) or an unknown format */
    const di_dfa *dfa;        /* NULL: not made yet */
    uint32_t max;             /* of a format: code points, beside what expr says */
} di_js_pattern;
/* `value`: text of a pattern, also the key of a patternProperties member (is_key). */
DI_WARN_UNUSED di_status di_js_pattern_of(di_js *js, const di_sj_value *value, bool is_key,
                                          di_js_pattern **out);
DI_WARN_UNUSED di_status di_js_format_of(di_js *js, const di_sj_value *value, di_js_pattern **out);
DI_WARN_UNUSED di_status di_js_pattern_dfa(di_js *js, di_js_pattern *pattern, const di_dfa **out);
/* Every text but `names`; no text but `names`; every text. */
DI_WARN_UNUSED di_status di_js_all_but(di_js *js, const di_js_name *names, size_t n,
                                       const di_dfa **out);
DI_WARN_UNUSED di_status di_js_only(di_js *js, const di_js_name *names, size_t n,
                                    const di_dfa **out);
DI_WARN_UNUSED di_status di_js_all_texts(di_js *js, const di_dfa **out);
/* The texts of a nonempty automaton, not counted, as they stand between quotes. */
DI_WARN_UNUSED di_status di_js_spelled(di_js *js, const di_dfa *dfa, const di_expr **out);
/* A key, with its quotes, that is none of `names`. */
DI_WARN_UNUSED di_status di_js_other_key(di_js *js, const di_js_name *names, size_t n,
                                         const di_expr **out);

/* json_schema_rules.c: rules, those that do not depend on the schema, and the layout. */
enum { DI_JS_LEVELS_MOST = 32 }; /* nesting in a layout with indent */
DI_WARN_UNUSED di_status di_js_rules_create(di_js *js);
void di_js_rules_free(di_js *js);
/* A rule, and its expression later (once). */
DI_WARN_UNUSED di_status di_js_rule_new(di_js *js, const char *name, uint32_t *rule,
                                        const di_expr **out);
void di_js_rule_set(di_js *js, uint32_t rule, const di_expr *expr);
/* Defines every rule; rules that derive no text at all are taken out of the others. */
DI_WARN_UNUSED di_status di_js_rules_define(di_js *js, const di_expr *root, uint32_t *root_rule);
DI_WARN_UNUSED di_status di_js_any_value(di_js *js, uint32_t level, const di_expr **out);
DI_WARN_UNUSED di_status di_js_any_string(di_js *js, const di_expr **out);
DI_WARN_UNUSED di_status di_js_any_char(di_js *js, const di_expr **out);
/* Any text up to and with the closing quote; the same after a first code point that is not an ASCII
 * character as itself. */
DI_WARN_UNUSED di_status di_js_rest_of_string(di_js *js, const di_expr **out);
DI_WARN_UNUSED di_status di_js_not_ascii_rest(di_js *js, const di_expr **out);
/* An expression by a key of any bytes: NULL if it is not known. */
const di_expr *di_js_known(const di_js *js, const di_buf *key);
DI_WARN_UNUSED di_status di_js_keep(di_js *js, const di_buf *key, const di_expr *expr);
/* The expression, as a rule of its own if it is more than a few states: for several uses. */
DI_WARN_UNUSED di_status di_js_share(di_js *js, const char *name, const di_expr *expr,
                                     const di_expr **out);
/* In a call: the same, but a rule that is no JSON. */
DI_WARN_UNUSED di_status di_js_share_raw(di_js *js, const char *name, const di_expr *expr,
                                         const di_expr **out);
DI_WARN_UNUSED di_status di_js_any_number(di_js *js, bool is_integer, const di_expr **out);
/* UTF-8 text; nodes of ASCII are shared. */
DI_WARN_UNUSED di_status di_js_literal(di_js *js, const char *text, size_t len,
                                       const di_expr **out);
/* One code point as it stands in a JSON string. */
DI_WARN_UNUSED di_status di_js_json_char(di_js *js, uint32_t code, const di_expr **out);
DI_WARN_UNUSED di_status di_js_quoted(di_js *js, const di_expr *content, const di_expr **out);
/* Level 0 but in a layout with indent: expressions differ by level only there. */
uint32_t di_js_level(const di_js *js, uint32_t level);
/* Between two items of a container at this level; between key and value. */
DI_WARN_UNUSED di_status di_js_comma(di_js *js, uint32_t level, const di_expr **out);
DI_WARN_UNUSED di_status di_js_colon(di_js *js, const di_expr **out);
/* `items` (one or more) between brackets, with what the layout puts inside them; nothing between
 * them as well if may_empty. */
DI_WARN_UNUSED di_status di_js_bracketed(di_js *js, char open, const di_expr *items, bool may_empty,
                                         uint32_t level, const di_expr **out);

#endif
