/* Writing response bodies: JSON with ", " and ": " between its parts, on one line. */
#ifndef DI_API_WRITER_H
#define DI_API_WRITER_H

#include "base/buf.h"
#include "deepinfer/tools.h"
#include "text/tokenizer.h"

/* di_api_response_write without a model. Appends. */
DI_WARN_UNUSED di_status di_api_response_append(const di_tokenizer *tokenizer,
                                                const di_api_request *request,
                                                const di_api_response *response,
                                                const di_result *const *results, di_buf *out);
DI_WARN_UNUSED di_status di_api_error_append(const di_api_error *error, di_buf *out);

/* The end of a function that gives out malloc'ed text: `buf`'s on DI_OK, else it is freed. */
DI_WARN_UNUSED di_status di_api_give_out(di_status status, di_buf *buf, char **json, size_t *bytes);
/* Appends 28 random hexadecimal digits. */
DI_WARN_UNUSED di_status di_api_random_digits(di_buf *out);

/* {"role": "assistant", ...} of a completion's text. salt distinguishes the ids of its tool calls
 * from those of other messages. */
DI_WARN_UNUSED di_status di_api_message_append(const di_result *result, bool is_thinking,
                                               uint64_t salt, bool *has_calls, di_buf *out);

/* {"content": [...]} of a chat's choice. */
DI_WARN_UNUSED di_status di_api_chat_logprobs_append(const di_tokenizer *tokenizer,
                                                     const di_result *result, di_buf *out);
/* {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of a completion's choice. has_echo:
 * the prompt's tokens first; begins_with_bos: the first of them is not part of the text. */
typedef struct di_api_logprobs_form {
    bool has_echo, begins_with_bos;
} di_api_logprobs_form;
DI_WARN_UNUSED di_status di_api_text_logprobs_append(const di_tokenizer *tokenizer,
                                                     const di_result *result,
                                                     di_api_logprobs_form form, di_buf *out);

#endif
