/* The JSON text of a schema as a tree that keeps what a schema needs and jansson loses: numbers as
 * written, U+0000, the way from a value back to the root. Everything belongs to one arena. */
#ifndef DI_GRAMMAR_JSON_SCHEMA_DOM_H
#define DI_GRAMMAR_JSON_SCHEMA_DOM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

typedef enum di_sj_type {
    DI_SJ_NULL,
    DI_SJ_FALSE,
    DI_SJ_TRUE,
    DI_SJ_NUMBER,
    DI_SJ_STRING,
    DI_SJ_ARRAY,
    DI_SJ_OBJECT,
} di_sj_type;

typedef struct di_sj_value di_sj_value;
struct di_sj_value {
    di_sj_type type;
    uint32_t id;  /* 0 for the root, then in the order of the text */
    uint32_t n;   /* elements, members */
    uint32_t len; /* bytes of text */
    uint32_t key_len;
    uint32_t index;      /* in the parent */
    const char *text;    /* STRING: UTF-8; NUMBER: as written; NUL-terminated */
    const char *key;     /* NULL unless a member of an object */
    di_sj_value *items;  /* [n] */
    di_sj_value *parent; /* NULL: the root */
};

typedef struct di_sj_document {
    di_sj_value *root;
    di_sj_value **values; /* [n_values], by id */
    uint32_t n_values;
} di_sj_document;

/* RFC 8259; duplicate keys and lone surrogates are errors (DI_ERR_INPUT with line and column). */
DI_WARN_UNUSED di_status di_sj_parse(di_arena *arena, const char *text, size_t len,
                                     uint32_t max_depth, di_sj_document *out);

/* The member of an object, NULL if there is none (or `value` is no object). */
const di_sj_value *di_sj_member(const di_sj_value *value, const char *key, size_t len);
const di_sj_value *di_sj_get(const di_sj_value *value, const char *key);
bool di_sj_is_text(const di_sj_value *value, const char *text); /* STRING of this text */

/* Equal as JSON Schema compares: numbers by value, objects in any order. */
bool di_sj_equal(const di_sj_value *a, const di_sj_value *b);
/* "a string", ... for "found %s, wanted %s". */
const char *di_sj_type_name(const di_sj_value *value);
/* A JSON pointer as a URI fragment without %: "#", "#/properties/a". */
DI_WARN_UNUSED di_status di_sj_pointer(const di_sj_value *value, di_buf *out);
/* As JSON.stringify writes it: compact, numbers in their shortest form. */
DI_WARN_UNUSED di_status di_sj_write(const di_sj_value *value, di_buf *out);
DI_WARN_UNUSED di_status di_sj_write_string(const char *text, size_t len, di_buf *out);

/* Decimal numbers of JSON, exactly. */
int di_sj_number_compare(const char *a, const char *b);
bool di_sj_number_is_integer(const char *text);
/* a is a multiple of b (b > 0); false with *known = false if the numbers are too long to tell. */
bool di_sj_number_is_multiple(const char *a, const char *b, bool *known);
DI_WARN_UNUSED di_status di_sj_number_write(const char *text, di_buf *out);

#endif
