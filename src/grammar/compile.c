#include "grammar/compile.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/ebnf.h"
#include "grammar/regex.h"
#include "grammar/tool_calls.h"
#include "text/encoding_tools.h"

/* Descriptions of which the acceptors are kept. */
enum { MAX_CACHED = 64, MAX_INDENT = 32, MAX_WHITESPACE = 1000000 };

/* An acceptor that has grown beyond this serves the matchers it has; the next request gets a fresh
 * one. */
#define MAX_CACHED_BYTES ((size_t)64 << 20)

di_schema_type di_schema_type_from_name(const char *name)
{
    static const struct {
        const char *name;
        di_schema_type type;
    } names[] = {{"regex", DI_SCHEMA_REGEX},  {"json_schema", DI_SCHEMA_JSON},
                 {"json", DI_SCHEMA_JSON},    {"ebnf", DI_SCHEMA_EBNF},
                 {"grammar", DI_SCHEMA_EBNF}, {"tool_calls", DI_SCHEMA_TOOL_CALLS}};
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].type;
    return DI_SCHEMA_NONE;
}

static size_t schema_len(const di_so_args *args)
{
    return args->schema_bytes != 0 ? args->schema_bytes : strlen(args->schema);
}

static di_status check_layout(const di_so_args *args)
{
    if (args->max_whitespace < -1 || args->max_whitespace > MAX_WHITESPACE)
        return di_fail(DI_ERR_ARGUMENT, "max_whitespace: found %d, wanted -1 (no bound) to %d",
                       args->max_whitespace, MAX_WHITESPACE);
    if (args->indent < -1 || args->indent > MAX_INDENT)
        return di_fail(DI_ERR_ARGUMENT, "indent: found %d, wanted -1 (one line) to %d",
                       args->indent, MAX_INDENT);
    return DI_OK;
}

di_status di_so_args_check(const di_so_args *args)
{
    const bool is_json =
        args->schema_type == DI_SCHEMA_JSON || args->schema_type == DI_SCHEMA_TOOL_CALLS;
    if (args->schema_type < DI_SCHEMA_REGEX || args->schema_type > DI_SCHEMA_TOOL_CALLS)
        return di_fail(DI_ERR_ARGUMENT, "schema_type: found %d, wanted %d to %d",
                       (int)args->schema_type, DI_SCHEMA_REGEX, DI_SCHEMA_TOOL_CALLS);
    if (args->schema == NULL)
        return di_fail(DI_ERR_ARGUMENT, "schema: found NULL, wanted a text");
    if (args->root != NULL && args->schema_type != DI_SCHEMA_EBNF)
        return di_fail(DI_ERR_ARGUMENT, "root: found \"%s\", wanted it only with an EBNF grammar",
                       args->root);
    return is_json ? check_layout(args) : DI_OK;
}

static di_status parse_regex(di_grammar_builder *builder, const di_so_args *args, uint32_t *root)
{
    const di_expr *expr;
    const di_regex_options options = {.mode = DI_REGEX_FULL,
                                      .max_depth = di_grammar_builder_limits(builder).max_depth};
    DI_TRY(di_regex_parse(di_grammar_builder_arena(builder), args->schema, schema_len(args),
                          &options, &expr));
    DI_TRY(di_grammar_rule(builder, "regex", root));
    return di_grammar_define(builder, *root, expr);
}

static di_status parse_schema(di_grammar_builder *builder, const di_so_args *args,
                              di_buf *not_enforced, uint32_t *root)
{
    const di_json_schema_options options = {
        .fixed_layout = args->is_fixed_layout,
        .max_whitespace = args->max_whitespace,
        .indent = args->indent,
        .item_separator = args->item_separator,
        .key_separator = args->key_separator,
        .strict = args->is_strict,
        .any_order = args->any_order,
        .lenient = args->lenient,
    };
    DI_BUF_AUTO ignored = {0};
    di_buf *lines = not_enforced != NULL ? not_enforced : &ignored;
    const size_t len = schema_len(args);
    return args->schema_type == DI_SCHEMA_JSON
               ? di_json_schema_parse(builder, args->schema, len, &options, lines, root)
               : di_tool_calls_parse(builder, args->schema, len, &options, lines, root);
}

static di_status parse(di_grammar_builder *builder, const di_so_args *args, di_buf *not_enforced,
                       uint32_t *root)
{
    switch (args->schema_type) {
    case DI_SCHEMA_REGEX:
        return parse_regex(builder, args, root);
    case DI_SCHEMA_JSON:
    case DI_SCHEMA_TOOL_CALLS:
        return parse_schema(builder, args, not_enforced, root);
    default:
        return di_ebnf_parse(builder, args->schema, schema_len(args), args->root, root);
    }
}

