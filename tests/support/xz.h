/* Reads the .xz test data. */
#ifndef DI_TEST_XZ_H
#define DI_TEST_XZ_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends the decompressed content of a .xz file to out; a cut or damaged file is an error. */
DI_WARN_UNUSED di_status di_test_xz_read(const char *path, di_buf *out);

/* The next line of a text, without its newline: true while there is one. *at starts at 0. Empty
 * lines are skipped. For .jsonl files. */
bool di_test_next_line(const di_buf *text, size_t *at, const char **line, size_t *len);

#endif
