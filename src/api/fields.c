/* The fields of the request bodies: one table, and the readers of those that both endpoints or
 * completions have. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reader.h"

typedef di_status (*read_fn)(di_api_reader *reader, const char *name, const di_jval *value);

typedef enum field_kind {
    FIELD_READ,   /* by `read` */
    FIELD_NUMBER, /* a double of di_sampling_params */
    FIELD_IGNORE  /* has no meaning here */
} field_kind;

enum { CHAT = 1, TEXT = 2, BOTH = 3 };

typedef struct field {
    const char *name;
    unsigned endpoints;
    field_kind kind;
    read_fn read;
    size_t offset;
    double low, high;
} field;

static di_status read_model(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_text(r->arena, name, value, &r->request->model);
}

static di_status keep_messages(di_api_reader *r, const char *name, const di_jval *value)
{
    if (value->kind != DI_JARRAY || !value->first)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an array of at least one message",
                       name, value->kind == DI_JARRAY ? "none" : di_jval_describe(value).text);
    r->messages = value;
    return DI_OK;
}

static di_status keep_tools(di_api_reader *r, const char *name, const di_jval *value)
{
    if (value->kind != DI_JARRAY)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an array of tools", name,
                       di_jval_describe(value).text);
    r->tools = value->first ? value : NULL;
    return DI_OK;
}

static di_status keep_drop_thinking(di_api_reader *r, const char *name, const di_jval *value)
{
    bool ignored;
    DI_TRY(di_api_read_bool(name, value, &ignored));
    r->drop_thinking = value;
    return DI_OK;
}

static di_status keep_prompt(di_api_reader *r, const char *name, const di_jval *value)
{
    (void)name;
    r->prompts = value;
    return DI_OK;
}

static di_status keep_prompt_ids(di_api_reader *r, const char *name, const di_jval *value)
{
    (void)name;
    r->prompt_ids = value;
    return DI_OK;
}

/* -------------------------------------------------------------------------------------- sampling
 */

static di_status read_max_tokens(di_api_reader *r, const char *name, const di_jval *value)
{
    r->has_max_tokens = true;
    return di_api_read_integer(name, value, -1, INT64_MAX, &r->prompt.sampling.max_tokens);
}

static di_status read_max_completion_tokens(di_api_reader *r, const char *name,
                                            const di_jval *value)
{
    r->has_max_completion_tokens = true;
    return di_api_read_integer(name, value, -1, INT64_MAX, &r->max_completion_tokens);
}

static di_status read_min_tokens(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_integer(name, value, 0, INT64_MAX, &r->prompt.sampling.min_tokens);
}

static di_status read_small(const char *name, const di_jval *value, int32_t low, int32_t high,
                            int32_t *out)
{
    int64_t integer;
    DI_TRY(di_api_read_integer(name, value, low, high, &integer));
    *out = (int32_t)integer;
    return DI_OK;
}

static di_status read_top_k(di_api_reader *r, const char *name, const di_jval *value)
{
    return read_small(name, value, -1, INT32_MAX, &r->prompt.sampling.top_k);
}

static di_status read_n(di_api_reader *r, const char *name, const di_jval *value)
{
    return read_small(name, value, 1, 128, &r->prompt.sampling.n);
}

static di_status read_best_of(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_integer(name, value, 1, 128, &r->best_of);
}

/* OpenAI's seeds are int64, ours uint64: a negative one is the seed of the same 64 bits. */
static di_status read_seed(di_api_reader *r, const char *name, const di_jval *value)
{
    char digits[24];
    di_sampling_params *p = &r->prompt.sampling;
    p->has_seed = true;
    if (value->kind == DI_JINT && value->len < sizeof digits && value->text[0] != '-') {
        memcpy(digits, value->text, value->len);
        digits[value->len] = '\0';
        errno = 0;
        p->seed = strtoull(digits, NULL, 10);
        if (errno == 0)
            return DI_OK;
    }
    int64_t seed;
    if (di_api_read_integer(name, value, INT64_MIN, -1, &seed) != DI_OK)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an integer of 64 bits", name,
                       di_jval_describe(value).text);
    p->seed = (uint64_t)seed;
    return DI_OK;
}

