#include "bench/layers.h"

static double floor_of(const di_layers_sum *sum)
{
    return sum->memory_seconds > sum->flop_seconds ? sum->memory_seconds : sum->flop_seconds;
}

/* Appends an object with `key`: `name` (or, without one, `number`) and what the sum says. */
static bool append(json_t *list, const char *key, const char *name, int number,
                   const di_layers_sum *sum, double seconds)
{
    json_t *object =
        json_pack("{s:f, s:f, s:f, s:f}", "seconds", seconds, "memory_bytes",
                  sum->cost.memory_bytes, "flops", sum->cost.flops, "floor_seconds", floor_of(sum));
    const int failed =
        object ? json_object_set_new(object, key, name ? json_string(name) : json_integer(number))
               : -1;
    return json_array_append_new(list, object) == 0 && failed == 0;
}

static json_t *operations(const di_layers_run *run)
{
    json_t *list = json_array();
    for (int op = 0; op < DI_N_OPS && list; op++) {
        const di_layers_sum *sum = &run->op_sums[op];
        if (sum->calls == 0.0)
            continue;
        if (!append(list, "operation", di_op_name((di_op)op), 0, sum, sum->seconds) ||
            json_object_set_new(json_array_get(list, json_array_size(list) - 1), "calls",
                                json_real(sum->calls)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The last is what is outside the layers. */
static json_t *layers(const di_layers_shape *shape, const di_layers_run *run)
{
    const int n = shape->config.n_layers;
    json_t *list = json_array();
    for (int i = 0; i <= n && list; i++) {
        if (!append(list, "layer", i < n ? NULL : "outside", shape->layers[i % n],
                    &run->layer_sums[i], run->layer_seconds[i])) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *di_layers_json(const di_layers_shape *shape, const di_layers_run *run)
{
    const di_layers_sum all = di_layers_total(shape, run);
    const double whole = di_layers_whole_of(shape, run).seconds;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "pass",
        run->is_prefill ? "prefill" : "decode", "sequences", (json_int_t)run->n_seqs, "tokens",
        (json_int_t)run->n_rows, "context", (json_int_t)run->context, "threads",
        shape->ceilings.n_threads, "steps", run->n_steps, "median_seconds", run->median,
        "min_seconds", run->minimum, "memory_bytes", all.cost.memory_bytes, "flops", all.cost.flops,
        "floor_seconds", floor_of(&all), "experts", run->n_experts, "model_seconds", whole,
        "model_tokens_per_second", (double)run->n_rows / whole, "operations", operations(run),
        "layers", layers(shape, run));
}
