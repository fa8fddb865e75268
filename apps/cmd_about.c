/* deepinfer kernels, devices, config and version: what this program is and would do. */
#include <jansson.h>

#include "args.h"
#include "commands.h"

typedef di_status (*print_fn)(const di_options *options, FILE *out);

static error_t parse_engine_only(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    return 0;
}

static const struct argp_child children[] = {{&di_engine_argp, 0, "Model and engine:", 2}, {NULL}};

static di_exit print_options(int argc, char **argv, const char *doc, print_fn print)
{
    const struct argp argp = {.parser = parse_engine_only, .doc = doc, .children = children};
    di_engine_args args = {NULL};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&argp, 0, argc, argv, &args, &code)) {
        const di_status status = print(&args.options, stdout);
        code = di_app_flush(); /* says what is wrong with stdout, if that is it */
        if (status != DI_OK && code == DI_EXIT_OK)
            code = di_app_fail_status(status, NULL);
    }
    di_engine_args_free(&args);
    return code;
}

di_exit di_cmd_kernels(int argc, char **argv)
{
    return print_options(argc, argv,
                         "Lists every kernel of every operation, the one that would "
                         "be used with a star.",
                         di_print_kernels);
}

di_exit di_cmd_devices(int argc, char **argv)
{
    static const struct argp argp = {.doc =
                                         "Lists the GPUs of this machine. Exits with 3 and a line "
                                         "that says why if there is none that could be used."};
    di_exit code = DI_EXIT_OK;
    if (!di_args_parse(&argp, 0, argc, argv, NULL, &code))
        return code;
    const di_status status = di_print_devices(stdout);
    code = di_app_flush();
    return status != DI_OK && code == DI_EXIT_OK ? di_app_fail_status(status, NULL) : code;
}

static di_status print_config(const di_options *options, FILE *out)
{
    const di_status status = di_print_options(options, out);
    return status == DI_OK ? di_print_workers(options, out) : status;
}

di_exit di_cmd_config(int argc, char **argv)
{
    return print_options(argc, argv,
                         "Prints the options in effect and where each comes from: the "
                         "command line, a DEEPINFER_* variable, or the default; then the "
                         "CPUs of this process and where the workers would be.",
                         print_config);
}

/* ------------------------------------------------------------------------------------- version */

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "an unknown compiler"
#endif

#if defined(__x86_64__)
#define TARGET "x86-64"
static void print_cpu(void)
{
    __builtin_cpu_init();
    fputs("cpu: x86-64", stdout);
    fputs(__builtin_cpu_supports("avx2") ? " avx2" : "", stdout);
    fputs(__builtin_cpu_supports("fma") ? " fma" : "", stdout);
    fputs(__builtin_cpu_supports("avx512f") ? " avx512f" : "", stdout);
    fputs(__builtin_cpu_supports("avx512bw") ? " avx512bw" : "", stdout);
    fputs(__builtin_cpu_supports("avx512vnni") ? " avx512vnni" : "", stdout);
    fputs(__builtin_cpu_supports("avx512bf16") ? " avx512bf16" : "", stdout);
    putchar('\n');
}
#else
#if defined(__aarch64__)
#define TARGET "aarch64"
#else
#define TARGET "this machine"
#endif
static void print_cpu(void)
{
    puts("cpu: " TARGET);
}
#endif

#if defined(__OPTIMIZE__)
#define OPTIMIZED ""
#else
#define OPTIMIZED ", not optimized"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED ", with AddressSanitizer"
#else
#define SANITIZED ""
#endif

di_exit di_cmd_version(int argc, char **argv)
{
    static const struct argp argp = {.doc = "Prints the version and how it was built."};
    di_exit code = DI_EXIT_OK;
    if (!di_args_parse(&argp, 0, argc, argv, NULL, &code))
        return code;
    printf("deepinfer %s\n", di_version());
    puts("built with " COMPILER " for " TARGET OPTIMIZED SANITIZED);
    print_cpu();
    printf("jansson %s\n", jansson_version_str());
    return DI_EXIT_OK;
}
