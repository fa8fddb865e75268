/* Calls of tools as a grammar: the block of the chat format (docs/chat.md) and nothing else, one
 * call or more, each of a tool of a list and with arguments that its schema allows. What the
 * parser of completions (text/completion.h) reads back from it are these calls. */
#ifndef DI_GRAMMAR_TOOL_CALLS_H
#define DI_GRAMMAR_TOOL_CALLS_H

#include "grammar/json_schema.h"

/* text: a JSON object with "tools", "tool_choice" ("required", the default, or {"type": "function",
 * "function": {"name": ...}}) and "parallel_tool_calls" (default true), as in a chat request, whose
 * other members are ignored; or the array of tools alone. Adds rules. Errors and `lenient` are
 * those of di_json_schema_parse, and name the tool; is_call is implied. */
DI_WARN_UNUSED di_status di_tool_calls_parse(di_grammar_builder *builder, const char *text,
                                             size_t len, const di_json_schema_options *options,
                                             di_buf *not_enforced, uint32_t *root_rule);

#endif
