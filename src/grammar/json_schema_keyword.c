#include "grammar/json_schema_keyword.h"

#include <string.h>

di_js_keyword di_js_keyword_of(const char *text, size_t len)
{
    static const struct {
        const char *text;
        di_js_keyword keyword;
    } table[] = {
        {"$dynamicRef", DI_JS_KEY_DYNAMIC_REF},
        {"$recursiveRef", DI_JS_KEY_RECURSIVE_REF},
        {"$ref", DI_JS_KEY_REF},
        {"additionalItems", DI_JS_KEY_ADDITIONAL_ITEMS},
        {"additionalProperties", DI_JS_KEY_ADDITIONAL_PROPERTIES},
        {"allOf", DI_JS_KEY_ALL_OF},
        {"anyOf", DI_JS_KEY_ANY_OF},
        {"const", DI_JS_KEY_CONST},
        {"contains", DI_JS_KEY_CONTAINS},
        {"dependencies", DI_JS_KEY_DEPENDENCIES},
        {"dependentRequired", DI_JS_KEY_DEPENDENT_REQUIRED},
        {"dependentSchemas", DI_JS_KEY_DEPENDENT_SCHEMAS},
        {"else", DI_JS_KEY_ELSE},
        {"enum", DI_JS_KEY_ENUM},
        {"exclusiveMaximum", DI_JS_KEY_EXCLUSIVE_MAXIMUM},
        {"exclusiveMinimum", DI_JS_KEY_EXCLUSIVE_MINIMUM},
        {"format", DI_JS_KEY_FORMAT},
        {"if", DI_JS_KEY_IF},
        {"items", DI_JS_KEY_ITEMS},
        {"maxContains", DI_JS_KEY_MAX_CONTAINS},
        {"maxItems", DI_JS_KEY_MAX_ITEMS},
        {"maxLength", DI_JS_KEY_MAX_LENGTH},
        {"maxProperties", DI_JS_KEY_MAX_PROPERTIES},
        {"maximum", DI_JS_KEY_MAXIMUM},
        {"minContains", DI_JS_KEY_MIN_CONTAINS},
        {"minItems", DI_JS_KEY_MIN_ITEMS},
        {"minLength", DI_JS_KEY_MIN_LENGTH},
        {"minProperties", DI_JS_KEY_MIN_PROPERTIES},
        {"minimum", DI_JS_KEY_MINIMUM},
        {"multipleOf", DI_JS_KEY_MULTIPLE_OF},
        {"not", DI_JS_KEY_NOT},
        {"nullable", DI_JS_KEY_NULLABLE},
        {"oneOf", DI_JS_KEY_ONE_OF},
        {"pattern", DI_JS_KEY_PATTERN},
        {"patternProperties", DI_JS_KEY_PATTERN_PROPERTIES},
        {"prefixItems", DI_JS_KEY_PREFIX_ITEMS},
        {"properties", DI_JS_KEY_PROPERTIES},
        {"propertyNames", DI_JS_KEY_PROPERTY_NAMES},
        {"required", DI_JS_KEY_REQUIRED},
        {"then", DI_JS_KEY_THEN},
        {"type", DI_JS_KEY_TYPE},
        {"unevaluatedItems", DI_JS_KEY_UNEVALUATED_ITEMS},
        {"unevaluatedProperties", DI_JS_KEY_UNEVALUATED_PROPERTIES},
        {"uniqueItems", DI_JS_KEY_UNIQUE_ITEMS},
    };
    size_t low = 0, high = sizeof table / sizeof *table;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const size_t n = strlen(table[middle].text);
        const int order = memcmp(table[middle].text, text, n < len ? n : len);
        if (order == 0 && n == len)
            return table[middle].keyword;
        if (order < 0 || (order == 0 && n < len))
            low = middle + 1;
        else
            high = middle;
    }
    return DI_JS_KEY_UNKNOWN;
}
