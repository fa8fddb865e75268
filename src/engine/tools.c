#include "base/team.h"
#include "deepinfer/tools.h"
#include "device/device.h"
#include "kernels/device_kernel.h"

di_status di_print_kernels(const di_options *options, FILE *out)
{
    di_effective_options effective;
    di_kernel_mask mask;
    DI_TRY(di_options_resolve(options, &effective));
    DI_TRY(di_kernel_mask_parse(effective.isa, effective.kernels, &mask));
    di_kernels_print(&mask, effective.is_batch_invariant, out);
    di_device_kernels_print(out);
    return DI_OK;
}

di_status di_print_devices(FILE *out)
{
    int n;
    DI_TRY(di_device_count(&n));
    if (n == 0)
        return di_fail(DI_ERR_UNSUPPORTED, "found an NVIDIA driver and no GPU");
    for (int i = 0; i < n; i++) {
        di_device_info d;
        DI_TRY(di_device_describe(i, &d));
        fprintf(out, "cuda:%d  %s, compute capability %d.%d, %d processors, %.1f GiB, L2 %.0f MiB",
                i, d.name, d.capability / 10, d.capability % 10, d.n_processors,
                (double)d.memory_bytes / 0x1p30, (double)d.l2_bytes / 0x1p20);
        if (d.refusal[0])
            fprintf(out, "; cannot be used: %s\n", d.refusal);
        else
            fprintf(out, ", %.1f GiB free\n", (double)d.free_bytes / 0x1p30);
    }
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
