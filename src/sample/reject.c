#include "sample/reject.h"

#include "base/philox.h"

/* Largest: 2^40 times a sum, 2^103; sums of those over the vocabulary stay below the product of the
 * two sums, 2^111. */
typedef unsigned __int128 wide;

/* x * u / 2^64, rounded down; x < 2^127. */
static wide times_fraction(wide x, uint64_t u)
{
    return (x >> 64) * u + ((wide)(uint64_t)x * u >> 64);
}

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
    return low < n && ids[low] == id ? low : -1;
}

/* Walks the target's tokens and the draft's beside them. */
typedef struct residual {
    const di_distribution *target;
    const di_draft *draft;
    int32_t next; /* the first of the draft's ids not passed */
} residual;

/* max(p_t - p_d, 0) of the target's i-th token, times the product of the sums. i must not fall. */
static wide residual_of(residual *r, int32_t i)
{
    const int32_t id = r->target->id[i];
    while (r->next < r->draft->n && r->draft->id[r->next] < id)
        r->next++;
    const wide t = (wide)r->target->weight[i] * r->draft->sum;
    if (r->next == r->draft->n || r->draft->id[r->next] != id)
        return t;
    const wide d = (wide)r->draft->weight[r->next] * r->target->sum;
    return t > d ? t - d : 0;
}

static int32_t draw_residual(const di_distribution *target, const di_draft *draft, uint64_t v)
{
    wide sum = 0, before = 0;
    residual r = {target, draft, 0};
    for (int32_t i = 0; i < target->n; i++)
        sum += residual_of(&r, i);
    /* A rejected token has p_t < p_d, so that others have the more: the sum is above 0, and what
     * follows is below it. */
    const wide at = times_fraction(sum, v);
    r = (residual){target, draft, 0};
    for (int32_t i = 0; i < target->n; i++) {
        before += residual_of(&r, i);
        if (before > at)
            return target->id[i];
    }
    return target->id[target->n - 1];
}

int32_t di_verify_reject(const di_noise_key *key, const di_distribution *target,
                         const di_draft *draft)
{
    uint32_t bits[4];
    const di_philox_counter counter = {{key->position, 0, DI_NOISE_ACCEPT, key->sample}};
    di_philox4x32(counter, key->seed, bits);
    const uint64_t u = (uint64_t)bits[1] << 32 | bits[0], v = (uint64_t)bits[3] << 32 | bits[2];
    const int32_t in_target = find(target->id, target->n, draft->token_id);
    const int32_t in_draft = find(draft->id, draft->n, draft->token_id);
    /* u < p_t / p_d with u in [0, 1): for whole numbers the same as floor(u * d) < t. */
    const wide t = in_target < 0 ? 0 : (wide)target->weight[in_target] * draft->sum;
    const wide d = in_draft < 0 ? 0 : (wide)draft->weight[in_draft] * target->sum;
    if (times_fraction(d, u) < t)
        return draft->token_id;
    return draw_residual(target, draft, v);
}
