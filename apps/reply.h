/* A chat completion as it arrives: shown with the thinking apart, and collected as a message. */
#ifndef DI_APPS_REPLY_H
#define DI_APPS_REPLY_H

#include <jansson.h>

#include "app.h"

typedef struct di_reply di_reply;

/* is_shown: print on stdout, thinking dimmed on a terminal and between <think> lines elsewhere. */
di_exit di_reply_open(bool is_thinking, bool is_shown, di_reply **out);
/* Next piece of the completion's text. */
di_exit di_reply_push(di_reply *reply, const char *text, size_t bytes);
/* Ends the completion: *message is a new {"role": "assistant", "content", ...}. */
di_exit di_reply_finish(di_reply *reply, json_t **message);
void di_reply_close(di_reply *reply);

#endif
