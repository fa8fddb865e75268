/* deepinfer run: prompts in, texts out. */
#include <stdlib.h>
#include <string.h>

#include "args_grammar.h"
#include "commands.h"
#include "generate.h"
#include "model.h"
#include "prompt.h"
#include "reply.h"
#include "run_json.h"
#include "stats.h"

typedef struct run_args {
    di_engine_args engine;
    di_sampling_args sampling;
    di_prompt_args prompt;
    di_grammar_args grammar;
    bool is_json;
    bool has_echo;
    bool is_verbose;
    bool has_stats;
    int32_t n_samples;
} run_args;

enum { KEY_JSON = 0x400, KEY_ECHO, KEY_SAMPLES, KEY_STATS };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "one JSON object a prompt, each on one line, instead of text"},
    {"echo", KEY_ECHO, NULL, 0, "the prompt's text first"},
    {"n", KEY_SAMPLES, "N", 0, "samples of each prompt, 1 to 128; default 1"},
    {"verbose", 'v', NULL, 0, "a line of counts and times a prompt, on stderr"},
    {"stats", KEY_STATS, NULL, 0, "at the end what the engine has done, on stderr"},
    {NULL},
};

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
    run_args *args = state->input;
    int64_t value = 0;
    error_t error;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->prompt;
        state->child_inputs[1] = &args->engine;
        state->child_inputs[2] = &args->sampling;
        state->child_inputs[3] = &args->grammar;
        return 0;
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case KEY_ECHO:
        args->has_echo = true;
        return 0;
    case KEY_SAMPLES:
        error = di_args_i64(state, "--n", arg, 1, 128, &value);
        args->n_samples = (int32_t)value;
        return error;
    case 'v':
        args->is_verbose = true;
        return 0;
    case KEY_STATS:
        args->has_stats = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&di_prompt_argp, 0, "Prompts:", 1},
    {&di_engine_argp, 0, "Model and engine:", 2},
    {&di_sampling_argp, 0, "Sampling (defaults: the model's generation_config.json):", 3},
    {&di_grammar_argp, 0, NULL, 4},
    {NULL},
};

static const struct argp run_argp = {
    .options = options,
    .parser = parse_run,
    .doc = "Continues prompts, and writes the new text to stdout as it comes.\vPrompts run one "
           "after the other. One that fails is told on stderr with its number, the others run, "
           "and the exit code is the first failure's.",
    .children = children,
};

/* ------------------------------------------------------------------------------ one prompt */

typedef struct run {
    const run_args *args;
    const di_model *model;
    di_engine *engine;
    di_sampling_params sampling;
    size_t n_prompts;
    bool has_shown; /* a text is on stdout: an empty line goes before the next */
} run;

typedef struct sink {
    run *run;
    bool is_shown;
    bool has_begun;
    di_reply *reply; /* of a chat, or NULL */
    char last_byte;
    di_exit code;
} sink;

/* Before anything of a prompt's text is printed. */
static void begin_text(sink *self)
{
    if (!self->is_shown || self->has_begun)
        return;
    if (self->run->has_shown)
        putchar('\n');
    self->has_begun = true;
    self->run->has_shown = true;
}

static bool on_output(void *user, const di_output *output)
{
    sink *self = user;
    if (output->sample_index > 0)
        return true; /* shown from the result, after the first sample's */
    if (output->text_bytes > 0) {
        begin_text(self);
        if (self->reply != NULL)
            self->code = di_reply_push(self->reply, output->text, output->text_bytes);
        else if (self->is_shown)
            fwrite(output->text, 1, output->text_bytes, stdout);
        self->last_byte = output->text[output->text_bytes - 1];
    }
    if (self->code == DI_EXIT_OK && self->is_shown)
        self->code = di_app_flush();
    return self->code == DI_EXIT_OK;
}

/* The text of a prompt that is given as ids or messages. *text is malloc'ed, free with di_free. */
static di_status prompt_text(const run *self, const di_prompt *prompt, char **text, size_t *bytes)
{
    if (prompt->messages != NULL)
        return di_chat_encode_json(prompt->messages, strlen(prompt->messages), text, bytes);
    return di_detokenize(self->model, prompt->ids, prompt->n_ids, false, text, bytes);
}

