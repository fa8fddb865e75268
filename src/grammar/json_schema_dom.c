#include "grammar/json_schema_dom.h"

#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

typedef struct parser {
    di_arena *arena;
    const char *text;
    size_t at, len;
    uint32_t depth, max_depth;
    di_sj_value *stack; /* children of the open containers */
    size_t n_stack, cap_stack;
    di_buf scratch;
    uint32_t n_values;
} parser;

static di_status fail_at(const parser *p, size_t at, const char *wanted)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < p->len; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    return di_fail(DI_ERR_INPUT, "JSON schema: line %zu, column %zu: %s", line, column, wanted);
}

static void skip_space(parser *p)
{
    while (p->at < p->len && strchr(" \t\r\n", p->text[p->at]) != NULL && p->text[p->at] != 0)
        p->at++;
}

static bool take(parser *p, char c)
{
    if (p->at >= p->len || p->text[p->at] != c)
        return false;
    p->at++;
    return true;
}

static bool take_digits(parser *p)
{
    const size_t first = p->at;
    while (p->at < p->len && p->text[p->at] >= '0' && p->text[p->at] <= '9')
        p->at++;
    return p->at > first;
}

static di_status copy_text(parser *p, const char *data, size_t len, const char **out)
{
    char *copy;
    DI_TRY(DI_ARENA_NEW(p->arena, len + 1, &copy));
    if (len > 0)
        memcpy(copy, data, len);
    copy[len] = 0;
    *out = copy;
    return DI_OK;
}

static di_status parse_number(parser *p, di_sj_value *out)
{
    const size_t first = p->at;
    take(p, '-');
    bool fine = take(p, '0') || take_digits(p);
    if (fine && take(p, '.'))
        fine = take_digits(p);
    if (fine && (take(p, 'e') || take(p, 'E'))) {
        if (!take(p, '+'))
            take(p, '-');
        fine = take_digits(p);
    }
    if (!fine)
        return fail_at(p, first, "not a JSON value");
    out->type = DI_SJ_NUMBER;
    out->len = (uint32_t)(p->at - first);
    return copy_text(p, p->text + first, out->len, &out->text);
}

static bool take_hex4(parser *p, uint32_t *out)
{
    uint32_t value = 0;
    if (p->len - p->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const char c = p->text[p->at + (size_t)i];
        const char lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + (uint32_t)(lower - 'a') + 10;
        else
            return false;
    }
    p->at += 4;
    *out = value;
    return true;
}

static size_t encode_utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[n] | code);
    return n;
}

static di_status parse_escape(parser *p)
{
    static const char *const from = "\"\\/bfnrt", *const to = "\"\\/\b\f\n\r\t";
    const size_t first = p->at - 1;
    const char c = p->at < p->len ? p->text[p->at++] : 0;
    const char *found = c == 0 ? NULL : strchr(from, c);
    if (found != NULL)
        return di_buf_append(&p->scratch, &to[found - from], 1);
    uint32_t code, low;
    if (c != 'u' || !take_hex4(p, &code))
        return fail_at(p, first, "not an escape of JSON");
    if (code >= 0xD800 && code <= 0xDBFF && take(p, '\\') && take(p, 'u') && take_hex4(p, &low) &&
        low >= 0xDC00 && low <= 0xDFFF)
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    if (code >= 0xD800 && code <= 0xDFFF)
        return fail_at(p, first, "half a surrogate pair, wanted both");
    char utf8[4];
    return di_buf_append(&p->scratch, utf8, encode_utf8(code, utf8));
}

/* After the opening quote. */
static di_status parse_string(parser *p, const char **text, uint32_t *len)
{
    di_buf_clear(&p->scratch);
    for (;;) {
        const size_t first = p->at;
        while (p->at < p->len && (unsigned char)p->text[p->at] >= 0x20 && p->text[p->at] != '"' &&
               p->text[p->at] != '\\') {
            uint32_t code;
            const size_t n = di_utf8_decode(p->text + p->at, p->len - p->at, &code);
            if (n == 0)
                return fail_at(p, p->at, "not UTF-8");
            p->at += n;
        }
        DI_TRY(di_buf_append(&p->scratch, p->text + first, p->at - first));
        if (p->at >= p->len)
            return fail_at(p, p->at, "the text ends inside a string");
        if (take(p, '"'))
            break;
        if (!take(p, '\\'))
            return fail_at(p, p->at, "a control character in a string, wanted an escape");
        DI_TRY(parse_escape(p));
    }
    *len = (uint32_t)p->scratch.len;
    return copy_text(p, di_buf_str(&p->scratch), p->scratch.len, text);
}

static di_status parse_value(parser *p, di_sj_value *out);

static int by_key(const void *a, const void *b)
{
    const di_sj_value *x = *(const di_sj_value *const *)a, *y = *(const di_sj_value *const *)b;
    if (x->key_len != y->key_len)
        return x->key_len < y->key_len ? -1 : 1;
    return memcmp(x->key, y->key, x->key_len);
}