static di_status read_stop(di_api_reader *r, const char *name, const di_jval *value)
{
    const bool is_list = value->kind == DI_JARRAY;
    if (!is_list && value->kind != DI_JSTRING)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted a string or an array of strings",
                       name, di_jval_describe(value).text);
    const size_t n = is_list ? di_api_count(value) : 1;
    const char **texts;
    DI_TRY(DI_ARENA_NEW(r->arena, n, &texts));
    const di_jval *item = is_list ? value->first : value;
    for (size_t i = 0; i < n; i++, item = item->next) {
        DI_TRY(di_api_read_text(r->arena, name, item, &texts[i]));
        if (!texts[i][0])
            return di_fail(DI_ERR_ARGUMENT, "%s[%zu]: found an empty text, wanted a text", name, i);
    }
    r->prompt.sampling.stop = texts;
    r->prompt.sampling.n_stop = n;
    return DI_OK;
}

static di_status read_stop_ids(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_ids(r, name, value, &r->prompt.sampling.stop_ids,
                           &r->prompt.sampling.n_stop_ids);
}

static di_status read_verification(di_api_reader *r, const char *name, const di_jval *value)
{
    const char *text;
    if (value->kind == DI_JSTRING) {
        DI_TRY(di_api_read_text(r->arena, name, value, &text));
        if (di_verification_from_name(text, &r->prompt.sampling.verification))
            return DI_OK;
    }
    return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted \"match\" or \"reject\"", name,
                   di_jval_describe(value).text);
}

static di_status read_ignore_eos(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_bool(name, value, &r->prompt.sampling.ignore_eos);
}

/* A token id as the decimal text that Python's or JavaScript's str(id) is. */
static bool key_to_id(const di_jval *member, int32_t vocab_size, int32_t *out)
{
    int64_t id = 0;
    for (size_t i = 0; i < member->key_len; i++) {
        const char c = member->key[i];
        if (c < '0' || c > '9' || id >= vocab_size)
            return false;
        id = 10 * id + (c - '0');
    }
    if (member->key_len == 0 || (member->key[0] == '0' && member->key_len > 1))
        return false;
    *out = (int32_t)id;
    return id < vocab_size;
}

static di_status read_logit_bias(di_api_reader *r, const char *name, const di_jval *value)
{
    if (value->kind != DI_JOBJECT)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an object of token ids and numbers",
                       name, di_jval_describe(value).text);
    const size_t n = di_api_count(value);
    di_logit_bias *list;
    DI_TRY(DI_ARENA_NEW(r->arena, n, &list));
    size_t i = 0;
    for (const di_jval *m = value->first; m; m = m->next, i++) {
        const int shown = (int)(m->key_len < 40 ? m->key_len : 40);
        if (!key_to_id(m, r->vocab_size, &list[i].token_id))
            return di_fail(DI_ERR_ARGUMENT,
                           "%s: found the key \"%.*s\", wanted a token id from 0 to %d", name,
                           shown, m->key, (int)r->vocab_size - 1);
        double bias;
        if (di_api_read_number(name, m, -(double)FLT_MAX, (double)FLT_MAX, &bias) != DI_OK)
            return di_fail(DI_ERR_ARGUMENT, "%s: found %s for \"%.*s\", wanted a finite number",
                           name, di_jval_describe(m).text, shown, m->key);
        list[i].bias = (float)bias;
    }
    r->prompt.sampling.logit_bias = list;
    r->prompt.sampling.n_logit_bias = n;
    return DI_OK;
}

