/* Arrays: what their shape says, and the two ways to write them that count. */
#ifndef DI_GRAMMAR_JSON_SCHEMA_ARRAY_H
#define DI_GRAMMAR_JSON_SCHEMA_ARRAY_H

#include "grammar/json_schema_impl.h"

typedef struct di_js_array {
    const di_js_view *view;
    uint32_t min, max;
    uint32_t n_special; /* items before this index have goals of their own */
    const di_js_fact **contains;
    size_t n_contains;
    const di_sj_value *unique;   /* uniqueItems: true, NULL if not */
    const di_sj_value *excluded; /* an array that must not occur */
} di_js_array;

DI_WARN_UNUSED di_status di_js_array_of(di_js *js, const di_js_view *view, di_js_array *out);
/* The literals of the item at an index; the same for all from n_special on. */
DI_WARN_UNUSED di_status di_js_item_lits(di_js *js, const di_js_view *view, uint32_t index,
                                         di_js_lits *lits);

/* Without regard to contains and unique. */
DI_WARN_UNUSED di_status di_js_emit_plain(di_js *js, const di_js_array *a, const di_expr **out);

/* json_schema_counted.c */
DI_WARN_UNUSED di_status di_js_emit_counted(di_js *js, const di_js_array *a, const di_expr **out);
DI_WARN_UNUSED di_status di_js_emit_unique(di_js *js, const di_js_array *a, const di_expr **out);

#endif
