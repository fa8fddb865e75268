/* deepinfer: inference of DeepSeek-V4.1-Flash checkpoints. Public C API.
 *
 * A model is an opened checkpoint (memory-mapped weights, config, tokenizer); it never changes
 * after di_model_open and may be shared by several engines and threads. An engine holds the KV
 * cache and the requests in flight, and turns requests into outputs one step at a time.
 *
 *     di_model *model;
 *     di_engine *engine;
 *     di_model_open("/models/v4.1-flash", NULL, &model);
 *     di_engine_create(model, NULL, &engine);
 *     di_request request = DI_REQUEST_INIT;
 *     request.text = "Once upon a time";
 *     di_result *result;
 *     di_generate(engine, &request, NULL, NULL, &result);
 *     puts(result->text);
 *
 * Conventions
 * - Fallible functions return di_status; outputs are last and set only on success. di_last_error()
 *   is the one-line text of the calling thread's latest failure.
 * - Structs passed in are borrowed for the call only. Structs given out say who frees them.
 * - There is no global state: two models, or two engines of one model, know nothing of each other.
 * - Threads: di_engine_submit, di_engine_cancel, di_engine_poll may be called from any thread at
 *   any time, di_engine_take_result and di_engine_get_stats too; di_engine_step and di_generate
 *   also, whose steps take turns. One thread at a time polls, since an output lives until the next
 *   poll. Everything on a model but di_model_close is free-threaded.
 * - Text is UTF-8. Token ids are int32, 0 <= id < vocab_size.
 */
#ifndef DEEPINFER_H
#define DEEPINFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DI_VERSION_MAJOR 0
#define DI_VERSION_MINOR 1
#define DI_VERSION_PATCH 0

#if defined(__GNUC__)
#define DI_API __attribute__((visibility("default")))
#else
#define DI_API
#endif

typedef enum di_status {
    DI_OK = 0,
    DI_ERR_ARGUMENT = 1, /* the caller's fault: a value out of its range, a NULL, an unknown name */
    DI_ERR_INPUT = 2,    /* a file or message is not what it must be */
    DI_ERR_IO = 3,       /* the system refused: not found, no permission, disk full, network */
    DI_ERR_MEMORY = 4,   /* an allocation failed, or a plan does not fit the given budget */
    DI_ERR_UNSUPPORTED = 5, /* well formed, but this build or machine cannot do it */
    DI_ERR_RUNTIME = 6,     /* failed while computing: non-finite logits, file cut while mapped */
    DI_ERR_CANCELLED = 7
} di_status;

DI_API const char *di_status_name(di_status status);
/* Text of the calling thread's latest error; "" if none. Valid until its next call. */
DI_API const char *di_last_error(void);
DI_API const char *di_version(void); /* "0.1.0" */

/* ---------------------------------------------------------------------------------- options */

