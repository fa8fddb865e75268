/* Parts of the regex front end (grammar/regex.h); for nobody else.
 *
 * An item is a parsed piece of a pattern. Without anchors it is an expression at once. With `^` or
 * `$` inside, what it matches depends on where it stands: it becomes a tree of nodes, which is
 * asked for the texts it matches if its left end is the start of the text (or is not), and its
 * right end the end of the text (or is not). Every pattern has an exact answer. */
#ifndef DI_GRAMMAR_REGEX_PARTS_H
#define DI_GRAMMAR_REGEX_PARTS_H

#include "grammar/regex.h"

typedef struct di_regex_node di_regex_node;

/* size: nodes of the expression written out as a tree; bounds what shared nodes can blow up to. */
typedef struct di_regex_text {
    const di_expr *expr;
    uint64_t size;
} di_regex_text;

typedef struct di_regex_item {
    di_regex_text plain; /* if node is NULL */
    bool is_nullable;    /* plain: matches the empty text */
    di_regex_node *node;
} di_regex_item;

di_regex_item di_regex_item_plain(const di_expr *expr);
DI_WARN_UNUSED di_status di_regex_item_anchor(di_arena *arena, bool is_end, di_regex_item *out);
DI_WARN_UNUSED di_status di_regex_item_seq(di_arena *arena, const di_regex_item *items, size_t n,
                                           di_regex_item *out);
DI_WARN_UNUSED di_status di_regex_item_alt(di_arena *arena, const di_regex_item *items, size_t n,
                                           di_regex_item *out);
DI_WARN_UNUSED di_status di_regex_item_repeat(di_arena *arena, di_regex_item body, uint32_t min,
                                              uint32_t max, di_regex_item *out);
/* The texts that the whole pattern matches. */
DI_WARN_UNUSED di_status di_regex_item_language(di_arena *arena, di_regex_item item,
                                                di_regex_mode mode, const di_expr **out);

/* Name of a group. Hidden: it belongs to another alternative than the one being parsed, where the
 * same name may occur again. */
typedef struct di_regex_name {
    size_t at, len; /* code points of the pattern */
    bool is_hidden;
} di_regex_name;

typedef struct di_regex_parser {
    di_arena *arena;
    const uint32_t *code; /* [n], the pattern's code points */
    size_t n, at;
    uint32_t depth, max_depth;
    bool ignore_case, dot_is_no_newline; /* as the flags around say */
    di_regex_item *stack;                /* items of all open groups; owned */
    size_t n_stack, stack_cap;
    di_regex_name *names; /* owned */
    size_t n_names, names_cap;
    di_charset_builder builder;
    size_t n_ranges; /* of all sets so far */
} di_regex_parser;

/* The next code point; UINT32_MAX at the end. */
uint32_t di_regex_peek(const di_regex_parser *p);
bool di_regex_take(di_regex_parser *p, uint32_t code);
/* What stands at a position, for an error text. */
const char *di_regex_found(const di_regex_parser *p, size_t at, char buf[static 32]);
/* Fails with DI_ERR_INPUT: what is at p->at, and `wanted`. */
DI_WARN_UNUSED di_status di_regex_unexpected(const di_regex_parser *p, const char *wanted);
#define DI_REGEX_FAIL(code, at, fmt, ...)                                                          \
    di_fail((code), "regular expression, position %zu: " fmt, (at)__VA_OPT__(, ) __VA_ARGS__)

/* Counts the ranges of one set more: short patterns (\p{L}\p{L}...) can name large sets. */
DI_WARN_UNUSED di_status di_regex_charge(di_regex_parser *p, di_charset set);

/* After a backslash, whose position is `start`: the set that the escape stands for, and its only
 * member, UINT32_MAX if it is a set such as \d. in_class: \b is a backspace, \- a dash. */
DI_WARN_UNUSED di_status di_regex_escape(di_regex_parser *p, size_t start, bool in_class,
                                         di_charset *set, uint32_t *code);
/* After `[`: through `]`. */
DI_WARN_UNUSED di_status di_regex_class(di_regex_parser *p, di_charset *out);
/* With ignore_case: also everything that differs in case only. */
DI_WARN_UNUSED di_status di_regex_fold(di_regex_parser *p, di_charset set, di_charset *out);

#endif
