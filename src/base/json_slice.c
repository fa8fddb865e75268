#include <string.h>

#include "deepinfer/tools.h"

typedef struct scanner {
    const char *at, *end;
} scanner;

static void skip_space(scanner *s)
{
    while (s->at < s->end && strchr(" \t\r\n", *s->at) != NULL && *s->at != '\0')
        s->at++;
}

static void skip_string(scanner *s)
{
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++)
        if (*s->at == '\\' && s->at + 1 < s->end)
            s->at++;
    if (s->at < s->end)
        s->at++;
}

/* A value: up to the comma or bracket that ends it. */
static void skip_value(scanner *s)
{
    size_t depth = 0;
    while (s->at < s->end) {
        const char c = *s->at;
        if (c == '"') {
            skip_string(s);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        s->at++;
    }
}

/* Reads a name and its colon; false at the end of the object. */
static bool next_name(scanner *s, di_json_slice *name)
{
    skip_space(s);
    if (s->at == s->end || *s->at != '"')
        return false;
    const char *from = s->at;
    skip_string(s);
    *name = (di_json_slice){from + 1, (size_t)(s->at - from) - 2};
    skip_space(s);
    if (s->at == s->end || *s->at != ':')
        return false;
    s->at++;
    skip_space(s);
    return true;
}

bool di_json_member(const char *object, size_t bytes, const char *name, di_json_slice *value)
{
    scanner s = {object, object + bytes};
    di_json_slice found;
    skip_space(&s);
    if (s.at == s.end || *s.at != '{')
        return false;
    s.at++;
    while (next_name(&s, &found)) {
        const char *from = s.at;
        skip_value(&s);
        if (s.at == s.end)
            return false;
        if (found.bytes == strlen(name) && memcmp(found.text, name, found.bytes) == 0) {
            *value = (di_json_slice){from, (size_t)(s.at - from)};
            return true;
        }
        if (*s.at == ',')
            s.at++;
    }
    return false;
}
