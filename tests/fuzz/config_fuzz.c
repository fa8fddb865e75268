/* Any text as config.json and generation_config.json: refused, or the list of tensors that follows
 * from it can be walked (what every later step relies on). */
#include <stdlib.h>
#include <string.h>

#include "core/config_keys.h"
#include "weights/weight_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static di_status check_tensor(void *user, const di_weight_tensor *t)
{
    size_t *n = user;
    if (t->n_out < 1 || t->n_in < 1 || t->shape[0] < 1 || (t->rank == 2 && t->shape[1] < 1))
        abort();
    return ++*n < 20000 ? DI_OK : DI_ERR_CANCELLED; /* a million experts take too long here */
}

static void check_sources(const di_config *c)
{
    for (int i = 0; i < c->n_layers; i++) {
        if (c->compress_ratios[i] == 0)
            continue;
        if (c->kv_source[i] < 0 || c->kv_source[i] > i || c->index_source[i] < c->kv_source[i] ||
            c->compress_ratios[c->kv_source[i]] != c->compress_ratios[i])
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static di_config config;
    DI_BUF_AUTO keys = {0};
    di_generation_config generation;
    size_t n = 0;
    const char *text = (const char *)data;
    if (di_config_parse(text, size, "fuzz", &config) != DI_OK) {
        if (strchr(di_last_error(), '\n') || strncmp(di_last_error(), "fuzz: ", 6) != 0)
            abort();
        config = (di_config){.vocab_size = 1000};
    } else {
        check_sources(&config);
        if (di_weight_list(&config, NULL, check_tensor, &n) != DI_OK && n < 20000)
            abort();
        if (di_config_unknown_keys(text, size, "fuzz", &keys) != DI_OK)
            abort();
    }
    if (di_generation_config_parse(text, size, "fuzz", &config, &generation) == DI_OK &&
        (generation.n_eos < 1 || generation.n_eos > DI_MAX_EOS || !(generation.top_p <= 1)))
        abort();
    return 0;
}
