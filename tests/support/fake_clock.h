/* A clock that stands still until a test moves it. */
#ifndef DI_TEST_FAKE_CLOCK_H
#define DI_TEST_FAKE_CLOCK_H

#include "engine/engine.h"

typedef struct di_fake_clock {
    int64_t now_ns;
} di_fake_clock;

static inline int64_t di_fake_clock_now(void *user)
{
    return ((const di_fake_clock *)user)->now_ns;
}

/* Puts the clock into an engine that has had no request yet. */
static inline void di_fake_clock_use(di_fake_clock *clock, di_engine *engine)
{
    engine->clock = (di_clock){di_fake_clock_now, clock};
}

#endif