typedef struct di_options {
    /* Everything 0 or NULL means: the DEEPINFER_* environment variable if set, else the default.
     * `deepinfer config` prints the effective values; docs/options.md lists them. */
    const char *accelerator;  /* "cpu" (default), "nvidia"; anything else is refused */
    int n_threads;            /* CPU worker threads; default: the cores this process may use */
    const char *pin;          /* "auto" (default): workers stay on a core each where they take all
                                 cores of this process; "on", "off". Only threads of the library
                                 are pinned, never the caller's */
    int max_step_tokens;      /* most tokens of one forward pass = the prefill chunk; default 512 */
    int64_t max_context_len;  /* tokens a sequence may have; default: the config's limit */
    int max_seqs;             /* most sequences running at once; default 256 */
    int64_t kv_cache_bytes;   /* KV-cache budget; default: an eighth of this machine's memory or,
                                 if it is less, of the control group's limit, and at most half of
                                 what is available; room for one sequence of max_context_len in any
                                 case */
    double kv_cache_fraction; /* KV-cache budget instead of kv_cache_bytes: a part, up to 1, of the
                                 memory available to this process (control groups included) that
                                 weights outside experts, step memory and weight_cache leave */
    const char *weights;      /* "map" (default): read in place from the mapped files; "copy": what
                                 every pass reads is copied into large pages, on the NUMA nodes of
                                 the workers that read it, by di_model_open; faster, and the model
                                 then takes that memory */
    int64_t weight_cache; /* bytes for routed experts, which then are read from the files as they
                             are wanted; default: none, they are read in place from the mapped
                             files and the system decides what stays in memory */
    const char *prefix_cache; /* "exact" (default): a prompt's beginning that was computed before is
                                 not computed again, with equal bits; "replay": more hits, whose
                                 window is rebuilt approximately; "off" */
    int prefix_interval; /* tokens between places where an exact hit can end, beside the ends of
                            prompts and outputs and where prompts part; default 1024. Each keeps
                            sliding_window tokens of all layers in the KV cache while it has room */
    const char *prefill_truncation; /* "off" (default): every layer computes every token of a
                                       prompt; "compact": the layers from the last KV source on only
                                       its last prefill_keep tokens, which is nearly half of the
                                       work less and approximate; "exact": with all that these
                                       depend on, with the bits of "off". Requests with prompt
                                       logprobs are not truncated */
    int prefill_keep; /* tokens, at least sliding_window and what speculation may take back; default
                         140 */
    const char *async_scheduling; /* "on" (default): a step is scheduled while the last one runs */
    const char *batch_invariant; /* "on" (default): results do not depend on the batch. "off" allows
                                    faster kernels that do; this build's CPU kernels all are */
    const char *speculation; /* "auto" (default): tokens behind the one that is computed are guessed
                                and verified by the same pass, where the checkpoint has draft layers
                                or a grammar forces text; the tokens that come out are the same,
                                seeded or not, unless a request asks for another rule
                                (di_verification). "on": refused without draft layers. "off" */
    int draft_len;           /* most guesses verified at once for one sequence, 1 to 7; default 5 */
    const char *draft_varlen; /* "on" (default): as many are verified as pay, by the drafter's
                                 confidence and measured times; "off": all */
    const char *isa;          /* highest CPU kernel level to use, e.g. "ref"; default: the best */
    const char *kernels;      /* "op=kernel,op=kernel": forces kernels, for bisecting */
} di_options;

/* -------------------------------------------------------------------------------------- model */

typedef struct di_model di_model;

/* Opens a checkpoint directory: plain, a Hugging Face cache snapshot, or a cache entry
 * ("models--org--name", resolved through refs/main). Every tensor of the config is looked up and
 * its dtype, shape and scale shape checked before this returns; nothing is copied. Its files must
 * not be cut while it is open: between passes that is noticed (DI_ERR_RUNTIME), within one it is a
 * SIGBUS. Free with di_model_close after all its engines. */
DI_API di_status di_model_open(const char *path, const di_options *options, di_model **out);
DI_API void di_model_close(di_model *model); /* NULL is fine */

DI_API int32_t di_model_vocab_size(const di_model *model);
DI_API int64_t di_model_max_context(const di_model *model); /* tokens, prompt and output together */

/* Text to ids. With parse_special, texts of special and added tokens ("<｜User｜>") become those
 * tokens; without, they are ordinary text: use that for anything a user wrote. *ids is malloc'ed,
 * release with di_free. text may hold NUL and invalid UTF-8 (bytes come back unchanged). */
DI_API di_status di_tokenize(const di_model *model, const char *text, size_t text_bytes,
                             bool parse_special, int32_t **ids, size_t *n_ids);
/* Ids to text; *text is malloc'ed and NUL-terminated, *text_bytes excludes the NUL. */
DI_API di_status di_detokenize(const di_model *model, const int32_t *ids, size_t n_ids,
                               bool skip_special, char **text, size_t *text_bytes);
DI_API void di_free(void *memory);

/* ----------------------------------------------------------------------------------- requests */

/* Initialise with DI_SAMPLING_PARAMS_INIT (neutral values), or with di_model_sampling_defaults (the
 * checkpoint's generation_config.json). Values out of range are refused at submission. */
typedef struct di_logit_bias {
    int32_t token_id;
    float bias; /* added to the logit; finite, or -INFINITY to ban the token */
} di_logit_bias;

/* When a guessed token is right. Either way tokens have the distribution that the other parameters
 * say; greedily both give the same. docs/sampling.md, docs/speculation.md. */
typedef enum di_verification {
    DI_VERIFICATION_MATCH = 0, /* if it is the very token that the seed gives without guesses */
    /* By rejection sampling: more of them are right, but a seed no longer gives the same tokens
     * under other guesses (another draft_len, other load): see di_result.is_reproducible. */
    DI_VERIFICATION_REJECT = 1
} di_verification;

