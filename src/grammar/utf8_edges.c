/* Ranges of code points as ranges of UTF-8 bytes: a range is cut where the number of bytes changes
 * and then until each piece is a product of byte ranges. Common endings share their states. */
#include "grammar/automaton.h"

typedef struct byte_range {
    uint8_t first, last;
} byte_range;

/* A state that reads one byte of first .. last and goes on to `next`. */
typedef struct ending {
    uint32_t next, state;
    uint8_t first, last;
} ending;

enum { MAX_ENDINGS = 64 };

typedef struct splitter {
    di_raw_grammar *raw;
    uint32_t from, to;
    ending endings[MAX_ENDINGS];
    uint32_t n_endings, replace; /* the oldest is replaced when full */
    di_raw_edge pending;         /* the last edge out of `from`: the next may extend it */
    bool has_pending;
} splitter;

static di_edge byte_edge(byte_range range, uint32_t target)
{
    return (di_edge){
        .kind = DI_EDGE_BYTES, .first = range.first, .last = range.last, .target = target};
}

static di_status ending_state(splitter *s, byte_range range, uint32_t next, uint32_t *state)
{
    for (uint32_t i = 0; i < s->n_endings; i++) {
        const ending *e = &s->endings[i];
        if (e->next == next && e->first == range.first && e->last == range.last) {
            *state = e->state;
            return DI_OK;
        }
    }
    DI_TRY(di_raw_state(s->raw, s->raw->states[s->from].rule, state));
    DI_TRY(di_raw_edge_add(s->raw, *state, byte_edge(range, next)));
    uint32_t at = s->n_endings;
    if (at < MAX_ENDINGS)
        s->n_endings++;
    else
        at = s->replace++ % MAX_ENDINGS;
    s->endings[at] = (ending){next, *state, range.first, range.last};
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

di_status di_lower_chars(di_raw_grammar *raw, di_charset set, uint32_t from, uint32_t to)
{
    static const uint32_t ends[4] = {0x7F, 0x7FF, 0xFFFF, DI_CODE_LAST};
    splitter s = {.raw = raw, .from = from, .to = to};
    for (uint32_t i = 0; i < set.n; i++) {
        uint32_t first = set.ranges[i].first;
        for (int n = 0; n < 4 && first <= set.ranges[i].last; n++) {
            if (first > ends[n])
                continue;
            const uint32_t last = set.ranges[i].last < ends[n] ? set.ranges[i].last : ends[n];
            DI_TRY(split(&s, first, last));
            first = last + 1;
        }
    }
    return flush(&s);
}
