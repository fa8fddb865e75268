/* deepinfer check: texts against a regex, JSON schema or grammar, without a model. */
#include <stdlib.h>
#include <string.h>

#include "args_grammar.h"
#include "check_times.h"
#include "commands.h"
#include "json_out.h"
#include "json_slice.h"
#include "lines.h"
#include "model.h"

typedef struct check_args {
    di_engine_args engine; /* only which model's tokenizer */
    di_grammar_args grammar;
    const char *tokenizer;
    const char *cases;
    const char *file; /* of --jsonl */
    di_text_list words;
    bool is_jsonl;
    bool has_times;
} check_args;

/* A constraint compiled last, with what it was made of, and what was learned of it. */
typedef struct check_job {
    const check_args *args;
    di_tokenizer *tokenizer; /* NULL: texts are read byte by byte */
    di_vocab *vocab;
    char *source; /* of `checker` or of `problem` */
    di_checker *checker;
    char *problem;  /* why it was refused; NULL: it was not */
    bool has_marks; /* tool calls: their tags have tokens of their own */
    di_check_times times;
    size_t n_wrong; /* cases whose verdict is not the wanted one */
} check_job;

enum { KEY_JSONL = 0x400, KEY_CASES, KEY_TIME, KEY_TOKENIZER };

static const struct argp_option options[] = {
    {"jsonl", KEY_JSONL, NULL, 0,
     "lines {\"id\", \"schema\"|\"regex\"|\"ebnf\"|\"tool_calls\", \"text\"} in, {\"id\", "
     "\"accepted\"} or {\"id\", \"error\"} out; may hold root, strict, any_order, "
     "max_whitespace, lenient"},
    {"cases", KEY_CASES, "FILE", 0,
     "lines {\"text\" or \"hex\"} for the one constraint; with \"accept\", the verdict wanted"},
    {"file", 'f', "FILE", 0, "with --jsonl: read from a file, - for stdin (the default)"},
    {"time", KEY_TIME, NULL, 0, "times of compiling, masks and tokens, on stderr at the end"},
    {"tokenizer", KEY_TOKENIZER, "FILE", 0,
     "read texts token by token through masks of this tokenizer.json (or -m's)"},
    {"model", 'm', "MODEL", 0, "checkpoint whose tokenizer to use"},
    {NULL},
};

static error_t check_sources(const check_args *args, struct argp_state *state)
{
    const bool has_grammar = args->grammar.option != NULL;
    if (args->is_jsonl && (has_grammar || args->cases != NULL || args->words.n > 0))
        return di_args_bad(state, "--jsonl brings constraints and texts along: wanted no %s",
                           has_grammar           ? args->grammar.option
                           : args->cases != NULL ? "--cases"
                                                 : args->words.items[0]);
    if (args->tokenizer != NULL && args->engine.model != NULL)
        return di_args_bad(state, "both --tokenizer and -m: wanted one of them");
    if (!args->is_jsonl && args->file != NULL)
        return di_args_bad(state, "-f '%s' without --jsonl", args->file);
    if (!args->is_jsonl && !has_grammar)
        return di_args_bad(state,
                           "wanted a constraint: --json-schema, --regex, --ebnf or --tool-calls");
    return 0;
}

/* A file that is not named by an option is a JSON schema. */
static error_t take_word(check_args *args, struct argp_state *state, char *arg)
{
    if (args->grammar.option != NULL || args->is_jsonl) {
        di_text_list_add(&args->words, arg);
        return 0;
    }
    args->grammar.option = arg;
    args->grammar.so.schema_type = DI_SCHEMA_JSON;
    if (di_app_read_file(arg, &args->grammar.schema, &args->grammar.so.schema_bytes) != DI_EXIT_OK)
        return di_args_bad(state, "cannot read the JSON schema '%s'", arg);
    args->grammar.so.schema = args->grammar.schema;
    return 0;
}

static error_t parse_check(int key, char *arg, struct argp_state *state)
{
    check_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->grammar;
        return 0;
    case KEY_JSONL:
        args->is_jsonl = true;
        return 0;
    case KEY_CASES:
        args->cases = arg;
        return 0;
    case 'f':
        args->file = arg;
        return 0;
    case KEY_TIME:
        args->has_times = true;
        return 0;
    case KEY_TOKENIZER:
        args->tokenizer = arg;
        return 0;
    case 'm':
        args->engine.model = arg;
        return 0;
    case ARGP_KEY_ARG:
        return take_word(args, state, arg);
    case ARGP_KEY_END:
        return check_sources(args, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&di_grammar_argp, 0, NULL, 1}, {NULL}};

