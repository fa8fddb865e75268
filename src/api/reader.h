/* Reading a request body: one function a field, in the table of fields.c; request.c puts together
 * what they found. An error text begins with the field's name, which becomes the error's `param`.
 */
#ifndef DI_API_READER_H
#define DI_API_READER_H

#include "base/arena.h"
#include "deepinfer/tools.h"
#include "text/encoding_json.h"

enum {
    DI_API_MAX_PROMPTS = 2048,
    DI_API_DEFAULT_COMPLETION_TOKENS = 16 /* what OpenAI's completions give without max_tokens */
};

/* What a body is read against. */
typedef struct di_api_setup {
    di_sampling_params defaults;
    int32_t vocab_size;
} di_api_setup;

typedef enum di_api_mode { DI_API_MODE_UNSET, DI_API_MODE_CHAT, DI_API_MODE_THINKING } di_api_mode;

typedef struct di_api_reader {
    di_arena *arena; /* of the request: what its fields point to */
    int32_t vocab_size;
    di_api_request *request;
    di_request prompt; /* what all prompts have in common */

    bool has_max_tokens, has_max_completion_tokens;
    int64_t max_completion_tokens;
    bool has_logprobs;
    int32_t top_logprobs; /* chat; -1 = not given */
    int64_t best_of;      /* 0 = not given */

    const di_jval *prompts, *prompt_ids; /* completions; NULL = not given */
    const di_jval *messages, *tools;     /* chat; NULL = not given */
    const di_jval *effort, *drop_thinking;
    const di_jval *tool_choice; /* that asks for calls; NULL = none does */
    bool hides_tools;
    bool wants_one_call;
    di_api_mode mode;

    char unknown[48]; /* the member that is no field; "" = none */
} di_api_reader;

/* di_api_request_read without a model. */
DI_WARN_UNUSED di_status di_api_request_parse(const di_api_setup *setup, di_api_endpoint endpoint,
                                              const char *body, size_t bytes, di_api_request **out,
                                              di_api_error *error);

/* Reads every member of the body. */
DI_WARN_UNUSED di_status di_api_fields_read(di_api_reader *reader, const di_jval *body);
/* Whether some endpoint has a field of this name. */
bool di_api_field_exists(const char *name, size_t len);

/* Values. Texts are refused if they hold NUL: C strings follow. */
DI_WARN_UNUSED di_status di_api_read_bool(const char *name, const di_jval *value, bool *out);
DI_WARN_UNUSED di_status di_api_read_integer(const char *name, const di_jval *value, int64_t low,
                                             int64_t high, int64_t *out);
DI_WARN_UNUSED di_status di_api_read_number(const char *name, const di_jval *value, double low,
                                            double high, double *out);
DI_WARN_UNUSED di_status di_api_read_text(di_arena *arena, const char *name, const di_jval *value,
                                          const char **out);
/* An array of token ids below vocab_size. */
DI_WARN_UNUSED di_status di_api_read_ids(di_api_reader *reader, const char *name,
                                         const di_jval *value, const int32_t **ids, size_t *n_ids);
size_t di_api_count(const di_jval *array);

/* fields_structured.c: they set the prompt's so_args. */
DI_WARN_UNUSED di_status di_api_read_response_format(di_api_reader *reader, const char *name,
                                                     const di_jval *value);
DI_WARN_UNUSED di_status di_api_read_so_args(di_api_reader *reader, const char *name,
                                             const di_jval *value);
DI_WARN_UNUSED di_status di_api_read_guided(di_api_reader *reader, const char *name,
                                            const di_jval *value);

/* fields_chat.c */
DI_WARN_UNUSED di_status di_api_read_thinking(di_api_reader *reader, const char *name,
                                              const di_jval *value);
DI_WARN_UNUSED di_status di_api_read_thinking_mode(di_api_reader *reader, const char *name,
                                                   const di_jval *value);
DI_WARN_UNUSED di_status di_api_read_template_kwargs(di_api_reader *reader, const char *name,
                                                     const di_jval *value);
DI_WARN_UNUSED di_status di_api_read_effort(di_api_reader *reader, const char *name,
                                            const di_jval *value);
DI_WARN_UNUSED di_status di_api_read_tool_choice(di_api_reader *reader, const char *name,
                                                 const di_jval *value);
/* fields_structured.c: the prompt's so_args for the calls that tool_choice asks for. */
DI_WARN_UNUSED di_status di_api_set_tool_calls(di_api_reader *reader);
/* The one prompt of a chat. */
DI_WARN_UNUSED di_status di_api_chat_prompt(di_api_reader *reader);

#endif
