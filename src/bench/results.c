#include "bench/results.h"

di_status di_results_write(const di_ceilings *ceilings, int n, json_t *rows, FILE *out)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *one = json_pack("{s:i, s:b}", "threads", ceilings[i].n_threads, "pinned",
                                ceilings[i].is_pinned);
        for (int c = 0; c < DI_N_CEILINGS; c++)
            json_object_set_new(one, di_ceiling_name((di_ceiling)c),
                                json_real(ceilings[i].rate[c]));
        json_array_append_new(list, one);
    }
    json_t *all = json_pack("{s:o, s:O}", "ceilings", list, "rows", rows);
    const bool is_written = all && json_dumpf(all, out, JSON_INDENT(1) | JSON_SORT_KEYS) == 0;
    json_decref(all);
    return is_written ? DI_OK : di_fail(DI_ERR_IO, "the results cannot be written as JSON");
}
