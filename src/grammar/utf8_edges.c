/* Ranges of code points as ranges of UTF-8 bytes: a range is cut where the number of bytes changes
 * and then until each piece is a product of byte ranges. Common endings share their states. */
#include <stdio.h>

#include "grammar/automaton.h"
#include "grammar/vocab.h"

typedef struct byte_range {
    uint8_t first, last;
} byte_range;

typedef struct splitter {
    di_raw_grammar *raw;
    uint32_t from, to;
    di_raw_edge pending; /* the last edge out of `from`: the next may extend it */
    bool has_pending;
} splitter;

static di_edge byte_edge(byte_range range, uint32_t target)
{
    return (di_edge){
        .kind = DI_EDGE_BYTES, .first = range.first, .last = range.last, .target = target};
}

static di_status ending_state(splitter *s, byte_range range, uint32_t next, uint32_t *state)
{
    di_raw_grammar *raw = s->raw;
    for (uint32_t i = 0; i < raw->n_endings && i < DI_ENDINGS; i++) {
        const di_ending *e = &raw->endings[i];
        if (e->next == next && e->first == range.first && e->last == range.last) {
            *state = e->state;
            return DI_OK;
        }
    }
    DI_TRY(di_raw_state(raw, raw->states[s->from].rule, state));
    DI_TRY(di_raw_edge_add(raw, *state, byte_edge(range, next)));
    raw->endings[raw->n_endings++ % DI_ENDINGS] =
        (di_ending){next, *state, range.first, range.last};
    return DI_OK;
}

static di_status flush(splitter *s)
{
    if (s->has_pending)
        DI_TRY(di_raw_edge_add(s->raw, s->from, s->pending.edge));
    s->has_pending = false;
    return DI_OK;
}

static di_status add_sequence(splitter *s, const byte_range *bytes, int n)
{
    uint32_t next = s->to;
    for (int i = n - 1; i > 0; i--)
        DI_TRY(ending_state(s, bytes[i], next, &next));
    di_edge *last = &s->pending.edge;
    if (s->has_pending && last->target == next && last->last + 1 == bytes[0].first) {
        last->last = bytes[0].last;
        return DI_OK;
    }
    DI_TRY(flush(s));
    s->pending.edge = byte_edge(bytes[0], next);
    s->has_pending = true;
    return DI_OK;
}

static int encode(uint32_t code, uint8_t out[4])
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    const int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)(lead[n] | code);
    return n;
}

/* first and last have the same number of bytes. Cuts off the parts below and above the largest
 * middle in which the last k bytes run over all of 80-BF. */
static di_status split(splitter *s, uint32_t first, uint32_t last)
{
    for (int k = 1; k < 4; k++) {
        const uint32_t mask = (1u << (6 * k)) - 1;
        if ((first & ~mask) == (last & ~mask))
            break;
        if ((first & mask) != 0) {
            DI_TRY(split(s, first, first | mask));
            return split(s, (first | mask) + 1, last);
        }
        if ((last & mask) != mask) {
            DI_TRY(split(s, first, (last & ~mask) - 1));
            return split(s, last & ~mask, last);
        }
    }
    uint8_t low[4], high[4];
    byte_range bytes[4];
    const int n = encode(first, low);
    encode(last, high);
    for (int i = 0; i < n; i++)
        bytes[i] = (byte_range){low[i], high[i]};
    return add_sequence(s, bytes, n);
}

static di_status add_range(splitter *s, di_code_range range)
{
    static const uint32_t ends[4] = {0x7F, 0x7FF, 0xFFFF, DI_CODE_LAST};
    for (int n = 0; n < 4 && range.first <= range.last; n++) {
        if (range.first > ends[n])
            continue;
        const uint32_t last = range.last < ends[n] ? range.last : ends[n];
        DI_TRY(split(s, range.first, last));
        range.first = last + 1;
    }
    return DI_OK;
}

/* Bytes one after the other, each of two (the same twice: of one). */
static di_status add_path(di_raw_grammar *raw, const char *bytes, const char *others, size_t n,
                          uint32_t ends[2])
{
    uint32_t from = ends[0];
    for (size_t i = 0; i < n; i++) {
        const uint8_t byte = (uint8_t)bytes[i], other = (uint8_t)others[i];
        uint32_t next = ends[1];
        if (i + 1 < n)
            DI_TRY(di_raw_state(raw, raw->states[from].rule, &next));
        DI_TRY(di_raw_edge_add(raw, from, byte_edge((byte_range){byte, byte}, next)));
        if (other != byte)
            DI_TRY(di_raw_edge_add(raw, from, byte_edge((byte_range){other, other}, next)));
        from = next;
    }
    return DI_OK;
}

/* The code point that the rule escapes, with hexadecimal digits of either case. */
static di_status lower_escape(di_raw_grammar *raw, uint32_t from, uint32_t to)
{
    char lower[8], upper[8];
    snprintf(lower, sizeof lower, "\\u%04x", (unsigned)(raw->escaped & 0xFFFF));
    snprintf(upper, sizeof upper, "\\u%04X", (unsigned)(raw->escaped & 0xFFFF));
    return add_path(raw, lower, upper, 6, (uint32_t[2]){from, to});
}

di_status di_lower_token(di_raw_grammar *raw, const char *text, size_t len, uint32_t from,
                         uint32_t to)
{
    if (raw->vocab != NULL && di_vocab_has_added(raw->vocab, text, len)) {
        static const char mark = (char)DI_VOCAB_ADDED;
        uint32_t next;
        DI_TRY(di_raw_state(raw, raw->states[from].rule, &next));
        DI_TRY(add_path(raw, &mark, &mark, 1, (uint32_t[2]){from, next}));
        from = next;
    }
    return add_path(raw, text, text, len, (uint32_t[2]){from, to});
}

di_status di_lower_chars(di_raw_grammar *raw, di_charset set, uint32_t from, uint32_t to)
{
    const uint32_t code = raw->escaped;
    splitter s = {.raw = raw, .from = from, .to = to};
    bool has_escaped = false;
    for (uint32_t i = 0; i < set.n; i++) {
        const di_code_range range = set.ranges[i];
        if (code == 0 || code < range.first || range.last < code) {
            DI_TRY(add_range(&s, range));
            continue;
        }
        has_escaped = true;
        if (range.first < code)
            DI_TRY(add_range(&s, (di_code_range){range.first, code - 1}));
        if (code < range.last)
            DI_TRY(add_range(&s, (di_code_range){code + 1, range.last}));
    }
    DI_TRY(flush(&s));
    return has_escaped ? lower_escape(raw, from, to) : DI_OK;
}
