/* Chat messages to prompt text, as the encoder that ships with the checkpoint does it. The format,
 * the fields of a request and the few places where a request is refused that the reference takes:
 * docs/chat.md. */
#ifndef DI_TEXT_ENCODING_H
#define DI_TEXT_ENCODING_H

#include <jansson.h>

#include "base/buf.h"
#include "core/text_span.h"

#define DI_CHAT_BOS   "<｜begin▁of▁sentence｜>"
#define DI_CHAT_EOS   "<｜end▁of▁sentence｜>"
#define DI_CHAT_DSML  "｜DSML｜"
#define DI_CHAT_IMAGE "<｜deepseek_image｜>"

#define DI_CHAT_THINK     "<think>"
#define DI_CHAT_THINK_END "</think>"

typedef struct di_chat_prompt {
    di_buf text;
    /* Where the text is not the template's own: what users, tools, the system and earlier answers
     * wrote, tool names, schemas and arguments. Special tokens must not be recognised in there.
     * Sorted, template text between them, none empty. */
    di_text_span *content;
    size_t n_content;
    size_t content_cap;
    int n_images; /* image placeholders in the text, in the order of the image blocks */
} di_chat_prompt;

/* request: an array of messages, or an object {"messages": [...], "thinking_mode": ...}. *out
 * starts zeroed; it owns memory only on success: di_chat_prompt_free. */
DI_WARN_UNUSED di_status di_chat_render_text(const char *request, size_t len, di_chat_prompt *out);
/* The same for a parsed request. Integers beyond 64 bits did not survive that parsing: prefer the
 * text where there is one. */
DI_WARN_UNUSED di_status di_chat_render(const json_t *request, di_chat_prompt *out);
void di_chat_prompt_free(di_chat_prompt *prompt);

/* "chat" (false) or "thinking" (true). */
DI_WARN_UNUSED di_status di_chat_mode_parse(const char *thinking_mode, bool *is_thinking);

#endif
