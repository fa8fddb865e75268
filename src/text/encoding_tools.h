/* The tool section of a system message and the tool calls of an answer. */
#ifndef DI_TEXT_ENCODING_TOOLS_H
#define DI_TEXT_ENCODING_TOOLS_H

#include "text/encoding.h"
#include "text/encoding_json.h"

/* Tag names of the DSML markup; the space is part of them. */
#define DI_DSML_CALLS     DI_CHAT_DSML " calls"
#define DI_DSML_INVOKE    DI_CHAT_DSML " invoke"
#define DI_DSML_PARAMETER DI_CHAT_DSML " parameter"

/* Appends to the prompt: text of the template, or text of a user, tool or model (a content span).
 */
DI_WARN_UNUSED di_status di_chat_put_template(di_chat_prompt *prompt, const char *text);
DI_WARN_UNUSED di_status di_chat_put_content(di_chat_prompt *prompt, const char *text, size_t len);

/* tools: an array that is not empty; where: its name in error texts. */
DI_WARN_UNUSED di_status di_chat_write_tools(const di_jval *tools, const char *where,
                                             di_chat_prompt *prompt);
/* calls: an array that is not empty. Starts with the blank line before the block. */
DI_WARN_UNUSED di_status di_chat_write_calls(const di_jval *calls, const char *where,
                                             di_chat_prompt *prompt);

/* A tool of a request: its function object, and its name behind its namespace ("space::name"),
 * appended to `name`: what calls of it are written with. */
DI_WARN_UNUSED di_status di_chat_tool_name(const di_jval *tool, const char *where,
                                           const di_jval **function, di_buf *name);

/* "space::name" split at its "::"; *space_len is 0 without one. Neither part may hold another. */
DI_WARN_UNUSED di_status di_tool_name_split(const char *name, size_t len, const char *where,
                                            size_t *space_len, size_t *name_begin);

#endif