di_status di_grammar_compile_for(const di_so_args *args, const di_vocab *vocab,
                                 di_buf *not_enforced, di_grammar **out)
{
    static const char *const names[] = {[DI_SCHEMA_REGEX] = "regular expression",
                                        [DI_SCHEMA_JSON] = "JSON schema",
                                        [DI_SCHEMA_EBNF] = "EBNF",
                                        [DI_SCHEMA_TOOL_CALLS] = "tool calls"};
    di_grammar_builder *builder;
    uint32_t root;
    DI_TRY(di_so_args_check(args));
    DI_TRY(di_grammar_builder_create(NULL, &builder));
    di_grammar_use_tokens(builder, vocab);
    di_status status = parse(builder, args, not_enforced, &root);
    if (status == DI_OK) {
        status = di_grammar_build(builder, root, out);
        if (status != DI_OK)
            status = di_fail_within(status, "%s", names[args->schema_type]);
    }
    di_grammar_builder_destroy(builder);
    return status;
}

di_status di_grammar_compile(const di_so_args *args, di_buf *not_enforced, di_grammar **out)
{
    return di_grammar_compile_for(args, NULL, not_enforced, out);
}

/* --- common token sets --- */

/* Every mask on the way through a text, in which added tokens stand wherever they may. */
static di_status visit(di_matcher *matcher, const char *text, uint64_t *bits)
{
    static const char mark = (char)DI_VOCAB_ADDED;
    for (const char *at = text; *at != '\0'; at++) {
        bool accepted;
        DI_TRY(di_matcher_mask(matcher, bits));
        DI_TRY(di_matcher_accept(matcher, &mark, 1, &accepted));
        DI_TRY(di_matcher_accept(matcher, at, 1, &accepted));
    }
    return DI_OK;
}

static di_status warm_with(di_vocab *vocab, const di_so_args *args, const char *text)
{
    di_grammar *grammar;
    di_acceptor *acceptor = NULL;
    di_matcher *matcher = NULL;
    uint64_t *bits = malloc(((size_t)vocab->n_words + 1) * sizeof *bits);
    if (bits == NULL)
        return di_fail_memory(vocab->n_words * sizeof *bits, "a token mask");
    di_status status = di_grammar_compile_for(args, vocab, NULL, &grammar);
    if (status == DI_OK) {
        status = di_acceptor_create(grammar, vocab, &acceptor);
        if (status == DI_OK)
            status = di_matcher_create(acceptor, &matcher);
        if (status == DI_OK)
            status = visit(matcher, text, bits);
        di_grammar_unref(grammar);
    }
    di_matcher_destroy(matcher);
    di_acceptor_unref(acceptor);
    free(bits);
    return status;
}

di_status di_vocab_warm(di_vocab *vocab)
{
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = DI_SCHEMA_JSON;
    args.schema = "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}, "
                  "\"b\": {\"type\": \"string\", \"maxLength\": 99}}}";
    return warm_with(vocab, &args, "{\"a\":\"x\",\"b\":\"y\",\"cd\":1");
}

/* The same for calls of tools: text as it is, with and without bounds, and strings in JSON. */
static di_status warm_calls(di_vocab *vocab)
{
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = DI_SCHEMA_TOOL_CALLS;
    args.schema =
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": "
        "\"string\"}, \"b\": {\"type\": \"string\", \"maxLength\": 99}, \"c\": {\"type\": "
        "\"object\", \"properties\": {\"d\": {}}}}}}}]";
    return warm_with(vocab, &args,
                     "\n\n<" DI_DSML_CALLS ">\n<" DI_DSML_INVOKE " name=\"f\">\n"
                     "<" DI_DSML_PARAMETER " name=\"a\" string=\"true\">x</" DI_DSML_PARAMETER ">\n"
                     "<" DI_DSML_PARAMETER " name=\"b\" string=\"true\">x</" DI_DSML_PARAMETER ">\n"
                     "<" DI_DSML_PARAMETER " name=\"c\" string=\"false\">{\"d\":\"x\",\"ef\":1}");
}

/* --- the cache --- */

typedef struct cached {
    di_buf key;
    di_acceptor *acceptor;
    uint64_t last_use;
} cached;

struct di_grammar_cache {
    pthread_mutex_t lock;
    const di_tokenizer *tokenizer;
    di_vocab *vocab;
    bool is_warm, has_warm_calls;
    cached entries[MAX_CACHED];
    size_t n_entries;
    uint64_t n_uses;
    size_t most_bytes; /* of an acceptor */
};

di_status di_grammar_cache_create(const di_tokenizer *tokenizer, di_grammar_cache **out)
{
    di_grammar_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return di_fail_memory(sizeof *cache, "a cache of grammars");
    cache->tokenizer = tokenizer;
    cache->most_bytes = DI_ACCEPTOR_MOST_BYTES;
    pthread_mutex_init(&cache->lock, NULL);
    *out = cache;
    return DI_OK;
}

