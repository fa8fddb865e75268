#include "kernels/embed/embed.h"

#include "kernels/all.h"

void di_embed_ref(const void *args, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const di_embed_args *a = args;
    for (int64_t row = begin; row < end; row++)
        for (int j = 0; j < a->hc; j++)
            memcpy(a->h + (row * a->hc + j) * a->dim, a->table + a->token_ids[row] * a->dim,
                   (size_t)a->dim * sizeof *a->h);
}
