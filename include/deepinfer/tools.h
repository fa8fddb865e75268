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

/* --------------------------------------------------------- structured output without a model */

/* A vocabulary prepared for token masks: shared by any number of checkers and threads. */
typedef struct di_vocab di_vocab;
DI_API di_status di_vocab_open(const di_tokenizer *tokenizer, di_vocab **out);
DI_API void di_vocab_close(di_vocab *vocab); /* NULL is fine */

/* A compiled constraint and a text in progress. One thread at a time. */
typedef struct di_checker di_checker;
/* vocab NULL: texts only, no tokens. */
DI_API di_status di_checker_create(const di_so_args *args, di_vocab *vocab, di_checker **out);
DI_API void di_checker_destroy(di_checker *checker); /* NULL is fine */
/* With lenient: a line for each keyword that is not enforced; else "". Lives as long as the
 * checker. */
DI_API const char *di_checker_not_enforced(const di_checker *checker);
/* Whether a generator could give exactly this text and then stop. */
DI_API di_status di_checker_match(di_checker *checker, const char *text, size_t bytes,
                                  bool *accepted);
/* Token by token: begin, then for each token mask (optional) and accept. mask sets bit id % 64 of
 * word id / 64 for each token that may come next; n_words as di_checker_mask_words says. */
DI_API di_status di_checker_begin(di_checker *checker);
DI_API size_t di_checker_mask_words(const di_checker *checker);
DI_API di_status di_checker_mask(di_checker *checker, uint64_t *words);
/* *accepted false: nothing was read. */
DI_API di_status di_checker_accept(di_checker *checker, int32_t token_id, bool *accepted);
DI_API bool di_checker_may_end(const di_checker *checker);

/* A member of a JSON object as it is written: numbers keep their digits, members their order. */
typedef struct di_json_slice {
    const char *text; /* into the object's text */
    size_t bytes;
} di_json_slice;
/* False if the object has no member of this name, or ends before its value does. The text need not
 * be valid JSON: whoever reads the value says what is wrong with it. `name` is without escapes. */
DI_API bool di_json_member(const char *object, size_t bytes, const char *name,
                           di_json_slice *value);

/* How long each of many calls took. Release with di_time_list_free. */
typedef struct di_time_list {
    int64_t *ns;
    size_t n, cap;
} di_time_list;

typedef struct di_time_tails {
    size_t n;
    int64_t p50, p90, p99,
        worst; /* ns; pX: the one at X % of n - 1 in ascending order, rounded down */
} di_time_tails;

DI_API di_status di_time_list_add(di_time_list *list, int64_t ns);
DI_API di_time_tails di_time_list_tails(di_time_list *list); /* sorts; all 0 of an empty list */
DI_API void di_time_list_free(di_time_list *list);

typedef struct di_check_times {
    di_time_list vocab, compile, mask, accept;
} di_check_times;

/* di_vocab_open, di_checker_create, timed. */
DI_API di_status di_vocab_open_timed(const di_tokenizer *tokenizer, di_check_times *times,
                                     di_vocab **out);
DI_API di_status di_checker_create_timed(const di_so_args *args, di_vocab *vocab,
                                         di_check_times *times, di_checker **out);
/* As di_checker_match, token by token: each must be in the mask before it. */
DI_API di_status di_checker_match_tokens(di_checker *checker, const di_tokenizer *tokenizer,
                                         const char *text, size_t bytes, di_check_times *times,
                                         bool *accepted);

/* A line of cases: a JSON object {"schema"|"regex"|"ebnf"|"tool_calls", "text"|"hex"} that
 * may hold id, root, strict, any_order, max_whitespace (missing: no bound), lenient and accept. */
typedef struct di_check_row {
    di_so_args so;    /* schema_type DI_SCHEMA_NONE: it has none */
    const char *id;   /* JSON; NULL: it has none */
    const char *text; /* NULL: it has none */
    size_t text_bytes;
    int wanted; /* its verdict "accept": 1, 0; -1: it has none */
    void *owned;
} di_check_row;