static void print_stats(size_t index, const di_result *result)
{
    di_app_note("prompt %zu: %zu prompt tokens (%zu cached) in %.0f ms, %zu new tokens, %.1f "
                "tokens/s, first after %.0f ms, finish: %s, seed %llu%s",
                index + 1, result->n_prompt_token_ids, result->n_cached_tokens, result->prefill_ms,
                result->n_token_ids, result->tokens_per_second, result->ttft_ms,
                di_finish_reason_name(result->finish_reason), (unsigned long long)result->seed,
                result->is_reproducible ? "" : " (not enough to repeat it: drafts were in play)");
}

static di_exit report_failure(const run *self, size_t index, di_exit code, const char *error)
{
    if (self->n_prompts > 1)
        di_app_fail(code, "prompt %zu of %zu: %s", index + 1, self->n_prompts, error);
    else
        di_app_fail(code, "%s", error);
    if (self->args->is_json)
        di_run_write_json_error(index, error);
    return code;
}

/* What is printed when the request is over. */
static di_exit finish(const run *self, sink *shown, const di_run_report *parts)
{
    di_run_report report = *parts;
    json_t *message = NULL;
    begin_text(shown);
    if (shown->reply != NULL) {
        const di_exit code = di_reply_finish(shown->reply, &message);
        if (code != DI_EXIT_OK)
            return code;
        report.message = message;
    }
    if (self->args->is_json) {
        di_run_write_json(&report);
    } else {
        if (shown->reply == NULL && shown->last_byte != '\n')
            putchar('\n');
        di_run_write_logprobs(&report);
    }
    json_decref(message);
    if (self->args->is_verbose)
        print_stats(report.index, report.result);
    return di_app_flush();
}

/* A sample whose text was not shown as it came. */
static di_exit show_sample(run *self, const di_prompt *prompt, const di_run_report *report)
{
    sink shown = {.run = self, .is_shown = !self->args->is_json, .last_byte = '\n'};
    di_exit code = DI_EXIT_OK;
    if (prompt->messages != NULL)
        code = di_reply_open(prompt->is_thinking, shown.is_shown, &shown.reply);
    if (code != DI_EXIT_OK)
        return code;
    const di_output whole = {.text = report->result->text,
                             .text_bytes = report->result->text_bytes};
    code = on_output(&shown, &whole) ? finish(self, &shown, report) : shown.code;
    di_reply_close(shown.reply);
    return code;
}

/* The first sample has been shown while it came. */
static di_exit show_samples(run *self, const di_prompt *prompt, sink *first, di_run_report *report)
{
    report->has_samples = report->result->next != NULL;
    di_exit code = finish(self, first, report);
    for (const di_result *r = report->result->next; r != NULL && code == DI_EXIT_OK; r = r->next) {
        report->result = r;
        code = show_sample(self, prompt, report);
    }
    return code;
}

static di_exit run_request(run *self, const di_prompt *prompt, const di_so_args *so,
                           di_run_report *report)
{
    const di_request request = {.token_ids = prompt->ids,
                                .n_token_ids = prompt->n_ids,
                                .text = prompt->text,
                                .text_bytes = prompt->text_bytes,
                                .messages_json = prompt->messages,
                                .parse_special = self->args->prompt.parse_special,
                                .sampling = self->sampling,
                                .so_args = so->schema_type == DI_SCHEMA_NONE ? NULL : so};
    sink shown = {.run = self, .is_shown = !self->args->is_json, .last_byte = '\n'};
    if (prompt->messages != NULL) {
        const di_exit code = di_reply_open(prompt->is_thinking, shown.is_shown, &shown.reply);
        if (code != DI_EXIT_OK)
            return code;
    }
    if (report->echo != NULL && shown.is_shown && report->echo_bytes > 0) {
        begin_text(&shown);
        fwrite(report->echo, 1, report->echo_bytes, stdout);
        shown.last_byte = report->echo[report->echo_bytes - 1];
        if (shown.reply != NULL && shown.last_byte != '\n')
            putchar('\n');
    }
    di_outcome outcome;
    di_app_generate(self->engine, &request, on_output, &shown, &outcome);
    di_exit code = outcome.code;
    report->result = outcome.result;
    if (shown.code != DI_EXIT_OK)
        code = shown.code;
    else if (outcome.result == NULL)
        code = report_failure(self, report->index, outcome.code, outcome.error);
    else
        code = di_exit_first(show_samples(self, prompt, &shown, report), code);
    di_outcome_free(&outcome);
    di_reply_close(shown.reply);
    return code;
}

