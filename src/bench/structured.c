/* deepinfer bench structured: times of constraints on this thread. In each round a vocabulary is
 * prepared, grammars are compiled and read all of their texts token by token, as deepinfer check
 * does. A round repeats the one before it call by call, so of each call the shortest time over the
 * rounds is its own, and the rest is what else the machine did. */
#include "bench/structured.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "grammar/vocab.h"

enum { DEFAULT_ROUNDS = 5, MAX_ROUNDS = 1000 };
enum { N_KINDS = DI_SCHEMA_TOOL_CALLS }; /* of constraints: groups of a file's rows */

/* A line of the table. */
typedef struct group {
    char name[24];
    di_check_times times, round;       /* the shortest until now, those of this round */
    size_t n_rows, n_refused, n_wrong; /* of one round */
    int64_t bytes;                     /* that a grammar held after its texts, most */
} group;

/* Where the times of a row are in its group's. */
typedef struct row_calls {
    size_t first_compile, n_compiles; /* n: 1 for the first row of a grammar that was compiled */
    size_t first_mask, n_masks;
} row_calls;

typedef struct bench {
    const di_bench_structured_options *options;
    const di_tokenizer *tokenizer;
    di_vocab *vocab; /* of this round */
    int64_t vocab_ns, vocab_bytes;
    uint32_t n_tokens;
    int n_rounds;
    di_check_row *rows;
    row_calls *calls; /* [n_rows] */
    size_t n_rows, cap_rows;
    group *groups; /* the last: all */
    size_t n_groups;
    FILE *out;
} bench;

/* ------------------------------------------------------------------------------------- the rows */

static di_status add_row(bench *b, const di_check_row *row)
{
    DI_TRY(DI_GROW(&b->rows, &b->cap_rows, b->n_rows + 1));
    b->rows[b->n_rows++] = *row;
    return DI_OK;
}

static di_status own_rows(bench *b)
{
    for (size_t i = 0; i < di_n_bench_grammars; i++) {
        const di_bench_grammar *g = &di_bench_grammars[i];
        for (size_t k = 0; k < DI_BENCH_GRAMMAR_TEXTS && g->texts[k] != NULL; k++) {
            di_check_row row = {.so = DI_SO_ARGS_INIT, .id = g->name, .wanted = 1};
            row.so.schema_type = g->type;
            row.so.schema = g->schema;
            row.so.schema_bytes = strlen(g->schema);
            row.text = g->texts[k];
            row.text_bytes = strlen(g->texts[k]);
            DI_TRY(add_row(b, &row));
        }
    }
    return DI_OK;
}

static di_status read_line(bench *b, const char *line, size_t bytes)
{
    di_check_row row;
    DI_TRY(di_check_row_read(line, bytes, &row));
    di_status status = DI_OK;
    if (row.so.schema_type == DI_SCHEMA_NONE)
        status = di_fail(DI_ERR_INPUT,
                         "wanted one of \"schema\", \"regex\", \"ebnf\" and \"tool_calls\"");
    else if (row.text == NULL)
        status = di_fail(DI_ERR_INPUT, "wanted \"text\", or \"hex\" of pairs of hex digits");
    if (status == DI_OK)
        status = add_row(b, &row);
    if (status != DI_OK)
        di_check_row_free(&row);
    return status;
}

static di_status file_rows(bench *b, const char *path)
{
    const size_t max_bytes = (size_t)1 << 31;
    DI_BUF_AUTO text = {0};
    DI_TRY(di_file_read(path, max_bytes, &text));
    const char *at = di_buf_str(&text), *const end = at + text.len;
    for (int64_t number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline != NULL ? newline : end;
        if (strspn(at, " \t\r") < (size_t)(line_end - at) &&
            read_line(b, at, (size_t)(line_end - at)) != DI_OK)
            return di_fail_within(DI_ERR_INPUT, "%s, line %lld", path, (long long)number);
        at = line_end + 1;
    }
    if (b->n_rows == 0)
        return di_fail(DI_ERR_INPUT, "%s: found no rows, wanted lines of cases", path);
    return DI_OK;
}

/* A file's rows by the kind of their constraint, own ones by grammar. */
static group *group_of(bench *b, const di_check_row *row)
{
    if (b->options->rows != NULL)
        return &b->groups[row->so.schema_type - 1];
    for (size_t i = 0; i + 1 < b->n_groups; i++)
        if (strcmp(b->groups[i].name, row->id) == 0)
            return &b->groups[i];
    return NULL;
}

