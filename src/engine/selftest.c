#include "engine/selftest.h"

#include "base/checked.h"
#include "engine/engine.h"

/* Tokens of the longest request: the options' limit or the model's, but no more than that. */
enum { CONTEXT = 256 };

static di_status run_checks(di_selftest *self)
{
    int n_failed = 0;
    DI_TRY(di_st_prepare(self));
    for (int i = 0; i < di_n_st_checks; i++) {
        self->what[0] = self->finding[0] = '\0';
        DI_TRY(di_st_checks[i].run(self));
        const bool has_failed = self->finding[0] != '\0';
        n_failed += has_failed;
        fprintf(self->out, "%-6s  %-12s  %s%s%s\n", has_failed ? "FAILED" : "ok",
                di_st_checks[i].name, self->what, has_failed ? ": " : "", self->finding);
        fflush(self->out);
    }
    if (n_failed == 0) {
        fprintf(self->out, "all %d checks passed (seed %llu)\n", di_n_st_checks,
                (unsigned long long)self->seed);
        return DI_OK;
    }
    fprintf(self->out, "%d of %d checks failed (seed %llu)\n", n_failed, di_n_st_checks,
            (unsigned long long)self->seed);
    return di_fail(DI_ERR_RUNTIME, "selftest: %d of %d checks failed", n_failed, di_n_st_checks);
}

di_status di_selftest_with(di_model *model, const di_options *options,
                           const di_selftest_options *selftest, const di_kernel *const *kernels,
                           FILE *out)
{
    static const di_selftest_options defaults = {.is_full = false};
    if (!model || !out)
        return di_fail(DI_ERR_ARGUMENT, "di_selftest_run: model and out must not be NULL");
    di_selftest self = {
        .model = model, .wanted = selftest ? selftest : &defaults, .kernels = kernels, .out = out};
    di_effective_options effective;
    DI_TRY(di_options_resolve(options, &effective));
    if (options)
        self.options = *options;
    self.seed = self.wanted->seed ? self.wanted->seed : 1;
    di_pcg64_seed(&self.rng, self.seed);
    const int64_t limit =
        effective.max_context_len ? effective.max_context_len : di_model_max_context(model);
    self.context_len = di_min_i64(limit, CONTEXT);
    const di_status status = run_checks(&self);
    di_st_results_free(&self.alone);
    di_arena_free(&self.arena);
    return status;
}

di_status di_selftest_run(di_model *model, const di_options *options,
                          const di_selftest_options *selftest, FILE *out)
{
    return di_selftest_with(model, options, selftest, NULL, out);
}