/* DI_ERR_INPUT if the line is no such object. Release with di_check_row_free. */
DI_API di_status di_check_row_read(const char *line, size_t bytes, di_check_row *out);
DI_API void di_check_row_free(di_check_row *row);
/* Whether two rows have equal constraints. */
DI_API bool di_check_row_same(const di_check_row *a, const di_check_row *b);

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

/* ----------------------------------------------- requests and responses in OpenAI's format */

/* docs/batch.md lists the fields of the two request bodies and what the responses hold. */
typedef enum di_api_endpoint {
    DI_API_CHAT_COMPLETIONS, /* "/v1/chat/completions" */
    DI_API_COMPLETIONS       /* "/v1/completions" */
} di_api_endpoint;

/* Why a request was refused or failed: what an OpenAI error object says, with its HTTP status. */
typedef struct di_api_error {
    int http_status;  /* 400 for whatever is wrong with the request itself */
    const char *type; /* static; "invalid_request_error", "server_error", ... */
    const char *code; /* static; NULL = none */
    char param[48];   /* the field it is about; "" = none */
    char message[1024];
} di_api_error;

/* A failed call's status and error text, or those of a failed sample, as an API error. */
DI_API void di_api_error_set(di_status status, const char *text, di_api_error *out);
/* {"error": {"message", "type", "param", "code"}}. *json is malloc'ed, release with di_free. */
DI_API di_status di_api_error_write(const di_api_error *error, char **json, size_t *bytes);

/* A read request. Everything it points to is its own. */
typedef struct di_api_request {
    di_api_endpoint endpoint;
    const di_request *prompts; /* to submit, each; all have the same sampling parameters */
    size_t n_prompts;          /* 1 for a chat */
    const char *model;         /* NULL = not given */
    bool is_thinking;          /* chat: the answer begins with its reasoning */
    bool has_echo;             /* completions: the prompt's text goes in front */
    bool returns_token_ids;
    bool is_stream, has_stream_usage;
} di_api_request;

/* Reads a request body over the model's sampling defaults. A body that is refused is DI_ERR_INPUT,
 * DI_ERR_ARGUMENT or DI_ERR_UNSUPPORTED and sets *error too. */
DI_API di_status di_api_request_read(const di_model *model, di_api_endpoint endpoint,
                                     const char *body, size_t bytes, di_api_request **out,
                                     di_api_error *error);
DI_API void di_api_request_free(di_api_request *request); /* NULL is fine */

/* What distinguishes one response from another of the same outcome. */
typedef struct di_api_response {
    char id[48];       /* "chatcmpl-..." or "cmpl-..." */
    int64_t created;   /* Unix time in seconds */
    const char *model; /* used if the request names none; borrowed */
} di_api_response;

/* A fresh id and the time. */
DI_API di_status di_api_response_begin(const di_api_request *request, const char *model,
                                       di_api_response *out);
/* Writes the response body: results[i] is the list of samples of prompts[i], all of them finished.
 * Choices are numbered prompt by prompt. A failed sample fails the whole (di_api_error_set with its
 * status and error says why); this then returns that status. *json is malloc'ed. */
DI_API di_status di_api_response_write(const di_model *model, const di_api_request *request,
                                       const di_api_response *response,
                                       const di_result *const *results, char **json, size_t *bytes);

/* One line of a batch file. */
typedef struct di_api_batch_line {
    const char *custom_id; /* NULL: there is none that could be read */
    di_api_endpoint endpoint;
    const char *body; /* the request's JSON text */
    size_t body_bytes;
    uint64_t hash;      /* of url and body, or of a bad line's bytes */
    bool is_bad;        /* then `error` says why, and endpoint and body are not set */
    di_api_error error; /* of a bad line */
} di_api_batch_line;

/* A bad line is no failure of this call. Free with di_api_batch_line_free. */
DI_API di_status di_api_batch_line_read(const char *line, size_t bytes, di_api_batch_line **out);
DI_API void di_api_batch_line_free(di_api_batch_line *line); /* NULL is fine */

/* One line of a results file. */
typedef struct di_api_batch_result {
    const char *custom_id; /* NULL: the line had none */
    size_t line;           /* its number in the batch file, from 1 */
    uint64_t hash;         /* of the request */
    int http_status;
    const char *body; /* response body as JSON text; with `error` it is not looked at */
    size_t body_bytes;
    const di_api_error *error; /* NULL: answered */
} di_api_batch_result;

