#include "base/team.h"
#include "deepinfer/tools.h"
#include "kernels/kernel.h"

di_status di_print_kernels(const di_options *options, FILE *out)
{
    di_effective_options effective;
    di_kernel_mask mask;
    DI_TRY(di_options_resolve(options, &effective));
    DI_TRY(di_kernel_mask_parse(effective.isa, effective.kernels, &mask));
    di_kernels_print(&mask, effective.is_batch_invariant, out);
    return DI_OK;
}

di_status di_print_workers(const di_options *options, FILE *out)
{
    di_effective_options effective;
    DI_TRY(di_options_resolve(options, &effective));
    return di_team_print(&effective, NULL, out);
}

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

const char *di_version(void)
{
    return VALUE_OF(DI_VERSION_MAJOR) "." VALUE_OF(DI_VERSION_MINOR) "." VALUE_OF(DI_VERSION_PATCH);
}