static void free_entry(cached *entry)
{
    di_buf_free(&entry->key);
    di_acceptor_unref(entry->acceptor);
}

void di_grammar_cache_destroy(di_grammar_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < cache->n_entries; i++)
        free_entry(&cache->entries[i]);
    di_vocab_unref(cache->vocab);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* Everything that decides what is compiled. */
static di_status make_key(const di_so_args *args, di_buf *key)
{
    const char *const texts[] = {args->root, args->item_separator, args->key_separator};
    DI_TRY(di_buf_printf(key, "%d %d %d %d %d %d %d", (int)args->schema_type, args->is_fixed_layout,
                         args->max_whitespace, args->indent, args->is_strict, args->any_order,
                         args->lenient));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        DI_TRY(di_buf_append(key, texts[i] == NULL ? "" : texts[i],
                             texts[i] == NULL ? 0 : strlen(texts[i]) + 1));
    DI_TRY(di_buf_append(key, "\n", 1));
    return di_buf_append(key, args->schema, schema_len(args));
}

static di_acceptor *find(di_grammar_cache *cache, const di_buf *key)
{
    for (size_t i = 0; i < cache->n_entries; i++) {
        cached *entry = &cache->entries[i];
        if (entry->key.len != key->len || memcmp(entry->key.data, key->data, key->len) != 0)
            continue;
        if (di_acceptor_n_bytes(entry->acceptor) > MAX_CACHED_BYTES) {
            free_entry(entry);
            *entry = cache->entries[--cache->n_entries];
            return NULL;
        }
        entry->last_use = ++cache->n_uses;
        return di_acceptor_ref(entry->acceptor);
    }
    return NULL;
}

/* Takes the key. */
static void keep(di_grammar_cache *cache, di_buf *key, di_acceptor *acceptor)
{
    cached *entry = &cache->entries[0];
    if (cache->n_entries < MAX_CACHED) {
        entry = &cache->entries[cache->n_entries++];
    } else {
        for (size_t i = 1; i < MAX_CACHED; i++)
            if (cache->entries[i].last_use < entry->last_use)
                entry = &cache->entries[i];
        free_entry(entry);
    }
    *entry = (cached){*key, di_acceptor_ref(acceptor), ++cache->n_uses};
    *key = (di_buf){0};
}

static di_status vocab_of(di_grammar_cache *cache, di_schema_type type, di_vocab **out)
{
    pthread_mutex_lock(&cache->lock);
    di_status status = DI_OK;
    if (cache->vocab == NULL)
        status = di_vocab_from_tokenizer(cache->tokenizer, &cache->vocab);
    if (status == DI_OK && !cache->is_warm) {
        status = di_vocab_warm(cache->vocab);
        cache->is_warm = status == DI_OK;
    }
    if (status == DI_OK && type == DI_SCHEMA_TOOL_CALLS && !cache->has_warm_calls) {
        status = warm_calls(cache->vocab);
        cache->has_warm_calls = status == DI_OK;
    }
    *out = cache->vocab;
    pthread_mutex_unlock(&cache->lock);
    return status;
}

static di_status compile(di_grammar_cache *cache, const di_so_args *args, di_acceptor **out)
{
    di_grammar *grammar;
    di_vocab *vocab;
    DI_TRY(vocab_of(cache, args->schema_type, &vocab));
    DI_TRY(di_grammar_compile_for(args, vocab, NULL, &grammar));
    const di_status status = di_acceptor_create(grammar, vocab, out);
    di_grammar_unref(grammar);
    DI_TRY(status);
    pthread_mutex_lock(&cache->lock);
    di_acceptor_limit(*out, cache->most_bytes);
    pthread_mutex_unlock(&cache->lock);
    return DI_OK;
}

void di_grammar_cache_limit(di_grammar_cache *cache, size_t most_bytes)
{
    pthread_mutex_lock(&cache->lock);
    cache->most_bytes = most_bytes;
    pthread_mutex_unlock(&cache->lock);
}

di_status di_grammar_cache_get(di_grammar_cache *cache, const di_so_args *args, di_acceptor **out)
{
    DI_BUF_AUTO key = {0};
    DI_TRY(di_so_args_check(args));
    DI_TRY(make_key(args, &key));
    pthread_mutex_lock(&cache->lock);
    di_acceptor *acceptor = find(cache, &key);
    pthread_mutex_unlock(&cache->lock);
    if (acceptor == NULL) {
        DI_TRY(compile(cache, args, &acceptor));
        pthread_mutex_lock(&cache->lock);
        keep(cache, &key, acceptor);
        pthread_mutex_unlock(&cache->lock);
    }
    *out = acceptor;
    return DI_OK;
}
