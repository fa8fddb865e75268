#include <math.h>

#include "model/network.h"

/* Dimension at which a frequency turns `beta` times over the original context. */
static double correction_dim(double beta, int64_t rope_dim, double theta, double context)
{
    return (double)rope_dim * log(context / (2.0 * M_PI * beta)) / (2.0 * log(theta));
}

static void apply_yarn(const di_rope_scaling *s, int64_t rope_dim, double theta, float *f)
{
    const double context = (double)s->original_max_position_embeddings;
    const double low = fmax(floor(correction_dim(s->beta_fast, rope_dim, theta, context)), 0.0);
    const double high =
        fmin(ceil(correction_dim(s->beta_slow, rope_dim, theta, context)), (double)rope_dim - 1.0);
    const float width = (float)fmax(high - low, 1e-3);
    for (int64_t i = 0; i < rope_dim / 2; i++) {
        float ramp = ((float)i - (float)low) / width;
        ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
        const float keep = 1.0f - ramp;
        f[i] = f[i] / (float)s->factor * (1.0f - keep) + f[i] * keep;
    }
}

void di_rope_frequencies(int64_t rope_dim, double theta, const di_rope_scaling *scaling, float *out)
{
    for (int64_t i = 0; i < rope_dim / 2; i++) {
        const float exponent = (float)(2 * i) / (float)rope_dim;
        out[i] = 1.0f / (float)pow((double)(float)theta, (double)exponent);
    }
    if (scaling && scaling->is_yarn)
        apply_yarn(scaling, rope_dim, theta, out);
}

void di_rope_table(const float *frequencies, int64_t half, const int32_t *positions, int64_t n,
                   float *cos_out, float *sin_out)
{
    for (int64_t row = 0; row < n; row++) {
        for (int64_t i = 0; i < half; i++) {
            const float angle = (float)positions[row] * frequencies[i];
            cos_out[row * half + i] = (float)cos((double)angle);
            sin_out[row * half + i] = (float)sin((double)angle);
        }
    }
}