/* Every line begins so. */
#define DI_API_BATCH_RESULT_START "{\"id\": \"batch_req_"
/* One line with its newline. *json is malloc'ed. */
DI_API di_status di_api_batch_result_write(const di_api_batch_result *result, char **json,
                                           size_t *bytes);
/* Reads such a line again, without its newline: all but body and error are set. Free custom_id with
 * di_free. */
DI_API di_status di_api_batch_result_read(const char *line, size_t bytes, di_api_batch_result *out);

/* ------------------------------------------------------------------------- scoring, looking */

/* The token every text begins with. */
DI_API int32_t di_model_bos_id(const di_model *model);

typedef struct di_score_options {
    int64_t prefill; /* tokens to prefill; the rest is decoded one by one; < 0 or > n: all */
    int64_t chunk;   /* tokens of one prefill pass; 0 = max_step_tokens */
    int64_t prompt;  /* the first tokens whose logits but the last one's are not wanted, as of a
                        request's prompt: their prefill may be truncated; 0 = none, and it is not */
} di_score_options;

/* logits [vocab_size] after token `position`, valid during the call only. Return false to stop
 * (DI_ERR_CANCELLED). */
typedef bool (*di_score_fn)(void *user, int64_t position, const float *logits, int32_t vocab_size);

/* Logits of every position of one sequence, or of those from the prompt's last one on. */
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

typedef struct di_selftest_options {
    bool is_full;              /* more and longer requests, more shapes */
    uint64_t seed;             /* of the requests and of the kernels' inputs; 0 = 1 */
    bool (*go_on)(void *user); /* asked between steps; false: DI_ERR_CANCELLED. NULL: go on */
    void *user;
} di_selftest_options;

/* Checks on this machine, with this model and these options, that results depend on the request
 * alone (docs/determinism.md). Prints a line a check on `out`: ok or FAILED, its name, what was
 * compared, and the first difference. DI_ERR_RUNTIME with their number if checks failed. */
DI_API di_status di_selftest_run(di_model *model, const di_options *options,
                                 const di_selftest_options *selftest, FILE *out);

typedef struct di_bench_kernels_options {
    const char *op;     /* the one operation to time; NULL: all */
    const char *device; /* "cuda:0": GPU kernels there; NULL: this machine's CPU */
    const char *config; /* a config.json whose shapes to take; NULL: the released model's */
    const int *thread_counts;
    size_t n_thread_counts;    /* 0: one, and the options' number of threads */
    double seconds;            /* for a row and for a ceiling; 0 = 0.3 */
    int64_t memory_bytes;      /* that the weights go through; 0: four times the last cache */
    bool has_references;       /* the references too where there are other kernels */
    bool has_small_pages;      /* weights in 4 KiB pages; else in 2 MiB pages */
    bool is_list;              /* prints operations and shapes only */
    FILE *json;                /* the results once more; NULL: nowhere */
    bool (*go_on)(void *user); /* asked between rows; false: DI_ERR_CANCELLED. NULL: go on */
    void *user;
} di_bench_kernels_options;

/* Times every usable kernel of this machine at the model's shapes (docs/benchmarks.md). Forced
 * kernels are timed alone for their operation. bench may be NULL. */
DI_API di_status di_bench_kernels(const di_options *options, const di_bench_kernels_options *bench,
                                  FILE *out);

enum { DI_BENCH_MAX_BATCH = 256 };

typedef struct di_bench_layers_options {
    int n_layers;              /* of the model's; 0 = 2 */
    const int64_t *batches;    /* sequences that decode together, 1 to DI_BENCH_MAX_BATCH */
    size_t n_batches;          /* 0: 1 and 16 */
    const int64_t *contexts;   /* tokens before the decoded ones */
    size_t n_contexts;         /* 0: 4096 */
    int64_t prefill;           /* tokens to prefill in one pass after each context; 0 = none */
    int64_t n_experts;         /* distinct routed experts in memory; 0: by the caches' size */
    const char *config;        /* a config.json whose shape to run; NULL: the released model's */
    double seconds;            /* for each batch at each context; 0 = 3 */
    int64_t memory_bytes;      /* for the memory's ceiling; 0: four times the last cache */
    FILE *json;                /* the results once more; NULL: nowhere */
    bool (*go_on)(void *user); /* asked between steps; false: DI_ERR_CANCELLED. NULL: go on */
    void *user;
} di_bench_layers_options;

