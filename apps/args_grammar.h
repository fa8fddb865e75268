/* The options of structured output, which several subcommands have. */
#ifndef DI_APPS_ARGS_GRAMMAR_H
#define DI_APPS_ARGS_GRAMMAR_H

#include "args.h"

typedef struct di_grammar_args {
    di_so_args so;           /* schema_type DI_SCHEMA_NONE: no constraint was asked for */
    char *schema;            /* owns so.schema */
    const char *option;      /* the one that gave it, for error texts */
    const char *tool_choice; /* "required" or a tool's name; NULL: not given */
    bool is_one_call;
} di_grammar_args;

#define DI_GRAMMAR_ARGS_INIT                                                                       \
    {                                                                                              \
        .so = DI_SO_ARGS_INIT                                                                      \
    }

/* Child of a command's argp; its input is a di_grammar_args. */
extern const struct argp di_grammar_argp;
void di_grammar_args_free(di_grammar_args *args);

/* Calls are asked for, and not of tools that the command line gives: a chat's own are meant. */
bool di_grammar_wants_own_tools(const di_grammar_args *args);
/* The constraint's schema for calls of the tools in a chat request; NULL if it has none. malloc'ed.
 */
char *di_grammar_own_tools(const di_grammar_args *args, const char *chat);

/* The text that an argument names: @FILE, an existing file, or the argument itself. malloc'ed. */
di_exit di_grammar_text(const char *arg, char **text, size_t *bytes);

#endif
