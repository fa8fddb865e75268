#include "fake_hub.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void set_etag(di_fake_file *file)
{
    EVP_MD_CTX *context = need(EVP_MD_CTX_new());
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    char head[32];
    const int len = snprintf(head, sizeof head, "blob %zu", file->bytes);
    EVP_DigestInit_ex(context, file->is_large ? EVP_sha256() : EVP_sha1(), NULL);
    if (!file->is_large)
        EVP_DigestUpdate(context, head, (size_t)len + 1);
    EVP_DigestUpdate(context, file->data, file->bytes);
    EVP_DigestFinal_ex(context, digest, &n);
    EVP_MD_CTX_free(context);
    for (unsigned int i = 0; i < n; i++)
        snprintf(file->etag + 2 * i, 3, "%02x", digest[i]);
}

di_fake_file *di_fake_hub_add(di_fake_hub *hub, const char *name, const char *data, size_t bytes,
                              bool is_large)
{
    di_fake_hub_remove(hub, name);
    if (hub->n_files == DI_FAKE_MAX_FILES)
        abort();
    di_fake_file *file = &hub->files[hub->n_files++];
    *file = (di_fake_file){.name = name, .bytes = bytes, .is_large = is_large};
    file->data = need(malloc(bytes + 1));
    memcpy(file->data, data, bytes);
    set_etag(file);
    return file;
}

void di_fake_hub_remove(di_fake_hub *hub, const char *name)
{
    di_fake_file *file = di_fake_hub_file(hub, name);
    if (!file)
        return;
    free(file->data);
    *file = hub->files[--hub->n_files];
}

