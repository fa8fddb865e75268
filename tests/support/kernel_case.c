#include "kernel_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/options.h"
#include "compare.h"

di_kernel_case di_case_new(di_op op, const char *fmt, ...)
{
    di_kernel_case c = {.op = op};
    va_list args;
    va_start(args, fmt);
    vsnprintf(c.what, sizeof c.what, fmt, args);
    va_end(args);
    c.rng = di_rng_named(c.what);
    return c;
}

void di_case_free(di_kernel_case *c)
{
    for (int i = 0; i < c->n_buffers; i++) {
        di_guarded_free(&c->buffers[i].memory);
        free(c->buffers[i].before);
        free(c->buffers[i].wanted);
    }
    *c = (di_kernel_case){.op = c->op};
}

static void *add(di_kernel_case *c, di_case_role role, size_t bytes, di_dtype dtype)
{
    if (c->n_buffers == DI_CASE_BUFFERS)
        fail_msg("%s: more than %d buffers", c->what, DI_CASE_BUFFERS);
    di_case_buffer *b = &c->buffers[c->n_buffers++];
    *b = (di_case_buffer){.memory = di_guarded_new(bytes), .role = role, .dtype = dtype};
    return b->memory.data;
}

void *di_case_input(di_kernel_case *c, int64_t n, size_t elem_bytes)
{
    return add(c, DI_CASE_INPUT, (size_t)n * elem_bytes, DI_U8);
}

void *di_case_output(di_kernel_case *c, int64_t n, di_dtype dtype)
{
    return add(c, DI_CASE_OUTPUT, (size_t)n * di_dtype_bytes(dtype), dtype);
}

void *di_case_inout(di_kernel_case *c, int64_t n, di_dtype dtype)
{
    return add(c, DI_CASE_INOUT, (size_t)n * di_dtype_bytes(dtype), dtype);
}

void *di_case_scratch(di_kernel_case *c, int64_t n, size_t elem_bytes)
{
    return add(c, DI_CASE_SCRATCH, (size_t)n * elem_bytes, DI_U8);
}

static bool is_result(const di_case_buffer *b)
{
    return b->role == DI_CASE_OUTPUT || b->role == DI_CASE_INOUT;
}

static unsigned char *copy_of(const di_case_buffer *b)
{
    unsigned char *copy = malloc(b->memory.bytes + 1);
    assert_non_null(copy);
    memcpy(copy, b->memory.data, b->memory.bytes);
    return copy;
}

static void restore(di_kernel_case *c)
{
    for (int i = 0; i < c->n_buffers; i++) {
        di_case_buffer *b = &c->buffers[i];
        if (b->role != DI_CASE_INPUT)
            memcpy(b->memory.data, b->before, b->memory.bytes);
    }
}

static void check_surroundings(const di_kernel_case *c, const char *what)
{
    for (int i = 0; i < c->n_buffers; i++) {
        const di_case_buffer *b = &c->buffers[i];
        di_guarded_check(&b->memory, what);
        if (b->role == DI_CASE_INPUT && memcmp(b->memory.data, b->before, b->memory.bytes) != 0)
            fail_msg("%s: changed an input (buffer %d of the case)", what, i);
    }
}

static void check_results(const di_kernel_case *c, const char *what, di_numerics numerics,
                          unsigned char *const *wanted)
{
    check_surroundings(c, what);
    for (int i = 0; i < c->n_buffers; i++) {
        const di_case_buffer *b = &c->buffers[i];
        if (is_result(b) && wanted[i] == b->wanted && c->slack > 0)
            di_compare_nearly_exact(what, b->dtype, b->memory.data, wanted[i], b->memory.bytes,
                                    c->slack);
        else if (is_result(b))
            di_compare_outputs(what, numerics, b->dtype, b->memory.data, wanted[i],
                               b->memory.bytes);
    }
}

