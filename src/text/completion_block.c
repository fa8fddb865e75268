#define _GNU_SOURCE /* memmem */
#include <stdint.h>
#include <string.h>

#include "text/completion_parser.h"
#include "text/encoding_json.h"
#include "text/encoding_tools.h"

#define CALLS_END  "</" DI_DSML_CALLS ">"
#define INVOKE     "<" DI_DSML_INVOKE
#define INVOKE_END "</" DI_DSML_INVOKE
#define PARAMETER  "<" DI_DSML_PARAMETER
#define PARAMETER_END                                                                              \
    "/" DI_DSML_PARAMETER /* as the reference splits: its < is the value's last                    \
                           */

#define STRING_TRUE  "\" string=\"true\">"
#define STRING_FALSE "\" string=\"false\">"

static bool is_space(char c)
{
    return c == '\n' || c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_strict(const di_completion_parser *p)
{
    return p->rules == DI_COMPLETION_STRICT;
}

/* A name that holds markup is the sign of a tag that was never closed. */
static bool has_mark(const char *name, size_t len)
{
    return memmem(name, len, DI_CHAT_DSML, strlen(DI_CHAT_DSML)) != NULL;
}

void di_completion_block_open(di_completion_parser *p, size_t begin, size_t end)
{
    p->stage = DI_STAGE_BLOCK;
    p->step = DI_BLOCK_BETWEEN;
    p->at = begin;
    p->marker_end = p->cursor = p->scanned = end;
    p->n_block_calls = 0;
    p->had_block = true;
}

static void next_step(di_completion_parser *p, di_block_step step, size_t cursor)
{
    p->step = step;
    p->cursor = p->scanned = cursor;
}

/* First s in text [from, end), or end. */
static size_t search(di_completion_parser *p, size_t from, size_t end, const char *s)
{
    const size_t n = strlen(s);
    if (end < from + n)
        return end;
    const char *found = memmem(p->text.data + from, end - from, s, n);
    const size_t at = found ? (size_t)(found - p->text.data) : end;
    p->work += at - from;
    return at;
}

/* Where a search for a mark of n bytes goes on after more text came. */
static size_t search_start(const di_completion_parser *p, size_t n)
{
    return p->scanned > p->cursor + n ? p->scanned - n : p->cursor;
}

/* The white space before a tag: exactly a newline, or any when lenient. */
static di_match skip_blank(di_completion_parser *p, size_t *at)
{
    if (*at == p->text.len)
        return DI_MATCH_PARTIAL;
    if (is_strict(p))
        return p->text.data[(*at)++] == '\n' ? DI_MATCH_FULL : DI_MATCH_NONE;
    while (*at < p->text.len && is_space(p->text.data[*at])) {
        ++*at;
        p->work++;
    }
    return *at == p->text.len ? DI_MATCH_PARTIAL : DI_MATCH_FULL;
}

/* Which of two tags follows the white space at *at: moves *at behind it. */
static di_match match_tags(di_completion_parser *p, size_t *at, const char *const tags[2],
                           int *which)
{
    const di_match blank = skip_blank(p, at);
    if (blank != DI_MATCH_FULL)
        return blank;
    di_match best = DI_MATCH_NONE;
    for (int i = 0; i < 2 && best != DI_MATCH_FULL; i++) {
        const di_match match = di_completion_match(p, *at, tags[i]);
        best = match > best ? match : best;
        *which = i;
    }
    if (best == DI_MATCH_FULL)
        *at += strlen(tags[*which]);
    return best;
}

static di_progress read_between(di_completion_parser *p, const char **why)
{
    static const char *const tags[2] = {INVOKE, CALLS_END};
    size_t at = p->cursor;
    int which = 0;
    const di_match match = match_tags(p, &at, tags, &which);
    if (match == DI_MATCH_FULL && which == 0) {
        next_step(p, DI_BLOCK_HEAD, at);
        di_buf_clear(&p->name);
        di_buf_clear(&p->arguments);
        di_strmap_free(&p->keys);
        return DI_PROGRESS_MADE;
    }
    if (match == DI_MATCH_FULL) {
        p->at = at;
        p->stage = DI_STAGE_TEXT;
        p->kind = DI_DELTA_CONTENT;
        return DI_PROGRESS_MADE;
    }
    if (!is_strict(p))
        p->cursor = at; /* read white space once */
    /* Calls that are complete may be followed by the end of the text. */
    const bool may_end = !is_strict(p) && p->text.len - at <= strlen(DI_CHAT_EOS) &&
                         di_completion_match(p, at, DI_CHAT_EOS) != DI_MATCH_NONE;
    if (match == DI_MATCH_PARTIAL || may_end)
        return DI_PROGRESS_WAIT;
    *why = "wanted a newline and " INVOKE " or " CALLS_END;
    return DI_PROGRESS_MALFORMED;
}

/* text [begin, end) is:  name="NAME"> and a newline, or two when there are no parameters. */
static di_status read_name(di_completion_parser *p, size_t begin, size_t end, bool *is_ok)
{
    static const char open[] = "name=\"", close[] = "\">";
    const char *text = p->text.data;
    size_t stop = end, n_blank = 0;
    while (stop > begin && is_space(text[stop - 1]) && (!is_strict(p) || n_blank < 2)) {
        n_blank++;
        stop--;
        if (is_strict(p) && text[stop] != '\n')
            return DI_OK;
    }
    while (begin < stop && is_space(text[begin]))
        begin++;
    p->work += end - begin;
    const size_t n_open = strlen(open), n_close = strlen(close);
    if ((is_strict(p) && n_blank == 0) || stop - begin < n_open + n_close ||
        memcmp(text + begin, open, n_open) != 0 ||
        memcmp(text + stop - n_close, close, n_close) != 0 ||
        memchr(text + begin, 0, stop - begin) || /* names are given out as C strings */
        has_mark(text + begin, stop - begin))
        return DI_OK;
    *is_ok = true;
    return di_buf_append(&p->name, text + begin + n_open, stop - begin - n_open - n_close);
}

static di_status read_head(di_completion_parser *p, di_progress *progress, const char **why)
{
    /* The invoke's end first: a search for a parameter beyond it would be done again each call. */
    const size_t end = search(p, search_start(p, strlen(INVOKE_END)), p->text.len, INVOKE_END);
    const size_t first = search(p, search_start(p, strlen(PARAMETER)), end, PARAMETER);
    if (first == p->text.len) {
        p->scanned = p->text.len;
        *progress = DI_PROGRESS_WAIT;
        return DI_OK;
    }
    bool is_ok = false;
    DI_TRY(read_name(p, p->cursor, first, &is_ok));
    if (!is_ok) {
        *why = "wanted name=\"...\"> and a newline in an invoke";
        *progress = DI_PROGRESS_MALFORMED;
        return DI_OK;
    }
    if (first < end)
        next_step(p, DI_BLOCK_PARAMETER, first + strlen(PARAMETER));
    else
        next_step(p, DI_BLOCK_INVOKE_END, end + strlen(INVOKE_END));
    return DI_OK;
}

/* A value that is not declared a string is kept as it is if it is JSON, else as a string: types are
 * never guessed. */
static di_status add_argument(di_completion_parser *p, const char *key, size_t key_len,
                              const char *value, size_t len, bool is_string)
{
    DI_TRY(di_buf_puts(&p->arguments, p->arguments.len ? ", " : "{"));
    DI_TRY(di_json_write_string(key, key_len, &p->arguments));
    DI_TRY(di_buf_puts(&p->arguments, ": "));
    const di_jval *parsed;
    di_arena_reset(&p->scratch);
    if (!is_string && di_jval_parse(&p->scratch, value, len, DI_JSYNTAX, &parsed) == DI_OK)
        return di_buf_append(&p->arguments, value, len);
    return di_json_write_string(value, len, &p->arguments);
}

/* text [begin, end) is:  name="KEY" string="true|false">VALUE<  with the first end of KEY that
 * fits. */
static di_status read_key_value(di_completion_parser *p, size_t begin, size_t end, const char **why)
{
    static const char open[] = " name=\"";
    const char *text = p->text.data;
    const size_t n_open = strlen(open);
    *why = "wanted name=\"...\" string=\"true|false\">...< in a parameter";
    if (end - begin < n_open || memcmp(text + begin, open, n_open) != 0 || text[end - 1] != '<')
        return DI_OK;
    const size_t key = begin + n_open;
    size_t key_end = search(p, key, end - 1, STRING_TRUE);
    const size_t other = search(p, key, key_end, STRING_FALSE);
    const bool is_string = other == key_end;
    key_end = other;
    if (key_end == end - 1 || has_mark(text + key, key_end - key))
        return DI_OK;
    bool is_known;
    DI_TRY(di_strmap_put(&p->keys, text + key, key_end - key, 0, &is_known));
    *why = is_known ? "found a parameter twice" : NULL;
    if (is_known)
        return DI_OK;
    const size_t value = key_end + strlen(is_string ? STRING_TRUE : STRING_FALSE);
    return add_argument(p, text + key, key_end - key, text + value, end - 1 - value, is_string);
}

static di_status read_parameter(di_completion_parser *p, di_progress *progress, const char **why)
{
    const size_t end =
        search(p, search_start(p, strlen(PARAMETER_END)), p->text.len, PARAMETER_END);
    if (end == p->text.len) {
        p->scanned = p->text.len;
        *progress = DI_PROGRESS_WAIT;
        return DI_OK;
    }
    DI_TRY(read_key_value(p, p->cursor, end, why));
    if (*why)
        *progress = DI_PROGRESS_MALFORMED;
    else
        next_step(p, DI_BLOCK_PARAMETER_END, end + strlen(PARAMETER_END));
    return DI_OK;
}

static di_progress read_parameter_end(di_completion_parser *p, const char **why)
{
    const di_match match = di_completion_match(p, p->cursor, ">");
    if (match == DI_MATCH_FULL) {
        next_step(p, DI_BLOCK_AFTER_PARAMETER, p->cursor + 1);
        return DI_PROGRESS_MADE;
    }
    *why = "wanted > at the end of a parameter";
    return match == DI_MATCH_PARTIAL ? DI_PROGRESS_WAIT : DI_PROGRESS_MALFORMED;
}

static di_progress read_after_parameter(di_completion_parser *p, const char **why)
{
    static const char *const tags[2] = {PARAMETER, INVOKE_END};
    size_t at = p->cursor;
    int which = 0;
    const di_match match = match_tags(p, &at, tags, &which);
    if (match == DI_MATCH_FULL) {
        next_step(p, which == 0 ? DI_BLOCK_PARAMETER : DI_BLOCK_INVOKE_END, at);
        return DI_PROGRESS_MADE;
    }
    if (!is_strict(p))
        p->cursor = at; /* read white space once */
    *why = "wanted a newline and " PARAMETER " or " INVOKE_END;
    return match == DI_MATCH_PARTIAL ? DI_PROGRESS_WAIT : DI_PROGRESS_MALFORMED;
}

static di_status read_invoke_end(di_completion_parser *p, di_progress *progress, const char **why)
{
    const di_match match = di_completion_match(p, p->cursor, ">");
    if (match != DI_MATCH_FULL) {
        *why = "wanted > at the end of an invoke";
        *progress = match == DI_MATCH_NONE ? DI_PROGRESS_MALFORMED : DI_PROGRESS_WAIT;
        return DI_OK;
    }
    DI_TRY(di_buf_puts(&p->arguments, p->arguments.len ? "}" : "{}"));
    next_step(p, DI_BLOCK_BETWEEN, p->cursor + 1);
    p->at = p->cursor;
    p->kind = DI_DELTA_CONTENT;
    p->n_block_calls++;
    if (p->fn(p->user, DI_DELTA_TOOL_CALL, di_buf_str(&p->name), di_buf_str(&p->arguments),
              p->arguments.len))
        return DI_OK;
    return di_fail(DI_ERR_CANCELLED, "stopped by the callback");
}

di_status di_completion_block_read(di_completion_parser *p, di_progress *progress, const char **why)
{
    *progress = DI_PROGRESS_MADE;
    switch (p->step) {
    case DI_BLOCK_BETWEEN:
        *progress = read_between(p, why);
        return DI_OK;
    case DI_BLOCK_HEAD:
        return read_head(p, progress, why);
    case DI_BLOCK_PARAMETER:
        return read_parameter(p, progress, why);
    case DI_BLOCK_PARAMETER_END:
        *progress = read_parameter_end(p, why);
        return DI_OK;
    case DI_BLOCK_AFTER_PARAMETER:
        *progress = read_after_parameter(p, why);
        return DI_OK;
    case DI_BLOCK_INVOKE_END:
        return read_invoke_end(p, progress, why);
    }
    return DI_OK;
}
