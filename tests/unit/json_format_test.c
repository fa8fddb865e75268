/* Formats of strings: texts that belong to them and texts that do not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/dfa.h"
#include "grammar/json_format.h"

enum { MOST_TEXTS = 40, MAX_STATES = 10000 };

typedef struct {
    const char *name, *yes[MOST_TEXTS], *no[MOST_TEXTS];
} format_row;

#define LABEL_63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"

static const format_row rows[] = {
    {"date",
     {"2022-01-01", "2024-12-31", "2024-02-29", "2000-02-29", "2023-04-30", "0000-02-29",
      "2023-01-31", "2023-02-28", "1996-02-29"},
     {"",           "2022-06-32", "2022-02-31", "2020-01-01T00:00:00Z", "not a date",
      "2023-01-",   "2024-02-30", "1990-13-32", "2024/12/31",           "2023-02-29",
      "1900-02-29", "2100-02-29", "2023-04-31", "2023-00-10",           "2023-10-00",
      "23-10-10",   "2023-1-01",  "2023-01-1",  "2022-02-29",           "1963-06-1\xe0\xa7\xaa"}},
    {"time",
     {"12:00:00Z", "23:59:59+05:30", "00:00:00.123Z", "08:30:06-08:00", "08:30:06Z",
      "23:59:60+00:00", "01:29:60+01:30", "23:29:60+23:30", "15:59:60-08:00", "00:29:60-23:30",
      "23:20:50.52Z", "08:30:06.283185Z", "08:30:06+00:20", "12:34:56-00:00", "08:30:06z",
      "23:59:60Z", "23:59:60.5z", "00:59:60+01:00", "05:29:60.25+05:30"},
     {"24:00:00Z",
      "12:60:00Z",
      "12:00",
      "12:00:00+25:00",
      "noon",
      "",
      "12:00:61Z",
      "008:030:006Z",
      "8:3:6Z",
      "8:0030:6Z",
      "22:59:60Z",
      "23:58:60Z",
      "22:59:60+00:00",
      "23:58:60+00:00",
      "23:59:60+01:00",
      "23:59:60+00:30",
      "23:59:60-01:00",
      "23:59:60-00:30",
      "08:30:06-8:000",
      "00:60:00Z",
      "00:00:61Z",
      "01:02:03+24:00",
      "01:02:03+00:60",
      "01:02:03Z+00:30",
      "08:30:06 PST",
      "01:01:01,1111",
      "12:00:00.52",
      "1\xe0\xa7\xa8:00:00Z",
      "08:30:06#00:20",
      "ab:cd:ef",
      "2020-11-28T23:55:45Z",
      "12:00:00.Z",
      "12:00:60Z",
      "12:00:00"}},
    {"date-time",
     {"2024-02-29T12:34:56Z", "2024-01-01T00:00:00.5+01:00", "1990-12-31T15:59:59-08:00",
      "1963-06-19T08:30:06.283185Z", "1963-06-19T08:30:06Z", "1937-01-01T12:00:27.87+00:20",
      "1990-12-31T15:59:50.123-08:00", "1998-12-31T23:59:60Z", "1998-12-31T15:59:60.123-08:00",
      "1963-06-19t08:30:06.283185z", "1985-04-12T00:59:59.999999999999999Z"},
     {"2024-02-29",
      "12:00:00Z",
      "2024-13-01T00:00:00Z",
      "2024-01-01T25:00:00Z",
      "2024-01-01T00:00:00+1:00",
      "2024-01-01T00:00Z",
      "",
      "20240101T000000Z",
      "1998-12-31T23:59:61Z",
      "1998-12-31T23:58:60Z",
      "1998-12-31T22:59:60Z",
      "1990-02-31T15:59:59.123-08:00",
      "1990-12-31T15:59:59-24:00",
      "1963-06-19T08:30:06.28123+01:00Z",
      "1990-12-31T24:00:00Z",
      "1990-12-31T15:60:00Z",
      "1990-12-31T10:00:00+10:60",
      "06/19/1963 08:30:06 PST",
      "2013-350T01:01:01",
      "1963-6-19T08:30:06.283185Z",
      "1963-06-1T08:30:06.283185Z",
      "1963-06-1\xe0\xa7\xaaT00:00:00Z",
      "1963-06-11T0\xe0\xa7\xaa:00:00Z",
      "+11963-06-19T08:30:06.283185Z",
      "1985-04-12T23:20:50Z\n",
      "2024-01-01T00:00:00",
      "1985-04-12T23:20:50+01",
      "2016-12-31T24:59:60+01:00",
      "2023-02-29T00:00:00Z"}},
    {"duration",
     {"P1D",
      "PT1H30M",
      "P1Y2M3DT4H5M6S",
      "P4W",
      "PT36H",
      "P4DT12H30M5S",
      "P4Y",
      "PT0S",
      "P0D",
      "P1M",
      "PT1M",
      "P1DT12H",
      "P2W",
      "P1Y2M3D",
      "PT1H2M3S",
      "P1M2D",
      "P10Y10M10DT10H10M10S",
      "P1Y2M",
      "PT1H2M",
      "PT1M2S",
      "P01D",
      "P99999999999999999999999999999999999999999D"},
     {"1D",    "P",           "PT",    "P1H",    "PT1D",  "",        "P1Y2W",
      "P-1D",  "4DT12H30M5S", "P1YT",  "P2D1Y",  "P1D2H", "P2S",     "P\xe0\xa7\xa8Y",
      "P1",    "PT0.5S",      " P1D",  "P1D ",   "-P1D",  "P1D2T3H", "P1e2D",
      "P1D\n", "P1WT1H",      "P0Y1W", "PT0,5S", "P1Y2D", "PT1H2S"}},
    {"email",
     {"a@b.co", "first.last@example.com", "user+tag@sub.example.org", "x_y-z@a-b.com",
      "joe.bloggs@example.com", "te~st@example.com", "~test@example.com", "test~@example.com",
      "te.s.t@example.com", "a@xn--9n2bp8q.com"},
     {"plain",
      "@b.co",
      "a@",
      "a b@c.com",
      "a@b c.com",
      "",
      "a@@b.com",
      "a.@b.com",
      "2962",
      ".test@example.com",
      "test.@example.com",
      "te..st@example.com",
      "joe.bloggs@invalid=domain.com",
      "joe.bloggs@[127.0.0.300]",
      "user1@oceania.org, user2@oceania.org",
      "\"Winston Smith\" <winston.smith@recdep.minitrue> (Records Department)",
      "@example.com",
      "joe.bloggs@",
      "joe bloggs@example.com",
      "a@b..com",
      "a@-b.com",
      "a@b-.com",
      "a@b"}},
    {"hostname",
     {"example.com", "a", "sub-domain.example.org", "h1.x2", "www.example.com", "hostname",
      "h0stn4me", "1host", "hostnam3", "host-name", LABEL_63 ".com", "a--b.com", "EXAMPLE.com",
      "xn--9n2bp8q.xn--9t4b11yi5a", "localhost"},
     {"", "-a.com", "a-.com", "a..b", "a b", "a_b.com", ".com", ".", ".example",
      "example\xef\xbc\x8e"
      "com",
      "-hostname", "hostname-", "host_name", LABEL_63 "l.com", "example.com\n",
      "\xe2\x84\xaa"
      "elvin.example.com",
      "not a valid hostname", "example."}},
    {"ipv4",
     {"127.0.0.1", "0.0.0.0", "255.255.255.255", "192.168.10.249"},
     {"", "256.1.1.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.04", "0x7f.0.0.1", "127.0.0.1\n",
      "1.2.3.4/24", "localhost", "1.2.3.\xe0\xa7\xa8", "1..2.3"}},
    {"ipv6",
     {"::1", "::", "::abef", "1:2:3:4:5:6:7:8", "2001:db8::7", "1::d6:192.168.0.1",
      "1:2::192.168.0.1", "::ffff:192.168.0.1", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8",
      "1::2:3:4:5:6:7", "1000:1000:1000:1000:1000:1000:255.255.255.255", "FE80::aBcD"},
     {"",
      ":",
      "12345::",
      "1:1:1:1:1:1:1:1:1",
      "::laptop",
      ":2:3:4:5:6:7:8",
      "1:2:3:4:5:6:7:",
      ":2:3:4::8",
      "1::d6::42",
      "1::2:192.168.256.1",
      "1::2:192.168.ff.1",
      "::ffff:192.168.0.1.2",
      "1:2:3:4:5:::8",
      "1:2:3:4:5:6:7",
      "1",
      "127.0.0.1",
      "1:2:3:4:1.2.3",
      "  ::1",
      "::1 ",
      "fe80::/64",
      "fe80::a%eth1",
      "1:2:3:4:5:6:7::8",
      "100:100:100:100:100:100:255.255.255.255.255"}},
    {"uuid",
     {"01234567-89ab-cdef-0123-456789abcdef", "123E4567-E89B-12D3-A456-426614174000",
      "00000000-0000-0000-0000-000000000000"},
     {"", "not a uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380",
      "2eb8aa08-aa98-11ea-b4ga-73b441d16380", "2eb8aa08-aa98-11ea-b4aa73b441d16380",
      "{01234567-89ab-cdef-0123-456789abcdef}"}},
    {"uri",
     {"https://example.com/landing",
      "irc://example.com/channel",
      "ftp://foo.bar/only",
      "http://foo.bar/?baz=qux#quux",
      "http://foo.com/blah_(wikipedia)_blah#cite-1",
      "http://foo.bar/?q=Test%20URL-encoded%20stuff",
      "http://xn--nw2a.xn--j6w193g/",
      "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com",
      "http://223.255.255.254",
      "ftp://ftp.is.co.za/rfc/rfc1808.txt",
      "ldap://[2001:db8::7]/c=GB?objectClass?one",
      "mailto:John.Doe@example.com",
      "news:comp.infosystems.www.servers.unix",
      "tel:+1-816-555-1",
      "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
      "http://[v1.fe:d]:80/",
      "a:",
      "https://example.com:8080",
      "file:///etc/hosts",
      "a:/",
      "http://a?b?c/d"},
     {"",
      "not-a-uri",
      "not a url",
      "//foo.bar/?baz=qux#quux",
      "/abs-path",
      "\\\\WINDOWS\\share",
      "abc",
      "http:// shouldfail.com",
      ":// should fail",
      "bar,baz:foo",
      "https://[@example.org/test.txt",
      "https://example.org/foobar\\.txt",
      "https://example.org/foobar<>.txt",
      "https://example.org/foobar{}.txt",
      "https://example.org/foobar^.txt",
      "https://example.org/foobar`.txt",
      "https://example.org/foo bar.txt",
      "https://example.org/foobar|.txt",
      "https://example.org/foobar\".txt",
      "http://a/%",
      "http://a/%4",
      "http://a/%zz",
      "http://a:b",
      "http://[::g]/",
      "1a:b",
      "http://a#b#c",
      " invalid uri",
      "http://\xc3\xa4/"}},
    {"uri-reference",
     {"http://foo.bar/?baz=qux#quux", "//foo.bar/?baz=qux#quux", "/abs-path", "abc", "#fragment",
      "", "../a", "?q", "./a:b", "//[::1]:1/"},
     {"\\\\WINDOWS\\fileshare", "#frag\\ment",
      "unescaped\xe2\x88\x82"
      "\xf0\x9f\x98\x8e.txt",
      "1a:b", "a b", "%"}},
    {"uri-template",
     {"http://example.com/dictionary/{term:1}/{term}", "http://example.com/dictionary",
      "dictionary/{term:1}/{term}", "", "{?x,y*}", "{+path}/here", "{a.b%20c}", "a%20b", "a'b",
      "\xc3\xa4", "{/list*,path:4}"},
     {"http://example.com/dictionary/{term:1}/{term", "http://example.com/resource/{", "}", "{}",
      "a b", "{a b}", "{a:0}", "{a:10000}", "{a..b}", "{.}", "%2", "{a,}", "<"}},
    {"json-pointer",
     {"/foo/bar~0/baz~1/%a",
      "/foo//bar",
      "/foo/bar/",
      "",
      "/foo",
      "/foo/0",
      "/",
      "/a~1b",
      "/c%d",
      "/e^f",
      "/g|h",
      "/i\\j",
      "/k\"l",
      "/ ",
      "/m~0n",
      "/foo/-",
      "/foo/-/bar",
      "/~1~0~0~1~1",
      "/~1.1",
      "/~0.1",
      "/foo/bar/\xf0\x9f\x98\x8e",
      "/foo\001bar\n\tbaz"},
     {"/foo/bar~", "#", "#/", "#a", "/~0~", "/~0/~", "/~2", "/~-1", "/~~", "a", "0", "a/a"}},
    {"relative-json-pointer",
     {"1", "0/foo/bar", "2/0/baz/1/zip", "0#", "120/foo/bar", "0"},
     {"", "/foo/bar", "-1/foo/bar", "+1/foo/bar", "0##", "01/a", "01#", "0a", "1\xe0\xa7\xa8"}},
};

static const di_dfa *compile(di_arena *arena, const char *name)
{
    bool known = false;
    const di_expr *expr;
    const di_dfa *dfa;
    if (di_json_format_expr(arena, name, &known, &expr) != DI_OK)
        fail_msg("%s: %s", name, di_last_error());
    assert_true(known);
    assert_int_equal(di_dfa_from_expr(arena, expr, MAX_STATES, &dfa), DI_OK);
    return dfa;
}

static void texts(void **state)
{
    (void)state;
    di_arena arena = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const di_dfa *dfa = compile(&arena, rows[i].name);
        for (int k = 0; k < MOST_TEXTS && rows[i].yes[k] != NULL; k++)
            if (!di_dfa_matches(dfa, rows[i].yes[k], strlen(rows[i].yes[k])))
                fail_msg("%s: wanted %s", rows[i].name, rows[i].yes[k]);
        for (int k = 0; k < MOST_TEXTS && rows[i].no[k] != NULL; k++)
            if (di_dfa_matches(dfa, rows[i].no[k], strlen(rows[i].no[k])))
                fail_msg("%s: not wanted: %s", rows[i].name, rows[i].no[k]);
    }
    di_arena_free(&arena);
}

/* Every date of some years, by a calendar that counts. */
static void calendar(void **state)
{
    (void)state;
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const int years[] = {0, 4, 100, 400, 1900, 1999, 2000, 2022, 2024, 2096, 2100, 9996};
    di_arena arena = {0};
    char text[32];
    const di_dfa *dfa = compile(&arena, "date");
    for (size_t i = 0; i < sizeof years / sizeof years[0]; i++) {
        const int year = years[i];
        const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        for (int month = 0; month <= 13; month++) {
            for (int day = 0; day <= 32; day++) {
                const int n = snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                const bool wanted = month >= 1 && month <= 12 && day >= 1 &&
                                    day <= days[month - 1] + (month == 2 && is_leap);
                assert_int_equal(di_dfa_matches(dfa, text, (size_t)n), wanted);
            }
        }
    }
    di_arena_free(&arena);
}

