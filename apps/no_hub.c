/* Stands in for the downloader in builds without libcurl (DEEPINFER_DEPS): models are directories.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hub.h"

di_status di_hub_options_read(di_hub_options *out, di_hub_error *error)
{
    (void)error;
    *out = (di_hub_options){.is_offline = true};
    return DI_OK;
}

di_status di_hub_resolve(const char *spec, const di_hub_options *options, char **dir,
                         di_hub_error *error)
{
    (void)options;
    struct stat info;
    if (stat(spec, &info) != 0 || !S_ISDIR(info.st_mode)) {
        snprintf(error->text, sizeof error->text,
                 "model: found \"%s\", wanted a directory: this build has no downloader", spec);
        return DI_ERR_INPUT;
    }
    char *copy = strdup(spec);
    if (copy == NULL) {
        snprintf(error->text, sizeof error->text, "out of memory: a path");
        return DI_ERR_MEMORY;
    }
    *dir = copy;
    return DI_OK;
}

const char *di_hub_alias(const char *spec)
{
    (void)spec;
    return NULL;
}