static const struct argp check_argp = {
    .options = options,
    .parser = parse_check,
    .args_doc = "[SCHEMA.json] [TEXT...]",
    .doc =
        "Says whether texts are complete answers under a constraint: prints accepted or rejected "
        "for each TEXT, or for each line of --cases or --jsonl.\vWithout texts the constraint "
        "alone is compiled. The exit code is 3 if a constraint was refused or a verdict is not "
        "the one that a case wants.",
    .children = children,
};

/* --------------------------------------------------------------------------- constraints */

/* Compiles unless it is the one compiled last. A refusal is kept like a checker. */
static void prepare(check_job *job, const di_so_args *so, const char *source)
{
    if (job->source != NULL && strcmp(job->source, source) == 0)
        return;
    di_checker_destroy(job->checker);
    free(job->problem);
    free(job->source);
    job->checker = NULL;
    job->problem = NULL;
    job->source = di_app_text("%s", source);
    job->has_marks = so->schema_type == DI_SCHEMA_TOOL_CALLS;
    const int64_t from = di_check_clock_ns();
    if (di_checker_create(so, job->vocab, &job->checker) != DI_OK)
        job->problem = di_app_text("%s", di_last_error());
    di_check_times_add(&job->times.compile, di_check_clock_ns() - from);
}

/* --------------------------------------------------------------------------------- texts */

static di_status add_tokens(const check_job *job, const char *text, size_t bytes, bool is_mark,
                            int32_t *ids, size_t *n_ids)
{
    int32_t *more = NULL;
    size_t n = 0;
    const di_status status =
        di_tokenizer_encode_text(job->tokenizer, text, bytes, is_mark, &more, &n);
    if (status == DI_OK && n > 0)
        memcpy(ids + *n_ids, more, n * sizeof *more);
    *n_ids += n;
    di_free(more);
    return status;
}

/* The marks of tool calls are tokens; all else is text, whatever it spells. ids [bytes]. */
static di_status encode(const check_job *job, const char *text, size_t bytes, int32_t *ids,
                        size_t *n_ids)
{
    static const char mark[] = "｜DSML｜";
    const size_t len = sizeof mark - 1;
    size_t at = 0;
    for (size_t i = 0; job->has_marks && i + len <= bytes; i++) {
        if (memcmp(text + i, mark, len) != 0)
            continue;
        di_status status = add_tokens(job, text + at, i - at, false, ids, n_ids);
        if (status == DI_OK)
            status = add_tokens(job, text + i, len, true, ids, n_ids);
        if (status != DI_OK)
            return status;
        at = i + len;
        i = at - 1;
    }
    return add_tokens(job, text + at, bytes - at, false, ids, n_ids);
}

/* Token by token: each must be allowed by the mask before it. */
static di_status match_tokens(check_job *job, const char *text, size_t bytes, bool *accepted)
{
    int32_t *ids = di_app_alloc((bytes + 1) * sizeof *ids);
    size_t n_ids = 0;
    di_status status = encode(job, text, bytes, ids, &n_ids);
    uint64_t *words = di_app_alloc(di_checker_mask_words(job->checker) * sizeof *words);
    if (status == DI_OK)
        status = di_checker_begin(job->checker);
    bool follows = true;
    for (size_t i = 0; i < n_ids && status == DI_OK && follows; i++) {
        const int64_t from = di_check_clock_ns();
        status = di_checker_mask(job->checker, words);
        const int64_t masked = di_check_clock_ns();
        follows = status == DI_OK && (words[ids[i] / 64] >> (ids[i] % 64) & 1) != 0;
        bool read = false;
        if (status == DI_OK)
            status = di_checker_accept(job->checker, ids[i], &read);
        di_check_times_add(&job->times.mask, masked - from);
        di_check_times_add(&job->times.accept, di_check_clock_ns() - masked);
        if (status == DI_OK && read != follows)
            status = DI_ERR_RUNTIME; /* a mask that lies */
    }
    *accepted = status == DI_OK && follows && di_checker_may_end(job->checker);
    free(words);
    free(ids);
    return status;
}

static di_status match(check_job *job, const char *text, size_t bytes, bool *accepted)
{
    return job->vocab != NULL ? match_tokens(job, text, bytes, accepted)
                              : di_checker_match(job->checker, text, bytes, accepted);
}

