/* A range of bytes of a text. */
#ifndef DI_CORE_TEXT_SPAN_H
#define DI_CORE_TEXT_SPAN_H

#include <stddef.h>

typedef struct di_text_span {
    size_t begin;
    size_t end; /* one past the last byte */
} di_text_span;

#endif
