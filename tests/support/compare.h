/* Comparison of results: bits, a bound per numerics class, and a value against double precision.
 * All of them fail the test with what, where, found and wanted. */
#ifndef DI_TEST_COMPARE_H
#define DI_TEST_COMPARE_H

#include <stddef.h>

#include "base/fp.h"
#include "core/tensor.h"
#include "kernels/kernel.h"

/* `dtype` DI_BF16 or DI_F32 values, anything else as bytes.
 * EXACT: equal bits. REORDER, LOWP: NaN and infinities at the same places, the relative error
 * |a - b| / |b| over all values and the cosine under the class's bound; integers must be equal. */
void di_compare_outputs(const char *what, di_numerics numerics, di_dtype dtype, const void *found,
                        const void *wanted, size_t bytes);
/* As an EXACT kernel must, but off by at most `slack` in places: where the kernel's contract says
 * how much its results may differ at the end of fp32's range. A bf16 result may also flip a
 * rounding. */
void di_compare_nearly_exact(const char *what, di_dtype dtype, const void *found,
                             const void *wanted, size_t bytes, double slack);

/* fp32 result of a computation whose exact value is `wanted`, off by at most `slack`. NaN wants
 * NaN.
 */
void di_expect_f32(const char *what, int64_t index, float found, double wanted, double slack);
/* The same, rounded to bf16 at the end: half a unit in the last place more. Beyond the largest bf16
 * an infinity of that sign is fine. */
void di_expect_bf16(const char *what, int64_t index, di_bf16 found, double wanted, double slack);
/* bf16 that must be the correctly rounded `wanted` (a value that fp32 holds exactly). */
void di_expect_bf16_exact(const char *what, int64_t index, di_bf16 found, double wanted);

/* Bound on the rounding error of an fp32 sum in the lanes16 order of n terms whose magnitudes add
 * up to `mass`: a term goes through at most n / 16 + 1 additions in its lane and 4 between lanes,
 * each off by half a unit in the last place (2^-24 relative); plus products and inputs, 4 more. */
double di_sum_slack(int64_t n, double mass);

#endif
