/* Completion text to reasoning, content and tool calls: as it arrives, or whole and strictly. The
 * grammar, the events and what becomes of malformed text: docs/chat.md. */
#ifndef DI_TEXT_COMPLETION_H
#define DI_TEXT_COMPLETION_H

#include "base/buf.h"
#include "deepinfer/tools.h"

typedef enum di_completion_rules {
    /* For streams: never fails on text. Malformed or unfinished tool calls are given out as text; a
     * missing end of the reasoning or of the message is fine. */
    DI_COMPLETION_LENIENT,
    /* The inverse of the encoder: anything that it would not write is an error. */
    DI_COMPLETION_STRICT,
} di_completion_rules;

typedef struct di_completion_parser di_completion_parser;

DI_WARN_UNUSED di_status di_completion_parser_create(bool is_thinking, di_completion_rules rules,
                                                     di_delta_fn fn, void *user,
                                                     di_completion_parser **out);
/* Events depend on the concatenated text only, not on its cuts, but for the pieces that reasoning
 * and content come in. Work is linear in the text. Whole characters in give whole characters out.
 */
DI_WARN_UNUSED di_status di_completion_parser_push(di_completion_parser *parser, const char *text,
                                                   size_t len);
DI_WARN_UNUSED di_status di_completion_parser_finish(di_completion_parser *parser);
/* Bytes that the parser compared or searched so far: the tests hold this against the text's length.
 */
size_t di_completion_parser_work(const di_completion_parser *parser);
void di_completion_parser_free(di_completion_parser *parser);

/* Strictly parses a whole completion. Appends {"role": "assistant", "content", "reasoning_content",
 * "tool_calls"} as JSON. */
DI_WARN_UNUSED di_status di_completion_parse(const char *text, size_t len, bool is_thinking,
                                             di_buf *message_json);

#endif