/* "match", "reject"; false for any other name, or NULL. */
DI_API bool di_verification_from_name(const char *name, di_verification *out);

typedef struct di_sampling_params {
    double temperature;        /* >= 0; 0 = greedy, ties to the lowest id */
    int32_t top_k;             /* 0 or -1 = off; else keep the top_k largest */
    double top_p;              /* 0 <= top_p <= 1; 1 = off; at least one token stays */
    double min_p;              /* 0 <= min_p <= 1; 0 = off; relative to the most likely token */
    double repetition_penalty; /* > 0; 1 = off; over prompt and output */
    double presence_penalty;   /* -2 .. 2; over the output */
    double frequency_penalty;  /* -2 .. 2; over the output */
    const di_logit_bias *logit_bias;
    size_t n_logit_bias;
    int32_t n; /* samples of this prompt, 1 .. 128, at most max_seqs; each has its own noise */
    bool has_seed;
    uint64_t seed;      /* without has_seed a fresh one is drawn and reported in the result */
    int64_t max_tokens; /* most new tokens; 0 = only score the prompt, -1 = up to the limit */
    int64_t min_tokens; /* EOS, stop ids and stop strings act only after that many new tokens */
    bool ignore_eos;
    const int32_t *stop_ids; /* end the output; the id itself is kept in token_ids, not in text */
    size_t n_stop_ids;
    const char *const *stop; /* strings that end the output; not part of text */
    size_t n_stop;
    int32_t n_logprobs;           /* -1 = none; N >= 0: the chosen token's and the N largest */
    bool processed_logprobs;      /* after penalties, temperature and filters instead of raw */
    bool prompt_logprobs;         /* also for the prompt tokens (from the second on) */
    di_verification verification; /* of guessed tokens, where the engine guesses any */
} di_sampling_params;

#define DI_SAMPLING_PARAMS_INIT                                                                    \
    {                                                                                              \
        .temperature = 1.0, .top_p = 1.0, .repetition_penalty = 1.0, .n = 1, .max_tokens = -1,     \
        .n_logprobs = -1                                                                           \
    }

DI_API void di_model_sampling_defaults(const di_model *model, di_sampling_params *out);

/* Structured output: the answer is a text of a language, and ends when it is complete. Compiled
 * when the request is submitted, in the calling thread, and kept for later requests with equal
 * arguments. What cannot be enforced is refused then. docs/structured-output.md has the dialects.
 */
typedef enum di_schema_type {
    DI_SCHEMA_NONE = 0,
    DI_SCHEMA_REGEX, /* the whole answer matches */
    DI_SCHEMA_JSON,  /* a JSON Schema */
    DI_SCHEMA_EBNF,  /* a grammar in GBNF or xgrammar's EBNF */
    /* Calls of tools in the chat format, and nothing else: `schema` is a JSON object with "tools",
     * "tool_choice" and "parallel_tool_calls" as in a chat request, or the array of tools alone. */
    DI_SCHEMA_TOOL_CALLS
} di_schema_type;

/* "regex", "json_schema" or "json", "ebnf" or "grammar", "tool_calls"; DI_SCHEMA_NONE for any other
 * name. */
DI_API di_schema_type di_schema_type_from_name(const char *name);

typedef struct di_so_args {
    di_schema_type schema_type;
    const char *schema;  /* pattern, grammar or JSON text */
    size_t schema_bytes; /* 0 = strlen(schema) */
    const char *root;    /* EBNF: the rule to start with; NULL = "root" */
    /* JSON and tool calls only, from here on. */
    bool is_fixed_layout;   /* whitespace only as indent and separators say */
    int32_t max_whitespace; /* else: most characters of whitespace in a row; -1 = no bound */
    int32_t indent;         /* fixed layout alone: spaces a level, a member a line; -1 = one line */
    const char *item_separator, *key_separator; /* NULL = by layout */
    bool is_strict; /* objects and arrays have no more members than the schema names */
    bool any_order; /* members of objects in any order, not only the schema's */
    bool lenient;   /* leave keywords out that cannot be enforced, instead of refusing */
    /* All types. */
    bool starts_at_once; /* also in a thinking answer; else the constraint begins after </think> */
} di_so_args;

#define DI_SO_ARGS_INIT                                                                            \
    {                                                                                              \
        .max_whitespace = 32, .indent = -1                                                         \
    }

