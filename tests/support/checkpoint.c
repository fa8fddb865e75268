#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strmap.h"
#include "tokenizers.h"

/* --------------------------------------------------------------------------------- directories */

di_status di_test_make_dir(di_buf *out)
{
    const char *base = getenv("TMPDIR");
    DI_TRY(di_buf_printf(out, "%s/deepinfer-test-XXXXXX", base && *base ? base : "/tmp"));
    return mkdtemp(out->data) ? DI_OK : di_fail(DI_ERR_IO, "%s: %s", out->data, strerror(errno));
}

void di_test_remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[4096];
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            di_test_remove_dir(path);
        else
            unlink(path);
    }
    closedir(d);
    rmdir(dir);
}

di_status di_test_write_file(const char *dir, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path); /* a file that is cut and written anew is flushed to disk by some file systems */
    FILE *f = fopen(path, "wb");
    if (!f)
        return di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
    const bool is_written = fwrite(data, 1, bytes, f) == bytes;
    return fclose(f) == 0 && is_written ? DI_OK
                                        : di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
}

/* ---------------------------------------------------------------------------------------- plans */

static di_status add_tensor(void *user, const di_weight_tensor *t)
{
    di_test_plan *plan = user;
    DI_TRY(DI_GROW(&plan->tensors, &plan->cap, plan->n + 1));
    di_test_tensor *copy = &plan->tensors[plan->n];
    *copy = (di_test_tensor){.name = strdup(t->name),
                             .kind = t->kind,
                             .is_scale = t->is_scale,
                             .dtype = t->dtype,
                             .rank = t->rank,
                             .shape = {t->shape[0], t->shape[1]},
                             .n_in = t->n_in};
    if (!copy->name)
        return di_fail_memory(strlen(t->name), "a name");
    plan->n++;
    return DI_OK;
}

/* Large elements first, as the format's own library writes them: everything is aligned. */
static int compare_alignment(const void *a, const void *b)
{
    const di_test_tensor *x = *(const di_test_tensor *const *)a;
    const di_test_tensor *y = *(const di_test_tensor *const *)b;
    const size_t wide = di_dtype_bytes(y->dtype), narrow = di_dtype_bytes(x->dtype);
    return wide != narrow ? (wide > narrow) - (wide < narrow) : strcmp(x->name, y->name);
}

di_status di_test_plan_make(const di_config *config, di_test_plan *out)
{
    *out = (di_test_plan){.n_shards = 1};
    const di_status status = di_weight_list(config, NULL, add_tensor, out);
    if (status != DI_OK)
        di_test_plan_free(out);
    return status;
}

di_test_tensor *di_test_plan_find(const di_test_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->n; i++)
        if (strcmp(plan->tensors[i].name, name) == 0)
            return &plan->tensors[i];
    return NULL;
}

di_status di_test_plan_add(di_test_plan *plan, const char *name, di_dtype dtype, int64_t n)
{
    const di_weight_tensor t = {.name = name, .dtype = dtype, .rank = 1, .shape = {n}, .n_in = 1};
    return add_tensor(plan, &t);
}

static uint64_t tensor_bytes(const di_test_tensor *t)
{
    uint64_t bytes = di_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= (uint64_t)t->shape[i];
    return bytes;
}

static bool is_table(const di_test_tensor *t)
{
    return t->kind == DI_WEIGHT_KIND_TABLE;
}

void di_test_plan_shard(di_test_plan *plan, int n)
{
    uint64_t total = 0, done = 0;
    int n_tables = 0;
    for (size_t i = 0; i < plan->n; i++) {
        total += is_table(&plan->tensors[i]) ? 0 : tensor_bytes(&plan->tensors[i]);
        n_tables += is_table(&plan->tensors[i]) && !plan->tensors[i].is_scale;
    }
    const int n_rest = n > n_tables ? n - n_tables : n;
    int table = -1;
    for (size_t i = 0; i < plan->n; i++) {
        di_test_tensor *t = &plan->tensors[i];
        if (is_table(t)) {
            table += !t->is_scale;
            t->shard = n > n_tables ? n_rest + table : 0;
            continue;
        }
        t->shard = (int)((double)done / (double)(total ? total : 1) * n_rest);
        done += tensor_bytes(t);
    }
    plan->n_shards = n;
}

