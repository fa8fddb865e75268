#include "sample/params.h"

#include <math.h>
#include <string.h>

#include <utf8proc.h>

/* NaN is in no range. */
static di_status check_range(const char *name, double value, double low, double high)
{
    if (value >= low && value <= high)
        return DI_OK;
    return di_fail(DI_ERR_ARGUMENT, "%s: found %g, wanted %g to %g", name, value, low, high);
}

static di_status check_numbers(const di_sampling_params *p, int32_t vocab_size)
{
    if (!(p->temperature >= 0.0) || isinf(p->temperature))
        return di_fail(DI_ERR_ARGUMENT, "temperature: found %g, wanted a finite number >= 0",
                       p->temperature);
    if (p->top_k < -1)
        return di_fail(DI_ERR_ARGUMENT, "top_k: found %d, wanted a count, or 0 or -1 for off",
                       (int)p->top_k);
    DI_TRY(check_range("top_p", p->top_p, 0.0, 1.0));
    DI_TRY(check_range("min_p", p->min_p, 0.0, 1.0));
    if (!(p->repetition_penalty > 0.0) || isinf(p->repetition_penalty))
        return di_fail(DI_ERR_ARGUMENT, "repetition_penalty: found %g, wanted a finite number > 0",
                       p->repetition_penalty);
    DI_TRY(check_range("presence_penalty", p->presence_penalty, -2.0, 2.0));
    DI_TRY(check_range("frequency_penalty", p->frequency_penalty, -2.0, 2.0));
    if (p->n_logprobs < -1 || p->n_logprobs > vocab_size)
        return di_fail(DI_ERR_ARGUMENT, "n_logprobs: found %d, wanted -1 (none) to %d",
                       (int)p->n_logprobs, (int)vocab_size);
    if (p->prompt_logprobs && p->n_logprobs < 0)
        return di_fail(DI_ERR_ARGUMENT,
                       "prompt_logprobs: found n_logprobs %d with it, wanted 0 or "
                       "more",
                       (int)p->n_logprobs);
    return DI_OK;
}

static di_status check_lengths(const di_sampling_params *p)
{
    if (p->max_tokens < -1)
        return di_fail(DI_ERR_ARGUMENT,
                       "max_tokens: found %lld, wanted a count, or -1 for no bound",
                       (long long)p->max_tokens);
    if (p->min_tokens < 0)
        return di_fail(DI_ERR_ARGUMENT, "min_tokens: found %lld, wanted 0 or more",
                       (long long)p->min_tokens);
    if (p->max_tokens >= 0 && p->min_tokens > p->max_tokens)
        return di_fail(DI_ERR_ARGUMENT, "min_tokens: found %lld, wanted max_tokens (%lld) at most",
                       (long long)p->min_tokens, (long long)p->max_tokens);
    return DI_OK;
}

static di_status check_bias(const di_sampling_params *p, int32_t vocab_size)
{
    if (p->n_logit_bias > 0 && !p->logit_bias)
        return di_fail(DI_ERR_ARGUMENT, "logit_bias: found NULL, wanted %zu entries",
                       p->n_logit_bias);
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const di_logit_bias *bias = &p->logit_bias[i];
        if (bias->token_id < 0 || bias->token_id >= vocab_size)
            return di_fail(DI_ERR_ARGUMENT, "logit_bias[%zu]: found token id %d, wanted 0 to %d", i,
                           (int)bias->token_id, (int)vocab_size - 1);
        if (isnan(bias->bias) || bias->bias == INFINITY)
            return di_fail(DI_ERR_ARGUMENT,
                           "logit_bias[%zu]: found %g for token id %d, wanted a "
                           "finite number or -inf",
                           i, (double)bias->bias, (int)bias->token_id);
    }
    return DI_OK;
}

static di_status check_stop_string(const char *text, size_t index)
{
    if (!text || !*text)
        return di_fail(DI_ERR_ARGUMENT, "stop[%zu]: found %s, wanted a text", index,
                       text ? "an empty text" : "NULL");
    const size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        utf8proc_int32_t code_point;
        const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                                    (utf8proc_ssize_t)(len - at), &code_point);
        if (n < 1)
            return di_fail(DI_ERR_ARGUMENT, "stop[%zu]: found byte 0x%02x at %zu, wanted UTF-8",
                           index, (unsigned char)text[at], at);
        at += (size_t)n;
    }
    return DI_OK;
}

static di_status check_stops(const di_sampling_params *p, int32_t vocab_size)
{
    if (p->n_stop_ids > 0 && !p->stop_ids)
        return di_fail(DI_ERR_ARGUMENT, "stop_ids: found NULL, wanted %zu ids", p->n_stop_ids);
    for (size_t i = 0; i < p->n_stop_ids; i++)
        if (p->stop_ids[i] < 0 || p->stop_ids[i] >= vocab_size)
            return di_fail(DI_ERR_ARGUMENT, "stop_ids[%zu]: found %d, wanted 0 to %d", i,
                           (int)p->stop_ids[i], (int)vocab_size - 1);
    if (p->n_stop > 0 && !p->stop)
        return di_fail(DI_ERR_ARGUMENT, "stop: found NULL, wanted %zu texts", p->n_stop);
    for (size_t i = 0; i < p->n_stop; i++)
        DI_TRY(check_stop_string(p->stop[i], i));
    return DI_OK;
}

bool di_verification_from_name(const char *name, di_verification *out)
{
    const bool is_reject = name && strcmp(name, "reject") == 0;
    if (!is_reject && (!name || strcmp(name, "match") != 0))
        return false;
    *out = is_reject ? DI_VERIFICATION_REJECT : DI_VERIFICATION_MATCH;
    return true;
}

static di_status check_verification(const di_sampling_params *p)
{
    if (p->verification == DI_VERIFICATION_MATCH || p->verification == DI_VERIFICATION_REJECT)
        return DI_OK;
    return di_fail(DI_ERR_ARGUMENT, "verification: found %d, wanted %d (match) or %d (reject)",
                   (int)p->verification, DI_VERIFICATION_MATCH, DI_VERIFICATION_REJECT);
}

di_status di_sampling_params_check(const di_sampling_params *params, int32_t vocab_size)
{
    DI_TRY(check_numbers(params, vocab_size));
    DI_TRY(check_lengths(params));
    DI_TRY(check_bias(params, vocab_size));
    DI_TRY(check_verification(params));
    return check_stops(params, vocab_size);
}

di_status di_sampling_params_copy(const di_sampling_params *params, di_arena *arena,
                                  di_sampling_params *out)
{
    di_logit_bias *bias;
    int32_t *stop_ids;
    const char **stop;
    DI_TRY(DI_ARENA_NEW(arena, params->n_logit_bias, &bias));
    DI_TRY(DI_ARENA_NEW(arena, params->n_stop_ids, &stop_ids));
    DI_TRY(DI_ARENA_NEW(arena, params->n_stop, &stop));
    if (params->n_logit_bias > 0)
        memcpy(bias, params->logit_bias, params->n_logit_bias * sizeof *bias);
    if (params->n_stop_ids > 0)
        memcpy(stop_ids, params->stop_ids, params->n_stop_ids * sizeof *stop_ids);
    for (size_t i = 0; i < params->n_stop; i++) {
        char *text;
        DI_TRY(di_arena_strdup(arena, params->stop[i], &text));
        stop[i] = text;
    }
    di_sampling_params copy = *params;
    copy.logit_bias = bias;
    copy.stop_ids = stop_ids;
    copy.stop = stop;
    *out = copy;
    return DI_OK;
}