static di_status make_groups(bench *b)
{
    static const char *const kinds[N_KINDS] = {[DI_SCHEMA_REGEX - 1] = "regex",
                                               [DI_SCHEMA_JSON - 1] = "JSON schema",
                                               [DI_SCHEMA_EBNF - 1] = "EBNF",
                                               [DI_SCHEMA_TOOL_CALLS - 1] = "tool calls"};
    const bool is_file = b->options->rows != NULL;
    b->n_groups = (is_file ? N_KINDS : di_n_bench_grammars) + 1;
    b->groups = calloc(b->n_groups, sizeof *b->groups);
    if (b->groups == NULL)
        return di_fail_memory(b->n_groups * sizeof *b->groups, "the results");
    for (size_t i = 0; i + 1 < b->n_groups; i++)
        snprintf(b->groups[i].name, sizeof b->groups[i].name, "%s",
                 is_file ? kinds[i] : di_bench_grammars[i].name);
    snprintf(b->groups[b->n_groups - 1].name, sizeof b->groups->name, "all");
    return DI_OK;
}

/* ---------------------------------------------------------------------------------- the measuring
 */

/* Bytes that the process has from malloc. */
static int64_t heap_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

/* Texts of rows with one constraint. */
static di_status read_texts(bench *b, group *g, di_checker *checker, size_t first, size_t n)
{
    di_check_times *t = &g->round;
    for (size_t i = first; i < first + n; i++) {
        const di_check_row *row = &b->rows[i];
        bool accepted;
        b->calls[i].first_mask = t->mask.n;
        DI_TRY(di_checker_match_tokens(checker, b->tokenizer, row->text, row->text_bytes, t,
                                       &accepted));
        b->calls[i].n_masks = t->mask.n - b->calls[i].first_mask;
        g->n_wrong += row->wanted >= 0 && accepted != (row->wanted == 1);
    }
    return DI_OK;
}

static di_status measure(bench *b, size_t first, size_t n)
{
    group *g = group_of(b, &b->rows[first]);
    const int64_t before = heap_bytes();
    di_checker *checker;
    g->n_rows += n;
    b->calls[first].first_compile = g->round.compile.n;
    const di_status created =
        di_checker_create_timed(&b->rows[first].so, b->vocab, &g->round, &checker);
    if (created == DI_ERR_INPUT || created == DI_ERR_UNSUPPORTED || created == DI_ERR_ARGUMENT) {
        g->n_refused += n;
        return DI_OK;
    }
    DI_TRY(created);
    b->calls[first].n_compiles = 1;
    const di_status status = read_texts(b, g, checker, first, n);
    const int64_t bytes = heap_bytes() - before;
    if (bytes > g->bytes)
        g->bytes = bytes;
    di_checker_destroy(checker);
    return status;
}

/* A round's times into the shortest until now. */
static di_status merge(di_time_list *shortest, di_time_list *round)
{
    if (shortest->n != 0 && shortest->n != round->n)
        return di_fail(DI_ERR_RUNTIME, "found %zu calls, wanted the %zu of the round before",
                       round->n, shortest->n);
    for (size_t i = 0; i < round->n; i++) {
        if (i == shortest->n)
            DI_TRY(di_time_list_add(shortest, round->ns[i]));
        else if (round->ns[i] < shortest->ns[i])
            shortest->ns[i] = round->ns[i];
    }
    round->n = 0;
    return DI_OK;
}

static di_status run_grammars(bench *b)
{
    const di_bench_structured_options *o = b->options;
    for (size_t i = 0; i < b->n_groups; i++)
        b->groups[i].n_rows = b->groups[i].n_refused = b->groups[i].n_wrong = 0;
    for (size_t i = 0, n; i < b->n_rows; i += n) {
        if (o->go_on && !o->go_on(o->user))
            return di_fail(DI_ERR_CANCELLED, "the benchmark was stopped");
        for (n = 1; i + n < b->n_rows && di_check_row_same(&b->rows[i], &b->rows[i + n]);)
            n++;
        DI_TRY(measure(b, i, n));
    }
    for (group *g = b->groups; g < b->groups + b->n_groups; g++) {
        DI_TRY(merge(&g->times.compile, &g->round.compile));
        DI_TRY(merge(&g->times.mask, &g->round.mask));
        DI_TRY(merge(&g->times.accept, &g->round.accept));
    }
    return DI_OK;
}