static di_status check_duplicates(const parser *p, const di_sj_value *items, uint32_t n)
{
    if (n < 2)
        return DI_OK;
    const di_sj_value **sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL)
        return di_fail_memory(n * sizeof *sorted, "a JSON schema");
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = &items[i];
    qsort(sorted, n, sizeof *sorted, by_key);
    const char *twice = NULL;
    for (uint32_t i = 1; i < n && twice == NULL; i++)
        if (by_key(&sorted[i - 1], &sorted[i]) == 0)
            twice = sorted[i]->key;
    free(sorted);
    if (twice == NULL)
        return DI_OK;
    DI_BUF_AUTO message = {0};
    DI_TRY(di_buf_printf(&message, "the key \"%.80s\" stands twice in one object", twice));
    return fail_at(p, p->at, di_buf_str(&message));
}

/* Moves the values above `base` from the stack to the arena. */
static di_status close_container(parser *p, size_t base, di_sj_value *out)
{
    const size_t n = p->n_stack - base;
    DI_TRY(DI_ARENA_NEW(p->arena, n, &out->items));
    if (n > 0)
        memcpy(out->items, p->stack + base, n * sizeof *out->items);
    out->n = (uint32_t)n;
    p->n_stack = base;
    return out->type == DI_SJ_OBJECT ? check_duplicates(p, out->items, out->n) : DI_OK;
}

static di_status parse_member(parser *p, di_sj_value *item)
{
    skip_space(p);
    if (!take(p, '"'))
        return fail_at(p, p->at, "not a key, wanted a string");
    DI_TRY(parse_string(p, &item->key, &item->key_len));
    skip_space(p);
    return take(p, ':') ? DI_OK : fail_at(p, p->at, "wanted : after a key");
}

static di_status parse_container(parser *p, char close, di_sj_value *out)
{
    const size_t base = p->n_stack;
    if (++p->depth > p->max_depth)
        return di_fail(DI_ERR_UNSUPPORTED, "JSON schema: nested more than %u levels", p->max_depth);
    out->type = close == '}' ? DI_SJ_OBJECT : DI_SJ_ARRAY;
    skip_space(p);
    if (!take(p, close)) {
        do {
            di_sj_value item = {0};
            if (close == '}')
                DI_TRY(parse_member(p, &item));
            DI_TRY(parse_value(p, &item));
            DI_TRY(DI_GROW(&p->stack, &p->cap_stack, p->n_stack + 1));
            p->stack[p->n_stack++] = item;
            skip_space(p);
        } while (take(p, ','));
        if (!take(p, close))
            return fail_at(p, p->at, close == '}' ? "wanted , or }" : "wanted , or ]");
    }
    p->depth--;
    return close_container(p, base, out);
}

static bool take_word(parser *p, const char *word)
{
    const size_t n = strlen(word);
    if (p->len - p->at < n || memcmp(p->text + p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

static di_status parse_value(parser *p, di_sj_value *out)
{
    p->n_values++;
    skip_space(p);
    if (take(p, '{'))
        return parse_container(p, '}', out);
    if (take(p, '['))
        return parse_container(p, ']', out);
    if (take(p, '"')) {
        out->type = DI_SJ_STRING;
        return parse_string(p, &out->text, &out->len);
    }
    if (take_word(p, "true"))
        out->type = DI_SJ_TRUE;
    else if (take_word(p, "false"))
        out->type = DI_SJ_FALSE;
    else if (take_word(p, "null"))
        out->type = DI_SJ_NULL;
    else
        return parse_number(p, out);
    return DI_OK;
}

/* Numbers the values and ties them to their parents, once they stand where they stay. */
static void link_values(di_sj_document *document, di_sj_value *value, di_sj_value *parent)
{
    value->parent = parent;
    value->id = document->n_values++;
    document->values[value->id] = value;
    for (uint32_t i = 0; i < value->n; i++) {
        value->items[i].index = i;
        link_values(document, &value->items[i], value);
    }
}

di_status di_sj_parse(di_arena *arena, const char *text, size_t len, uint32_t max_depth,
                      di_sj_document *out)
{
    if (len > INT32_MAX)
        return di_fail(DI_ERR_UNSUPPORTED, "JSON schema: %zu bytes, wanted at most %d", len,
                       INT32_MAX);
    parser p = {.arena = arena, .text = text, .len = len, .max_depth = max_depth};
    di_sj_value root = {0};
    di_status status = parse_value(&p, &root);
    skip_space(&p);
    if (status == DI_OK && p.at < len)
        status = fail_at(&p, p.at, "something after the end of the value");
    free(p.stack);
    di_buf_free(&p.scratch);
    DI_TRY(status);
    *out = (di_sj_document){0};
    DI_TRY(DI_ARENA_NEW(arena, 1, &out->root));
    DI_TRY(DI_ARENA_NEW(arena, p.n_values, &out->values));
    *out->root = root;
    link_values(out, out->root, NULL);
    return DI_OK;
}
