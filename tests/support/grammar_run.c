#include "grammar_run.h"

#include "grammar/matcher.h"

static di_status run(di_grammar *grammar, const char *text, size_t len, bool *accepted)
{
    di_acceptor *acceptor;
    di_matcher *matcher;
    DI_TRY(di_acceptor_create(grammar, NULL, &acceptor));
    di_status status = di_matcher_create(acceptor, &matcher);
    if (status == DI_OK) {
        status = di_matcher_accept(matcher, text, len, accepted);
        if (status == DI_OK && *accepted)
            *accepted = di_matcher_may_end(matcher);
        di_matcher_destroy(matcher);
    }
    di_acceptor_unref(acceptor);
    return status;
}

di_status di_test_grammar_accepts(di_grammar_builder *builder, uint32_t root, const char *text,
                                  size_t len, bool *accepted)
{
    di_grammar *grammar;
    *accepted = false;
    di_status status = di_grammar_build(builder, root, &grammar);
    if (status != DI_OK)
        return status == DI_ERR_INPUT ? DI_OK : status;
    status = run(grammar, text, len, accepted);
    di_grammar_unref(grammar);
    return status;
}

di_status di_test_expr_accepts(const di_grammar_limits *limits, const di_expr *expr,
                               const char *text, size_t len, bool *accepted)
{
    di_grammar_builder *builder;
    uint32_t root;
    DI_TRY(di_grammar_builder_create(limits, &builder));
    di_status status = di_grammar_rule(builder, "root", &root);
    if (status == DI_OK)
        status = di_grammar_define(builder, root, expr);
    if (status == DI_OK)
        status = di_test_grammar_accepts(builder, root, text, len, accepted);
    di_grammar_builder_destroy(builder);
    return status;
}