static int hex_digit(char c)
{
    const char *const digits = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c | 0x20) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* The text of a case, plain or as hex. *text is malloc'ed. */
static bool text_of(const json_t *object, char **text, size_t *bytes)
{
    const json_t *plain = json_object_get(object, "text"), *hex = json_object_get(object, "hex");
    const json_t *given = hex != NULL ? hex : plain;
    if (!json_is_string(given))
        return false;
    const char *from = json_string_value(given);
    const size_t len = json_string_length(given);
    *text = di_app_alloc(len + 1);
    *bytes = hex != NULL ? len / 2 : len;
    for (size_t i = 0; i < *bytes; i++) {
        if (hex == NULL) {
            (*text)[i] = from[i];
            continue;
        }
        const int high = hex_digit(from[2 * i]), low = hex_digit(from[2 * i + 1]);
        if (high < 0 || low < 0) {
            free(*text);
            return false;
        }
        (*text)[i] = (char)(high << 4 | low);
    }
    return true;
}

static void print_id(const json_t *object)
{
    const json_t *id = json_object_get(object, "id");
    if (id == NULL)
        return;
    char *text = json_dumps(id, JSON_ENCODE_ANY);
    if (text != NULL)
        printf("\"id\": %s, ", text);
    free(text);
}

/* Answers a line with the constraint that is prepared. */
static di_exit answer(check_job *job, const json_t *object, char **error)
{
    const json_t *wanted = json_object_get(object, "accept");
    char *text = NULL;
    size_t bytes = 0;
    bool accepted = false;
    if (job->problem == NULL && !text_of(object, &text, &bytes)) {
        *error = di_app_text("wanted \"text\", or \"hex\" of pairs of hex digits");
        return DI_EXIT_INPUT;
    }
    putchar('{');
    print_id(object);
    if (job->problem != NULL || match(job, text, bytes, &accepted) != DI_OK) {
        const char *problem = job->problem != NULL ? job->problem : di_last_error();
        fputs("\"error\": ", stdout);
        di_out_text(stdout, problem, strlen(problem));
        fputs("}\n", stdout);
    } else {
        printf("\"accepted\": %s}\n", accepted ? "true" : "false");
    }
    if (wanted != NULL) {
        const bool is_wanted = json_is_true(wanted) || json_integer_value(wanted) != 0;
        job->n_wrong += job->problem != NULL || is_wanted != accepted;
    }
    free(text);
    return DI_EXIT_OK;
}

static di_exit case_line(void *user, const json_t *object, char **error)
{
    return answer(user, object, error);
}

/* ------------------------------------------------------------------------- JSON lines */

/* The options a line may hold. */
static void line_options(const json_t *object, di_so_args *so)
{
    const json_t *root = json_object_get(object, "root");
    const json_t *white = json_object_get(object, "max_whitespace");
    so->root =
        json_is_string(root) && so->schema_type == DI_SCHEMA_EBNF ? json_string_value(root) : NULL;
    so->is_strict = json_is_true(json_object_get(object, "strict"));
    so->any_order = json_is_true(json_object_get(object, "any_order"));
    so->lenient = json_is_true(json_object_get(object, "lenient"));
    so->max_whitespace = json_is_integer(white) ? (int32_t)json_integer_value(white) : -1;
}

/* The line with an empty object in the place of its schema (or tool_calls), whose own text, to the
 * digit, is *schema. */
static char *cut_schema(const char *line, size_t bytes, di_json_slice *schema)
{
    if (!di_json_member(line, bytes, "schema", schema) &&
        !di_json_member(line, bytes, "tool_calls", schema))
        return di_app_text("%.*s", (int)bytes, line);
    return di_app_text("%.*s{}%.*s", (int)(schema->text - line), line,
                       (int)(line + bytes - (schema->text + schema->bytes)),
                       schema->text + schema->bytes);
}

/* The constraint of a line. */
static bool line_constraint(const json_t *object, di_json_slice schema, di_so_args *so)
{
    const json_t *regex = json_object_get(object, "regex"), *ebnf = json_object_get(object, "ebnf");
    const json_t *text = regex != NULL ? regex : ebnf;
    if (schema.text != NULL) {
        so->schema_type =
            json_object_get(object, "tool_calls") != NULL ? DI_SCHEMA_TOOL_CALLS : DI_SCHEMA_JSON;
        so->schema = schema.text;
        so->schema_bytes = schema.bytes;
        return true;
    }
    so->schema_type = regex != NULL ? DI_SCHEMA_REGEX : DI_SCHEMA_EBNF;
    so->schema = json_string_value(text);
    so->schema_bytes = json_string_length(text);
    return so->schema != NULL;
}

