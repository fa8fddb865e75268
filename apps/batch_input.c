#define _GNU_SOURCE /* qsort_r */

#include "batch.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] == '\0' || strchr(" \t\r", line[i]) == NULL)
            return false;
    return true;
}

static di_exit add_line(di_batch_input *input, const char *text, size_t bytes, size_t number)
{
    di_api_batch_line *line = NULL;
    const di_status status = di_api_batch_line_read(text, bytes, &line);
    if (status != DI_OK)
        return di_app_fail_status(status, input->name);
    input->items = di_app_grow(input->items, input->n, sizeof *input->items);
    input->items[input->n++] = (di_batch_item){
        .text = text,
        .bytes = bytes,
        .line = number,
        .custom_id = line->custom_id != NULL ? di_app_text("%s", line->custom_id) : NULL,
        .hash = line->hash,
    };
    di_api_batch_line_free(line);
    return DI_EXIT_OK;
}

static di_exit split(di_batch_input *input, size_t bytes)
{
    size_t number = 0;
    for (const char *at = input->data, *end = at + bytes; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((newline != NULL ? newline : end) - at);
        number++;
        if (!is_blank(at, n)) {
            const di_exit code = add_line(input, at, n, number);
            if (code != DI_EXIT_OK)
                return code;
        }
        at += n + 1;
    }
    return DI_EXIT_OK;
}

static int compare_ids(const void *a, const void *b, void *user)
{
    const di_batch_item *items = user;
    const size_t i = *(const size_t *)a;
    const size_t j = *(const size_t *)b;
    const int order = strcmp(items[i].custom_id, items[j].custom_id);
    return order != 0 ? order : (i > j) - (i < j);
}

/* Sorts the ids; the first in the file that repeats an earlier one is an error. */
static di_exit index_ids(di_batch_input *input)
{
    input->by_id = di_app_alloc(input->n * sizeof *input->by_id);
    for (size_t i = 0; i < input->n; i++)
        if (input->items[i].custom_id != NULL)
            input->by_id[input->n_by_id++] = i;
    qsort_r(input->by_id, input->n_by_id, sizeof *input->by_id, compare_ids, input->items);
    const di_batch_item *repeated = NULL;
    const di_batch_item *earlier = NULL;
    for (size_t i = 1; i < input->n_by_id; i++) {
        const di_batch_item *a = &input->items[input->by_id[i - 1]];
        const di_batch_item *b = &input->items[input->by_id[i]];
        if (strcmp(a->custom_id, b->custom_id) == 0 && (repeated == NULL || b < repeated)) {
            repeated = b;
            earlier = a;
        }
    }
    if (repeated == NULL)
        return DI_EXIT_OK;
    return di_app_fail(DI_EXIT_INPUT, "%s: line %zu: custom_id \"%s\" is that of line %zu too",
                       input->name, repeated->line, repeated->custom_id, earlier->line);
}

di_exit di_batch_input_load(const char *path, di_batch_input *out)
{
    size_t bytes = 0;
    *out = (di_batch_input){.name = di_app_file_name(path)};
    di_exit code = di_app_read_file(path, &out->data, &bytes);
    if (code == DI_EXIT_OK)
        code = split(out, bytes);
    if (code == DI_EXIT_OK)
        code = index_ids(out);
    return code;
}

void di_batch_input_free(di_batch_input *input)
{
    for (size_t i = 0; i < input->n; i++)
        free(input->items[i].custom_id);
    free(input->items);
    free(input->by_id);
    free(input->data);
    *input = (di_batch_input){NULL};
}

static di_batch_item *find_line(const di_batch_input *input, size_t line)
{
    size_t low = 0;
    size_t high = input->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (input->items[middle].line < line)
            low = middle + 1;
        else
            high = middle;
    }
    return low < input->n && input->items[low].line == line ? &input->items[low] : NULL;
}

di_batch_item *di_batch_input_find(const di_batch_input *input, const char *custom_id, size_t line)
{
    if (custom_id == NULL) {
        di_batch_item *item = find_line(input, line);
        return item != NULL && item->custom_id == NULL ? item : NULL;
    }
    size_t low = 0;
    size_t high = input->n_by_id;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        di_batch_item *item = &input->items[input->by_id[middle]];
        const int order = strcmp(item->custom_id, custom_id);
        if (order == 0)
            return item;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
