/* From the -m option to an open model. */
#ifndef DI_APPS_MODEL_H
#define DI_APPS_MODEL_H

#include "args.h"

/* Checks the engine options and the environment without touching a model. */
di_exit di_app_check_options(const di_engine_args *args);
/* The checkpoint directory that -m, DEEPINFER_HF_MODEL_DIR or the default means, downloaded if it
 * is a hub name. *path is malloc'ed. */
di_exit di_app_model_path(const di_engine_args *args, char **path);
/* di_app_model_path and di_model_open. Close with di_model_close. */
di_exit di_app_model_open(const di_engine_args *args, di_model **model);
/* The tokenizer at `path` (a tokenizer.json or its directory), or the model's if NULL. */
di_exit di_app_tokenizer_open(const di_engine_args *args, const char *path, di_tokenizer **out);

#endif