di_fake_file *di_fake_hub_file(di_fake_hub *hub, const char *name)
{
    for (int i = 0; i < hub->n_files; i++)
        if (!strcmp(hub->files[i].name, name))
            return &hub->files[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------- answers */

static void build_listing(di_fake_hub *hub)
{
    json_t *siblings = json_array();
    for (int i = 0; i < hub->n_files; i++) {
        const di_fake_file *file = &hub->files[i];
        json_t *item = json_pack("{s:s}", "rfilename", file->name);
        if (!hub->has_bare_listing) {
            json_object_set_new(item, "size", json_integer((json_int_t)file->bytes));
            json_object_set_new(item, "blobId",
                                json_string(file->is_large ? DI_FAKE_COMMIT : file->etag));
            if (file->is_large)
                json_object_set_new(item, "lfs",
                                    json_pack("{s:s, s:I, s:i}", "sha256", file->etag, "size",
                                              (json_int_t)file->bytes, "pointerSize", 134));
        }
        json_array_append_new(siblings, item);
    }
    json_t *root = json_pack("{s:s, s:s, s:o}", "id", DI_FAKE_REPO, "sha", DI_FAKE_COMMIT,
                             "siblings", siblings);
    hub->listing_text = need(json_dumps(root, 0));
    json_decref(root);
}

/* The fault for this path that still has to happen, if any. */
static bool take_fault(di_fake_hub *hub, const char *path, di_fault *out)
{
    for (int i = 0; i < hub->n_faults; i++) {
        di_fault *fault = &hub->faults[i];
        if (fault->n_times == 0 || !strstr(path, fault->where))
            continue;
        if (fault->n_times > 0)
            fault->n_times--;
        *out = *fault;
        return true;
    }
    return false;
}

static void on_stall(void *user)
{
    atomic_store(&((di_fake_hub *)user)->has_stalled, true);
}

static void damage(di_fake_hub *hub, di_http_reply *reply, size_t extra)
{
    free(hub->damaged);
    hub->damaged = need(calloc(1, reply->body_bytes + extra + 1));
    memcpy(hub->damaged, reply->body, reply->body_bytes);
    reply->body = hub->damaged;
    if (extra == 0)
        hub->damaged[reply->body_bytes / 2] ^= 1;
    reply->body_bytes += extra;
}

static void apply_body_fault(di_fake_hub *hub, const di_fault *fault, di_http_reply *reply)
{
    switch (fault->kind) {
    case DI_FAULT_NO_LENGTH_CUT:
        reply->has_no_length = true; /* fallthrough */
    case DI_FAULT_CUT:
        reply->ending = DI_HTTP_CUT;
        reply->limit = (size_t)fault->value;
        break;
    case DI_FAULT_STALL:
        reply->ending = DI_HTTP_STALL;
        reply->limit = (size_t)fault->value;
        reply->on_stall = on_stall;
        break;
    case DI_FAULT_LENGTH:
        reply->extra_length = fault->value;
        break;
    case DI_FAULT_TOO_LONG:
        reply->has_no_length = true;
        damage(hub, reply, 7);
        break;
    case DI_FAULT_CONTENT:
        damage(hub, reply, 0);
        break;
    case DI_FAULT_NO_RANGE:
        reply->has_no_range = true;
        break;
    case DI_FAULT_RANGE:
        reply->range_shift = fault->value;
        break;
    default:
        break;
    }
}

static void apply_fault(di_fake_hub *hub, const di_fault *fault, di_http_reply *reply)
{
    switch (fault->kind) {
    case DI_FAULT_CODE:
        *reply = (di_http_reply){.code = (int)fault->value, .body = "sorry", .body_bytes = 5};
        break;
    case DI_FAULT_BUSY:
        *reply = (di_http_reply){.code = 429, .body = "busy", .body_bytes = 4};
        snprintf(reply->headers, sizeof reply->headers, "Retry-After: %d\r\n", (int)fault->value);
        break;
    case DI_FAULT_NO_ANSWER:
        reply->code = 0;
        break;
    default:
        apply_body_fault(hub, fault, reply);
    }
}

/* The headers of /resolve/, with the faults that are in them. */
static void set_headers(const di_fake_hub *hub, const di_fake_file *file, const di_fault *fault,
                        di_http_reply *reply)
{
    const di_fault none = {.kind = DI_FAULT_CODE};
    if (!fault)
        fault = &none;
    const char *commit = fault->kind == DI_FAULT_COMMIT ? "fedcba9876543210" : DI_FAKE_COMMIT;
    char etag[65], location[128] = "", linked[200] = "";
    snprintf(etag, sizeof etag, "%s", file->etag);
    if (fault->kind == DI_FAULT_ETAG)
        etag[0] = etag[0] == '0' ? '1' : '0';
    if (file->is_large) {
        const long long shift = fault->kind == DI_FAULT_LINKED_SIZE ? fault->value : 0;
        snprintf(linked, sizeof linked, "X-Linked-Etag: \"%s\"\r\nX-Linked-Size: %lld\r\n", etag,
                 (long long)file->bytes + shift);
        snprintf(location, sizeof location, "Location: http://127.0.0.1:%d/cdn/%s?sig=abc\r\n",
                 di_http_server_port(hub->cdn), file->name);
    }
    if (fault->kind == DI_FAULT_LOOP)
        snprintf(location, sizeof location, "Location: /" DI_FAKE_REPO "/resolve/x/%s\r\n",
                 file->name);
    reply->code = location[0] ? 302 : 200;
    snprintf(reply->headers, sizeof reply->headers, "ETag: \"%s\"\r\nX-Repo-Commit: %s\r\n%s%s",
             file->is_large ? "not-a-digest" : etag, commit, linked, location);
}

static const di_fake_file *file_of_path(di_fake_hub *hub, const char *path)
{
    char name[256];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(slash + 1, "?"), slash + 1);
    return di_fake_hub_file(hub, name);
}

static void log_request(di_fake_hub *hub, const di_http_request *request, bool is_cdn)
{
    if (hub->n_requests == DI_FAKE_MAX_REQUESTS)
        abort();
    hub->requests[hub->n_requests++] = (di_fake_request){.http = *request, .is_cdn = is_cdn};
}

static void on_endpoint(void *user, const di_http_request *request, di_http_reply *reply)
{
    di_fake_hub *hub = user;
    static const char api[] = "/api/models/" DI_FAKE_REPO "/revision/main?blobs=true";
    static const char resolve[] = "/" DI_FAKE_REPO "/resolve/";
    pthread_mutex_lock(&hub->mutex);
    log_request(hub, request, false);
    di_fault fault;
    const bool has_fault = take_fault(hub, request->path, &fault);
    reply->code = 404;
    if (!strcmp(request->path, api)) {
        if (!hub->listing_text)
            build_listing(hub);
        reply->code = 200;
        reply->body = hub->listing ? hub->listing : hub->listing_text;
        reply->body_bytes = strlen(reply->body);
    } else if (!strncmp(request->path, resolve, sizeof resolve - 1)) {
        const di_fake_file *file = file_of_path(hub, request->path);
        if (file) {
            set_headers(hub, file, has_fault ? &fault : NULL, reply);
            reply->body = reply->code == 200 ? file->data : "moved";
            reply->body_bytes = reply->code == 200 ? file->bytes : 5;
        }
    }
    if (has_fault)
        apply_fault(hub, &fault, reply);
    pthread_mutex_unlock(&hub->mutex);
}

/* Lets nobody go on before n_barrier requests are here (or, so that a test fails instead of
 * hanging, 20 seconds are over). */
static void wait_for_others(di_fake_hub *hub)
{
    atomic_fetch_add(&hub->n_waiting, 1);
    for (int i = 0; i < 2000 && atomic_load(&hub->n_waiting) < hub->n_barrier; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void on_cdn(void *user, const di_http_request *request, di_http_reply *reply)
{
    di_fake_hub *hub = user;
    if (hub->n_barrier)
        wait_for_others(hub);
    pthread_mutex_lock(&hub->mutex);
    log_request(hub, request, true);
    di_fault fault;
    const bool has_fault = take_fault(hub, request->path, &fault);
    const di_fake_file *file = file_of_path(hub, request->path);
    reply->code = file ? 200 : 404;
    if (file) {
        snprintf(reply->headers, sizeof reply->headers, "ETag: \"%032d\"\r\n", 7);
        reply->body = file->data;
        reply->body_bytes = file->bytes;
    }
    if (has_fault)
        apply_fault(hub, &fault, reply);
    pthread_mutex_unlock(&hub->mutex);
}

/* ----------------------------------------------------------------------------------------- life */

static void add_shard(di_fake_hub *hub, const char *name, size_t bytes, unsigned seed)
{
    char *data = need(malloc(bytes));
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (char)(seed >> 24);
    }
    di_fake_hub_add(hub, name, data, bytes, true);
    free(data);
}

static void add_text(di_fake_hub *hub, const char *name, const char *text)
{
    di_fake_hub_add(hub, name, text, strlen(text), false);
}

void di_fake_hub_start(di_fake_hub *hub)
{
    *hub = (di_fake_hub){.mutex = PTHREAD_MUTEX_INITIALIZER};
    add_text(hub, "config.json", "{\"model_type\": \"test\"}");
    add_text(hub, "generation_config.json", "{}");
    add_text(hub, "tokenizer.json", "{\"model\": {}}");
    add_text(hub, "README.md", "not needed");
    add_text(hub, "model.safetensors.index.json",
             "{\"metadata\": {}, \"weight_map\": {"
             "\"a\": \"model-00001-of-00003.safetensors\","
             "\"c\": \"model-00003-of-00003.safetensors\","
             "\"b\": \"model-00002-of-00003.safetensors\","
             "\"d\": \"model-00001-of-00003.safetensors\"}}");
    add_shard(hub, "model-00001-of-00003.safetensors", 300000, 1);
    add_shard(hub, "model-00002-of-00003.safetensors", 200001, 2);
    add_shard(hub, "model-00003-of-00003.safetensors", 65536, 3);
    add_shard(hub, "model-00004-of-00003.safetensors", 1000, 4); /* not in the index */
    add_shard(hub, "assets.bin", 1000, 5);
    hub->endpoint = need(di_http_server_start(on_endpoint, hub));
    hub->cdn = need(di_http_server_start(on_cdn, hub));
    snprintf(hub->url, sizeof hub->url, "http://127.0.0.1:%d", di_http_server_port(hub->endpoint));
}

void di_fake_hub_stop(di_fake_hub *hub)
{
    di_http_server_stop(hub->endpoint);
    di_http_server_stop(hub->cdn);
    for (int i = 0; i < hub->n_files; i++)
        free(hub->files[i].data);
    free(hub->listing_text);
    free(hub->damaged);
    pthread_mutex_destroy(&hub->mutex);
}

void di_fake_hub_fault(di_fake_hub *hub, di_fault fault)
{
    pthread_mutex_lock(&hub->mutex);
    if (hub->n_faults == DI_FAKE_MAX_FAULTS)
        abort();
    hub->faults[hub->n_faults++] = fault;
    pthread_mutex_unlock(&hub->mutex);
}

void di_fake_hub_no_faults(di_fake_hub *hub)
{
    pthread_mutex_lock(&hub->mutex);
    hub->n_faults = 0;
    pthread_mutex_unlock(&hub->mutex);
}

int di_fake_hub_count(di_fake_hub *hub, const char *part)
{
    int n = 0;
    pthread_mutex_lock(&hub->mutex);
    for (int i = 0; i < hub->n_requests; i++)
        n += !part || strstr(hub->requests[i].http.path, part) != NULL;
    pthread_mutex_unlock(&hub->mutex);
    return n;
}

void di_fake_hub_forget(di_fake_hub *hub)
{
    pthread_mutex_lock(&hub->mutex);
    hub->n_requests = 0;
    pthread_mutex_unlock(&hub->mutex);
}

di_http_request di_fake_hub_request(di_fake_hub *hub, const char *part, int i)
{
    di_http_request found = {.range_begin = -2};
    pthread_mutex_lock(&hub->mutex);
    for (int k = 0; k < hub->n_requests; k++)
        if (strstr(hub->requests[k].http.path, part) && i-- == 0)
            found = hub->requests[k].http;
    pthread_mutex_unlock(&hub->mutex);
    return found;
}

int64_t di_fake_hub_sent_bytes(const di_fake_hub *hub)
{
    return di_http_server_sent_bytes(hub->endpoint) + di_http_server_sent_bytes(hub->cdn);
}
