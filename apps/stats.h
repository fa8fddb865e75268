/* What an engine has done, as lines on stderr: --stats of run and batch, /stats of chat. */
#ifndef DI_APPS_STATS_H
#define DI_APPS_STATS_H

#include "app.h"

void di_app_print_stats(di_engine *engine);
/* The part about drafts; nothing without. */
void di_app_print_draft_stats(di_engine *engine);

#endif
