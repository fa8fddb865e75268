/* The subcommands. argv[0] is the name to show in help and usage, "deepinfer run". */
#ifndef DI_APPS_COMMANDS_H
#define DI_APPS_COMMANDS_H

#include "app.h"

di_exit di_cmd_run(int argc, char **argv);
di_exit di_cmd_chat(int argc, char **argv);
di_exit di_cmd_batch(int argc, char **argv);
di_exit di_cmd_score(int argc, char **argv);
di_exit di_cmd_eval(int argc, char **argv);
di_exit di_cmd_selftest(int argc, char **argv);
di_exit di_cmd_bench(int argc, char **argv);
di_exit di_cmd_bench_experts(int argc, char **argv);
di_exit di_cmd_bench_structured(int argc, char **argv);
di_exit di_cmd_bench_speculation(int argc, char **argv);
di_exit di_cmd_inspect(int argc, char **argv);
di_exit di_cmd_tokenize(int argc, char **argv);
di_exit di_cmd_detokenize(int argc, char **argv);
di_exit di_cmd_check(int argc, char **argv);
di_exit di_cmd_encode(int argc, char **argv);
di_exit di_cmd_parse(int argc, char **argv);
di_exit di_cmd_kernels(int argc, char **argv);
di_exit di_cmd_devices(int argc, char **argv);
di_exit di_cmd_config(int argc, char **argv);
di_exit di_cmd_version(int argc, char **argv);

#endif
