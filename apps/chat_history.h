/* The conversation of `chat`: a chat request whose messages grow. */
#ifndef DI_APPS_CHAT_HISTORY_H
#define DI_APPS_CHAT_HISTORY_H

#include <jansson.h>

#include "app.h"

typedef struct di_history {
    json_t *request; /* {"messages": [...], and whatever a loaded file has besides, as "tools"} */
} di_history;

void di_history_init(di_history *history);
void di_history_free(di_history *history);
bool di_history_is_empty(const di_history *history); /* system messages aside */

/* False if the text is not UTF-8. */
bool di_history_add_user(di_history *history, const char *text, size_t bytes);
void di_history_add(di_history *history, json_t *message); /* takes the reference */
/* Replaces the leading system message; an empty text removes it. */
bool di_history_set_system(di_history *history, const char *text);
void di_history_clear(di_history *history); /* keeps the leading system message */
/* Removes and returns the trailing assistant message, NULL if the last one is no such. */
json_t *di_history_take_answer(di_history *history);
/* Removes the last user message and all after it; false if there is none. */
bool di_history_undo(di_history *history);

/* The request as JSON text, with the mode and effort (NULL: the default). Free with free(). */
char *di_history_request(const di_history *history, bool is_thinking, const char *effort);

di_exit di_history_save(const di_history *history, const char *path, bool is_thinking,
                        const char *effort);
/* *is_thinking and *effort (malloc'ed or NULL) are set if the file says so. On failure nothing
 * changes. */
di_exit di_history_load(di_history *history, const char *path, bool *is_thinking, char **effort);

#endif
