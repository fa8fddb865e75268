/* `deepinfer eval`: how well a model knows texts and answers tasks (docs/eval.md). */
#ifndef DI_APPS_EVAL_H
#define DI_APPS_EVAL_H

#include "args.h"

typedef struct di_eval_ppl_args {
    di_engine_args engine;
    di_text_list files;
    int64_t window; /* tokens predicted by one window; 0: default */
    int64_t stride; /* from one window to the next; 0: the window */
    int64_t limit;  /* tokens of each text; 0: all */
    bool is_json;
} di_eval_ppl_args;

/* Perplexity and bits per byte of every file and of all together. */
di_exit di_eval_ppl(const di_eval_ppl_args *args);

/* Tokens and bytes of a text (- for stdin); an empty one is an error. Free *ids with di_free in any
 * case. */
di_exit di_eval_read_text(const di_model *model, const char *path, int32_t **ids, size_t *n_ids,
                          size_t *n_bytes);

typedef struct di_eval_kl_args {
    di_engine_args engine;
    di_text_list files;
    int64_t prompt;  /* tokens before those that are predicted */
    int64_t predict; /* tokens of a window that are */
    int64_t limit;   /* tokens of each text; 0: all */
    bool is_json;
} di_eval_kl_args;

/* How far predictions after a prompt are from those of a prefill that is not truncated. */
di_exit di_eval_kl(const di_eval_kl_args *args);

typedef struct di_eval_tasks_args {
    di_engine_args engine;
    di_text_list files;
    const char *output; /* NULL, or where every answer is written */
    int64_t limit;      /* tasks of each file; 0: all */
    int64_t max_tokens; /* of an answer */
    int64_t batch;      /* requests in flight */
    bool is_json;
} di_eval_tasks_args;

/* Exact match over JSONL tasks, for every kind of task and for all together. */
di_exit di_eval_tasks(const di_eval_tasks_args *args);

#endif
