#include "sample/reject.h"

#include "base/philox.h"
#include "sample/peaks.h"

/* Largest: 2^40 times a sum, 2^103; sums of those over the vocabulary stay below the product of the
 * two sums, 2^111. */
typedef unsigned __int128 wide;

/* x * u / 2^64, rounded down; x < 2^127. */
static wide times_fraction(wide x, uint64_t u)
{
    return (x >> 64) * u + ((wide)(uint64_t)x * u >> 64);
}

/* First index whose id is not below `id`. */
static int32_t find(const int32_t *ids, int32_t n, int32_t id)
{
    int32_t low = 0, high = n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t target_weight(const di_distribution *target, int32_t id)
{
    if (!target->id)
        return id < target->n ? di_exp_weight(target->score[id]) : 0;
    const int32_t i = find(target->id, target->n, id);
    return i < target->n && target->id[i] == id ? target->weight[i] : 0;
}

/* min(p_t, p_d) of the draft's i-th token, times the product of the sums: what the drafter leaves
 * nothing of p_t for. */
static wide overlap_of(const di_distribution *target, const di_draft *draft, int32_t i)
{
    const wide t = (wide)target_weight(target, draft->id[i]) * draft->sum;
    const wide d = (wide)draft->weight[i] * target->sum;
    return t < d ? t : d;
}

/* Walks the target's tokens in order, the draft's beside them. */
typedef struct residual {
    const di_distribution *target;
    const di_draft *draft;
    int32_t next; /* the first of the draft's ids not passed */
    wide before;  /* of the tokens passed: the sum of max(p_t - p_d, 0), times both sums */
} residual;

/* Passes a block of ids without ids of its own, if `at` is not in it. */
static bool pass_block(residual *r, int32_t block, wide at)
{
    const int32_t end = (block + 1) * DI_PEAK_IDS;
    wide sum = (wide)r->target->sums[block] * r->draft->sum;
    int32_t next = r->next;
    for (; next < r->draft->n && r->draft->id[next] < end; next++)
        sum -= overlap_of(r->target, r->draft, next);
    if (r->before + sum > at)
        return false;
    r->before += sum;
    r->next = next;
    return true;
}

/* Passes one token; true if `at` is in it. */
static bool pass_token(residual *r, int32_t id, uint64_t weight, wide at)
{
    wide here = (wide)weight * r->draft->sum;
    while (r->next < r->draft->n && r->draft->id[r->next] < id)
        r->next++;
    if (r->next < r->draft->n && r->draft->id[r->next] == id)
        here -= overlap_of(r->target, r->draft, r->next);
    r->before += here;
    return r->before > at;
}

static int32_t draw_residual(const di_distribution *target, const di_draft *draft, uint64_t v)
{
    /* All of p_t but what both have. A rejected token has p_t < p_d, so that others have the more:
     * above 0, and what is looked for is below it. */
    wide sum = (wide)target->sum * draft->sum;
    for (int32_t i = 0; i < draft->n; i++)
        sum -= overlap_of(target, draft, i);
    const wide at = times_fraction(sum, v);
    residual r = {target, draft, 0, 0};
    int32_t i = 0;
    for (; !target->id && i < target->n && pass_block(&r, i / DI_PEAK_IDS, at); i += DI_PEAK_IDS)
        ;
    for (; i < target->n; i++) {
        const int32_t id = target->id ? target->id[i] : i;
        if (pass_token(&r, id, target->id ? target->weight[i] : di_exp_weight(target->score[i]),
                       at))
            return id;
    }
    return target->id ? target->id[target->n - 1] : target->n - 1;
}

int32_t di_verify_reject(const di_noise_key *key, const di_distribution *target,
                         const di_draft *draft)
{
    uint32_t bits[4];
    const di_philox_counter counter = {{key->position, 0, DI_NOISE_ACCEPT, key->sample}};
    di_philox4x32(counter, key->seed, bits);
    const uint64_t u = (uint64_t)bits[1] << 32 | bits[0], v = (uint64_t)bits[3] << 32 | bits[2];
    const int32_t in_draft = find(draft->id, draft->n, draft->token_id);
    const bool is_its_own = in_draft < draft->n && draft->id[in_draft] == draft->token_id;
    /* u < p_t / p_d with u in [0, 1): for whole numbers the same as floor(u * d) < t. */
    const wide t = (wide)target_weight(target, draft->token_id) * draft->sum;
    const wide d = is_its_own ? (wide)draft->weight[in_draft] * target->sum : 0;
    if (times_fraction(d, u) < t)
        return draft->token_id;
    return draw_residual(target, draft, v);
}