void di_test_plan_free(di_test_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++)
        free(plan->tensors[i].name);
    free(plan->tensors);
    *plan = (di_test_plan){0};
}

/* -------------------------------------------------------------------------------------- payload */

static float random_unit(uint64_t *state) /* in [-1, 1) */
{
    return (float)((double)di_test_random(state) / 2147483648.0 - 1.0);
}

/* Values that keep a forward pass in range: norms about 1, matrices about 1/sqrt(n_in). */
static float random_value(const di_test_tensor *t, uint64_t *state)
{
    if (t->kind == DI_WEIGHT_KIND_NORM)
        return 1.0f + 0.1f * random_unit(state);
    if (t->rank < 2)
        return 0.1f * random_unit(state);
    return 1.7f / sqrtf((float)t->n_in) * random_unit(state);
}

static void random_element(const di_test_tensor *t, uint64_t *state, unsigned char *out)
{
    const float value = random_value(t, state);
    switch (t->dtype) {
    case DI_F32:
        memcpy(out, &value, sizeof value);
        return;
    case DI_BF16: {
        const di_bf16 narrow = di_f32_to_bf16(value);
        memcpy(out, &narrow, sizeof narrow);
        return;
    }
    case DI_F8_E4M3:
        *out = di_f32_to_e4m3(random_unit(state));
        return;
    case DI_F8_E8M0: /* codes are about 1 (F8) or 3 (F4): scale to 1/sqrt(n_in) */
        *out =
            (uint8_t)(127 + ilogbf(1.0f / sqrtf((float)t->n_in)) - (t->kind == DI_WEIGHT_KIND_F4));
        return;
    default:
        for (size_t i = 0; i < di_dtype_bytes(t->dtype); i++)
            out[i] = (unsigned char)di_test_random(state);
    }
}

/* The same values wherever a tensor of that name lies. */
static di_status write_payload(FILE *f, const di_test_tensor *t)
{
    uint64_t state = di_hash_bytes(t->name, strlen(t->name)) | 1;
    const size_t element = di_dtype_bytes(t->dtype);
    for (uint64_t n = tensor_bytes(t) / element; n > 0; n--) {
        unsigned char bytes[8];
        random_element(t, &state, bytes);
        if (fwrite(bytes, element, 1, f) != 1)
            return di_fail(DI_ERR_IO, "tensor %s: %s", t->name, strerror(errno));
    }
    return DI_OK;
}

/* --------------------------------------------------------------------------------------- shards */

/* The tensors of one shard in the order of their bytes. */
typedef struct shard {
    const di_test_plan *plan;
    const di_test_tensor **tensors;
    size_t n;
} shard;

static di_status make_shard(const di_test_plan *plan, int number, shard *out)
{
    *out = (shard){plan, calloc(plan->n + 1, sizeof *out->tensors), 0};
    if (!out->tensors)
        return di_fail_memory(plan->n * sizeof *out->tensors, "a shard");
    for (size_t i = 0; i < plan->n; i++) {
        const di_test_tensor *t = &plan->tensors[i];
        if (!t->is_left_out && (plan->n_shards == 0 || t->shard == number))
            out->tensors[out->n++] = t;
    }
    qsort(out->tensors, out->n, sizeof *out->tensors, compare_alignment);
    return DI_OK;
}

static di_status make_header(const shard *s, di_buf *out, uint64_t *payload)
{
    uint64_t at = 0;
    DI_TRY(di_buf_puts(out, "{\"__metadata__\":{\"format\":\"pt\"}"));
    for (size_t i = 0; i < s->n; i++) {
        const di_test_tensor *t = s->tensors[i];
        const uint64_t end = at + tensor_bytes(t);
        DI_TRY(di_buf_printf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
                             di_dtype_name(t->dtype)));
        for (int d = 0; d < t->rank; d++)
            DI_TRY(di_buf_printf(out, "%s%lld", d ? "," : "", (long long)t->shape[d]));
        DI_TRY(di_buf_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                             (unsigned long long)end));
        at = end;
    }
    DI_TRY(di_buf_puts(out, "}"));
    while (out->len % 8)
        DI_TRY(di_buf_puts(out, " "));
    for (int i = 0; i < s->plan->header_padding; i++)
        DI_TRY(di_buf_puts(out, " "));
    *payload = at;
    return DI_OK;
}

