#include "sample/stop.h"

#include <stdlib.h>
#include <string.h>

/* Knuth, Morris, Pratt: border[k] is the length of the longest proper end of the first k bytes that
 * is also their beginning. */
typedef struct pattern {
    char *text;
    size_t len;
    size_t *border; /* [len + 1] */
    size_t state;   /* bytes of `text` that the text so far ends with */
} pattern;

struct di_stop_matcher {
    pattern *patterns; /* [n] */
    size_t n;
    size_t n_held; /* the text held back is the first n_held bytes of ... */
    size_t i_held; /* ... this pattern */
    bool is_ended; /* a match ended the text */
};

static di_status init_pattern(pattern *p, const char *text)
{
    p->len = strlen(text);
    p->text = malloc(p->len + 1);
    p->border = calloc(p->len + 1, sizeof *p->border);
    if (!p->text || !p->border)
        return di_fail_memory(p->len, "a stop string");
    memcpy(p->text, text, p->len + 1);
    size_t k = 0;
    for (size_t i = 1; i < p->len; i++) {
        while (k > 0 && text[i] != text[k])
            k = p->border[k];
        if (text[i] == text[k])
            k++;
        p->border[i + 1] = k;
    }
    return DI_OK;
}

di_status di_stop_create(const char *const *stop, size_t n, di_stop_matcher **out)
{
    di_stop_matcher *matcher = calloc(1, sizeof *matcher);
    pattern *patterns = calloc(n ? n : 1, sizeof *patterns);
    di_status status = DI_OK;
    if (!matcher || !patterns) {
        free(matcher);
        free(patterns);
        return di_fail_memory(n * sizeof *patterns, "the stop strings");
    }
    *matcher = (di_stop_matcher){.patterns = patterns, .n = n};
    for (size_t i = 0; i < n && status == DI_OK; i++) {
        if (!stop[i] || !*stop[i])
            status = di_fail(DI_ERR_ARGUMENT, "stop[%zu]: found %s, wanted a text", i,
                             stop[i] ? "an empty text" : "NULL");
        else
            status = init_pattern(&patterns[i], stop[i]);
    }
    if (status != DI_OK) {
        di_stop_destroy(matcher);
        return status;
    }
    *out = matcher;
    return DI_OK;
}

void di_stop_destroy(di_stop_matcher *matcher)
{
    if (!matcher)
        return;
    for (size_t i = 0; i < matcher->n; i++) {
        free(matcher->patterns[i].text);
        free(matcher->patterns[i].border);
    }
    free(matcher->patterns);
    free(matcher);
}

static size_t advance(const pattern *p, char byte)
{
    size_t k = p->state;
    if (k == p->len)
        k = p->border[k];
    while (k > 0 && byte != p->text[k])
        k = p->border[k];
    return byte == p->text[k] ? k + 1 : k;
}

/* Index of the longest pattern complete after this byte, or -1. */
static int step(di_stop_matcher *matcher, char byte)
{
    int complete = -1;
    size_t longest = 0;
    for (size_t i = 0; i < matcher->n; i++) {
        pattern *const p = &matcher->patterns[i];
        p->state = advance(p, byte);
        if (p->state == p->len && p->len > longest) {
            longest = p->len;
            complete = (int)i;
        }
    }
    return complete;
}

/* Appends the first n bytes of (held text + piece) to out. */
static di_status give_out(const di_stop_matcher *matcher, const char *piece, size_t n, di_buf *out)
{
    const size_t n_old = n < matcher->n_held ? n : matcher->n_held;
    if (n_old > 0)
        DI_TRY(di_buf_append(out, matcher->patterns[matcher->i_held].text, n_old));
    return n > n_old ? di_buf_append(out, piece, n - n_old) : DI_OK;
}

di_status di_stop_push(di_stop_matcher *matcher, const char *text, size_t bytes, bool is_enabled,
                       di_buf *out, int *matched)
{
    *matched = -1;
    if (matcher->is_ended)
        return DI_OK;
    for (size_t at = 0; at < bytes && matcher->n > 0; at++) {
        const int complete = step(matcher, text[at]);
        if (complete < 0 || !is_enabled)
            continue;
        const size_t n_text = matcher->n_held + at + 1 - matcher->patterns[complete].len;
        DI_TRY(give_out(matcher, text, n_text, out));
        matcher->is_ended = true;
        matcher->n_held = 0;
        *matched = complete;
        return DI_OK;
    }
    size_t n_held = 0, i_held = 0;
    for (size_t i = 0; i < matcher->n; i++) {
        const pattern *p = &matcher->patterns[i];
        const size_t k = p->state == p->len ? p->border[p->len] : p->state;
        if (k > n_held) {
            n_held = k;
            i_held = i;
        }
    }
    DI_TRY(give_out(matcher, text, matcher->n_held + bytes - n_held, out));
    matcher->n_held = n_held;
    matcher->i_held = i_held;
    return DI_OK;
}

di_status di_stop_finish(di_stop_matcher *matcher, di_buf *out)
{
    DI_TRY(give_out(matcher, "", matcher->n_held, out));
    matcher->n_held = 0;
    matcher->is_ended = true;
    return DI_OK;
}

size_t di_stop_held_bytes(const di_stop_matcher *matcher)
{
    return matcher->n_held;
}