/* Exactly one of token_ids, text, messages_json is set. */
typedef struct di_request {
    const int32_t *token_ids; /* used as they are */
    size_t n_token_ids;
    const char *text;  /* tokenized as plain text after BOS; special tokens are not parsed */
    size_t text_bytes; /* 0 = strlen(text) */
    const char *messages_json; /* chat: a JSON array of messages, or an object with "messages" and
                                  "thinking_mode", "reasoning_effort", ...; see docs/chat.md */
    bool parse_special;        /* let special tokens in `text` become tokens */
    int priority;              /* lower runs first and is preempted last; default 0 */
    int64_t timeout_ms;        /* from submission; the request then ends with DI_FINISH_ERROR and
                                  DI_ERR_CANCELLED; 0 = none */
    di_sampling_params sampling;
    const di_so_args *so_args; /* NULL = free text */
} di_request;

#define DI_REQUEST_INIT                                                                            \
    {                                                                                              \
        .sampling = DI_SAMPLING_PARAMS_INIT                                                        \
    }

typedef enum di_finish_reason {
    DI_FINISH_NONE = 0, /* still running */
    DI_FINISH_STOP,     /* EOS, a stop id or a stop string */
    DI_FINISH_LENGTH,   /* max_tokens or the context limit */
    DI_FINISH_CANCELLED,
    DI_FINISH_ERROR /* this request failed; others go on */
} di_finish_reason;

DI_API const char *di_finish_reason_name(di_finish_reason reason); /* "stop", "length", ... */

typedef struct di_logprob {
    int32_t token_id;
    float logprob;
    int32_t rank; /* 1 = most likely */
} di_logprob;

/* Logprobs of one position: the chosen token first, then the n_logprobs largest, best first. */
typedef struct di_position_logprobs {
    const di_logprob *entries;
    size_t n_entries;
} di_position_logprobs;

typedef uint64_t di_request_id; /* unique within an engine, never 0 */

/* What one step added to one request. Everything pointed to lives until the next di_engine_poll on
 * the same engine, or the return of the callback: one thread at a time polls. */
typedef struct di_output {
    di_request_id id;
    int32_t sample_index;     /* 0 .. sampling.n - 1 */
    const int32_t *token_ids; /* new tokens */
    size_t n_token_ids;
    const char *text; /* new text, whole UTF-8 characters; may be empty while a character or a
                         possible stop string is incomplete */
    size_t text_bytes;
    const di_position_logprobs *logprobs; /* [n_token_ids], or NULL */
    di_finish_reason finish_reason;
    di_status status;  /* of a request with DI_FINISH_ERROR */
    const char *error; /* its text, else "" */
} di_output;

/* The whole of one request: a list of its samples, in order. Free the first with di_result_free. */
typedef struct di_result {
    const struct di_result *next; /* the next sample; NULL after the last */
    di_request_id id;
    int32_t sample_index;
    size_t n_cached_tokens; /* prompt tokens taken from the prefix cache */
    const int32_t *prompt_token_ids;
    size_t n_prompt_token_ids;
    const int32_t *token_ids;
    size_t n_token_ids;
    const char *text; /* NUL-terminated */
    size_t text_bytes;
    const di_position_logprobs *logprobs;        /* [n_token_ids], or NULL */
    const di_position_logprobs *prompt_logprobs; /* [n_prompt_token_ids], entry 0 empty, or NULL */
    di_finish_reason finish_reason;
    uint64_t seed;            /* the seed used: pass it in to repeat this result */
    bool is_reproducible;     /* false: not by the seed alone, since guesses were to be verified by
                                 rejection, and which there are depends on draft_len and on load */
    double ttft_ms;           /* submission to first token; 0 if there was none */
    double prefill_ms;        /* time spent on the prompt */
    double decode_ms;         /* time spent on the new tokens after the first */
    double tokens_per_second; /* decode rate; 0 with fewer than two tokens */
    di_status status;         /* of a request with DI_FINISH_ERROR */
    const char *error;        /* its text, else "" */
} di_result;

DI_API void di_result_free(di_result *result);

/* ------------------------------------------------------------------------------------- engine */

typedef struct di_engine di_engine;

DI_API di_status di_engine_create(di_model *model, const di_options *options, di_engine **out);
/* NULL is fine; unfinished requests are dropped. */
DI_API void di_engine_destroy(di_engine *engine);