/* A bool in chats, a count in completions. */
static di_status read_logprobs(di_api_reader *r, const char *name, const di_jval *value)
{
    if (r->request->endpoint == DI_API_CHAT_COMPLETIONS)
        return di_api_read_bool(name, value, &r->has_logprobs);
    if (value->kind == DI_JFALSE)
        return DI_OK;
    r->has_logprobs = true;
    return read_small(name, value, 0, r->vocab_size, &r->prompt.sampling.n_logprobs);
}

static di_status read_top_logprobs(di_api_reader *r, const char *name, const di_jval *value)
{
    return read_small(name, value, 0, r->vocab_size, &r->top_logprobs);
}

/* ----------------------------------------------------------------------------- how it is served */

static di_status read_echo(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_bool(name, value, &r->request->has_echo);
}

static di_status read_return_token_ids(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_bool(name, value, &r->request->returns_token_ids);
}

static di_status read_stream(di_api_reader *r, const char *name, const di_jval *value)
{
    return di_api_read_bool(name, value, &r->request->is_stream);
}

static di_status read_stream_options(di_api_reader *r, const char *name, const di_jval *value)
{
    if (value->kind != DI_JOBJECT)
        return di_fail(DI_ERR_ARGUMENT, "%s: found %s, wanted an object", name,
                       di_jval_describe(value).text);
    const di_jval *usage = di_jval_get_set(value, "include_usage");
    return usage ? di_api_read_bool("stream_options.include_usage", usage,
                                    &r->request->has_stream_usage)
                 : DI_OK;
}

static di_status read_priority(di_api_reader *r, const char *name, const di_jval *value)
{
    int32_t priority;
    DI_TRY(read_small(name, value, INT32_MIN, INT32_MAX, &priority));
    r->prompt.priority = priority;
    return DI_OK;
}

static di_status read_timeout(di_api_reader *r, const char *name, const di_jval *value)
{
    double seconds;
    DI_TRY(di_api_read_number(name, value, 0.001, 1e9, &seconds));
    r->prompt.timeout_ms = (int64_t)ceil(seconds * 1e3);
    return DI_OK;
}

static di_status read_suffix(di_api_reader *r, const char *name, const di_jval *value)
{
    (void)r;
    if (value->kind == DI_JSTRING && value->len == 0)
        return DI_OK;
    return di_fail(DI_ERR_UNSUPPORTED, "%s: found %s, wanted none: the model continues texts only",
                   name, di_jval_describe(value).text);
}

static di_status read_parallel_calls(di_api_reader *r, const char *name, const di_jval *value)
{
    bool is_on;
    DI_TRY(di_api_read_bool(name, value, &is_on));
    r->wants_one_call = !is_on;
    return DI_OK;
}

/* --------------------------------------------------------------------------------------- the table
 */

#define READ(name, endpoints, function)                                                            \
    {                                                                                              \
        name, endpoints, FIELD_READ, function                                                      \
    }
#define NUMBER(name, member, low, high)                                                            \
    {                                                                                              \
        name, BOTH, FIELD_NUMBER, NULL, offsetof(di_sampling_params, member), low, high            \
    }
#define IGNORE(name)                                                                               \
    {                                                                                              \
        name, BOTH, FIELD_IGNORE                                                                   \
    }

