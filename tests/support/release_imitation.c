#include "release_imitation.h"

#include <stdlib.h>
#include <string.h>

di_status di_test_write_release(const char *dir, void (*change)(di_test_plan *plan))
{
    json_t *json = di_test_config_json("cases/release");
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    di_config config;
    di_test_plan plan;
    json_decref(json);
    if (!text)
        return di_fail(DI_ERR_IO, "cases/release/config.json cannot be read");
    di_status status = di_test_write_file(dir, "config.json", text, strlen(text));
    free(text);
    DI_TRY(status);
    DI_TRY(di_test_config("cases/release", &config));
    DI_TRY(di_test_plan_make(&config, &plan));
    di_test_plan_shard(&plan, DI_RELEASE_SHARDS);
    plan.is_sparse = true;
    if (change)
        change(&plan);
    status = di_test_plan_write(&plan, dir);
    di_test_plan_free(&plan);
    return status;
}
