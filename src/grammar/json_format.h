/* The formats of JSON Schema's strings. */
#ifndef DI_GRAMMAR_JSON_FORMAT_H
#define DI_GRAMMAR_JSON_FORMAT_H

#include "grammar/expr.h"

/* The content of a string of that format, as code points without quotes and escapes:
 *   date, time, date-time  RFC 3339; days of months and leap years are exact; a leap second only
 *                          where the time in UTC is 23:59, with offsets of whole or half hours
 *   duration               RFC 3339, appendix A
 *   email                  RFC 5321 without quoted local parts and address literals; the domain
 *                          has at least two labels
 *   hostname               RFC 1123 in ASCII; without its limit, see di_json_format_max_len
 *   ipv4, ipv6             RFC 2673, RFC 4291 without zones
 *   uuid                   RFC 4122
 *   uri, uri-reference     RFC 3986
 *   uri-template           RFC 6570
 *   json-pointer, relative-json-pointer
 * *known is false for every other format. */
DI_WARN_UNUSED di_status di_json_format_expr(di_arena *arena, const char *name, bool *known,
                                             const di_expr **out);

/* Most code points of a text of the format where the expression does not say so (253 for hostname),
 * else DI_REPEAT_INF. */
uint32_t di_json_format_max_len(const char *name);

#endif
