/* deepinfer: the program. Picks the subcommand; docs/cli.md describes them all. */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "commands.h"

typedef struct subcommand {
    const char *name;
    const char *doc;
    di_exit (*run)(int argc, char **argv);
} subcommand;

static const subcommand subcommands[] = {
    {"run", "continue prompts", di_cmd_run},
    {"chat", "talk with the model", di_cmd_chat},
    {"batch", "answer a file of requests", di_cmd_batch},
    {"score", "write the logits of a token sequence", di_cmd_score},
    {"eval", "measure a model on texts and tasks", di_cmd_eval},
    {"selftest", "check that results depend on the request alone", di_cmd_selftest},
    {"bench", "time the kernels and layers on this machine", di_cmd_bench},
    {"inspect", "look into a checkpoint or a safetensors file", di_cmd_inspect},
    {"tokenize", "text to token ids", di_cmd_tokenize},
    {"detokenize", "token ids to text", di_cmd_detokenize},
    {"check", "texts against a regex, JSON schema or grammar", di_cmd_check},
    {"encode", "chat messages to prompt text", di_cmd_encode},
    {"parse", "completion text to a chat message", di_cmd_parse},
    {"kernels", "list the kernels and the chosen ones", di_cmd_kernels},
    {"devices", "list the GPUs", di_cmd_devices},
    {"config", "print the options in effect", di_cmd_config},
    {"version", "print the version and how it was built", di_cmd_version},
};

static void print_usage(FILE *out)
{
    fputs("Usage: deepinfer COMMAND [OPTION...]\n"
          "       deepinfer COMMAND --help\n",
          out);
}

static void print_help(void)
{
    print_usage(stdout);
    fputs("Runs DeepSeek-V4.1-Flash checkpoints.\n\nCommands:\n", stdout);
    for (size_t i = 0; i < DI_COUNT(subcommands); i++)
        printf("  %-12s%s\n", subcommands[i].name, subcommands[i].doc);
    fputs("\nExit codes: 0 success, 2 wrong usage, 3 bad input (file, model, prompt), 4 failed "
          "while\nrunning, 130 interrupted.\n",
          stdout);
}

static di_exit fail_unknown(const char *name)
{
    const char *names[DI_COUNT(subcommands)];
    char *list = di_app_text("%s", "");
    for (size_t i = 0; i < DI_COUNT(subcommands); i++) {
        names[i] = subcommands[i].name;
        char *longer = di_app_text("%s%s%s", list, i > 0 ? ", " : "", names[i]);
        free(list);
        list = longer;
    }
    const char *nearest = di_app_nearest(name, names, DI_COUNT(names));
    char *hint =
        nearest != NULL ? di_app_text(", did you mean '%s'?", nearest) : di_app_text("%s", "");
    di_app_fail(DI_EXIT_USAGE, "unknown command '%s'%s (commands: %s)", name, hint, list);
    free(hint);
    free(list);
    return DI_EXIT_USAGE;
}

static di_exit run_subcommand(const subcommand *command, int argc, char **argv)
{
    char *name = di_app_text("deepinfer %s", command->name);
    char *shown = argv[0];
    argv[0] = name;
    const di_exit code = command->run(argc, argv);
    argv[0] = shown;
    free(name);
    return code;
}

static di_exit dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return DI_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help();
        return DI_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < DI_COUNT(subcommands); i++)
        if (strcmp(name, subcommands[i].name) == 0)
            return run_subcommand(&subcommands[i], argc - 1, argv + 1);
    if (name[0] == '-')
        return di_app_fail(DI_EXIT_USAGE, "unknown option '%s' (see 'deepinfer --help')", name);
    return fail_unknown(name);
}

int main(int argc, char **argv)
{
    di_app_setup();
    const di_exit code = dispatch(argc, argv);
    return (int)di_exit_first(code, di_app_flush());
}
