/* What an engine has done, as lines on stderr: --stats of run and batch. */
#ifndef DI_APPS_STATS_H
#define DI_APPS_STATS_H

#include "app.h"

void di_app_print_stats(di_engine *engine);

#endif
