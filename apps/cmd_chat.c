/* deepinfer chat: a conversation, line by line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat_history.h"
#include "commands.h"
#include "generate.h"
#include "model.h"
#include "prompt.h"
#include "reply.h"
#include "stats.h"

typedef struct chat_args {
    di_engine_args engine;
    di_sampling_args sampling;
    const char *system;
    const char *load;
    const char *effort;
    bool is_thinking;
} chat_args;

enum { KEY_SYSTEM = 0x400, KEY_THINKING, KEY_EFFORT, KEY_LOAD };

static const struct argp_option options[] = {
    {"system", KEY_SYSTEM, "TEXT", 0, "system message"},
    {"thinking", KEY_THINKING, NULL, 0, "let the model think first"},
    {"effort", KEY_EFFORT, "N", 0, "how long: 1 to 100, low, high or max (implies --thinking)"},
    {"load", KEY_LOAD, "FILE", 0, "go on with a saved conversation"},
    {NULL},
};

static error_t parse_chat(int key, char *arg, struct argp_state *state)
{
    chat_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        state->child_inputs[1] = &args->sampling;
        return 0;
    case KEY_SYSTEM:
        args->system = arg;
        return 0;
    case KEY_THINKING:
        args->is_thinking = true;
        return 0;
    case KEY_EFFORT:
        if (!di_prompt_effort_is_valid(arg))
            return di_args_bad(state, "--effort: '%s' is not 1 to 100, low, high or max", arg);
        args->effort = arg;
        args->is_thinking = true;
        return 0;
    case KEY_LOAD:
        args->load = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&di_engine_argp, 0, "Model and engine:", 2},
    {&di_sampling_argp, 0, "Sampling (defaults: the model's generation_config.json):", 3},
    {NULL},
};

static const struct argp chat_argp = {
    .options = options,
    .parser = parse_chat,
    .doc = "Talks with the model: each line of stdin is a message, a \\ at its end continues it on "
           "the next line.\vCtrl-C ends the answer that is being written, Ctrl-D the chat. /help "
           "lists the commands within it.",
    .children = children,
};

typedef struct chat {
    chat_args *args;
    di_model *model;
    di_engine *engine;
    di_history history;
    bool is_tty;
    bool is_over;
    bool is_thinking;
    char *effort;      /* or NULL */
    di_text_list kept; /* values given to /set: the sampling options borrow them */
    size_t n_turns;
    size_t n_generated;
    size_t n_context; /* tokens of the last request and its answer */
    double tokens_per_second;
} chat;

/* ----------------------------------------------------------------------------------- one answer */

typedef struct answer {
    di_reply *reply;
    di_exit code;
} answer;

static bool on_output(void *user, const di_output *output)
{
    answer *self = user;
    self->code = di_reply_push(self->reply, output->text, output->text_bytes);
    if (self->code == DI_EXIT_OK)
        self->code = di_app_flush();
    return self->code == DI_EXIT_OK;
}

static void count(chat *self, const di_result *result)
{
    self->n_turns++;
    self->n_generated += result->n_token_ids;
    self->n_context = result->n_prompt_token_ids + result->n_token_ids;
    self->tokens_per_second = result->tokens_per_second;
}

/* Lets the model answer the history; the answer becomes part of it, also one that was cut. */
static di_exit generate(chat *self, const di_sampling_params *sampling, const char *request_json)
{
    answer part = {.code = DI_EXIT_OK};
    di_exit code = di_reply_open(self->is_thinking, true, &part.reply);
    if (code != DI_EXIT_OK)
        return code;
    const di_request request = {.messages_json = request_json, .sampling = *sampling};
    di_outcome outcome;
    json_t *message = NULL;
    di_app_generate(self->engine, &request, on_output, &part, &outcome);
    if (part.code != DI_EXIT_OK) {
        code = part.code;
    } else if (outcome.result == NULL) {
        code = di_app_fail(outcome.code, "%s", outcome.error);
    } else {
        code = di_reply_finish(part.reply, &message);
        count(self, outcome.result);
        if (outcome.result->finish_reason == DI_FINISH_LENGTH)
            di_app_note("the answer was cut at %zu tokens (--max-tokens or the context limit)",
                        outcome.result->n_token_ids);
    }
    if (message != NULL)
        di_history_add(&self->history, message);
    di_outcome_free(&outcome);
    di_reply_close(part.reply);
    return di_exit_first(code, di_app_flush());
}

