/* deepinfer: what the program and developer tools need beside deepinfer.h. UNSTABLE: may change
 * with every version. Same conventions as deepinfer.h. */
#ifndef DEEPINFER_TOOLS_H
#define DEEPINFER_TOOLS_H

#include <stdio.h>

#include "deepinfer/deepinfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------ tokenizer alone */

typedef struct di_tokenizer di_tokenizer;

/* Opens a tokenizer.json, plain or inside the directory `path`. */
DI_API di_status di_tokenizer_open(const char *path, di_tokenizer **out);
DI_API void di_tokenizer_close(di_tokenizer *tokenizer);
/* As di_tokenize and di_detokenize. */
DI_API di_status di_tokenizer_encode_text(const di_tokenizer *tokenizer, const char *text,
                                          size_t text_bytes, bool parse_special, int32_t **ids,
                                          size_t *n_ids);
DI_API di_status di_tokenizer_decode_ids(const di_tokenizer *tokenizer, const int32_t *ids,
                                         size_t n_ids, bool skip_special, char **text,
                                         size_t *text_bytes);
/* A copy of text in which each sequence of bytes that is not UTF-8 is one U+FFFD, for places that
 * must be UTF-8 (JSON). *out is malloc'ed and NUL-terminated, release with di_free. */
DI_API di_status di_utf8_replace_invalid(const char *text, size_t text_bytes, char **out,
                                         size_t *out_bytes);

/* ---------------------------------------------------------------------------- chat format */

/* One JSON object {"messages": [...], "thinking_mode": "chat"|"thinking", ...} to the prompt text.
 * *prompt is malloc'ed, release with di_free. */
DI_API di_status di_chat_encode_json(const char *request_json, size_t bytes, char **prompt,
                                     size_t *prompt_bytes);
/* A completion text to {"role": "assistant", "content", "reasoning_content", "tool_calls"} as JSON.
 * thinking_mode: "chat" or "thinking". *message_json is malloc'ed. */
DI_API di_status di_chat_parse_text(const char *text, size_t bytes, const char *thinking_mode,
                                    char **message_json);

/* Streaming: gives the parts of a completion as its text arrives. */
typedef enum di_delta_kind {
    DI_DELTA_REASONING, /* text of the thinking part */
    DI_DELTA_CONTENT,   /* text of the answer */
    DI_DELTA_TOOL_CALL, /* a tool call is complete: `name`, text = arguments as JSON */
} di_delta_kind;

/* text is valid during the call only. Return false to stop. */
typedef bool (*di_delta_fn)(void *user, di_delta_kind kind, const char *name, const char *text,
                            size_t text_bytes);
typedef struct di_completion_stream di_completion_stream;
DI_API di_status di_completion_open(const char *thinking_mode, di_delta_fn fn, void *user,
                                    di_completion_stream **out);
DI_API di_status di_completion_push(di_completion_stream *stream, const char *text, size_t bytes);
/* Gives out what was held back; an unfinished tool call becomes content. */
DI_API di_status di_completion_finish(di_completion_stream *stream);
DI_API void di_completion_close(di_completion_stream *stream);

/* ------------------------------------------------------------------------- scoring, looking */

/* The token every text begins with. */
DI_API int32_t di_model_bos_id(const di_model *model);

typedef struct di_score_options {
    int64_t prefill; /* tokens to prefill; the rest is decoded one by one; < 0 or > n: all */
    int64_t chunk;   /* tokens of one prefill pass; 0 = max_step_tokens */
} di_score_options;

/* logits [vocab_size] after token `position`, valid during the call only. Return false to stop
 * (DI_ERR_CANCELLED). */
typedef bool (*di_score_fn)(void *user, int64_t position, const float *logits, int32_t vocab_size);

/* Logits of every position of one sequence. */
DI_API di_status di_score(di_model *model, const di_options *options, const int32_t *ids,
                          size_t n_ids, const di_score_options *score, di_score_fn fn, void *user);

typedef struct di_inspect_options {
    const char *tensor; /* NULL, or the tensor to print */
    bool memplan;       /* print the memory plan of a checkpoint directory */
    int64_t n_values;   /* values of the tensor to print; 0 = 64, < 0 = all */
} di_inspect_options;

/* Prints a checkpoint directory (config, tensors by kind, problems) or one .safetensors file.
 * Problems are all listed on `out`; the status then is DI_ERR_INPUT with their count. */
DI_API di_status di_inspect(const char *path, const di_options *options,
                            const di_inspect_options *inspect, FILE *out);

/* Every kernel candidate of every operation, the chosen one starred. */
DI_API di_status di_print_kernels(const di_options *options, FILE *out);
/* The effective options and where each comes from (option, environment, default). */
DI_API di_status di_print_options(const di_options *options, FILE *out);
/* Value of a DEEPINFER_* string option that only the program uses, e.g. "hf_model_dir"; NULL if
 * unset. Checks the whole environment: an unknown DEEPINFER_* name is DI_ERR_ARGUMENT. */
DI_API di_status di_option_string(const char *name, const char **out);

#ifdef __cplusplus
}
#endif

#endif
