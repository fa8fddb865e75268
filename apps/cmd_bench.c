/* deepinfer bench: how fast the kernels and the layers are on this machine. */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "commands.h"

enum { MAX_COUNTS = 16 };

/* Options of all benchmarks. */
typedef struct shared_args {
    di_options options;
    char *kernels; /* owns options.kernels */
    const char *config;
    double seconds;
} shared_args;

enum { KEY_CONFIG = 0x500, KEY_ISA, KEY_KERNEL, KEY_INVARIANT, KEY_PIN };

static const struct argp_option shared_options[] = {
    {"config", KEY_CONFIG, "FILE", 0,
     "a config.json whose shapes to run; default: the released model's"},
    {"isa", KEY_ISA, "LEVEL", 0, "highest CPU kernel level to use, such as ref"},
    {"kernel", KEY_KERNEL, "OP=NAME", 0, "force one operation's kernel (may be repeated)"},
    {"batch-invariant", KEY_INVARIANT, "on|off", 0,
     "whether results must not depend on what else runs, which decides on the kernels; default on"},
    {"pin", KEY_PIN, "auto|on|off", 0,
     "each thread stays on a core of its own; auto (default): where they take all cores"},
    {NULL},
};

static error_t parse_shared(int key, char *arg, struct argp_state *state)
{
    shared_args *args = state->input;
    switch (key) {
    case KEY_CONFIG:
        args->config = arg;
        return 0;
    case KEY_ISA:
        args->options.isa = arg;
        return 0;
    case KEY_KERNEL:
        return di_args_add_kernel(state, arg, &args->kernels, &args->options);
    case KEY_INVARIANT:
        args->options.batch_invariant = arg;
        return 0;
    case KEY_PIN:
        args->options.pin = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp shared_argp = {.options = shared_options, .parser = parse_shared};

/* Numbers with commas between them, at most MAX_COUNTS. */
static error_t parse_list(struct argp_state *state, const char *option, const char *arg,
                          int64_t high, int64_t *out, size_t *n)
{
    error_t error = 0;
    char *text = di_app_text("%s", arg);
    char *rest = text;
    *n = 0;
    for (const char *item; error == 0 && (item = strsep(&rest, ",")) != NULL;) {
        if (*n == MAX_COUNTS)
            error = di_args_bad(state, "%s: more than %d numbers", option, MAX_COUNTS);
        else
            error = di_args_i64(state, option, item, 1, high, &out[(*n)++]);
    }
    free(text);
    return error;
}

static error_t parse_seconds(struct argp_state *state, const char *arg, double *out)
{
    char *error = NULL;
    if (di_args_parse_f64(arg, 1e-6, 3600.0, out, &error))
        return 0;
    const error_t result = di_args_bad(state, "--seconds: %s", error);
    free(error);
    return result;
}

static bool go_on(void *user)
{
    (void)user;
    return !di_app_interrupted();
}

static di_exit finish(di_status status)
{
    const di_exit code = di_app_flush();
    return status != DI_OK && code == DI_EXIT_OK ? di_app_fail_status(status, NULL) : code;
}

/* ------------------------------------------------------------------------------------- kernels */

typedef struct kernels_args {
    shared_args shared;
    di_bench_kernels_options bench;
    int thread_counts[MAX_COUNTS];
    const char *json;
} kernels_args;

enum {
    KEY_OP = 0x600,
    KEY_THREADS,
    KEY_SECONDS,
    KEY_JSON,
    KEY_ALL,
    KEY_LIST,
    KEY_PAGES,
    KEY_MEMORY,
    KEY_DEVICE
};

static const struct argp_option kernels_options[] = {
    {"op", KEY_OP, "NAME", 0, "time this operation alone"},
    {"device", KEY_DEVICE, "cuda:N", 0,
     "time the GPU kernels there, each checked against the CPU's result first"},
    {"threads", KEY_THREADS, "LIST", 0,
     "numbers of threads, with commas; default: one and all CPUs of this process"},
    {"seconds", KEY_SECONDS, "S", 0, "for a row and for a ceiling; default 0.3"},
    {"all", KEY_ALL, NULL, 0, "the slow references too"},
    {"list", KEY_LIST, NULL, 0, "print operations and shapes only"},
    {"small-pages", KEY_PAGES, NULL, 0, "weights in 4 KiB pages, not in 2 MiB pages"},
    {"memory-bytes", KEY_MEMORY, "N", 0,
     "memory that the weights go through; default: four times the last cache"},
    {"json", KEY_JSON, "FILE", 0, "write the results there too"},
    {NULL},
};

static error_t set_threads(struct argp_state *state, kernels_args *args, const char *arg)
{
    int64_t counts[MAX_COUNTS] = {0};
    const error_t error =
        parse_list(state, "--threads", arg, 4096, counts, &args->bench.n_thread_counts);
    for (size_t i = 0; i < args->bench.n_thread_counts; i++)
        args->thread_counts[i] = (int)counts[i];
    args->bench.thread_counts = args->thread_counts;
    return error;
}

static error_t parse_kernels(int key, char *arg, struct argp_state *state)
{
    kernels_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->shared;
        return 0;
    case KEY_OP:
        args->bench.op = arg;
        return 0;
    case KEY_THREADS:
        return set_threads(state, args, arg);
    case KEY_SECONDS:
        return parse_seconds(state, arg, &args->bench.seconds);
    case KEY_DEVICE:
        args->bench.device = arg;
        return 0;
    case KEY_ALL:
        args->bench.has_references = true;
        return 0;
    case KEY_LIST:
        args->bench.is_list = true;
        return 0;
    case KEY_PAGES:
        args->bench.has_small_pages = true;
        return 0;
    case KEY_MEMORY:
        return di_args_i64(state, "--memory-bytes", arg, 1 << 20, INT64_C(1) << 40,
                           &args->bench.memory_bytes);
    case KEY_JSON:
        args->json = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child kernels_children[] = {{&shared_argp, 0, "What to run:", 2}, {NULL}};

static const struct argp kernels_argp = {
    .options = kernels_options,
    .parser = parse_kernels,
    .doc = "Times every kernel that this machine can run, on synthetic weights of the released "
           "model's shapes, against what the machine can do, which it measures first. A line a "
           "kernel, shape and number of threads; a star: the engine would use it.",
    .children = kernels_children,
};

static di_exit bench_kernels(int argc, char **argv)
{
    kernels_args args = {.bench.go_on = go_on};
    di_out_file json = {NULL};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&kernels_argp, 0, argc, argv, &args, &code)) {
        if (args.json != NULL)
            code = di_out_file_open(args.json, &json);
        if (code == DI_EXIT_OK) {
            args.bench.config = args.shared.config;
            args.bench.json = json.file;
            code = finish(di_bench_kernels(&args.shared.options, &args.bench, stdout));
        }
        if (code == DI_EXIT_OK && args.json != NULL)
            code = di_out_file_commit(&json);
    }
    di_out_file_abandon(&json);
    free(args.shared.kernels);
    return code;
}

/* -------------------------------------------------------------------------------------- layers */

typedef struct layers_args {
    shared_args shared;
    di_bench_layers_options bench;
    int64_t batches[MAX_COUNTS], contexts[MAX_COUNTS];
    const char *json;
} layers_args;

enum {
    KEY_LAYERS = 0x700,
    KEY_BATCH,
    KEY_CONTEXT,
    KEY_PREFILL,
    KEY_EXPERTS,
    KEY_N_THREADS,
    KEY_STEP_SECONDS,
    KEY_CEILING_BYTES,
    KEY_LAYERS_JSON
};

static const struct argp_option layers_options[] = {
    {"layers", KEY_LAYERS, "N", 0, "layers to run; default 2"},
    {"batch", KEY_BATCH, "LIST", 0,
     "sequences that decode together, with commas; default 1,16; at most 256"},
    {"context", KEY_CONTEXT, "LIST", 0, "tokens before the decoded ones; default 4096"},
    {"prefill", KEY_PREFILL, "P", 0, "also a pass of P tokens; default: none"},
    {"experts", KEY_EXPERTS, "N", 0,
     "distinct routed experts in memory, which the layers share; default: by the caches' size"},
    {"threads", KEY_N_THREADS, "N", 0, "CPU threads; default: all CPUs of this process"},
    {"seconds", KEY_STEP_SECONDS, "S", 0, "for each batch at each context; default 3"},
    {"memory-bytes", KEY_CEILING_BYTES, "N", 0,
     "memory that the ceiling reads; default: four times the last cache"},
    {"json", KEY_LAYERS_JSON, "FILE", 0, "write the results there too"},
    {NULL},
};

static error_t parse_layers(int key, char *arg, struct argp_state *state)
{
    layers_args *args = state->input;
    int64_t value = 0;
    error_t error;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->shared;
        return 0;
    case KEY_LAYERS:
        error = di_args_i64(state, "--layers", arg, 1, 512, &value);
        args->bench.n_layers = (int)value;
        return error;
    case KEY_BATCH:
        return parse_list(state, "--batch", arg, DI_BENCH_MAX_BATCH, args->batches,
                          &args->bench.n_batches);
    case KEY_CONTEXT:
        return parse_list(state, "--context", arg, INT32_MAX, args->contexts,
                          &args->bench.n_contexts);
    case KEY_PREFILL:
        return di_args_i64(state, "--prefill", arg, 1, 65536, &args->bench.prefill);
    case KEY_EXPERTS:
        return di_args_i64(state, "--experts", arg, 1, INT32_MAX, &args->bench.n_experts);
    case KEY_N_THREADS:
        error = di_args_i64(state, "--threads", arg, 1, 4096, &value);
        args->shared.options.n_threads = (int)value;
        return error;
    case KEY_STEP_SECONDS:
        return parse_seconds(state, arg, &args->bench.seconds);
    case KEY_CEILING_BYTES:
        return di_args_i64(state, "--memory-bytes", arg, 1 << 20, INT64_C(1) << 40,
                           &args->bench.memory_bytes);
    case KEY_LAYERS_JSON:
        args->json = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child layers_children[] = {{&shared_argp, 0, "What to run:", 2}, {NULL}};

static const struct argp layers_argp = {
    .options = layers_options,
    .parser = parse_layers,
    .doc = "Times decode and prefill through layers of the released model's shape, with synthetic "
           "weights in memory and random entries in the KV cache: the real forward pass, operation "
           "by operation, what the machine would allow, and what follows for the whole model.",
    .children = layers_children,
};

static di_exit bench_layers(int argc, char **argv)
{
    layers_args args = {.bench.go_on = go_on};
    di_out_file json = {NULL};
    di_exit code = DI_EXIT_OK;
    if (di_args_parse(&layers_argp, 0, argc, argv, &args, &code)) {
        if (args.json != NULL)
            code = di_out_file_open(args.json, &json);
        if (code == DI_EXIT_OK) {
            args.bench.config = args.shared.config;
            args.bench.batches = args.batches;
            args.bench.contexts = args.contexts;
            args.bench.json = json.file;
            code = finish(di_bench_layers(&args.shared.options, &args.bench, stdout));
        }
        if (code == DI_EXIT_OK && args.json != NULL)
            code = di_out_file_commit(&json);
    }
    di_out_file_abandon(&json);
    free(args.shared.kernels);
    return code;
}

/* ---------------------------------------------------------------------------------- the command */

static const struct benchmark {
    const char *name;
    di_exit (*run)(int argc, char **argv);
} benchmarks[] = {
    {"kernels", bench_kernels},
    {"layers", bench_layers},
    {"experts", di_cmd_bench_experts},
    {"structured", di_cmd_bench_structured},
    {"speculation", di_cmd_bench_speculation},
};

static di_exit help(const char *name, FILE *out, di_exit code)
{
    fprintf(out,
            "Usage: %s kernels|layers|experts|structured|speculation [OPTION...]\n"
            "       %s kernels|layers|experts|structured|speculation --help\n"
            "  kernels    times every kernel at the released model's shapes\n"
            "  layers     times layers of the released model's shape in the forward pass\n"
            "  experts    times reading a checkpoint's experts from disk\n"
            "  structured times compiling constraints, token masks and tokens\n"
            "  speculation times decoding with drafts and without\n",
            name, name);
    return code;
}

di_exit di_cmd_bench(int argc, char **argv)
{
    if (argc < 2)
        return help(argv[0], stderr, DI_EXIT_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(argv[0], stdout, di_app_flush());
    for (size_t i = 0; i < DI_COUNT(benchmarks); i++) {
        if (strcmp(argv[1], benchmarks[i].name) != 0)
            continue;
        char *name = di_app_text("%s %s", argv[0], benchmarks[i].name);
        char *shown = argv[1];
        argv[1] = name;
        const di_exit code = benchmarks[i].run(argc - 1, argv + 1);
        argv[1] = shown;
        free(name);
        return code;
    }
    return di_app_fail(
        DI_EXIT_USAGE,
        "unknown benchmark '%s', wanted kernels, layers, experts, structured or speculation",
        argv[1]);
}
