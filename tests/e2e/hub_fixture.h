/* A fake hub and an empty cache folder for each test of the downloader. */
#ifndef DI_TEST_HUB_FIXTURE_H
#define DI_TEST_HUB_FIXTURE_H

#include "fake_hub.h"

typedef struct di_hub_fixture {
    di_fake_hub hub;
    di_hub_options options; /* token unset, 1 ms before a retry */
    di_hub_error error;
    char *dir; /* of the latest successful resolve */
} di_hub_fixture;

/* cmocka setup and teardown; *state is the fixture. */
int di_hub_fixture_setup(void **state);
int di_hub_fixture_teardown(void **state);

di_status di_hub_fixture_resolve(di_hub_fixture *f);
void di_hub_fixture_succeed(di_hub_fixture *f);
/* Resolves and wants this failure; `text` must be in the error. */
void di_hub_fixture_fail(di_hub_fixture *f, di_status status, const char *text);

/* FOLDER/NAME below the folder of the repository in the cache; valid until the next call. */
const char *di_hub_fixture_path(const di_hub_fixture *f, const char *folder, const char *name);
/* Bytes of that file, -1 if there is none. Links are not followed. */
int64_t di_hub_fixture_size(const di_hub_fixture *f, const char *folder, const char *name);
/* The snapshot has exactly the files of a checkpoint, each a relative link to a blob of the right
 * content, and refs/main names it. */
void di_hub_fixture_check_snapshot(di_hub_fixture *f);
/* No snapshot can be found without the network. */
void di_hub_fixture_check_none(di_hub_fixture *f);
/* Writes an .incomplete for a file of the hub. */
void di_hub_fixture_leave_part(di_hub_fixture *f, const char *name, const char *data, size_t bytes);

#endif