static void shard_name(const di_test_plan *plan, int number, char out[64])
{
    if (plan->n_shards == 0)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", number + 1, plan->n_shards);
}

static di_status fill_file(const shard *s, FILE *f, const char *path)
{
    DI_BUF_AUTO header = {0};
    uint64_t payload;
    DI_TRY(make_header(s, &header, &payload));
    const uint64_t len = header.len; /* little-endian, as everything here */
    if (fwrite(&len, sizeof len, 1, f) != 1 || fwrite(header.data, header.len, 1, f) != 1)
        return di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
    if (s->plan->is_sparse) {
        if (fflush(f) != 0 || ftruncate(fileno(f), (off_t)(sizeof len + len + payload)) != 0)
            return di_fail(DI_ERR_IO, "%s: a sparse file: %s", path, strerror(errno));
        return DI_OK;
    }
    for (size_t i = 0; i < s->n; i++)
        DI_TRY(write_payload(f, s->tensors[i]));
    return DI_OK;
}

static di_status write_shard(const di_test_plan *plan, int number, const char *dir)
{
    char name[64], path[4096];
    shard s;
    shard_name(plan, number, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    DI_TRY(make_shard(plan, number, &s));
    unlink(path); /* a file that is cut and written anew is flushed to disk by some file systems */
    FILE *f = fopen(path, "wb");
    di_status status =
        f ? fill_file(&s, f, path) : di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
    if (f && fclose(f) != 0 && status == DI_OK)
        status = di_fail(DI_ERR_IO, "%s: %s", path, strerror(errno));
    free(s.tensors);
    return status;
}

static di_status write_index(const di_test_plan *plan, const char *dir)
{
    DI_BUF_AUTO text = {0};
    uint64_t total = plan->has_wrong_total;
    bool is_first = true;
    for (size_t i = 0; i < plan->n; i++)
        total += plan->tensors[i].is_unlisted ? 0 : tensor_bytes(&plan->tensors[i]);
    DI_TRY(di_buf_printf(&text, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{",
                         (unsigned long long)total));
    for (size_t i = 0; i < plan->n; i++) {
        char name[64];
        if (plan->tensors[i].is_unlisted)
            continue;
        shard_name(plan, plan->tensors[i].shard, name);
        DI_TRY(di_buf_printf(&text, "%s\n\"%s\":\"%s\"", is_first ? "" : ",", plan->tensors[i].name,
                             name));
        is_first = false;
    }
    DI_TRY(di_buf_puts(&text, "}}\n"));
    return di_test_write_file(dir, "model.safetensors.index.json", text.data, text.len);
}

di_status di_test_plan_write(const di_test_plan *plan, const char *dir)
{
    for (int i = 0; i < (plan->n_shards ? plan->n_shards : 1); i++)
        DI_TRY(write_shard(plan, i, dir));
    return plan->n_shards ? write_index(plan, dir) : DI_OK;
}

/* ------------------------------------------------------------------------------- configurations */

json_t *di_test_config_json(const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", folder);
    return di_test_json(path);
}

di_status di_test_config_parse(const json_t *config_json, di_config *out)
{
    char *text = json_dumps(config_json, JSON_REAL_PRECISION(17));
    if (!text)
        return di_fail(DI_ERR_INPUT, "found a configuration that is no JSON");
    const di_status status = di_config_parse(text, strlen(text), "config.json", out);
    free(text);
    return status;
}

di_status di_test_config(const char *folder, di_config *out)
{
    json_t *json = di_test_config_json(folder);
    const di_status status = di_test_config_parse(json, out);
    json_decref(json);
    return status;
}

di_status di_test_write_checkpoint(const char *dir, const json_t *config_json, di_config *config)
{
    di_config parsed;
    di_test_plan plan;
    DI_TRY(di_test_config_parse(config_json, &parsed));
    char *text = json_dumps(config_json, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text)
        return di_fail(DI_ERR_INPUT, "found a configuration that is no JSON");
    di_status status = di_test_write_file(dir, "config.json", text, strlen(text));
    free(text);
    DI_TRY(status);
    DI_TRY(di_test_plan_make(&parsed, &plan));
    status = di_test_plan_write(&plan, dir);
    di_test_plan_free(&plan);
    if (status == DI_OK && config)
        *config = parsed;
    return status;
}
