#include "grammar/json_number.h"

#include <string.h>

#include "base/checked.h"
#include "grammar/dfa_builder.h"
#include "grammar/tuples.h"

enum { LARGEST_EXPONENT = 1 << 30, MOST_DIGITS = 1 << 30 };

/* 0.d1d2d3... * 10^point with neither leading nor trailing zeros; 0 has no digits and point 0. */
typedef struct {
    bool negative;
    const char *digits;
    int64_t n, point;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static di_status bad_number(const char *text)
{
    return di_fail(DI_ERR_INPUT, "found %.60s, wanted a JSON number", text);
}

/* The exponent behind the e; large ones are cut, as they are beyond every limit. */
static bool read_exponent(const char **at, int64_t *exponent)
{
    const char *p = *at;
    const bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (!is_digit(*p))
        return false;
    int64_t value = 0;
    for (; is_digit(*p); p++)
        value = value < LARGEST_EXPONENT ? value * 10 + (*p - '0') : LARGEST_EXPONENT;
    *exponent = negative ? -value : value;
    *at = p;
    return true;
}

static di_status read_decimal(di_arena *scratch, const char *text, decimal *out)
{
    const size_t len = strlen(text);
    char *digits;
    if (len > MOST_DIGITS)
        return di_fail(DI_ERR_UNSUPPORTED, "a number of %zu characters", len);
    DI_TRY(DI_ARENA_NEW(scratch, len + 1, &digits));
    const char *p = text;
    int64_t n = 0, point = 0, exponent = 0;
    const bool negative = *p == '-';
    p += negative ? 1 : 0;
    if (!is_digit(*p) || (p[0] == '0' && is_digit(p[1])))
        return bad_number(text);
    for (; is_digit(*p); p++)
        digits[n++] = *p;
    point = n;
    if (*p == '.') {
        if (!is_digit(*++p))
            return bad_number(text);
        for (; is_digit(*p); p++)
            digits[n++] = *p;
    }
    if ((*p == 'e' || *p == 'E') && (p++, !read_exponent(&p, &exponent)))
        return bad_number(text);
    if (*p != 0)
        return bad_number(text);
    while (n > 0 && digits[n - 1] == '0')
        n--;
    int64_t leading = 0;
    while (leading < n && digits[leading] == '0')
        leading++;
    *out = (decimal){.negative = negative && n > 0,
                     .digits = digits + leading,
                     .n = n - leading,
                     .point = n > 0 ? point - leading + exponent : 0};
    return DI_OK;
}

/* A bound. `integer` digits before the decimal point and `fraction` behind it. */
typedef struct {
    bool is_set, is_exclusive;
    decimal value;
    uint32_t integer, fraction;
} bound;

/* Of the digits of a number, read so far, and the same digits of a bound's magnitude. */
enum { LESS, EQUAL, GREATER };

/* Digit i behind the decimal point, or before it with i - (digits before it). */
static int digit_of(const decimal *value, int64_t i)
{
    const int64_t at = i + value->point;
    return at >= 0 && at < value->n ? value->digits[at] - '0' : 0;
}

/* The multiples of p * 10^tens, or of p / 10^scale. */
typedef struct {
    uint64_t p; /* not a multiple of 10; 1: no condition but that of tens and scale */
    uint32_t tens, scale;
    bool is_set;
} divisor;

typedef struct {
    bool is_integer;
    bound bounds[2]; /* least, largest */
    divisor divisor;
    uint32_t max_integer, max_fraction; /* digits that matter; further ones are alike */
    uint32_t max_states;
} machine;

typedef enum { START, SIGN, ZERO, INTEGER, POINT, FRACTION } phase;

/* n: digits of the part that is being read, as far as they matter. Divisibility of the digits read
 * so far, N: N is (a number with this remainder) * 10^zeros. */
typedef struct {
    uint32_t phase, negative, n, order[2], remainder, zeros;
} position;

enum { POSITION_NUMBERS = sizeof(position) / sizeof(uint32_t) };

static void next_remainder(const divisor *d, uint32_t digit, position *at)
{
    uint64_t remainder = at->remainder;
    if (digit == 0 && at->zeros < d->tens) {
        at->zeros++;
        return;
    }
    const uint32_t zeros = digit == 0 ? 0 : at->zeros;
    for (uint32_t i = 0; i <= zeros; i++)
        remainder = remainder * 10 % d->p;
    at->remainder = (uint32_t)((remainder + digit) % d->p);
    if (digit != 0)
        at->zeros = 0;
}

static uint32_t compare(int digit, int other)
{
    return digit < other ? LESS : digit > other ? GREATER : EQUAL;
}

/* One more digit before the decimal point. */
static void read_integer_digit(const machine *m, uint32_t digit, position *at)
{
    for (int i = 0; i < 2; i++) {
        const bound *b = &m->bounds[i];
        if (at->n >= b->integer)
            at->order[i] = GREATER;
        else if (at->order[i] == EQUAL)
            at->order[i] = compare((int)digit, digit_of(&b->value, (int64_t)at->n - b->integer));
    }
    if (at->n < m->max_integer)
        at->n++;
}

/* What the digits before the decimal point say once there are no more. A bound with more of them
 * is larger. */
static void end_integer(const machine *m, position *at)
{
    for (int i = 0; i < 2; i++)
        if (at->n < m->bounds[i].integer)
            at->order[i] = LESS;
    at->n = 0;
}

static void read_fraction_digit(const machine *m, uint32_t digit, position *at)
{
    for (int i = 0; i < 2; i++)
        if (at->order[i] == EQUAL)
            at->order[i] = compare((int)digit, digit_of(&m->bounds[i].value, at->n));
    if (at->n < m->max_fraction)
        at->n++;
}

/* False: no number goes on like this. */
static bool read_digit(const machine *m, uint32_t digit, position *at)
{
    switch ((phase)at->phase) {
    case START:
    case SIGN:
        if (digit == 0 && m->is_integer && at->phase == SIGN)
            return false;
        at->phase = digit == 0 ? ZERO : INTEGER;
        if (digit == 0)
            return true;
        read_integer_digit(m, digit, at);
        break;
    case ZERO:
        return false;
    case INTEGER:
        read_integer_digit(m, digit, at);
        break;
    case POINT:
    case FRACTION:
        at->phase = FRACTION;
        if (m->divisor.is_set && at->n >= m->divisor.scale) {
            read_fraction_digit(m, digit, at);
            return digit == 0;
        }
        read_fraction_digit(m, digit, at);
        break;
    }
    next_remainder(&m->divisor, digit, at);
    return true;
}

static bool read_char(const machine *m, char c, position *at)
{
    if (is_digit(c))
        return read_digit(m, (uint32_t)(c - '0'), at);
    if (c == '-' && at->phase == START) {
        at->phase = SIGN;
        at->negative = 1;
        return true;
    }
    if (c == '.' && !m->is_integer && (at->phase == ZERO || at->phase == INTEGER)) {
        at->phase = POINT;
        end_integer(m, at);
        return true;
    }
    return false;
}

/* How the number read compares with a bound, signs included. `order` is that of the magnitudes. */
static uint32_t signed_order(const decimal *value, bool negative, uint32_t order)
{
    if (value->n > 0 && value->negative != negative)
        return negative ? LESS : GREATER;
    return negative ? GREATER - order + LESS : order;
}

static bool is_within(const machine *m, const position *at)
{
    for (uint32_t i = 0; i < 2; i++) {
        const bound *b = &m->bounds[i];
        if (!b->is_set)
            continue;
        if (i == 0 && b->value.n == 0 && at->negative)
            return false; /* -0 too: nobody writes it who means a number from 0 on */
        const bool is_cut = at->order[i] == EQUAL && at->n < b->fraction;
        const uint32_t order = signed_order(&b->value, at->negative, is_cut ? LESS : at->order[i]);
        if (order == EQUAL ? b->is_exclusive : order != (i == 0 ? GREATER : LESS))
            return false;
    }
    return true;
}

static bool is_final(const machine *m, position at)
{
    if (at.phase != ZERO && at.phase != INTEGER && at.phase != FRACTION)
        return false;
    if (at.phase != FRACTION)
        end_integer(m, &at);
    for (uint32_t i = at.n; i < m->divisor.scale; i++)
        next_remainder(&m->divisor, 0, &at);
    const bool is_multiple = at.remainder == 0 && at.zeros == m->divisor.tens;
    return is_multiple && is_within(m, &at);
}

static di_status add_edge(const machine *m, di_tuples *positions, di_dfa_builder *builder,
                          position at, char c)
{
    uint32_t target;
    if (!read_char(m, c, &at))
        return DI_OK;
    const uint32_t values[POSITION_NUMBERS] = {at.phase,    at.negative,  at.n,    at.order[0],
                                               at.order[1], at.remainder, at.zeros};
    DI_TRY(di_tuples_intern(positions, values, POSITION_NUMBERS, &target));
    DI_TRY(di_dfa_check_states(positions->n, m->max_states));
    return di_dfa_builder_edge(builder, (uint32_t)c, (uint32_t)c, target);
}

static di_status build(const machine *m, di_tuples *positions, di_dfa_builder *builder)
{
    static const char chars[] = "-.0123456789";
    const uint32_t start[POSITION_NUMBERS] = {START, 0, 0, EQUAL, EQUAL, 0, m->divisor.tens};
    uint32_t number;
    DI_TRY(di_tuples_intern(positions, start, POSITION_NUMBERS, &number));
    for (; number < positions->n; number++) {
        const uint32_t *v = di_tuples_values(positions, number);
        const position at = {.phase = v[0],
                             .negative = v[1],
                             .n = v[2],
                             .order = {v[3], v[4]},
                             .remainder = v[5],
                             .zeros = v[6]};
        DI_TRY(di_dfa_builder_state(builder, is_final(m, at)));
        for (const char *c = chars; *c != 0; c++)
            DI_TRY(add_edge(m, positions, builder, at, *c));
    }
    return DI_OK;
}

static di_status read_bound(di_arena *scratch, const char *text, bool is_exclusive, machine *m,
                            bound *out)
{
    *out = (bound){0};
    if (text == NULL)
        return DI_OK;
    out->is_set = true;
    out->is_exclusive = is_exclusive;
    DI_TRY(read_decimal(scratch, text, &out->value));
    const decimal *value = &out->value;
    const int64_t integer = value->point > 0 ? value->point : 0;
    const int64_t fraction = value->n > value->point ? value->n - value->point : 0;
    if (integer + fraction > m->max_states)
        return di_fail(DI_ERR_UNSUPPORTED, "a bound of %lld digits, wanted at most %u",
                       (long long)(integer + fraction), m->max_states);
    out->integer = (uint32_t)integer;
    out->fraction = (uint32_t)fraction;
    /* One more digit than the bound has makes a number larger, whatever follows. */
    m->max_integer = integer >= m->max_integer ? out->integer + 1 : m->max_integer;
    m->max_fraction = fraction > m->max_fraction ? out->fraction : m->max_fraction;
    return DI_OK;
}

/* p * 10^exponent, p not a multiple of 10. */
typedef struct {
    uint64_t p;
    int64_t exponent;
} factor;

static di_status read_factor(di_arena *scratch, const char *text, factor *out)
{
    decimal value;
    DI_TRY(read_decimal(scratch, text, &value));
    if (value.n == 0 || value.negative)
        return di_fail(DI_ERR_INPUT, "multiples of %.60s, wanted a number above 0", text);
    *out = (factor){.exponent = value.point - value.n};
    for (int64_t i = 0; i < value.n; i++)
        if (!di_mul_u64(out->p, 10, &out->p) ||
            !di_add_u64(out->p, (uint64_t)(value.digits[i] - '0'), &out->p))
            return di_fail(DI_ERR_UNSUPPORTED, "multiples of %.60s: a number of %lld digits", text,
                           (long long)value.n);
    return DI_OK;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool scale_to(factor *f, int64_t exponent)
{
    for (; f->exponent > exponent; f->exponent--)
        if (!di_mul_u64(f->p, 10, &f->p))
            return false;
    return true;
}

/* The least common multiple; false if it is too large. */
static bool common_multiple(factor a, factor b, factor *out)
{
    const int64_t exponent = a.exponent < b.exponent ? a.exponent : b.exponent;
    if (!scale_to(&a, exponent) || !scale_to(&b, exponent) ||
        !di_mul_u64(a.p / common_divisor(a.p, b.p), b.p, &a.p))
        return false;
    for (; a.p % 10 == 0; a.exponent++)
        a.p /= 10;
    *out = a;
    return true;
}

/* An integer is a multiple of p / 10^scale if it is one of p without its common factors with
 * 10^scale. */
static void divide_integers(factor *f)
{
    for (; f->exponent < 0 && (f->p % 2 == 0 || f->p % 5 == 0); f->exponent++)
        f->p /= f->p % 2 == 0 ? 2 : 5;
    f->exponent = f->exponent < 0 ? 0 : f->exponent;
}

static di_status read_divisor(di_arena *scratch, const di_json_number *number, machine *m)
{
    factor all = {.p = 1, .exponent = 0}, next;
    m->divisor = (divisor){.p = 1};
    if (number->n_multiples == 0)
        return DI_OK;
    for (size_t i = 0; i < number->n_multiples; i++) {
        DI_TRY(read_factor(scratch, number->multiples[i], &next));
        if (number->is_integer)
            divide_integers(&next);
        if (i == 0)
            all = next;
        else if (!common_multiple(all, next, &all))
            return di_fail(DI_ERR_UNSUPPORTED,
                           "multiples of %.60s and of another number: their "
                           "common multiple is beyond 64 bits",
                           number->multiples[i]);
    }
    const int64_t digits = all.exponent < 0 ? -all.exponent : all.exponent;
    if (all.p > m->max_states || digits > m->max_states)
        return di_fail(DI_ERR_UNSUPPORTED,
                       "multiples of %.60s: %llu remainders and %lld digits, wanted at most %u",
                       number->multiples[0], (unsigned long long)all.p, (long long)digits,
                       m->max_states);
    m->divisor = (divisor){.p = all.p, .is_set = true};
    m->divisor.tens = all.exponent > 0 ? (uint32_t)digits : 0;
    m->divisor.scale = all.exponent < 0 ? (uint32_t)digits : 0;
    m->max_fraction = m->divisor.scale > m->max_fraction ? m->divisor.scale : m->max_fraction;
    return DI_OK;
}

static di_status bounded(di_arena *arena, di_arena *scratch, const di_json_number *number,
                         uint32_t max_states, const di_dfa **out)
{
    machine m = {.is_integer = number->is_integer, .max_integer = 1, .max_states = max_states};
    DI_TRY(read_bound(scratch, number->min, number->min_exclusive, &m, &m.bounds[0]));
    DI_TRY(read_bound(scratch, number->max, number->max_exclusive, &m, &m.bounds[1]));
    DI_TRY(read_divisor(scratch, number, &m));
    di_tuples positions = {0};
    di_dfa_builder builder = {.max_states = max_states};
    di_status status = build(&m, &positions, &builder);
    if (status == DI_OK)
        status = di_dfa_builder_finish(&builder, arena, out);
    di_tuples_free(&positions);
    di_dfa_builder_free(&builder);
    return status;
}

static di_status optional(di_arena *arena, const di_expr **expr)
{
    return di_expr_repeat(arena, *expr, 0, 1, expr);
}

/* -?(0|[1-9][0-9]*), without -0 for integers. */
static di_status integer_part(di_arena *arena, bool is_integer, const di_expr *digits,
                              const di_expr **out)
{
    const di_expr *zero, *first, *rest, *minus, *positive;
    DI_TRY(di_expr_range(arena, '0', '0', &zero));
    DI_TRY(di_expr_range(arena, '1', '9', &first));
    DI_TRY(di_expr_repeat(arena, digits, 0, DI_REPEAT_INF, &rest));
    DI_TRY(di_expr_range(arena, '-', '-', &minus));
    DI_TRY(optional(arena, &minus));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &positive, first, rest));
    if (!is_integer) {
        DI_TRY(DI_EXPR_ALT_OF(arena, &positive, zero, positive));
        return DI_EXPR_SEQ_OF(arena, out, minus, positive);
    }
    DI_TRY(DI_EXPR_SEQ_OF(arena, &positive, minus, positive));
    return DI_EXPR_ALT_OF(arena, out, zero, positive);
}