static di_status run_round(bench *b)
{
    di_check_times times = {0};
    const int64_t before = heap_bytes();
    const di_status opened = di_vocab_open_timed(b->tokenizer, &times, &b->vocab);
    const int64_t ns = di_time_list_tails(&times.vocab).worst;
    di_time_list_free(&times.vocab);
    b->vocab_bytes = heap_bytes() - before;
    DI_TRY(opened);
    if (b->vocab_ns == 0 || ns < b->vocab_ns)
        b->vocab_ns = ns;
    b->n_tokens = b->vocab->n_tokens;
    const di_status status = run_grammars(b);
    di_vocab_close(b->vocab);
    b->vocab = NULL;
    return status;
}

static di_status append_times(di_time_list *to, const di_time_list *from)
{
    for (size_t i = 0; i < from->n; i++)
        DI_TRY(di_time_list_add(to, from->ns[i]));
    return DI_OK;
}

static di_status sum_up(bench *b)
{
    group *all = &b->groups[b->n_groups - 1];
    for (const group *g = b->groups; g < all; g++) {
        DI_TRY(append_times(&all->times.compile, &g->times.compile));
        DI_TRY(append_times(&all->times.mask, &g->times.mask));
        DI_TRY(append_times(&all->times.accept, &g->times.accept));
        all->n_rows += g->n_rows;
        all->n_refused += g->n_refused;
        all->n_wrong += g->n_wrong;
        if (g->bytes > all->bytes)
            all->bytes = g->bytes;
    }
    return DI_OK;
}

/* ------------------------------------------------------------------------------------ the results
 */

static void print_tails(FILE *out, const di_time_tails *t)
{
    fprintf(out, " |%8.2f %8.2f %9.2f", (double)t->p50 * 1e-3, (double)t->p99 * 1e-3,
            (double)t->worst * 1e-3);
}

static void print_group(FILE *out, group *g)
{
    const di_time_tails compile = di_time_list_tails(&g->times.compile);
    const di_time_tails mask = di_time_list_tails(&g->times.mask);
    const di_time_tails accept = di_time_list_tails(&g->times.accept);
    if (g->n_rows == 0)
        return;
    fprintf(out, "%-20s %5zu %8zu", g->name, g->n_rows, mask.n);
    print_tails(out, &compile);
    print_tails(out, &mask);
    print_tails(out, &accept);
    fprintf(out, " |%8.1f %5zu %7zu\n", (double)g->bytes * 1e-3, g->n_wrong, g->n_refused);
}

static void print_longest(FILE *out, const char *what, int64_t ns, const di_check_row *row)
{
    if (row != NULL)
        fprintf(out, "worst %s: %.2f ms, of %s\n", what, (double)ns * 1e-6,
                row->id != NULL ? row->id : "a row without an id");
}

/* Which rows the longest calls are of: before lists are sorted. */
static void print_worst(bench *b)
{
    int64_t compile_ns = -1, mask_ns = -1;
    const di_check_row *compile = NULL, *mask = NULL;
    for (size_t i = 0; i < b->n_rows; i++) {
        const di_check_times *t = &group_of(b, &b->rows[i])->times;
        const row_calls *c = &b->calls[i];
        if (c->n_compiles > 0 && t->compile.ns[c->first_compile] > compile_ns) {
            compile_ns = t->compile.ns[c->first_compile];
            compile = &b->rows[i];
        }
        for (size_t k = c->first_mask; k < c->first_mask + c->n_masks; k++)
            if (t->mask.ns[k] > mask_ns) {
                mask_ns = t->mask.ns[k];
                mask = &b->rows[i];
            }
    }
    print_longest(b->out, "compile", compile_ns, compile);
    print_longest(b->out, "mask", mask_ns, mask);
}

static void print(bench *b)
{
    FILE *out = b->out;
    fprintf(out,
            "vocabulary of %u tokens: prepared in %.1f ms, %.1f MB; one thread, %s %d rounds\n",
            b->n_tokens, (double)b->vocab_ns * 1e-6, (double)b->vocab_bytes * 1e-6,
            b->n_rounds > 1 ? "the shortest times of" : "times of", b->n_rounds);
    print_worst(b);
    fprintf(out, "%-35s |%-27s |%-27s |%-27s |\n", "", " compile, us", " mask, us", " token, us");
    fprintf(out, "%-20s %5s %8s", "grammar", "rows", "masks");
    for (int i = 0; i < 3; i++)
        fprintf(out, " |%8s %8s %9s", "p50", "p99", "worst");
    fprintf(out, " |%8s %5s %7s\n", "KB", "wrong", "refused");
    for (size_t i = 0; i < b->n_groups; i++)
        print_group(out, &b->groups[i]);
}

