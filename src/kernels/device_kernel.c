#include "kernels/device_kernel.h"

#include <string.h>

bool di_device_kernel_runs_on(const di_device_kernel *kernel, int capability)
{
    return kernel->is_only_this ? capability == kernel->capability
                                : capability >= kernel->capability;
}

const di_device_kernel *di_device_kernel_select(di_op op, di_kernel_width width, bool is_invariant,
                                                int capability, const di_kernel_mask *mask)
{
    const di_device_kernel *best = NULL;
    for (int i = 0; i < di_n_device_kernels; i++) {
        const di_device_kernel *k = &di_device_kernels[i];
        if (k->op != op || !di_device_kernel_runs_on(k, capability))
            continue;
        if (mask && mask->forced[op] && strcmp(k->name, mask->forced[op]) == 0)
            return k;
        if (is_invariant && !k->is_batch_invariant)
            continue;
        if (k->width == DI_WIDTH_WIDE && (width != DI_WIDTH_WIDE || is_invariant))
            continue;
        if (!best || k->rank > best->rank)
            best = k;
    }
    return best;
}

static const di_device_kernel *find(const char *op, size_t op_len, const char *name, size_t len)
{
    for (int i = 0; i < di_n_device_kernels; i++) {
        const di_device_kernel *k = &di_device_kernels[i];
        const char *op_name = di_op_name(k->op);
        if (strlen(op_name) == op_len && memcmp(op_name, op, op_len) == 0 &&
            strlen(k->name) == len && memcmp(k->name, name, len) == 0)
            return k;
    }
    return NULL;
}

di_status di_device_mask_parse(const char *kernels, di_kernel_mask *out)
{
    di_kernel_mask mask = {.max_isa = di_cpu_isa()};
    while (kernels && *kernels) {
        const size_t len = strcspn(kernels, ",");
        const char *equals = memchr(kernels, '=', len);
        const size_t op_len = equals ? (size_t)(equals - kernels) : 0;
        const di_device_kernel *k =
            equals ? find(kernels, op_len, equals + 1, len - op_len - 1) : NULL;
        if (!k)
            return di_fail(DI_ERR_ARGUMENT,
                           "kernels: found \"%.*s\", wanted operation=kernel as `deepinfer "
                           "kernels` lists them for GPUs",
                           (int)len, kernels);
        mask.forced[k->op] = k->name;
        kernels += len + (kernels[len] == ',');
    }
    *out = mask;
    return DI_OK;
}

void di_device_kernels_print(FILE *out)
{
    static const char *const widths[] = {"any", "wide"};
    static const char *const numerics[] = {"exact", "reorder", "lowp"};
    if (di_n_device_kernels == 0)
        return;
    fprintf(out, "\n  %-18s %-10s %-10s %-5s %-8s %-9s %s\n", "on GPUs", "kernel", "capability",
            "rows", "numerics", "invariant", "rank");
    for (int i = 0; i < di_n_device_kernels; i++) {
        const di_device_kernel *k = &di_device_kernels[i];
        fprintf(out, "  %-18s %-10s %d.%d%-7s %-5s %-8s %-9s %d\n", di_op_name(k->op), k->name,
                k->capability / 10, k->capability % 10, k->is_only_this ? " only" : " up",
                widths[k->width], numerics[k->numerics], k->is_batch_invariant ? "yes" : "no",
                k->rank);
    }
}
