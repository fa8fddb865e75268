#include "kernels/embed/embed.h"

#include "kernels/check.h"

di_status di_embed_case(di_op_case *c)
{
    enum { VOCAB = 50 };
    di_embed_args args = {.dim = di_op_size(c, 1, 200), .hc = (int)di_op_size(c, 1, 5)};
    di_bf16 *table;
    int32_t *ids;
    DI_TRY(di_op_shared_bf16(c, VOCAB * args.dim, &table));
    DI_TRY(di_op_rows_int(c, 1, 0, VOCAB - 1, &ids));
    DI_TRY(di_op_output_new(c, DI_BF16, args.hc * args.dim, (void **)&args.h));
    args.table = table;
    args.token_ids = ids;
    return di_op_args(c, &args, sizeof args, c->n_rows);
}