static di_status unbounded(di_arena *arena, bool is_integer, const di_expr **out)
{
    static const di_code_range e_ranges[] = {{'E', 'E'}, {'e', 'e'}};
    static const di_code_range sign_ranges[] = {{'+', '+'}, {'-', '-'}};
    const di_expr *digit, *integer, *digits, *point, *e, *sign, *fraction, *exponent;
    DI_TRY(di_expr_range(arena, '0', '9', &digit));
    DI_TRY(integer_part(arena, is_integer, digit, &integer));
    if (is_integer) {
        *out = integer;
        return DI_OK;
    }
    DI_TRY(di_expr_repeat(arena, digit, 1, DI_REPEAT_INF, &digits));
    DI_TRY(di_expr_range(arena, '.', '.', &point));
    DI_TRY(di_expr_chars(arena, (di_charset){.ranges = e_ranges, .n = 2}, &e));
    DI_TRY(di_expr_chars(arena, (di_charset){.ranges = sign_ranges, .n = 2}, &sign));
    DI_TRY(optional(arena, &sign));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &fraction, point, digits));
    DI_TRY(DI_EXPR_SEQ_OF(arena, &exponent, e, sign, digits));
    DI_TRY(optional(arena, &fraction));
    DI_TRY(optional(arena, &exponent));
    return DI_EXPR_SEQ_OF(arena, out, integer, fraction, exponent);
}

di_status di_json_number_expr(di_arena *arena, const di_json_number *number, uint32_t max_states,
                              const di_expr **out)
{
    if (number->min == NULL && number->max == NULL && number->n_multiples == 0)
        return unbounded(arena, number->is_integer, out);
    di_arena scratch = {0};
    const di_dfa *dfa;
    const di_status status = bounded(arena, &scratch, number, max_states, &dfa);
    di_arena_free(&scratch);
    DI_TRY(status);
    return di_expr_from_dfa(arena, (di_expr_dfa){.dfa = dfa, .max_len = DI_REPEAT_INF}, out);
}
