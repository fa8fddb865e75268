/* The messages of a request, checked and brought to the turns that the prompt has: tool results and
 * user messages in a row become one user turn, tool results in the order of their calls. */
#ifndef DI_TEXT_ENCODING_TURNS_H
#define DI_TEXT_ENCODING_TURNS_H

#include "text/encoding_json.h"

typedef enum di_chat_role {
    DI_ROLE_SYSTEM,
    DI_ROLE_USER,
    DI_ROLE_ASSISTANT,
    DI_ROLE_TOOL, /* messages only: its turn is a user's */
    DI_ROLE_LATEST_REMINDER,
} di_chat_role;

typedef enum di_chat_part_kind {
    DI_PART_TEXT,
    DI_PART_IMAGE,
    DI_PART_TOOL_RESULT,
} di_chat_part_kind;

/* Parts of a content are joined by blank lines. */
typedef struct di_chat_part {
    di_chat_part_kind kind;
    const char *text; /* DI_PART_TEXT */
    size_t len;
    const di_jval *call_id;     /* DI_PART_TOOL_RESULT: a string, or NULL */
    struct di_chat_part *inner; /* DI_PART_TOOL_RESULT: its texts and images */
    struct di_chat_part *next;
} di_chat_part;

typedef struct di_chat_turn {
    di_chat_role role;
    size_t index;           /* of its first message, for error texts */
    const di_jval *message; /* its first message; NULL if that is a tool result */
    const di_jval *tools;   /* an array that is not empty, or NULL */
    int task;               /* index into di_chat_tasks, or -1 */
    di_chat_part *first;
    di_chat_part *last;
} di_chat_turn;

typedef struct di_chat_request {
    bool is_thinking;
    bool drops_reasoning; /* of the turns before the last user turn */
    int effort;           /* 1 .. 100 */
    di_chat_turn *turns;
    size_t n_turns; /* at least 1 */
} di_chat_request;

enum { DI_N_CHAT_TASKS = 6 };
extern const char *const di_chat_tasks[DI_N_CHAT_TASKS]; /* "action" first, ... */

/* Everything in *out lives in the arena and points into `root`. */
DI_WARN_UNUSED di_status di_chat_request_read(di_arena *arena, const di_jval *root,
                                              di_chat_request *out);

#endif