static json_t *tails_json(di_time_list *list)
{
    const di_time_tails t = di_time_list_tails(list);
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "n", (json_int_t)t.n, "p50", (json_int_t)t.p50,
                     "p90", (json_int_t)t.p90, "p99", (json_int_t)t.p99, "worst",
                     (json_int_t)t.worst);
}

static json_t *group_json(group *g)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "grammar", g->name, "rows",
                     (json_int_t)g->n_rows, "wrong", (json_int_t)g->n_wrong, "refused",
                     (json_int_t)g->n_refused, "bytes", (json_int_t)g->bytes, "compile_ns",
                     tails_json(&g->times.compile), "mask_ns", tails_json(&g->times.mask),
                     "token_ns", tails_json(&g->times.accept));
}

static di_status write_json(bench *b)
{
    if (b->options->json == NULL)
        return DI_OK;
    json_t *rows = json_array();
    for (size_t i = 0; i < b->n_groups; i++)
        if (b->groups[i].n_rows > 0)
            json_array_append_new(rows, group_json(&b->groups[i]));
    json_t *all =
        json_pack("{s:I, s:I, s:I, s:i, s:o}", "vocabulary_tokens", (json_int_t)b->n_tokens,
                  "vocabulary_ns", (json_int_t)b->vocab_ns, "vocabulary_bytes",
                  (json_int_t)b->vocab_bytes, "rounds", b->n_rounds, "rows", rows);
    const bool is_written = all && json_dumpf(all, b->options->json, JSON_INDENT(1)) == 0;
    json_decref(all);
    return is_written ? DI_OK : di_fail(DI_ERR_IO, "the results cannot be written as JSON");
}

/* -------------------------------------------------------------------------------------- the whole
 */

static di_status run(bench *b)
{
    b->calls = calloc(b->n_rows, sizeof *b->calls);
    if (b->calls == NULL)
        return di_fail_memory(b->n_rows * sizeof *b->calls, "the results");
    DI_TRY(make_groups(b));
    for (int i = 0; i < b->n_rounds; i++)
        DI_TRY(run_round(b));
    DI_TRY(sum_up(b));
    print(b);
    DI_TRY(write_json(b));
    return fflush(b->out) || ferror(b->out) ? di_fail(DI_ERR_IO, "cannot write the results")
                                            : DI_OK;
}

static void free_times(di_check_times *times)
{
    di_time_list_free(&times->compile);
    di_time_list_free(&times->mask);
    di_time_list_free(&times->accept);
}

static void free_bench(bench *b)
{
    for (size_t i = 0; i < b->n_groups && b->groups != NULL; i++) {
        free_times(&b->groups[i].times);
        free_times(&b->groups[i].round);
    }
    for (size_t i = 0; i < b->n_rows; i++)
        di_check_row_free(&b->rows[i]);
    free(b->groups);
    free(b->rows);
    free(b->calls);
    di_vocab_close(b->vocab);
}

di_status di_bench_structured(const di_tokenizer *tokenizer,
                              const di_bench_structured_options *given, FILE *out)
{
    static const di_bench_structured_options defaults = {0};
    if (tokenizer == NULL || out == NULL)
        return di_fail(DI_ERR_ARGUMENT, "di_bench_structured: tokenizer and out must not be NULL");
    bench b = {.options = given ? given : &defaults, .tokenizer = tokenizer, .out = out};
    b.n_rounds = b.options->n_rounds;
    if (b.n_rounds == 0)
        b.n_rounds = DEFAULT_ROUNDS;
    if (b.n_rounds < 0 || b.n_rounds > MAX_ROUNDS)
        return di_fail(DI_ERR_ARGUMENT, "di_bench_structured: found %d rounds, wanted 1 to %d",
                       b.n_rounds, MAX_ROUNDS);
    di_status status = b.options->rows != NULL ? file_rows(&b, b.options->rows) : own_rows(&b);
    if (status == DI_OK)
        status = run(&b);
    free_bench(&b);
    return status;
}