/* The items in random pieces, in random order, by changing workers. */
static void run_split(di_kernel_case *c, const di_kernel *k, const void *args, int64_t n_items)
{
    enum { MAX_PIECES = 8 };
    int64_t cuts[MAX_PIECES + 1] = {0};
    const int n_pieces = (int)di_rng_between(&c->rng, 2, MAX_PIECES);
    for (int i = 1; i < n_pieces; i++) {
        const int64_t cut = di_rng_between(&c->rng, 0, n_items);
        int at = i;
        for (; at > 1 && cuts[at - 1] > cut; at--)
            cuts[at] = cuts[at - 1];
        cuts[at] = cut;
    }
    cuts[n_pieces] = n_items;
    const int shift = (int)di_rng_below(&c->rng, n_pieces);
    for (int i = 0; i < n_pieces; i++) {
        const int piece = n_pieces - 1 - (i + shift) % n_pieces;
        if (cuts[piece] < cuts[piece + 1])
            k->fn(args, cuts[piece], cuts[piece + 1], i % DI_CASE_WORKERS);
    }
}

/* Every item alone, last one first. */
static void run_singly(di_kernel_case *c, const di_kernel *k, const void *args, int64_t n_items)
{
    (void)c;
    for (int64_t i = n_items; i-- > 0;)
        k->fn(args, i, i + 1, (int)(i % DI_CASE_WORKERS));
}

static void check_kernel(di_kernel_case *c, const di_kernel *k, const void *args, int64_t n_items)
{
    enum { SINGLY_LIMIT = 4096, N_SPLITS = 3 };
    char what[256];
    unsigned char *wanted[DI_CASE_BUFFERS] = {NULL}, *own[DI_CASE_BUFFERS] = {NULL};
    for (int i = 0; i < c->n_buffers; i++)
        wanted[i] = c->buffers[i].wanted;
    snprintf(what, sizeof what, "%s (kernel %s)", c->what, k->name);
    restore(c);
    k->fn(args, 0, n_items, 0);
    check_results(c, what, k->numerics, wanted);
    for (int i = 0; i < c->n_buffers; i++)
        own[i] = is_result(&c->buffers[i]) ? copy_of(&c->buffers[i]) : NULL;
    /* A kernel that is not batch-invariant still has to be right at every split. */
    const di_numerics within = k->is_batch_invariant ? DI_NUMERICS_EXACT : k->numerics;
    for (int i = 0; i < N_SPLITS; i++) {
        snprintf(what, sizeof what, "%s (kernel %s, split)", c->what, k->name);
        restore(c);
        run_split(c, k, args, n_items);
        check_results(c, what, within, own);
    }
    if (n_items <= SINGLY_LIMIT) {
        snprintf(what, sizeof what, "%s (kernel %s, item by item)", c->what, k->name);
        restore(c);
        run_singly(c, k, args, n_items);
        check_results(c, what, within, own);
    }
    for (int i = 0; i < c->n_buffers; i++)
        free(own[i]);
}

bool di_case_has_kernel(const di_kernel *kernel)
{
    di_effective_options options;
    di_kernel_mask mask;
    if (di_options_resolve(NULL, &options) || di_kernel_mask_parse(options.isa, NULL, &mask))
        fail_msg("%s", di_last_error());
    return di_isa_includes(mask.max_isa, kernel->isa);
}

static const di_kernel *reference_of(di_op op)
{
    for (int i = 0; i < di_n_kernels; i++)
        if (di_kernels[i].op == op && di_kernels[i].isa == DI_ISA_REF)
            return &di_kernels[i];
    fail_msg("%s has no reference", di_op_name(op));
    return NULL;
}

void di_case_run(di_kernel_case *c, const void *args, int64_t n_items)
{
    for (int i = 0; i < c->n_buffers; i++) {
        free(c->buffers[i].before);
        free(c->buffers[i].wanted);
        c->buffers[i].before = copy_of(&c->buffers[i]);
        c->buffers[i].wanted = NULL;
    }
    const di_kernel *reference = reference_of(c->op);
    reference->fn(args, 0, n_items, 0);
    for (int i = 0; i < c->n_buffers; i++)
        if (is_result(&c->buffers[i]))
            c->buffers[i].wanted = copy_of(&c->buffers[i]);
    for (int i = 0; i < di_n_kernels; i++)
        if (di_kernels[i].op == c->op && di_case_has_kernel(&di_kernels[i]))
            check_kernel(c, &di_kernels[i], args, n_items);
    restore(c);
    reference->fn(args, 0, n_items, 0);
}

const void *di_case_before(const di_kernel_case *c, const void *inout)
{
    for (int i = 0; i < c->n_buffers; i++)
        if (c->buffers[i].memory.data == inout)
            return c->buffers[i].before;
    fail_msg("%s: no such buffer", c->what);
    return NULL;
}
