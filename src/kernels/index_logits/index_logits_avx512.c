#include "kernels/all.h"
#include "kernels/index_logits/index_logits_avx512.h"

void di_index_logits_avx512(const void *args, int64_t begin, int64_t end, int worker)
{
    if (is_within_limits(args))
        index_logits(args, begin, end);
    else
        di_index_logits_ref(args, begin, end, worker);
}
