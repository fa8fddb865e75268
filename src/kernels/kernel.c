#include "kernels/kernel.h"

#include <string.h>

#include "base/buf.h"
#include "kernels/all.h"

const di_kernel di_kernels[] = {
#define DI_KERNEL(op, target, isa, width, layout, numerics, order, invariant, rank)                \
    {DI_OP_##op,                                                                                   \
     #target,                                                                                      \
     DI_ISA_##isa,                                                                                 \
     DI_WIDTH_##width,                                                                             \
     DI_LAYOUT_##layout,                                                                           \
     DI_NUMERICS_##numerics,                                                                       \
     DI_ORDER_##order,                                                                             \
     invariant,                                                                                    \
     rank,                                                                                         \
     di_##op##_##target},
#include "kernels/kernels.def"
#undef DI_KERNEL
};
const int di_n_kernels = sizeof di_kernels / sizeof di_kernels[0];

static const char *const op_names[DI_N_OPS] = {
#define DI_OP(op) #op,
#include "kernels/ops.def"
#undef DI_OP
};

static const char *const width_names[] = {"any", "wide"};
static const char *const numerics_names[] = {"exact", "reorder", "lowp"};
static const char *const order_names[] = {"-", "lanes16", "blocks32", "tensor32"};

const char *di_op_name(di_op op)
{
    return op_names[op];
}

bool di_kernel_is_usable(const di_kernel *kernel)
{
    return di_isa_includes(di_cpu_isa(), kernel->isa);
}

static bool name_equals(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

static di_status parse_isa(const char *text, di_isa *out)
{
    DI_BUF_AUTO known = {0};
    for (int i = 0; i <= (int)di_cpu_isa(); i++) {
        if (!di_isa_is_built((di_isa)i) || !di_isa_includes(di_cpu_isa(), (di_isa)i))
            continue;
        if (strcmp(di_isa_name((di_isa)i), text) == 0) {
            *out = (di_isa)i;
            return DI_OK;
        }
        DI_TRY(di_buf_printf(&known, "%s%s", i ? ", " : "", di_isa_name((di_isa)i)));
    }
    return di_fail(DI_ERR_ARGUMENT, "isa: found \"%s\", wanted one of this machine's: %s", text,
                   di_buf_str(&known));
}

static di_status find_op(const char *text, size_t len, di_op *out)
{
    for (int i = 0; i < DI_N_OPS; i++) {
        if (name_equals(op_names[i], text, len)) {
            *out = (di_op)i;
            return DI_OK;
        }
    }
    return di_fail(
        DI_ERR_ARGUMENT,
        "kernels: found operation \"%.*s\", wanted one of those `deepinfer kernels` lists",
        (int)len, text);
}

static di_status find_kernel_name(di_op op, const char *text, size_t len, const char **out)
{
    DI_BUF_AUTO known = {0};
    for (int i = 0; i < di_n_kernels; i++) {
        if (di_kernels[i].op != op || !di_kernel_is_usable(&di_kernels[i]))
            continue;
        if (name_equals(di_kernels[i].name, text, len)) {
            *out = di_kernels[i].name;
            return DI_OK;
        }
        DI_TRY(di_buf_printf(&known, "%s%s", known.len ? ", " : "", di_kernels[i].name));
    }
    return di_fail(DI_ERR_ARGUMENT,
                   "kernels: %s: found kernel \"%.*s\", wanted one of this machine's: %s",
                   op_names[op], (int)len, text, di_buf_str(&known));
}

static di_status parse_forced(const char *text, di_kernel_mask *mask)
{
    while (*text) {
        const size_t len = strcspn(text, ",");
        const char *equals = memchr(text, '=', len);
        if (!equals)
            return di_fail(DI_ERR_ARGUMENT, "kernels: found \"%.*s\", wanted operation=kernel",
                           (int)len, text);
        di_op op;
        DI_TRY(find_op(text, (size_t)(equals - text), &op));
        DI_TRY(
            find_kernel_name(op, equals + 1, (size_t)(text + len - equals - 1), &mask->forced[op]));
        text += len + (text[len] == ',');
    }
    return DI_OK;
}

di_status di_kernel_mask_parse(const char *isa, const char *kernels, di_kernel_mask *out)
{
    di_kernel_mask mask = {.max_isa = di_cpu_isa()};
    if (isa && strcmp(isa, "best") != 0)
        DI_TRY(parse_isa(isa, &mask.max_isa));
    if (kernels)
        DI_TRY(parse_forced(kernels, &mask));
    *out = mask;
    return DI_OK;
}

const di_kernel *di_kernel_select(di_op op, di_kernel_width width, bool is_invariant,
                                  const di_kernel_mask *mask)
{
    const di_kernel *best = NULL;
    for (int i = 0; i < di_n_kernels; i++) {
        const di_kernel *k = &di_kernels[i];
        if (k->op != op)
            continue;
        if (mask->forced[op] && strcmp(k->name, mask->forced[op]) == 0)
            return k;
        if (!di_isa_includes(mask->max_isa, k->isa) || (is_invariant && !k->is_batch_invariant))
            continue;
        if (k->width == DI_WIDTH_WIDE && (width != DI_WIDTH_WIDE || is_invariant))
            continue;
        if (!best || k->rank > best->rank)
            best = k;
    }
    return best;
}

void di_kernels_print(const di_kernel_mask *mask, bool is_invariant, FILE *out)
{
    fprintf(out, "  %-18s %-10s %-10s %-5s %-8s %-8s %-9s %s\n", "operation", "kernel", "isa",
            "rows", "numerics", "order", "invariant", "rank");
    for (int op = 0; op < DI_N_OPS; op++) {
        const di_kernel *any = di_kernel_select((di_op)op, DI_WIDTH_ANY, is_invariant, mask);
        const di_kernel *wide = di_kernel_select((di_op)op, DI_WIDTH_WIDE, is_invariant, mask);
        for (int i = 0; i < di_n_kernels; i++) {
            const di_kernel *k = &di_kernels[i];
            if (k->op == (di_op)op)
                fprintf(out, "%c %-18s %-10s %-10s %-5s %-8s %-8s %-9s %d\n",
                        k == any || k == wide ? '*' : ' ', op_names[op], k->name,
                        di_isa_name(k->isa), width_names[k->width], numerics_names[k->numerics],
                        order_names[k->order], k->is_batch_invariant ? "yes" : "no", k->rank);
        }
    }
}