static const field fields[] = {
    READ("model", BOTH, read_model),
    READ("messages", CHAT, keep_messages),
    READ("prompt", TEXT, keep_prompt),
    READ("prompt_token_ids", TEXT, keep_prompt_ids),
    READ("max_tokens", BOTH, read_max_tokens),
    READ("max_completion_tokens", CHAT, read_max_completion_tokens),
    READ("min_tokens", BOTH, read_min_tokens),
    NUMBER("temperature", temperature, 0, DBL_MAX),
    NUMBER("top_p", top_p, 0, 1),
    READ("top_k", BOTH, read_top_k),
    NUMBER("min_p", min_p, 0, 1),
    NUMBER("presence_penalty", presence_penalty, -2, 2),
    NUMBER("frequency_penalty", frequency_penalty, -2, 2),
    NUMBER("repetition_penalty", repetition_penalty, DBL_MIN, DBL_MAX),
    READ("logit_bias", BOTH, read_logit_bias),
    READ("n", BOTH, read_n),
    READ("best_of", TEXT, read_best_of),
    READ("seed", BOTH, read_seed),
    READ("stop", BOTH, read_stop),
    READ("stop_token_ids", BOTH, read_stop_ids),
    READ("ignore_eos", BOTH, read_ignore_eos),
    READ("verification", BOTH, read_verification),
    READ("logprobs", BOTH, read_logprobs),
    READ("top_logprobs", CHAT, read_top_logprobs),
    READ("return_token_ids", BOTH, read_return_token_ids),
    READ("echo", TEXT, read_echo),
    READ("suffix", TEXT, read_suffix),
    READ("thinking", CHAT, di_api_read_thinking),
    READ("thinking_mode", CHAT, di_api_read_thinking_mode),
    READ("chat_template_kwargs", CHAT, di_api_read_template_kwargs),
    READ("reasoning_effort", CHAT, di_api_read_effort),
    READ("drop_thinking", CHAT, keep_drop_thinking),
    READ("tools", CHAT, keep_tools),
    READ("tool_choice", CHAT, di_api_read_tool_choice),
    READ("parallel_tool_calls", CHAT, read_parallel_calls),
    READ("response_format", BOTH, di_api_read_response_format),
    READ("so_args", BOTH, di_api_read_so_args),
    READ("guided_json", BOTH, di_api_read_guided),
    READ("guided_regex", BOTH, di_api_read_guided),
    READ("guided_grammar", BOTH, di_api_read_guided),
    READ("priority", BOTH, read_priority),
    READ("timeout", BOTH, read_timeout),
    READ("stream", BOTH, read_stream),
    READ("stream_options", BOTH, read_stream_options),
    IGNORE("user"),
    IGNORE("metadata"),
    IGNORE("store"),
    IGNORE("service_tier"),
    IGNORE("safety_identifier"),
    IGNORE("prompt_cache_key"),
    IGNORE("prompt_cache_retention"),
};

static const field *find_field(const char *name, size_t len, unsigned endpoints)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strlen(fields[i].name) == len && memcmp(fields[i].name, name, len) == 0)
            return fields[i].endpoints & endpoints ? &fields[i] : NULL;
    return NULL;
}

bool di_api_field_exists(const char *name, size_t len)
{
    return find_field(name, len, BOTH) != NULL;
}

static di_status read_field(di_api_reader *r, const field *f, const di_jval *value)
{
    switch (f->kind) {
    case FIELD_READ:
        return f->read(r, f->name, value);
    case FIELD_NUMBER:
        return di_api_read_number(f->name, value, f->low, f->high,
                                  (double *)((char *)&r->prompt.sampling + f->offset));
    case FIELD_IGNORE:
        return DI_OK;
    }
    return DI_OK;
}

di_status di_api_fields_read(di_api_reader *reader, const di_jval *body)
{
    const bool is_chat = reader->request->endpoint == DI_API_CHAT_COMPLETIONS;
    for (const di_jval *m = body->first; m; m = m->next) {
        const field *f = find_field(m->key, m->key_len, is_chat ? CHAT : TEXT);
        if (!f) {
            snprintf(reader->unknown, sizeof reader->unknown, "%.*s",
                     (int)(m->key_len < 40 ? m->key_len : 40), m->key);
            return di_fail(DI_ERR_ARGUMENT, "%s: found a field that %s does not have",
                           reader->unknown, is_chat ? "/v1/chat/completions" : "/v1/completions");
        }
        if (m->kind != DI_JNULL)
            DI_TRY(read_field(reader, f, m));
    }
    return DI_OK;
}
