/* deepinfer score: the logits of every position of one sequence, as safetensors. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "ids_file.h"
#include "model.h"

typedef struct score_args {
    di_engine_args engine;
    di_score_options score;
    const char *token_ids;
    const char *output;
} score_args;

enum { KEY_TOKEN_IDS = 0x400, KEY_PREFILL, KEY_CHUNK };

static const struct argp_option options[] = {
    {"token-ids", KEY_TOKEN_IDS, "FILE", 0, "JSON array of token ids, - for stdin"},
    {"output", 'o', "FILE", 0, "safetensors file to write: `logits`, F32 [tokens, vocabulary]"},
    {"prefill", KEY_PREFILL, "N", 0,
     "prefill N tokens, decode the others one by one; default: "
     "prefill all"},
    {"chunk", KEY_CHUNK, "N", 0, "tokens of one prefill pass; default: --max-step-tokens"},
    {NULL},
};

static error_t parse_score(int key, char *arg, struct argp_state *state)
{
    score_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        return 0;
    case KEY_TOKEN_IDS:
        args->token_ids = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case KEY_PREFILL:
        return di_args_i64(state, "--prefill", arg, 0, INT64_MAX, &args->score.prefill);
    case KEY_CHUNK:
        return di_args_i64(state, "--chunk", arg, 1, INT32_MAX, &args->score.chunk);
    case ARGP_KEY_END:
        if (args->token_ids == NULL)
            return di_args_bad(state, "--token-ids FILE is missing");
        if (args->output == NULL)
            return di_args_bad(state, "-o FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&di_engine_argp, 0, "Model and engine:", 2}, {NULL}};

static const struct argp score_argp = {
    .options = options,
    .parser = parse_score,
    .doc = "Writes the logits after every token of a sequence.\vThe file appears when it is "
           "whole, and not at all if anything fails.",
    .children = children,
};

typedef struct writer {
    di_out_file out;
    int64_t n_rows;
    int64_t next; /* position wanted next */
    bool is_tty;
    bool has_failed;
} writer;

/* u64 length, JSON header padded with spaces to a multiple of 8; the rows follow. */
static void write_header(writer *self, int32_t vocab_size)
{
    const int64_t bytes = self->n_rows * vocab_size * (int64_t)sizeof(float);
    char *header = di_app_text("{\"logits\":{\"dtype\":\"F32\",\"shape\":[%" PRId64 ",%" PRId32
                               "],\"data_offsets\":[0,%" PRId64 "]}}",
                               self->n_rows, vocab_size, bytes);
    const size_t n = strlen(header);
    const size_t padded = (n + 7) / 8 * 8;
    for (int i = 0; i < 8; i++)
        fputc((int)((uint64_t)padded >> (8 * i) & 0xff), self->out.file);
    fprintf(self->out.file, "%-*s", (int)padded, header);
    free(header);
}

static bool on_row(void *user, int64_t position, const float *logits, int32_t vocab_size)
{
    writer *self = user;
    if (position == 0)
        write_header(self, vocab_size);
    if (position != self->next++ ||
        fwrite(logits, sizeof *logits, (size_t)vocab_size, self->out.file) != (size_t)vocab_size) {
        self->has_failed = true;
        return false;
    }
    if (self->is_tty)
        fprintf(stderr, "\rdeepinfer: %" PRId64 " of %" PRId64 " tokens", self->next, self->n_rows);
    return !di_app_interrupted();
}

static di_exit finish(writer *self, di_status status)
{
    if (self->is_tty && self->next > 0)
        fputc('\n', stderr);
    if (self->has_failed)
        return di_app_fail(DI_EXIT_RUNTIME, "%s: cannot write row %" PRId64 ": %s", self->out.path,
                           self->next - 1, strerror(errno));
    if (di_app_interrupted())
        return di_app_fail(DI_EXIT_INTERRUPTED, "interrupted, nothing written");
    if (status != DI_OK)
        return di_app_fail_status(status, NULL);
    return di_out_file_commit(&self->out);
}

static di_exit check_ids(const int32_t *ids, size_t n_ids, int32_t vocab_size, const char *name)
{
    if (n_ids == 0)
        return di_app_fail(DI_EXIT_INPUT, "%s: the list of token ids is empty", name);
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] >= vocab_size)
            return di_app_fail(DI_EXIT_INPUT,
                               "%s: item %zu is %" PRId32 ", outside the vocabulary of %" PRId32,
                               name, i, ids[i], vocab_size);
    return DI_EXIT_OK;
}

static di_exit score_ids(const score_args *args, const int32_t *ids, size_t n_ids)
{
    writer self = {.n_rows = (int64_t)n_ids, .is_tty = isatty(STDERR_FILENO) == 1};
    di_exit code = di_out_file_open(args->output, &self.out);
    if (code != DI_EXIT_OK)
        return code;
    di_model *model = NULL;
    code = di_app_model_open(&args->engine, &model);
    if (code == DI_EXIT_OK)
        code = check_ids(ids, n_ids, di_model_vocab_size(model), di_app_file_name(args->token_ids));
    if (code == DI_EXIT_OK)
        code = finish(
            &self, di_score(model, &args->engine.options, ids, n_ids, &args->score, on_row, &self));
    di_out_file_abandon(&self.out);
    di_model_close(model);
    return code;
}

static di_exit run_score(const score_args *args)
{
    di_exit code = di_app_check_options(&args->engine);
    if (code != DI_EXIT_OK)
        return code;
    json_t *value = NULL;
    code = di_app_json_load(args->token_ids, &value);
    if (code != DI_EXIT_OK)
        return code;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    code = di_app_json_ids(value, di_app_file_name(args->token_ids), &ids, &n_ids);
    json_decref(value);
    if (code == DI_EXIT_OK)
        code = score_ids(args, ids, n_ids);
    free(ids);
    return code;
}

di_exit di_cmd_score(int argc, char **argv)
{
    score_args args = {.score.prefill = -1};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&score_argp, 0, argc, argv, &args, &code))
        code = run_score(&args);
    di_engine_args_free(&args.engine);
    return code;
}
