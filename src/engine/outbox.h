/* Outputs on their way from the step to whoever polls. The engine's lock guards it. */
#ifndef DI_ENGINE_OUTBOX_H
#define DI_ENGINE_OUTBOX_H

#include "base/arena.h"

typedef struct di_event di_event;
struct di_event {
    di_event *next;
    bool is_private;  /* for di_generate alone */
    di_output output; /* pointers into this event */
    int32_t token_id; /* of the one token that most events have */
    char text[44];    /* its text, if it is short */
    di_arena arena;   /* what does not fit here */
};

typedef struct di_outbox {
    di_event *first, *last;
    di_event *free;   /* emptied events, so that a warm step allocates nothing */
    di_event *polled; /* the one di_engine_poll gave out last */
} di_outbox;

DI_WARN_UNUSED di_status di_event_new(di_event **out);

/* An event to fill, off every list; its arena is empty. */
DI_WARN_UNUSED static inline di_status di_outbox_take_free(di_outbox *outbox, di_event **out)
{
    if (!outbox->free)
        return di_event_new(out);
    *out = outbox->free;
    outbox->free = (*out)->next;
    return DI_OK;
}

static inline void di_outbox_push(di_outbox *outbox, di_event *event)
{
    event->next = NULL;
    if (outbox->last)
        outbox->last->next = event;
    else
        outbox->first = event;
    outbox->last = event;
}

/* Moves all events of `from` to the end. */
void di_outbox_append(di_outbox *outbox, di_outbox *from);
/* The oldest event that is not private, or, with an id, the oldest of that request; NULL if none.
 */
di_event *di_outbox_pop(di_outbox *outbox, di_request_id id);
void di_outbox_recycle(di_outbox *outbox, di_event *event); /* NULL is fine */
void di_outbox_free(di_outbox *outbox);

#endif