static di_exit answer_history(chat *self)
{
    di_sampling_params sampling;
    di_exit code = di_sampling_args_apply(&self->args->sampling, self->model, &sampling);
    if (code != DI_EXIT_OK)
        return code;
    char *request = di_history_request(&self->history, self->is_thinking, self->effort);
    code = generate(self, &sampling, request);
    free(request);
    if (self->is_tty && di_app_interrupted()) {
        di_app_clear_interrupt();
        di_app_note("stopped");
    }
    return code;
}

static di_exit say(chat *self, const char *text, size_t bytes)
{
    if (!di_history_add_user(&self->history, text, bytes))
        return di_app_fail(DI_EXIT_INPUT, "the message is not UTF-8");
    const di_exit code = answer_history(self);
    if (code != DI_EXIT_OK && code != DI_EXIT_INTERRUPTED)
        di_history_undo(&self->history); /* so that the next message has a chance */
    return code;
}

/* ------------------------------------------------------------------------------------- commands */

typedef di_exit (*command_fn)(chat *self, const char *rest);

typedef struct command {
    const char *name;
    const char *args;
    const char *doc;
    command_fn run;
} command;

static di_exit do_help(chat *self, const char *rest);

static di_exit do_clear(chat *self, const char *rest)
{
    (void)rest;
    di_history_clear(&self->history);
    return DI_EXIT_OK;
}

static di_exit do_system(chat *self, const char *rest)
{
    if (!di_history_set_system(&self->history, rest))
        return di_app_fail(DI_EXIT_INPUT, "the message is not UTF-8");
    return DI_EXIT_OK;
}

static di_exit do_thinking(chat *self, const char *rest)
{
    if (strcmp(rest, "on") != 0 && strcmp(rest, "off") != 0)
        return di_app_fail(DI_EXIT_USAGE, "/thinking: '%s' is not on or off", rest);
    self->is_thinking = strcmp(rest, "on") == 0;
    return DI_EXIT_OK;
}

static di_exit do_effort(chat *self, const char *rest)
{
    if (!di_prompt_effort_is_valid(rest))
        return di_app_fail(DI_EXIT_USAGE, "/effort: '%s' is not 1 to 100, low, high or max", rest);
    free(self->effort);
    self->effort = di_app_text("%s", rest);
    self->is_thinking = true;
    return DI_EXIT_OK;
}

static di_exit do_save(chat *self, const char *rest)
{
    if (rest[0] == '\0')
        return di_app_fail(DI_EXIT_USAGE, "/save wants a file name");
    return di_history_save(&self->history, rest, self->is_thinking, self->effort);
}

static di_exit do_load(chat *self, const char *rest)
{
    if (rest[0] == '\0')
        return di_app_fail(DI_EXIT_USAGE, "/load wants a file name");
    return di_history_load(&self->history, rest, &self->is_thinking, &self->effort);
}

static di_exit do_regen(chat *self, const char *rest)
{
    (void)rest;
    json_t *old = di_history_take_answer(&self->history);
    di_exit code = DI_EXIT_OK;
    if (di_history_is_empty(&self->history))
        code = di_app_fail(DI_EXIT_USAGE, "/regen: there is nothing to answer");
    else
        code = answer_history(self);
    if (old != NULL && code != DI_EXIT_OK && code != DI_EXIT_INTERRUPTED)
        di_history_add(&self->history, old);
    else
        json_decref(old);
    return code;
}