/* Checks the request and queues it. A prompt that is empty, holds an id outside the vocabulary or
 * does not fit the context is refused here. */
DI_API di_status di_engine_submit(di_engine *engine, const di_request *request, di_request_id *out);
/* Ends a request (all its samples) as soon as the running step allows; it still gives a last
 * output. Unknown and finished ids are ignored. */
DI_API void di_engine_cancel(di_engine *engine, di_request_id id);
/* Schedules and starts the next forward pass over the running requests' tokens and collects a
 * finished one. *has_work tells whether requests are left. A failure that concerns one request ends
 * that request and is not a failure of the step. */
DI_API di_status di_engine_step(di_engine *engine, bool *has_work);
/* Takes the oldest output not yet taken: true if there was one. */
DI_API bool di_engine_poll(di_engine *engine, di_output *out);
/* The whole of a finished request, once; DI_ERR_ARGUMENT if it is unknown, unfinished or taken. The
 * engine keeps every request until its result is taken. Requests of di_generate are not given here:
 * their outputs go to its callback, their result to its caller. */
DI_API di_status di_engine_take_result(di_engine *engine, di_request_id id, di_result **out);

enum { DI_STATS_DRAFT_SLOTS = 7 };

/* How the drafts at one place of a block fare. */
typedef struct di_draft_slot_stats {
    uint64_t reached;  /* verified, and all before them accepted */
    uint64_t accepted; /* of these */
} di_draft_slot_stats;

typedef struct di_engine_stats {
    int32_t n_waiting, n_running;
    uint64_t n_steps;              /* forward passes */
    uint64_t n_finished;           /* sequences (samples) */
    uint64_t prompt_tokens;        /* of admitted requests */
    uint64_t cached_prompt_tokens; /* of them taken from the prefix cache */
    uint64_t replayed_tokens;      /* recomputed to rebuild windows (replay mode) */
    uint64_t computed_tokens;      /* rows of all passes */
    uint64_t computed_layer_rows;  /* of these rows the layers they passed: computed_tokens times
                                      the model's layers, or less with prefill_truncation */
    uint64_t generated_tokens;
    uint64_t wasted_rows;     /* rows of sequences that had ended when they ran */
    uint64_t drafted_tokens;  /* guessed, by the drafter or from a grammar */
    uint64_t verified_drafts; /* of them computed by passes */
    uint64_t accepted_drafts; /* of them right: these tokens took no pass of their own */
    /* Of the drafter's alone, at most 64 passes old while there is work (docs/speculation.md). */
    uint64_t draft_blocks;          /* verifications of at least one draft */
    double accepted_len;            /* tokens of such a verification: 1 + accepted / blocks */
    double draft_calibration_error; /* of the confidences the planner uses: mean distance from
                                       what was accepted, 0 to 1 */
    double draft_raw_error;         /* of those the drafter gives */
    uint64_t draft_plans;           /* passes with decodes that were planned with a drafter */
    uint64_t plain_plans;           /* of them those that were to draft nothing */
    uint64_t draft_budget;          /* rows of drafts that all of them might verify, together */
    di_draft_slot_stats draft_slots[DI_STATS_DRAFT_SLOTS];
    uint64_t n_preemptions;
    uint64_t kv_blocks_used, kv_blocks_cached, kv_blocks_free; /* over all groups */
    uint64_t expert_hits, expert_misses; /* experts that a layer of a pass found in memory, or had
                                            to read (without a weight cache: to ask for) */
    uint64_t weight_bytes_read;          /* into the weight cache; without one, by the process */
    uint64_t weight_wait_ns;             /* passes waited for the weight cache */
    uint64_t idle_ns;                    /* the device waited for the scheduler */
    uint64_t busy_ns;                    /* the device computed */
    uint64_t schedule_ns;                /* the host scheduled and committed */
} di_engine_stats;

DI_API void di_engine_get_stats(di_engine *engine, di_engine_stats *out);

/* Called after each step that gave output. Return false to cancel the request. */
typedef bool (*di_token_callback)(void *user, const di_output *output);

/* Submits, steps until this request ends, and returns the whole. Steps other requests of the engine
 * too. callback may be NULL. A cancelled request returns DI_OK with its finish reason. */
DI_API di_status di_generate(di_engine *engine, const di_request *request,
                             di_token_callback callback, void *user, di_result **out);

#ifdef __cplusplus
}
#endif

#endif
