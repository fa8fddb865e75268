/* Any bytes as a safetensors file: refused, or every tensor lies inside of it, back to back. */
#include <stdlib.h>
#include <string.h>

#include "weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    di_safetensors st;
    if (di_safetensors_from_memory(data, size, "fuzz", &st) != DI_OK) {
        if (strchr(di_last_error(), '\n') || strncmp(di_last_error(), "fuzz: ", 6) != 0)
            abort();
        return 0;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < st.n_entries; i++) {
        const di_tensor *t = &st.entries[i].tensor;
        const uint8_t *begin = t->data;
        if (begin < data || begin > data + size || t->bytes > (size_t)(data + size - begin))
            abort();
        if (di_safetensors_find(&st, st.entries[i].name) != t)
            abort();
        bytes += t->bytes;
    }
    if (bytes != st.payload_bytes)
        abort();
    di_safetensors_close(&st);
    return 0;
}