static di_exit do_undo(chat *self, const char *rest)
{
    (void)rest;
    if (!di_history_undo(&self->history))
        return di_app_fail(DI_EXIT_USAGE, "/undo: there is no message");
    return DI_EXIT_OK;
}

static di_exit do_set(chat *self, const char *rest)
{
    const size_t n_name = strcspn(rest, " \t=");
    if (n_name == 0 || rest[n_name] == '\0')
        return di_app_fail(DI_EXIT_USAGE, "/set wants a name and a value: /set temperature 0.7");
    char *name = di_app_text("%.*s", (int)n_name, rest);
    char *value = di_app_text("%s", rest + n_name + strspn(rest + n_name, " \t="));
    di_text_list_add(&self->kept, value);
    char *error = NULL;
    di_exit code = DI_EXIT_OK;
    if (!di_sampling_args_set(&self->args->sampling, name, value, &error))
        code = di_app_fail(DI_EXIT_USAGE, "%s", error);
    free(error);
    free(name);
    return code;
}

static di_exit do_stats(chat *self, const char *rest)
{
    (void)rest;
    di_app_note(
        "answers: %zu, tokens written: %zu, speed of the last: %.1f tokens/s, context: %zu of "
        "%lld tokens",
        self->n_turns, self->n_generated, self->tokens_per_second, self->n_context,
        (long long)di_model_max_context(self->model));
    di_app_print_draft_stats(self->engine);
    return DI_EXIT_OK;
}

static di_exit do_exit(chat *self, const char *rest)
{
    (void)rest;
    self->is_over = true;
    return DI_EXIT_OK;
}

static const command commands[] = {
    {"/help", "", "this list", do_help},
    {"/clear", "", "forget the conversation, keep the system message", do_clear},
    {"/system", "TEXT", "set the system message; no text removes it", do_system},
    {"/thinking", "on|off", "let the model think before it answers", do_thinking},
    {"/effort", "N", "how long it thinks: 1 to 100, low, high or max", do_effort},
    {"/save", "FILE", "write the conversation as JSON", do_save},
    {"/load", "FILE", "go on with a saved conversation", do_load},
    {"/regen", "", "answer the last message anew", do_regen},
    {"/undo", "", "take back the last message and its answer", do_undo},
    {"/set", "NAME VALUE", "a sampling option, as: /set temperature 0.7", do_set},
    {"/stats", "", "counts and speed", do_stats},
    {"/exit", "", "end (also Ctrl-D)", do_exit},
};

static di_exit do_help(chat *self, const char *rest)
{
    (void)self;
    (void)rest;
    for (size_t i = 0; i < DI_COUNT(commands); i++)
        fprintf(stderr, "%-10s %-11s %s\n", commands[i].name, commands[i].args, commands[i].doc);
    return DI_EXIT_OK;
}

static di_exit do_command(chat *self, const char *line)
{
    const char *names[DI_COUNT(commands)];
    const size_t n = strcspn(line, " \t");
    for (size_t i = 0; i < DI_COUNT(commands); i++) {
        names[i] = commands[i].name;
        if (strlen(names[i]) == n && strncmp(line, names[i], n) == 0)
            return commands[i].run(self, line + n + strspn(line + n, " \t"));
    }
    char *name = di_app_text("%.*s", (int)n, line);
    const char *nearest = di_app_nearest(name, names, DI_COUNT(names));
    const di_exit code = di_app_fail(DI_EXIT_USAGE, "unknown command %s, did you mean %s?", name,
                                     nearest != NULL ? nearest : "/help");
    free(name);
    return code;
}

/* ----------------------------------------------------------------------------------------- input
 */

/* One message: a line, and those that a \ at its end joins to it. False at the end of the input or
 * when a signal came. *line is malloc'ed, without the newline. */
