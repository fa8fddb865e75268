/* The prompts of `run`: where they come from, and how chat options wrap them. */
#ifndef DI_APPS_PROMPT_H
#define DI_APPS_PROMPT_H

#include <jansson.h>

#include "args.h"

typedef struct di_prompt_source {
    int key; /* the option */
    const char *value;
} di_prompt_source;

typedef struct di_prompt_args {
    di_prompt_source *sources; /* in the order of the command line */
    size_t n_sources;
    bool is_chat;
    bool is_thinking;
    bool parse_special;
    const char *system;
    const char *effort; /* NULL, a number or a name */
} di_prompt_args;

/* Child of a command's argp; its input is a di_prompt_args. */
extern const struct argp di_prompt_argp;
void di_prompt_args_free(di_prompt_args *args);

/* One prompt: exactly one of text, ids, messages is set. */
typedef struct di_prompt {
    char *text;
    size_t text_bytes;
    int32_t *ids;
    size_t n_ids;
    char *messages;      /* a chat request as JSON */
    bool is_thinking;    /* of a chat request */
    const char *problem; /* why it cannot run, or NULL */
} di_prompt;

typedef struct di_prompt_list {
    di_prompt *items;
    size_t n;
} di_prompt_list;

/* Reads all sources; stdin if there is none and it is no terminal. A prompt that is merely empty
 * gets a `problem`; whatever cannot be read fails the whole. */
di_exit di_prompts_load(const di_prompt_args *args, di_prompt_list *list);
void di_prompts_free(di_prompt_list *list);

/* Whether `text` is a reasoning effort: 1 to 100, low, high or max. */
bool di_prompt_effort_is_valid(const char *text);
/* Sets "thinking_mode" and "reasoning_effort" (NULL: left out) of a chat request object. */
void di_prompt_set_mode(json_t *request, bool is_thinking, const char *effort);

#endif
