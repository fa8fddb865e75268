#include "engine/outbox.h"

#include <stdlib.h>

di_status di_event_new(di_event **out)
{
    di_event *event = calloc(1, sizeof *event);
    if (!event)
        return di_fail_memory(sizeof *event, "an output");
    event->arena.chunk_bytes = 512;
    *out = event;
    return DI_OK;
}

void di_outbox_append(di_outbox *outbox, di_outbox *from)
{
    if (!from->first)
        return;
    if (outbox->last)
        outbox->last->next = from->first;
    else
        outbox->first = from->first;
    outbox->last = from->last;
    from->first = from->last = NULL;
}

di_event *di_outbox_pop(di_outbox *outbox, di_request_id id)
{
    di_event *before = NULL;
    for (di_event *e = outbox->first; e; before = e, e = e->next) {
        if (id ? e->output.id != id : e->is_private)
            continue;
        if (before)
            before->next = e->next;
        else
            outbox->first = e->next;
        if (outbox->last == e)
            outbox->last = before;
        e->next = NULL;
        return e;
    }
    return NULL;
}

void di_outbox_recycle(di_outbox *outbox, di_event *event)
{
    if (!event)
        return;
    di_arena_reset(&event->arena);
    event->next = outbox->free;
    outbox->free = event;
}

static void free_list(di_event *event)
{
    while (event) {
        di_event *next = event->next;
        di_arena_free(&event->arena);
        free(event);
        event = next;
    }
}

void di_outbox_free(di_outbox *outbox)
{
    free_list(outbox->first);
    free_list(outbox->free);
    free_list(outbox->polled);
    *outbox = (di_outbox){0};
}