static bool read_message(const chat *self, char **line, size_t *bytes)
{
    FILE *message = open_memstream(line, bytes);
    if (message == NULL)
        return false;
    char *part = NULL;
    size_t capacity = 0;
    bool is_any = false;
    bool goes_on = true;
    while (goes_on) {
        if (self->is_tty)
            fputs(is_any ? ". " : "> ", stderr);
        di_app_reads_interruptible(true);
        ssize_t n = di_app_interrupted() ? -1 : getline(&part, &capacity, stdin);
        di_app_reads_interruptible(false);
        if (n < 0)
            break;
        is_any = true;
        if (n > 0 && part[n - 1] == '\n')
            n--;
        goes_on = n > 0 && part[n - 1] == '\\';
        fwrite(part, 1, (size_t)(goes_on ? n - 1 : n), message);
        if (goes_on)
            fputc('\n', message);
    }
    free(part);
    fclose(message);
    if (is_any && !di_app_interrupted())
        return true;
    free(*line);
    *line = NULL;
    return false;
}

static di_exit talk(chat *self)
{
    di_exit code = DI_EXIT_OK;
    while (!self->is_over) {
        char *line = NULL;
        size_t bytes = 0;
        if (!read_message(self, &line, &bytes)) {
            if (self->is_tty)
                fputc('\n', stderr);
            if (!di_app_interrupted())
                break;
            if (!self->is_tty)
                return DI_EXIT_INTERRUPTED;
            di_app_clear_interrupt();
            clearerr(stdin);
            di_app_note("Ctrl-D or /exit ends the chat");
            continue;
        }
        di_exit turn = DI_EXIT_OK;
        if (line[0] == '/')
            turn = do_command(self, line);
        else if (bytes > 0)
            turn = say(self, line, bytes);
        free(line);
        if (turn == DI_EXIT_PIPE || (turn == DI_EXIT_INTERRUPTED && !self->is_tty))
            return turn;
        code = di_exit_first(code, turn);
    }
    return self->is_tty ? DI_EXIT_OK : code;
}

static di_exit start(chat *self)
{
    const chat_args *args = self->args;
    self->is_thinking = args->is_thinking;
    self->effort = args->effort != NULL ? di_app_text("%s", args->effort) : NULL;
    if (args->load != NULL) {
        const di_exit code =
            di_history_load(&self->history, args->load, &self->is_thinking, &self->effort);
        if (code != DI_EXIT_OK)
            return code;
    }
    if (args->system != NULL && !di_history_set_system(&self->history, args->system))
        return di_app_fail(DI_EXIT_USAGE, "--system: the text is not UTF-8");
    di_exit code = di_app_model_open(&args->engine, &self->model);
    if (code != DI_EXIT_OK)
        return code;
    di_sampling_params sampling;
    code = di_sampling_args_apply(&args->sampling, self->model, &sampling);
    if (code != DI_EXIT_OK)
        return code;
    const di_status status = di_engine_create(self->model, &args->engine.options, &self->engine);
    return status == DI_OK ? DI_EXIT_OK : di_app_fail_status(status, NULL);
}

di_exit di_cmd_chat(int argc, char **argv)
{
    chat_args args = {.system = NULL};
    chat self = {.args = &args, .is_tty = isatty(STDIN_FILENO) == 1};
    di_exit code = DI_EXIT_OK;
    di_history_init(&self.history);
    di_sampling_args_init(&args.sampling);
    if (di_args_parse(&chat_argp, 0, argc, argv, &args, &code)) {
        code = di_app_check_options(&args.engine);
        if (code == DI_EXIT_OK)
            code = start(&self);
        if (code == DI_EXIT_OK)
            code = talk(&self);
    }
    di_engine_destroy(self.engine);
    di_model_close(self.model);
    di_history_free(&self.history);
    for (size_t i = 0; i < self.kept.n; i++)
        free((char *)self.kept.items[i]);
    di_text_list_free(&self.kept);
    free(self.effort);
    di_sampling_args_free(&args.sampling);
    di_engine_args_free(&args.engine);
    return code;
}
