/* A temporary folder with the files that the tests of the program read, good and bad. */
#ifndef DI_TEST_CLI_FIXTURES_H
#define DI_TEST_CLI_FIXTURES_H

#include <stdbool.h>
#include <stddef.h>

#define DI_CLI_TINY DI_TEST_DATA "/golden/tiny"

/* Made by the group's set-up, removed by its tear-down; files are named below it. */
extern char di_cli_tmp[];
int di_cli_setup(void **state);
int di_cli_teardown(void **state);

/* `text` with {TMP} and {TINY} and {DATA} replaced. Free it. */
char *di_cli_expand(const char *text);
void di_cli_write(const char *name, const char *data, size_t bytes);
/* Malloc'ed, NUL-terminated; NULL if it is not there. */
char *di_cli_read(const char *name, size_t *bytes);
bool di_cli_exists(const char *name);
/* Files in the folder whose name begins with `prefix`. */
size_t di_cli_count(const char *prefix);
/* A folder `name` like golden/tiny, by links, but for the file `except`, which is left out; NULL:
 * none. */
void di_cli_link_model(const char *name, const char *except);

#endif
