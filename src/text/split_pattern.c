#include "text/split_pattern.h"

#include <stdbool.h>
#include <string.h>

typedef struct di_translation {
    const char *pattern;
    size_t len;
    size_t at;
    bool in_class;
    bool after_repeat; /* the item before `at` ended in {n,m} */
    di_buf *out;
} di_translation;

static bool is_word_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool starts_with(const di_translation *t, const char *prefix)
{
    const size_t n = strlen(prefix);
    return t->len - t->at >= n && memcmp(t->pattern + t->at, prefix, n) == 0;
}

static di_status refuse(const di_translation *t, const char *why)
{
    const size_t left = t->len - t->at;
    return di_fail(DI_ERR_UNSUPPORTED, "regex byte %zu: found \"%.*s\", %s", t->at,
                   left < 12 ? (int)left : 12, t->pattern + t->at, why);
}

static di_status copy(di_translation *t, size_t n)
{
    DI_TRY(di_buf_append(t->out, t->pattern + t->at, n));
    t->at += n;
    return DI_OK;
}

/* \x{...} or \p{...} as it stands. */
static di_status translate_braced(di_translation *t, const char *wanted)
{
    const char *open = t->pattern + t->at + 2;
    const size_t left = t->len - t->at - 2;
    const char *close = left && *open == '{' ? memchr(open, '}', left) : NULL;
    if (!close)
        return refuse(t, wanted);
    return copy(t, (size_t)(close - open) + 3);
}

/* General categories only: a script name means Script in Oniguruma, Script_Extensions in PCRE2. */
static di_status translate_property(di_translation *t)
{
    static const char wanted[] = "wanted a general category, \\p{L} or \\p{Lu}";
    const char *name = t->pattern + t->at + 3;
    if (t->len - t->at < 5 || !(name[0] >= 'A' && name[0] <= 'Z'))
        return refuse(t, wanted);
    if (name[1] != '}' &&
        !(name[1] >= 'a' && name[1] <= 'z' && t->len - t->at > 5 && name[2] == '}'))
        return refuse(t, wanted);
    return translate_braced(t, wanted);
}

/* A backslash and what follows. PCRE2's \s holds U+180E, which is white space no longer; its \w,
 * \b, \h, \R, \v and the anchors differ from Oniguruma's too. */
static di_status translate_escape(di_translation *t)
{
    if (t->at + 1 >= t->len)
        return refuse(t, "wanted a character after the backslash");
    const char c = t->pattern[t->at + 1];
    if (c == 's' || c == 'S') {
        t->at += 2;
        return di_buf_puts(t->out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
    }
    if (c == 'p' || c == 'P')
        return translate_property(t);
    if (c == 'x')
        return translate_braced(t, "wanted \\x{hex}");
    if (is_word_char(c) && !strchr("nrtfaedD", c))
        return refuse(t, "wanted an escape that means the same in Oniguruma and PCRE2");
    return copy(t, 2);
}

static di_status translate_in_class(di_translation *t)
{
    if (starts_with(t, "["))
        return refuse(t, "wanted no class within a class (write \\[ for the character)");
    if (starts_with(t, "&&"))
        return refuse(t, "wanted no class intersection");
    if (starts_with(t, "\\"))
        return translate_escape(t);
    t->in_class = !starts_with(t, "]");
    return copy(t, 1);
}

static di_status translate_group(di_translation *t)
{
    static const char *const known[] = {"(?:",  "(?=",  "(?!",  "(?>",
                                        "(?<=", "(?<!", "(?i:", "(?-i:"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (starts_with(t, known[i]))
            return copy(t, strlen(known[i]));
    if (starts_with(t, "(?") || starts_with(t, "(*"))
        return refuse(t, "wanted (, (?:, (?i:, (?-i:, (?>, (?=, (?!, (?<= or (?<!");
    return copy(t, 1);
}

/* {n}, {n,} and {n,m}; anything else in braces is read differently by the two libraries. */
static di_status translate_repeat(di_translation *t)
{
    size_t i = t->at + 1;
    const size_t digits_at = i;
    while (i < t->len && t->pattern[i] >= '0' && t->pattern[i] <= '9')
        i++;
    if (i > digits_at && i < t->len && t->pattern[i] == ',')
        for (i++; i < t->len && t->pattern[i] >= '0' && t->pattern[i] <= '9';)
            i++;
    if (i == digits_at || i >= t->len || t->pattern[i] != '}')
        return refuse(t, "wanted {n}, {n,} or {n,m} (write \\{ for the character)");
    DI_TRY(copy(t, i + 1 - t->at));
    t->after_repeat = true;
    return DI_OK;
}

static di_status translate_outside(di_translation *t)
{
    const bool after_repeat = t->after_repeat;
    t->after_repeat = false;
    switch (t->pattern[t->at]) {
    case '\\':
        return translate_escape(t);
    case '(':
        return translate_group(t);
    case '{':
        return translate_repeat(t);
    case '+':
        if (after_repeat)
            return refuse(t, "wanted no + after {n,m}: possessive in PCRE2 only");
        return copy(t, 1);
    case '[':
        t->in_class = true;
        DI_TRY(copy(t, starts_with(t, "[^") ? 2 : 1));
        if (starts_with(t, "]"))
            return refuse(t, "wanted a class that is not empty (write \\] for the character)");
        return DI_OK;
    default:
        return copy(t, 1);
    }
}

di_status di_split_pattern_translate(const char *pattern, size_t len, di_buf *out)
{
    di_translation t = {.pattern = pattern, .len = len, .out = out};
    while (t.at < t.len)
        DI_TRY(t.in_class ? translate_in_class(&t) : translate_outside(&t));
    return DI_OK;
}
