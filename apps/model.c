#include "model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub.h"

/* Where `make install` puts the small model: <data dir>/models/nano. */
#ifndef DI_DATA_DIR
#define DI_DATA_DIR "/usr/local/share/deepinfer"
#endif

di_exit di_app_check_options(const di_engine_args *args)
{
    FILE *nowhere = fopen("/dev/null", "w");
    if (nowhere == NULL)
        return di_app_fail(DI_EXIT_RUNTIME, "/dev/null: cannot open");
    di_status status = di_print_options(&args->options, nowhere);
    if (status == DI_OK)
        status = di_print_kernels(&args->options, nowhere);
    fclose(nowhere);
    if (status == DI_OK || status == DI_ERR_MEMORY)
        return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, NULL);
    /* Also what only this machine or build cannot do: another value would have gone on. */
    return di_app_fail(DI_EXIT_USAGE, "%s", di_last_error());
}

static bool is_checkpoint(const char *directory)
{
    char *config = di_app_text("%s/config.json", directory);
    const bool is_there = access(config, R_OK) == 0;
    free(config);
    return is_there;
}

/* The small model: where it lies seen from this program, built or installed; else where the build
 * was told to install it. */
static di_exit shipped_model(char **path)
{
    static const char *const places[] = {"models/nano", "share/deepinfer/models/nano",
                                         "tests/golden/tiny"};
    char *program = realpath("/proc/self/exe", NULL);
    char *slash = program != NULL ? strrchr(program, '/') : NULL;
    if (slash != NULL)
        *slash = '\0';
    char *found = NULL;
    for (size_t i = 0; slash != NULL && i < DI_COUNT(places) && found == NULL; i++) {
        char *candidate = di_app_text("%s/../%s", program, places[i]);
        if (is_checkpoint(candidate))
            found = realpath(candidate, NULL);
        free(candidate);
    }
    free(program);
    if (found == NULL && is_checkpoint(DI_DATA_DIR "/models/nano"))
        found = di_app_text("%s", DI_DATA_DIR "/models/nano");
    if (found == NULL)
        return di_app_fail(DI_EXIT_USAGE, "no model: give -m, or set DEEPINFER_HF_MODEL_DIR");
    di_app_note("no model given, using the small one in %s", found);
    *path = found;
    return DI_EXIT_OK;
}

static di_exit resolve(const char *name, char **path)
{
    di_hub_options options;
    di_hub_error error = {.text = ""};
    di_status status = di_hub_options_read(&options, &error);
    if (status == DI_OK) {
        options.progress = stderr;
        options.is_progress_tty = isatty(STDERR_FILENO) == 1;
        options.is_interrupted = di_app_interrupted;
        status = di_hub_resolve(name, &options, path, &error);
    }
    if (status == DI_OK)
        return DI_EXIT_OK;
    return di_app_fail(di_exit_of_status(status), "%s", error.text);
}

di_exit di_app_model_path(const di_engine_args *args, char **path)
{
    const char *name = args->model;
    if (name == NULL) {
        const di_status status = di_option_string("hf_model_dir", &name);
        if (status != DI_OK)
            return di_app_fail_status(status, NULL);
    }
    return name == NULL ? shipped_model(path) : resolve(name, path);
}

di_exit di_app_model_open(const di_engine_args *args, di_model **model)
{
    char *path = NULL;
    di_exit code = di_app_model_path(args, &path);
    if (code != DI_EXIT_OK)
        return code;
    const di_status status = di_model_open(path, &args->options, model);
    if (status != DI_OK)
        code = di_app_fail_status(status, NULL);
    free(path);
    return code;
}

di_exit di_app_tokenizer_open(const di_engine_args *args, const char *path, di_tokenizer **out)
{
    char *model_path = NULL;
    if (path == NULL) {
        const di_exit code = di_app_model_path(args, &model_path);
        if (code != DI_EXIT_OK)
            return code;
    }
    const di_status status = di_tokenizer_open(path != NULL ? path : model_path, out);
    free(model_path);
    return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, NULL);
}
