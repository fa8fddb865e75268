#include "grammar/json_format.h"

#include <string.h>

#include "base/buf.h"
#include "grammar/dfa.h"
#include "grammar/regex.h"

/* Several times what the largest format needs. */
enum { MAX_STATES = 10000, HOSTNAME_MAX = 253 };

/* RFC 3339. The 29th of February in years that are a multiple of 4 but not of 100, or of 400. */
#define MONTH_DAY                                                                                  \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"          \
    "02-(?:0[1-9]|1\\d|2[0-8]))"
#define LEAP_YEAR     "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE          "(?:\\d{4}-" MONTH_DAY "|" LEAP_YEAR "-02-29)"
#define HOUR_MINUTE   "(?:[01]\\d|2[0-3]):[0-5]\\d"
#define FRACTION      "(?:\\.\\d+)?"
#define PLAIN_TIME    HOUR_MINUTE ":[0-5]\\d" FRACTION "(?:[Zz]|[+-]" HOUR_MINUTE ")"
#define UTC_LEAP      "23:59:60" FRACTION "[Zz]"
#define DURATION_DAY  "(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)"
#define DURATION_TIME "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define DURATION      "P(?:" DURATION_DAY "(?:" DURATION_TIME ")?|" DURATION_TIME "|\\d+W)"

#define ATOM        "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+"
#define EMAIL_LABEL "[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
#define EMAIL       ATOM "(?:\\." ATOM ")*@" EMAIL_LABEL "(?:\\." EMAIL_LABEL ")+"
#define LABEL       "[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
#define HOSTNAME    LABEL "(?:\\." LABEL ")*"

#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "(?:\\." OCTET "){3}"
#define HEX   "[0-9A-Fa-f]"
#define H16   HEX "{1,4}"
#define LS32  "(?:" H16 ":" H16 "|" IPV4 ")"
/* n groups at most before the colons. */
#define UP_TO(n) "(?:(?:" H16 ":){0," #n "}" H16 ")?::"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|" UP_TO(1) "(?:" H16 ":){3}" LS32 "|" UP_TO(2) "(?:" H16 ":){2}" LS32 "|" UP_TO(3) H16       \
        ":" LS32 "|" UP_TO(4) LS32 "|" UP_TO(5) H16 "|" UP_TO(6) ")"
#define UUID HEX "{8}-(?:" HEX "{4}-){3}" HEX "{12}"

/* RFC 3986. A registered name covers IPv4 addresses. */
#define PERCENT    "%" HEX HEX
#define NAME_CHAR  "A-Za-z0-9\\-._~!$&'()*+,;="
#define PCHAR      "(?:[" NAME_CHAR ":@]|" PERCENT ")"
#define USER_INFO  "(?:(?:[" NAME_CHAR ":]|" PERCENT ")*@)?"
#define IP_LITERAL "\\[(?:" IPV6 "|[Vv]" HEX "+\\.[" NAME_CHAR ":]+)\\]"
#define AUTHORITY  USER_INFO "(?:" IP_LITERAL "|(?:[" NAME_CHAR "]|" PERCENT ")*)(?::\\d*)?"
#define SEGMENTS   "(?:/" PCHAR "*)*"
#define ABSOLUTE   "/(?:" PCHAR "+" SEGMENTS ")?"
#define AFTER_PATH "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define URI_TAIL   "(?://" AUTHORITY SEGMENTS "|" ABSOLUTE "|" PCHAR "+" SEGMENTS ")?" AFTER_PATH
#define URI        "[A-Za-z][A-Za-z0-9+\\-.]*:" URI_TAIL
#define NO_COLON   "(?:[" NAME_CHAR "@]|" PERCENT ")+"
#define RELATIVE   "(?://" AUTHORITY SEGMENTS "|" ABSOLUTE "|" NO_COLON SEGMENTS ")?" AFTER_PATH

