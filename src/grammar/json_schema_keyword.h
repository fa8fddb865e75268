/* The keywords that mean something here. */
#ifndef DI_GRAMMAR_JSON_SCHEMA_KEYWORD_H
#define DI_GRAMMAR_JSON_SCHEMA_KEYWORD_H

#include <stddef.h>

typedef enum di_js_keyword {
    DI_JS_KEY_UNKNOWN, /* annotations, too */
    /* assertions */
    DI_JS_KEY_TYPE,
    DI_JS_KEY_ENUM,
    DI_JS_KEY_CONST,
    DI_JS_KEY_NULLABLE,
    DI_JS_KEY_MINIMUM,
    DI_JS_KEY_MAXIMUM,
    DI_JS_KEY_EXCLUSIVE_MINIMUM,
    DI_JS_KEY_EXCLUSIVE_MAXIMUM,
    DI_JS_KEY_MULTIPLE_OF,
    DI_JS_KEY_MIN_LENGTH,
    DI_JS_KEY_MAX_LENGTH,
    DI_JS_KEY_PATTERN,
    DI_JS_KEY_FORMAT,
    DI_JS_KEY_MIN_ITEMS,
    DI_JS_KEY_MAX_ITEMS,
    DI_JS_KEY_UNIQUE_ITEMS,
    DI_JS_KEY_MIN_PROPERTIES,
    DI_JS_KEY_MAX_PROPERTIES,
    DI_JS_KEY_REQUIRED,
    /* read with another keyword */
    DI_JS_KEY_MIN_CONTAINS,
    DI_JS_KEY_MAX_CONTAINS,
    DI_JS_KEY_THEN,
    DI_JS_KEY_ELSE,
    /* schemas for parts of the value */
    DI_JS_KEY_PROPERTIES,
    DI_JS_KEY_PATTERN_PROPERTIES,
    DI_JS_KEY_ADDITIONAL_PROPERTIES,
    DI_JS_KEY_PROPERTY_NAMES,
    DI_JS_KEY_ITEMS,
    DI_JS_KEY_PREFIX_ITEMS,
    DI_JS_KEY_ADDITIONAL_ITEMS,
    DI_JS_KEY_CONTAINS,
    DI_JS_KEY_UNEVALUATED_ITEMS,
    DI_JS_KEY_UNEVALUATED_PROPERTIES,
    /* schemas for the value itself */
    DI_JS_KEY_REF,
    DI_JS_KEY_DYNAMIC_REF,
    DI_JS_KEY_RECURSIVE_REF,
    DI_JS_KEY_ALL_OF,
    DI_JS_KEY_ANY_OF,
    DI_JS_KEY_ONE_OF,
    DI_JS_KEY_NOT,
    DI_JS_KEY_IF,
    DI_JS_KEY_DEPENDENT_REQUIRED,
    DI_JS_KEY_DEPENDENT_SCHEMAS,
    DI_JS_KEY_DEPENDENCIES,
} di_js_keyword;

di_js_keyword di_js_keyword_of(const char *text, size_t len);

#endif
