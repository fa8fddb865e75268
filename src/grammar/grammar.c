#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { DEFAULT_MAX_STATES = 2000000, DEFAULT_MAX_DEPTH = 200 };

typedef struct definition {
    const char *name;
    const di_expr *expr;
    uint32_t escaped; /* a code point; 0: none */
} definition;

struct di_grammar_builder {
    di_arena arena;
    di_grammar_limits limits;
    const di_vocab *vocab;
    definition *rules;
    size_t n_rules, cap_rules;
};

di_status di_grammar_builder_create(const di_grammar_limits *limits, di_grammar_builder **out)
{
    di_grammar_builder *builder = calloc(1, sizeof *builder);
    if (builder == NULL)
        return di_fail_memory(sizeof *builder, "a grammar");
    if (limits != NULL)
        builder->limits = *limits;
    if (builder->limits.max_states == 0)
        builder->limits.max_states = DEFAULT_MAX_STATES;
    if (builder->limits.max_depth == 0)
        builder->limits.max_depth = DEFAULT_MAX_DEPTH;
    *out = builder;
    return DI_OK;
}

void di_grammar_builder_destroy(di_grammar_builder *builder)
{
    if (builder == NULL)
        return;
    free(builder->rules);
    di_arena_free(&builder->arena);
    free(builder);
}

di_arena *di_grammar_builder_arena(di_grammar_builder *builder)
{
    return &builder->arena;
}

di_grammar_limits di_grammar_builder_limits(const di_grammar_builder *builder)
{
    return builder->limits;
}

di_status di_grammar_rule(di_grammar_builder *builder, const char *name, uint32_t *rule)
{
    char *copy;
    DI_TRY(DI_GROW(&builder->rules, &builder->cap_rules, builder->n_rules + 1));
    DI_TRY(di_arena_strdup(&builder->arena, name, &copy));
    builder->rules[builder->n_rules] = (definition){.name = copy};
    *rule = (uint32_t)builder->n_rules++;
    return DI_OK;
}

di_status di_grammar_define(di_grammar_builder *builder, uint32_t rule, const di_expr *expr)
{
    if (builder->rules[rule].expr != NULL)
        return di_fail(DI_ERR_ARGUMENT, "rule %s is defined twice", builder->rules[rule].name);
    builder->rules[rule].expr = expr;
    return DI_OK;
}

void di_grammar_escape(di_grammar_builder *builder, uint32_t rule, uint32_t code)
{
    builder->rules[rule].escaped = code;
}

void di_grammar_use_tokens(di_grammar_builder *builder, const di_vocab *vocab)
{
    builder->vocab = vocab;
}

/* --- raw grammars --- */

di_status di_raw_state(di_raw_grammar *raw, uint32_t rule, uint32_t *state)
{
    if (raw->n_states >= raw->max_states)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "the grammar is too large: more than %u states of its automata",
                       raw->max_states);
    DI_TRY(DI_GROW(&raw->states, &raw->cap_states, raw->n_states + 1));
    raw->states[raw->n_states] = (di_state){.rule = rule};
    *state = (uint32_t)raw->n_states++;
    return DI_OK;
}

di_status di_raw_edge_add(di_raw_grammar *raw, uint32_t from, di_edge edge)
{
    if (raw->n_edges / 8 >= raw->max_states)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "the grammar is too large: more than %u edges of its automata",
                       raw->max_states * 8);
    DI_TRY(DI_GROW(&raw->edges, &raw->cap_edges, raw->n_edges + 1));
    raw->edges[raw->n_edges++] = (di_raw_edge){from, edge};
    return DI_OK;
}

di_status di_raw_rule(di_raw_grammar *raw, const char *name, uint32_t *rule)
{
    DI_TRY(DI_GROW(&raw->rules, &raw->cap_rules, raw->n_rules + 1));
    raw->rules[raw->n_rules] = (di_rule){.name = name, .max = DI_REPEAT_INF};
    *rule = (uint32_t)raw->n_rules++;
    return DI_OK;
}

static di_status lower_rules(const di_grammar_builder *builder, di_raw_grammar *raw)
{
    for (size_t i = 0; i < builder->n_rules; i++) {
        uint32_t rule;
        char *name;
        DI_TRY(di_arena_strdup(raw->arena, builder->rules[i].name, &name));
        DI_TRY(di_raw_rule(raw, name, &rule));
    }
    for (size_t i = 0; i < builder->n_rules; i++) {
        if (builder->rules[i].expr == NULL)
            return di_fail(DI_ERR_INPUT, "rule %s is used but not defined", builder->rules[i].name);
        raw->escaped = builder->rules[i].escaped;
        DI_TRY(di_lower_rule(raw, (uint32_t)i, builder->rules[i].expr));
    }
    return DI_OK;
}

static di_status build(const di_grammar_builder *builder, uint32_t root, di_grammar *grammar)
{
    di_raw_grammar raw = {.max_states = builder->limits.max_states,
                          .arena = &grammar->arena,
                          .vocab = builder->vocab};
    di_status status = lower_rules(builder, &raw);
    if (status == DI_OK)
        status = di_grammar_analyze(&raw, grammar);
    free(raw.states);
    free(raw.edges);
    free(raw.rules);
    grammar->root = root;
    if (status == DI_OK && !grammar->rules[root].is_productive)
        return di_fail(DI_ERR_INPUT, "no text at all matches rule %s", grammar->rules[root].name);
    return status;
}

di_status di_grammar_build(di_grammar_builder *builder, uint32_t root, di_grammar **out)
{
    di_grammar *grammar = calloc(1, sizeof *grammar);
    if (grammar == NULL)
        return di_fail_memory(sizeof *grammar, "a grammar");
    atomic_init(&grammar->n_refs, 1);
    const di_status status = build(builder, root, grammar);
    if (status != DI_OK) {
        di_grammar_unref(grammar);
        return status;
    }
    *out = grammar;
    return DI_OK;
}

di_grammar *di_grammar_ref(di_grammar *grammar)
{
    atomic_fetch_add(&grammar->n_refs, 1);
    return grammar;
}

void di_grammar_unref(di_grammar *grammar)
{
    if (grammar == NULL || atomic_fetch_sub(&grammar->n_refs, 1) > 1)
        return;
    di_arena_free(&grammar->arena);
    free(grammar);
}
