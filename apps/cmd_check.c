/* deepinfer check: texts against a regex, JSON schema or grammar, without a model. */
#include <stdlib.h>
#include <string.h>

#include "args_grammar.h"
#include "commands.h"
#include "json_out.h"
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
    di_check_row row; /* the last of --jsonl, whose constraint it is */
    di_checker *checker;
    char *problem; /* why it was refused; NULL: it was not */
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

/* Compiles. A refusal is kept like a checker. */
static void prepare(check_job *job, const di_so_args *so)
{
    di_checker_destroy(job->checker);
    free(job->problem);
    job->checker = NULL;
    job->problem = NULL;
    if (di_checker_create_timed(so, job->vocab, &job->times, &job->checker) != DI_OK)
        job->problem = di_app_text("%s", di_last_error());
}

/* --------------------------------------------------------------------------------- texts */

static di_status match(check_job *job, const char *text, size_t bytes, bool *accepted)
{
    return job->vocab != NULL ? di_checker_match_tokens(job->checker, job->tokenizer, text, bytes,
                                                        &job->times, accepted)
                              : di_checker_match(job->checker, text, bytes, accepted);
}

/* Answers a row with the constraint that is prepared. */
static di_exit answer(check_job *job, const di_check_row *row, char **error)
{
    bool accepted = false;
    if (job->problem == NULL && row->text == NULL) {
        *error = di_app_text("wanted \"text\", or \"hex\" of pairs of hex digits");
        return DI_EXIT_INPUT;
    }
    putchar('{');
    if (row->id != NULL)
        printf("\"id\": %s, ", row->id);
    if (job->problem != NULL || match(job, row->text, row->text_bytes, &accepted) != DI_OK) {
        const char *problem = job->problem != NULL ? job->problem : di_last_error();
        fputs("\"error\": ", stdout);
        di_out_text(stdout, problem, strlen(problem));
        fputs("}\n", stdout);
    } else {
        printf("\"accepted\": %s}\n", accepted ? "true" : "false");
    }
    if (row->wanted >= 0)
        job->n_wrong += job->problem != NULL || (row->wanted == 1) != accepted;
    return DI_EXIT_OK;
}

static di_exit case_line(void *user, const char *line, size_t bytes, char **error)
{
    di_check_row row;
    if (di_check_row_read(line, bytes, &row) != DI_OK) {
        *error = di_app_text("%s", di_last_error());
        return DI_EXIT_INPUT;
    }
    const di_exit code = answer(user, &row, error);
    di_check_row_free(&row);
    return code;
}

static di_exit jsonl_line(void *user, const char *line, size_t bytes, char **error)
{
    check_job *job = user;
    di_check_row row;
    if (di_check_row_read(line, bytes, &row) != DI_OK) {
        *error = di_app_text("%s", di_last_error());
        return DI_EXIT_INPUT;
    }
    if (row.so.schema_type == DI_SCHEMA_NONE) {
        *error = di_app_text("wanted one of \"schema\", \"regex\", \"ebnf\" and \"tool_calls\"");
        di_check_row_free(&row);
        return DI_EXIT_INPUT;
    }
    if (job->row.owned == NULL || !di_check_row_same(&row, &job->row))
        prepare(job, &row.so);
    di_check_row_free(&job->row);
    job->row = row;
    return answer(job, &row, error);
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
    prepare(job, &args->grammar.so);
    if (job->problem != NULL)
        return di_app_fail(DI_EXIT_INPUT, "%s", job->problem);
    if (di_checker_not_enforced(job->checker)[0] != '\0')
        di_app_note("not enforced:\n%s", di_checker_not_enforced(job->checker));
    if (args->cases == NULL)
        return check_words(job);
    const di_exit code = di_raw_lines_filter(args->cases, case_line, job);
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
    const di_status status = di_vocab_open_timed(job->tokenizer, &job->times, &job->vocab);
    return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, NULL);
}

static void print_times(const char *name, di_time_list *list)
{
    const di_time_tails t = di_time_list_tails(list);
    if (t.n > 0)
        fprintf(stderr, "%-10s %8zu times, us: p50 %.2f, p90 %.2f, p99 %.2f, worst %.2f\n", name,
                t.n, (double)t.p50 * 1e-3, (double)t.p90 * 1e-3, (double)t.p99 * 1e-3,
                (double)t.worst * 1e-3);
}

di_exit di_cmd_check(int argc, char **argv)
{
    check_args args = {.grammar = DI_GRAMMAR_ARGS_INIT};
    check_job job = {.args = &args};
    const struct {
        const char *name;
        di_time_list *list;
    } kinds[] = {{"vocabulary", &job.times.vocab},
                 {"compile", &job.times.compile},
                 {"mask", &job.times.mask},
                 {"token", &job.times.accept}};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&check_argp, INT32_MAX, argc, argv, &args, &code)) {
        code = open_vocab(&job);
        if (code == DI_EXIT_OK)
            code =
                args.is_jsonl ? di_raw_lines_filter(args.file, jsonl_line, &job) : check_one(&job);
        if (args.has_times)
            for (size_t i = 0; i < DI_COUNT(kinds); i++)
                print_times(kinds[i].name, kinds[i].list);
    }
    for (size_t i = 0; i < DI_COUNT(kinds); i++)
        di_time_list_free(kinds[i].list);
    di_checker_destroy(job.checker);
    di_check_row_free(&job.row);
    free(job.problem);
    di_vocab_close(job.vocab);
    di_tokenizer_close(job.tokenizer);
    di_grammar_args_free(&args.grammar);
    di_text_list_free(&args.words);
    return code;
}