/* With the constraint of the command line, or that of the chat's own tools. */
static di_exit run_constrained(run *self, const di_prompt *prompt, di_run_report *report)
{
    const di_grammar_args *grammar = &self->args->grammar;
    di_so_args so = grammar->so;
    if (!di_grammar_wants_own_tools(grammar))
        return run_request(self, prompt, &so, report);
    char *tools = di_grammar_own_tools(grammar, prompt->messages);
    if (tools == NULL)
        return report_failure(self, report->index, DI_EXIT_INPUT,
                              "--tool-choice: the prompt is no chat that has \"tools\"");
    so.schema_type = DI_SCHEMA_TOOL_CALLS;
    so.schema = tools;
    const di_exit code = run_request(self, prompt, &so, report);
    free(tools);
    return code;
}

static di_exit run_prompt(run *self, const di_prompt *prompt, size_t index)
{
    if (prompt->problem != NULL)
        return report_failure(self, index, DI_EXIT_INPUT, prompt->problem);
    di_run_report report = {.index = index, .model = self->model};
    char *text = NULL;
    if (self->args->has_echo && prompt->text != NULL) {
        report.echo = prompt->text;
        report.echo_bytes = prompt->text_bytes;
    } else if (self->args->has_echo) {
        if (prompt_text(self, prompt, &text, &report.echo_bytes) != DI_OK)
            return report_failure(self, index, DI_EXIT_INPUT, di_last_error());
        report.echo = text;
    }
    const di_exit code = run_constrained(self, prompt, &report);
    di_free(text);
    return code;
}

/* -------------------------------------------------------------------------------- all of them */

static bool can_any_run(const di_prompt_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].problem == NULL)
            return true;
    return false;
}

static di_exit run_all(run *self, const di_prompt_list *list)
{
    di_exit code = DI_EXIT_OK;
    for (size_t i = 0; i < list->n; i++) {
        code = di_exit_first(code, run_prompt(self, &list->items[i], i));
        if (code == DI_EXIT_PIPE || di_app_interrupted())
            break;
    }
    return di_app_interrupted() && code != DI_EXIT_PIPE ? DI_EXIT_INTERRUPTED : code;
}

static di_exit run_with_model(const run_args *args, const di_prompt_list *list)
{
    run self = {.args = args, .n_prompts = list->n};
    if (!can_any_run(list))
        return run_all(&self, list);
    di_model *model = NULL;
    di_exit code = di_app_model_open(&args->engine, &model);
    if (code != DI_EXIT_OK)
        return code;
    self.model = model;
    code = di_sampling_args_apply(&args->sampling, model, &self.sampling);
    self.sampling.n = args->n_samples;
    if (code == DI_EXIT_OK) {
        const di_status status = di_engine_create(model, &args->engine.options, &self.engine);
        code = status == DI_OK ? run_all(&self, list) : di_app_fail_status(status, NULL);
    }
    if (args->has_stats && self.engine != NULL)
        di_app_print_stats(self.engine);
    di_engine_destroy(self.engine);
    di_model_close(model);
    return code;
}

di_exit di_cmd_run(int argc, char **argv)
{
    run_args args = {.n_samples = 1, .grammar = DI_GRAMMAR_ARGS_INIT};
    di_prompt_list list = {NULL};
    di_exit code = DI_EXIT_OK;
    di_sampling_args_init(&args.sampling);
    if (di_args_parse(&run_argp, 0, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK)
            code = di_prompts_load(&args.prompt, &list);
        if (code == DI_EXIT_OK)
            code = run_with_model(&args, &list);
    }
    di_prompts_free(&list);
    di_prompt_args_free(&args.prompt);
    di_sampling_args_free(&args.sampling);
    di_grammar_args_free(&args.grammar);
    di_engine_args_free(&args.engine);
    return code;
}
