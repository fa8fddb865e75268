/* A line of cases: a constraint and a text. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "deepinfer/tools.h"

/* What a row points to. */
typedef struct row_memory {
    json_t *object; /* without its schema */
    char *id, *schema, *text;
} row_memory;

static di_status copy_text(const char *text, size_t bytes, char **out)
{
    *out = malloc(bytes + 1);
    if (*out == NULL)
        return di_fail_memory(bytes + 1, "a line of cases");
    memcpy(*out, text, bytes);
    (*out)[bytes] = '\0';
    return DI_OK;
}

/* ----------------------------------------------------------------------------------- the text */

static int hex_digit(char c)
{
    const char *const digits = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c | 0x20) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* Leaves the row without a text if the digits are none. */
static void decode_hex(row_memory *m, size_t n_digits, di_check_row *row)
{
    if (n_digits % 2 != 0)
        return;
    for (size_t i = 0; i < n_digits / 2; i++) {
        const int high = hex_digit(m->text[2 * i]), low = hex_digit(m->text[2 * i + 1]);
        if (high < 0 || low < 0)
            return;
        m->text[i] = (char)(high << 4 | low);
    }
    row->text = m->text;
    row->text_bytes = n_digits / 2;
}

static di_status read_text(row_memory *m, di_check_row *row)
{
    const json_t *plain = json_object_get(m->object, "text");
    const json_t *hex = json_object_get(m->object, "hex");
    const json_t *given = hex != NULL ? hex : plain;
    if (!json_is_string(given))
        return DI_OK;
    const size_t n = json_string_length(given);
    DI_TRY(copy_text(json_string_value(given), n, &m->text));
    if (hex != NULL) {
        decode_hex(m, n, row);
        return DI_OK;
    }
    row->text = m->text;
    row->text_bytes = n;
    return DI_OK;
}

/* ----------------------------------------------------------------------------- the constraint */

static void read_options(const json_t *object, di_so_args *so)
{
    const json_t *root = json_object_get(object, "root");
    const json_t *white = json_object_get(object, "max_whitespace");
    if (so->schema_type == DI_SCHEMA_EBNF && json_is_string(root))
        so->root = json_string_value(root);
    so->is_strict = json_is_true(json_object_get(object, "strict"));
    so->any_order = json_is_true(json_object_get(object, "any_order"));
    so->lenient = json_is_true(json_object_get(object, "lenient"));
    so->max_whitespace = json_is_integer(white) ? (int32_t)json_integer_value(white) : -1;
}

static void read_constraint(const row_memory *m, size_t schema_bytes, di_so_args *so)
{
    const json_t *regex = json_object_get(m->object, "regex");
    const json_t *ebnf = json_object_get(m->object, "ebnf");
    const json_t *text = regex != NULL ? regex : ebnf;
    if (m->schema != NULL) {
        so->schema_type = json_object_get(m->object, "tool_calls") != NULL ? DI_SCHEMA_TOOL_CALLS
                                                                           : DI_SCHEMA_JSON;
        so->schema = m->schema;
        so->schema_bytes = schema_bytes;
    } else if (json_is_string(text)) {
        so->schema_type = regex != NULL ? DI_SCHEMA_REGEX : DI_SCHEMA_EBNF;
        so->schema = json_string_value(text);
        so->schema_bytes = json_string_length(text);
    }
}

/* -------------------------------------------------------------------------------- the whole row */

/* The line with an empty object in the place of its schema (or tool_calls), whose own text, to the
 * digit, is *schema. */
static di_status cut_schema(const char *line, size_t bytes, di_json_slice *schema, di_buf *rest)
{
    if (!di_json_member(line, bytes, "schema", schema) &&
        !di_json_member(line, bytes, "tool_calls", schema))
        return di_buf_append(rest, line, bytes);
    const char *after = schema->text + schema->bytes;
    DI_TRY(di_buf_append(rest, line, (size_t)(schema->text - line)));
    DI_TRY(di_buf_puts(rest, "{}"));
    return di_buf_append(rest, after, (size_t)(line + bytes - after));
}

static di_status load_object(const di_buf *text, json_t **out)
{
    json_error_t problem;
    json_t *value =
        json_loadb(di_buf_str(text), text->len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (value == NULL)
        return di_fail(DI_ERR_INPUT, "column %d: %s", problem.column, problem.text);
    *out = value;
    if (!json_is_object(value))
        return di_fail(DI_ERR_INPUT, "found an array, wanted an object");
    return DI_OK;
}

static di_status read_row(const char *line, size_t bytes, row_memory *m, di_check_row *row)
{
    DI_BUF_AUTO rest = {0};
    di_json_slice schema = {0};
    DI_TRY(cut_schema(line, bytes, &schema, &rest));
    DI_TRY(load_object(&rest, &m->object));
    if (schema.text != NULL)
        DI_TRY(copy_text(schema.text, schema.bytes, &m->schema));
    read_constraint(m, schema.bytes, &row->so);
    read_options(m->object, &row->so);
    const json_t *id = json_object_get(m->object, "id");
    if (id != NULL && (m->id = json_dumps(id, JSON_ENCODE_ANY)) == NULL)
        return di_fail_memory(bytes, "a line of cases");
    row->id = m->id;
    const json_t *accept = json_object_get(m->object, "accept");
    if (accept != NULL)
        row->wanted = json_is_true(accept) || json_integer_value(accept) != 0;
    return read_text(m, row);
}

di_status di_check_row_read(const char *line, size_t bytes, di_check_row *out)
{
    row_memory *m = calloc(1, sizeof *m);
    if (m == NULL)
        return di_fail_memory(sizeof *m, "a line of cases");
    di_check_row row = {.so = DI_SO_ARGS_INIT, .wanted = -1, .owned = m};
    const di_status status = read_row(line, bytes, m, &row);
    if (status != DI_OK)
        di_check_row_free(&row);
    else
        *out = row;
    return status;
}

void di_check_row_free(di_check_row *row)
{
    row_memory *m = row->owned;
    if (m != NULL) {
        json_decref(m->object);
        free(m->id);
        free(m->schema);
        free(m->text);
        free(m);
    }
    *row = (di_check_row){0};
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool di_check_row_same(const di_check_row *a, const di_check_row *b)
{
    const di_so_args *x = &a->so, *y = &b->so;
    return x->schema_type == y->schema_type && x->schema_bytes == y->schema_bytes &&
           x->is_strict == y->is_strict && x->any_order == y->any_order &&
           x->lenient == y->lenient && x->max_whitespace == y->max_whitespace &&
           same_text(x->root, y->root) &&
           (x->schema_bytes == 0 || memcmp(x->schema, y->schema, x->schema_bytes) == 0);
}