static di_exit answer_object(check_job *job, const json_t *object, di_json_slice schema,
                             char **error)
{
    di_so_args so = DI_SO_ARGS_INIT;
    if (!line_constraint(object, schema, &so)) {
        *error = di_app_text("wanted one of \"schema\", \"regex\", \"ebnf\" and \"tool_calls\"");
        return DI_EXIT_INPUT;
    }
    line_options(object, &so);
    char *source = di_app_text("%d %d%d%d %d %s\n%.*s", (int)so.schema_type, so.is_strict,
                               so.any_order, so.lenient, so.max_whitespace,
                               so.root != NULL ? so.root : "", (int)so.schema_bytes, so.schema);
    prepare(job, &so, source);
    free(source);
    return answer(job, object, error);
}

static di_exit jsonl_line(void *user, const char *line, size_t bytes, char **error)
{
    di_json_slice schema = {0};
    json_error_t problem;
    char *rest = cut_schema(line, bytes, &schema);
    json_t *object = json_loads(rest, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    di_exit code = DI_EXIT_INPUT;
    if (json_is_object(object))
        code = answer_object(user, object, schema, error);
    else if (object != NULL)
        *error = di_app_text("found an array, wanted an object");
    else
        *error = di_app_text("column %d: %s", problem.column, problem.text);
    json_decref(object);
    free(rest);
    return code;
}

/* ---------------------------------------------------------------------------------- main */

static di_exit check_words(check_job *job)
{
    for (size_t i = 0; i < job->args->words.n; i++) {
        bool accepted;
        const char *text = job->args->words.items[i];
        const di_status status = match(job, text, strlen(text), &accepted);
        if (status != DI_OK)
            return di_app_fail_status(status, NULL);
        puts(accepted ? "accepted" : "rejected");
    }
    return DI_EXIT_OK;
}

static di_exit check_one(check_job *job)
{
    const check_args *args = job->args;
    prepare(job, &args->grammar.so, "");
    if (job->problem != NULL)
        return di_app_fail(DI_EXIT_INPUT, "%s", job->problem);
    if (di_checker_not_enforced(job->checker)[0] != '\0')
        di_app_note("not enforced:\n%s", di_checker_not_enforced(job->checker));
    if (args->cases == NULL)
        return check_words(job);
    const di_exit code = di_lines_filter(args->cases, case_line, job);
    if (code == DI_EXIT_OK && job->n_wrong > 0)
        return di_app_fail(DI_EXIT_INPUT, "%zu verdicts are not the wanted ones", job->n_wrong);
    return code;
}

static di_exit open_vocab(check_job *job)
{
    const check_args *args = job->args;
    if (args->tokenizer == NULL && args->engine.model == NULL)
        return DI_EXIT_OK;
    const di_exit code = di_app_tokenizer_open(&args->engine, args->tokenizer, &job->tokenizer);
    if (code != DI_EXIT_OK)
        return code;
    const int64_t from = di_check_clock_ns();
    if (di_vocab_open(job->tokenizer, &job->vocab) != DI_OK)
        return di_app_fail_status(DI_ERR_MEMORY, NULL);
    di_check_times_add(&job->times.vocab, di_check_clock_ns() - from);
    return DI_EXIT_OK;
}

di_exit di_cmd_check(int argc, char **argv)
{
    check_args args = {.grammar = DI_GRAMMAR_ARGS_INIT};
    check_job job = {.args = &args};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&check_argp, INT32_MAX, argc, argv, &args, &code)) {
        code = open_vocab(&job);
        if (code == DI_EXIT_OK)
            code =
                args.is_jsonl ? di_raw_lines_filter(args.file, jsonl_line, &job) : check_one(&job);
        if (args.has_times)
            di_check_times_print(&job.times);
    }
    di_check_times_free(&job.times);
    di_checker_destroy(job.checker);
    free(job.problem);
    free(job.source);
    di_vocab_close(job.vocab);
    di_tokenizer_close(job.tokenizer);
    di_grammar_args_free(&args.grammar);
    di_text_list_free(&args.words);
    return code;
}
