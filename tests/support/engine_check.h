/* Checks of KV bookkeeping and of whole engines, and what an engine on the null device must give.
 */
#ifndef DI_TEST_ENGINE_CHECK_H
#define DI_TEST_ENGINE_CHECK_H

#include "null_device.h"

/* Fails the test with the thread's error text. */
void di_require(di_status status);

/* Free + used + cached = all in every pool, lists and counts agree, owners are exactly the given
 * sequences, and blocks and nodes of the prefix cache know each other. Fails the test otherwise. */
void di_check_pools(const di_kv_cache *kv, const di_prefix_cache *prefix,
                    const di_kv_seq *const *seqs, size_t n_seqs);
/* The same with the sequences of an engine between two steps; also its scheduler and its device. */
void di_check_engine(const di_engine *engine, const di_null_device *device);
/* An engine without requests: no block used, every slot given back, nothing in any list. */
void di_check_idle(const di_engine *engine, const di_null_device *device);

/* What a sample must give, computed alone and in one go. */
typedef struct di_expected {
    di_ids tokens; /* the output */
    di_finish_reason reason;
} di_expected;

/* Of a request (token_ids) on the null device; stop strings are not looked at. */
void di_expect(const di_null_device *device, const di_model *model, const di_request *request,
               int32_t sample_index, di_expected *out);

#endif