/* Times decode and prefill through layers of the model's shape with synthetic weights, operation by
 * operation, and what follows for the whole model (docs/benchmarks.md). bench may be NULL. Not to
 * be called from two threads at once. */
DI_API di_status di_bench_layers(const di_options *options, const di_bench_layers_options *bench,
                                 FILE *out);

typedef struct di_bench_experts_options {
    int64_t n_tokens;          /* 0 = 16 */
    int repeat_percent;        /* of a token's experts that the next one has too */
    uint64_t seed;             /* of the routing; 0 = 1 */
    bool (*go_on)(void *user); /* asked between tokens; false: DI_ERR_CANCELLED. NULL: go on */
    void *user;
} di_bench_experts_options;

/* Times reading the routed experts of made-up tokens, as the forward pass would ask for them: by
 * page faults, with read-ahead, and through a cache of the options' weight_cache bytes if there are
 * any. Drops the model's files from the page cache. bench may be NULL. */
DI_API di_status di_bench_experts(di_model *model, const di_options *options,
                                  const di_bench_experts_options *bench, FILE *out);

typedef struct di_bench_speculation_options {
    const int64_t *batches; /* sequences that decode together, 1 to 64 */
    size_t n_batches;       /* 0: 1, 2, 4, ... 64 */
    int64_t n_tokens;       /* of each sequence; 0 = 96 */
    int n_rounds;           /* of all modes in turns; 0 = 5 */
    double temperature;
    double accepted_len;       /* 0: as drafts are right. Else so many tokens a pass are taken on
                                  average, right or not, to time a drafter of that quality */
    bool (*go_on)(void *user); /* asked between steps; false: DI_ERR_CANCELLED. NULL: go on */
    void *user;
} di_bench_speculation_options;

/* Times decodes of a checkpoint with a drafter, without drafts, with all verified and with as many
 * as pay, and prints beside it what the measured costs predict (docs/benchmarks.md). bench may be
 * NULL. */
DI_API di_status di_bench_speculation(di_model *model, const di_options *options,
                                      const di_bench_speculation_options *bench, FILE *out);

typedef struct di_bench_structured_options {
    const char *rows;          /* a file of di_check_row lines; NULL: grammars of its own */
    int n_rounds;              /* of each call the shortest time counts; 0 = 5 */
    FILE *json;                /* the results once more; NULL: nowhere */
    bool (*go_on)(void *user); /* asked between grammars; false: DI_ERR_CANCELLED. NULL: go on */
    void *user;
} di_bench_structured_options;

/* Times preparing the vocabulary, compiling constraints, masks and tokens, on this thread
 * (docs/benchmarks.md). bench may be NULL. */
DI_API di_status di_bench_structured(const di_tokenizer *tokenizer,
                                     const di_bench_structured_options *bench, FILE *out);

/* Every kernel candidate of every operation, the chosen one starred. */
DI_API di_status di_print_kernels(const di_options *options, FILE *out);
/* The GPUs of this machine, a line each, and why one cannot be used. DI_ERR_UNSUPPORTED if this
 * build has no GPU backend or this machine no driver. */
DI_API di_status di_print_devices(FILE *out);
/* The effective options and where each comes from (option, environment, default). */
DI_API di_status di_print_options(const di_options *options, FILE *out);
/* The CPUs, CPU time and NUMA nodes that this process may use, and where an engine's workers would
 * be. */
DI_API di_status di_print_workers(const di_options *options, FILE *out);
/* Value of a DEEPINFER_* string option that only the program uses, e.g. "hf_model_dir"; NULL if
 * unset. Checks the whole environment: an unknown DEEPINFER_* name is DI_ERR_ARGUMENT. */
DI_API di_status di_option_string(const char *name, const char **out);

#ifdef __cplusplus
}
#endif

#endif