/* RFC 6570 with its erratum 6937: an apostrophe is a literal. */
#define VAR_CHAR "(?:[A-Za-z0-9_]|" PERCENT ")"
#define VAR_SPEC VAR_CHAR "(?:\\.?" VAR_CHAR ")*(?::[1-9]\\d{0,3}|\\*)?"
#define TEMPLATE                                                                                   \
    "(?:[!#$&-;=?-\\[\\]_a-z~\\u{A0}-\\u{D7FF}\\u{E000}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}"              \
    "\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}\\u{30000}-\\u{3FFFD}\\u{40000}-\\u{4FFFD}"         \
    "\\u{50000}-\\u{5FFFD}\\u{60000}-\\u{6FFFD}\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{8FFFD}"         \
    "\\u{90000}-\\u{9FFFD}\\u{A0000}-\\u{AFFFD}\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}"         \
    "\\u{D0000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}]"      \
    "|" PERCENT "|\\{[+#./;?&=,!@|]?" VAR_SPEC "(?:," VAR_SPEC ")*\\})*"

#define POINTER "(?:/(?:[^/~]|~[01])*)*"

typedef struct {
    const char *name, *pattern;
    bool has_time; /* the text may end with a leap second instead of PLAIN_TIME */
} format;

static const format formats[] = {
    {"date", DATE, false},
    {"date-time", DATE "[Tt]", true},
    {"duration", DURATION, false},
    {"email", EMAIL, false},
    {"hostname", HOSTNAME, false},
    {"ipv4", IPV4, false},
    {"ipv6", IPV6, false},
    {"json-pointer", POINTER, false},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" POINTER ")", false},
    {"time", "", true},
    {"uri", URI, false},
    {"uri-reference", URI "|" RELATIVE, false},
    {"uri-template", TEMPLATE, false},
    {"uuid", UUID, false},
};

/* 60 seconds at hour:minute is 23:59:60 in UTC if the offset is one minute more than the time, or
 * behind UTC by what the day still has. */
static di_status add_leap_seconds(di_buf *pattern, int hour, int minute)
{
    const int ahead = (hour * 60 + minute + 1) % 1440, behind = 1439 - hour * 60 - minute;
    return di_buf_printf(pattern, "|%02d:%02d:60" FRACTION "(?:\\+%02d:%02d|-%02d:%02d)", hour,
                         minute, ahead / 60, ahead % 60, behind / 60, behind % 60);
}

static di_status write_pattern(di_buf *pattern, const format *f)
{
    DI_TRY(di_buf_puts(pattern, f->pattern));
    if (!f->has_time)
        return DI_OK;
    DI_TRY(di_buf_puts(pattern, "(?:" PLAIN_TIME "|" UTC_LEAP));
    for (int hour = 0; hour < 24; hour++) {
        DI_TRY(add_leap_seconds(pattern, hour, 29));
        DI_TRY(add_leap_seconds(pattern, hour, 59));
    }
    return di_buf_puts(pattern, ")");
}

/* As a minimal automaton: the patterns say many things twice. */
static di_status compile(di_arena *arena, di_arena *scratch, const format *f, const di_expr **out)
{
    static const di_regex_options options = {.mode = DI_REGEX_FULL};
    DI_BUF_AUTO pattern = {0};
    const di_expr *expr;
    const di_dfa *dfa;
    DI_TRY(write_pattern(&pattern, f));
    DI_TRY(di_regex_parse(scratch, di_buf_str(&pattern), pattern.len, &options, &expr));
    DI_TRY(di_dfa_from_expr(arena, expr, MAX_STATES, &dfa));
    return di_expr_from_dfa(arena, (di_expr_dfa){.dfa = dfa, .max_len = DI_REPEAT_INF}, out);
}

static const format *find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

di_status di_json_format_expr(di_arena *arena, const char *name, bool *known, const di_expr **out)
{
    const format *f = find(name);
    if (f == NULL) {
        *known = false;
        return DI_OK;
    }
    di_arena scratch = {0};
    const di_status status = compile(arena, &scratch, f, out);
    di_arena_free(&scratch);
    DI_TRY(status);
    *known = true;
    return DI_OK;
}

uint32_t di_json_format_max_len(const char *name)
{
    return strcmp(name, "hostname") == 0 ? HOSTNAME_MAX : DI_REPEAT_INF;
}
