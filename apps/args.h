/* Option parsing on argp: one error line per mistake, --help on stdout, strict numbers; and the two
 * groups of options that several subcommands have, engine and sampling. */
#ifndef DI_APPS_ARGS_H
#define DI_APPS_ARGS_H

#include <argp.h>

#include "app.h"

/* Parses argv (argv[0] is the name to show, "deepinfer run"). True: go on. False: leave with
 * *code, after --help (0) or an error line (DI_EXIT_USAGE). At most `max_positional` arguments that
 * are no options reach the parser. `argp` may have children; its parser gets `input`. */
bool di_args_parse(const struct argp *argp, int max_positional, int argc, char **argv, void *input,
                   di_exit *code);
/* For use within a parser: prints the error line; return its value. */
error_t di_args_bad(struct argp_state *state, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds an option --kernel OP=NAME to *kernels ("op=name,op=name", owned by the caller, NULL at
 * first), which options->kernels then is. */
error_t di_args_add_kernel(struct argp_state *state, const char *arg, char **kernels,
                           di_options *options);

/* Strict numbers: the whole text, no white space, within [low, high]. On failure *error is a
 * malloc'ed text: "'abc' is not a whole number, wanted 1 to 8". */
bool di_args_parse_i64(const char *text, int64_t low, int64_t high, int64_t *out, char **error);
bool di_args_parse_u64(const char *text, uint64_t *out, char **error);
bool di_args_parse_f64(const char *text, double low, double high, double *out, char **error);
/* di_args_parse_i64 for an option within a parser: the error line names the option. */
error_t di_args_i64(struct argp_state *state, const char *option, const char *arg, int64_t low,
                    int64_t high, int64_t *out);

/* A growing list of borrowed texts. */
typedef struct di_text_list {
    const char **items;
    size_t n;
} di_text_list;
void di_text_list_add(di_text_list *list, const char *text);
void di_text_list_free(di_text_list *list);

/* ------------------------------------------------------------- which model and how to run it */

typedef struct di_engine_args {
    const char *model; /* NULL: not given */
    di_options options;
    char *kernels; /* owns options.kernels */
} di_engine_args;

/* Child of a command's argp; its input is a di_engine_args. */
extern const struct argp di_engine_argp;
void di_engine_args_free(di_engine_args *args);

/* ---------------------------------------------------------------------------------- sampling */

typedef struct di_sampling_args {
    uint32_t given; /* bit i: row i of the option table was given */
    di_sampling_params params;
    di_logit_bias *bias; /* owns params.logit_bias, and so on */
    int32_t *stop_ids;
    di_text_list stop;
} di_sampling_args;

/* Child of a command's argp; its input is a di_sampling_args set up by di_sampling_args_init. */
extern const struct argp di_sampling_argp;
void di_sampling_args_init(di_sampling_args *args);
void di_sampling_args_free(di_sampling_args *args);
/* Sets one parameter by its option name, "top-k" or "top_k". `value` is borrowed. On failure *error
 * is a malloc'ed text. */
bool di_sampling_args_set(di_sampling_args *args, const char *name, const char *value,
                          char **error);
/* The model's defaults under what was given; a token id outside the vocabulary is
 * DI_EXIT_USAGE. The result borrows from args. */
di_exit di_sampling_args_apply(const di_sampling_args *args, const di_model *model,
                               di_sampling_params *out);

#endif