/* Second 60 at every minute of a day, with every offset of half hours. */
static void leap_seconds(void **state)
{
    (void)state;
    di_arena arena = {0};
    char text[32];
    const di_dfa *dfa = compile(&arena, "time");
    for (int minute = 0; minute < 1440; minute++) {
        for (int offset = -1410; offset <= 1410; offset += 30) {
            const int n =
                snprintf(text, sizeof text, "%02d:%02d:60%c%02d:%02d", minute / 60, minute % 60,
                         offset < 0 ? '-' : '+', abs(offset) / 60, abs(offset) % 60);
            const bool wanted = (minute - offset + 2880) % 1440 == 1439;
            assert_int_equal(di_dfa_matches(dfa, text, (size_t)n), wanted);
        }
    }
    di_arena_free(&arena);
}

static void names(void **state)
{
    (void)state;
    static const char *const unknown[] = {"", "regex", "iri", "idn-email", "Date", "x-none"};
    di_arena arena = {0};
    const di_expr *expr;
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        bool known = true;
        assert_int_equal(di_json_format_expr(&arena, unknown[i], &known, &expr), DI_OK);
        assert_false(known);
    }
    assert_int_equal(di_json_format_max_len("hostname"), 253);
    assert_int_equal(di_json_format_max_len("uri"), DI_REPEAT_INF);
    di_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(calendar),
        cmocka_unit_test(leap_seconds),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
