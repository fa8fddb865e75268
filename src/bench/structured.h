/* Grammars of `bench structured` when no file is named. */
#ifndef DI_BENCH_STRUCTURED_H
#define DI_BENCH_STRUCTURED_H

#include "deepinfer/tools.h"

enum { DI_BENCH_GRAMMAR_TEXTS = 3 };

typedef struct di_bench_grammar {
    const char *name;
    di_schema_type type;
    const char *schema;
    const char *texts[DI_BENCH_GRAMMAR_TEXTS]; /* all are accepted; NULL: fewer */
} di_bench_grammar;

extern const di_bench_grammar di_bench_grammars[];
extern const size_t di_n_bench_grammars;

#endif
