#include "hub_http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    MAX_REDIRECTS = 8,
    MAX_FAILURES = 5,
    MAX_DELAY_MS = 60000,
    CONNECT_TIMEOUT_S = 30,
    STALL_TIMEOUT_S = 60, /* without a byte for so long, a transfer is given up and tried again */
    REDIRECT_URL_BYTES = 8192
};

static bool is_stopped(const di_hub_http *http)
{
    return di_hub_is_interrupted(http->options) || (http->is_over && atomic_load(http->is_over));
}

/* ------------------------------------------------------------------------------------ callbacks */

/* A number of digits only, or -1. */
static int64_t parse_size(const char *text)
{
    if (strspn(text, "0123456789") != strlen(text) || !*text || strlen(text) > 18)
        return -1;
    return strtoll(text, NULL, 10);
}

/* "bytes BEGIN-END/TOTAL"; TOTAL may be "*". */
static void parse_range(const char *text, di_hub_headers *headers)
{
    long long begin, end;
    int n = 0;
    if (sscanf(text, "bytes %18lld-%18lld/%n", &begin, &end, &n) == 2 && n > 0) {
        headers->range_begin = begin;
        headers->range_total = parse_size(text + n);
    }
}

/* W/"abc" and "abc" are abc. Something that cannot be an etag of ours is left out. */
static void parse_etag(const char *text, char etag[DI_HUB_ETAG_BYTES])
{
    char bare[DI_HUB_ETAG_BYTES];
    if (!strncmp(text, "W/", 2))
        text += 2;
    text += strspn(text, "\"");
    const size_t len = strcspn(text, "\"");
    if (len >= sizeof bare)
        return;
    memcpy(bare, text, len);
    bare[len] = 0;
    if (di_hub_is_etag(bare))
        memcpy(etag, bare, len + 1);
}

static void take_header(di_hub_http *http, const char *name, const char *value)
{
    di_hub_headers *headers = &http->headers;
    if (!strcasecmp(name, "Content-Length"))
        headers->content_bytes = parse_size(value);
    else if (!strcasecmp(name, "Content-Range"))
        parse_range(value, headers);
    if (!http->is_at_endpoint)
        return;
    if (!strcasecmp(name, "X-Linked-Etag")) {
        parse_etag(value, headers->linked_etag);
    } else if (!strcasecmp(name, "ETag")) {
        parse_etag(value, headers->etag);
    } else if (!strcasecmp(name, "X-Linked-Size")) {
        headers->linked_bytes = parse_size(value);
    } else if (!strcasecmp(name, "X-Repo-Commit")) {
        if (di_hub_is_commit(value))
            snprintf(headers->commit, sizeof headers->commit, "%s", value);
    }
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    di_hub_http *http = user;
    const size_t len = size * n;
    char line[1024];
    if (len >= sizeof line) /* none of ours is that long */
        return len;
    memcpy(line, data, len);
    line[len] = 0;
    line[strcspn(line, "\r\n")] = 0;
    char *value = strchr(line, ':');
    if (!value || !strncmp(line, "HTTP/", 5))
        return len;
    *value++ = 0;
    value += strspn(value, " \t");
    size_t value_len = strlen(value);
    while (value_len > 0 && strchr(" \t", value[value_len - 1]))
        value[--value_len] = 0;
    take_header(http, line, value);
    return len;
}

const char *di_hub_headers_etag(const di_hub_headers *headers)
{
    return headers->linked_etag[0] ? headers->linked_etag : headers->etag;
}

/* Calls sink.begin if this answer has content for the sink. */
static bool begin_body(di_hub_http *http)
{
    if (http->has_body)
        return true;
    http->has_body = true;
    http->sink_status = http->sink->begin(http->sink->user, &http->headers, http->error);
    return http->sink_status == DI_OK;
}

static bool has_content(di_hub_http *http)
{
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &http->headers.http_code);
    return http->sink && (http->headers.http_code == 200 || http->headers.http_code == 206);
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    di_hub_http *http = user;
    const size_t len = size * n;
    if (!has_content(http)) /* the page of an error or redirect */
        return len;
    if (!begin_body(http))
        return 0;
    http->sink_status = http->sink->add(http->sink->user, data, len, http->error);
    return http->sink_status == DI_OK ? len : 0;
}

static int on_progress(void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    (void)down_total, (void)down, (void)up_total, (void)up;
    return is_stopped(user);
}

/* -------------------------------------------------------------------------------------- origins */

typedef struct origin {
    char *scheme, *host, *port;
} origin;

static void origin_free(origin *o)
{
    curl_free(o->scheme);
    curl_free(o->host);
    curl_free(o->port);
}

static bool origin_of(const char *url, origin *out)
{
    *out = (origin){0};
    CURLU *parts = curl_url();
    const bool is_ok = parts && !curl_url_set(parts, CURLUPART_URL, url, 0) &&
                       !curl_url_get(parts, CURLUPART_SCHEME, &out->scheme, 0) &&
                       !curl_url_get(parts, CURLUPART_HOST, &out->host, 0) &&
                       !curl_url_get(parts, CURLUPART_PORT, &out->port, CURLU_DEFAULT_PORT);
    curl_url_cleanup(parts);
    return is_ok;
}

/* Same scheme, host and port. */
static bool is_same_origin(const char *a, const char *b)
{
    origin of_a, of_b;
    const bool is_a = origin_of(a, &of_a), is_b = origin_of(b, &of_b);
    const bool is_same = is_a && is_b && !strcasecmp(of_a.scheme, of_b.scheme) &&
                         !strcasecmp(of_a.host, of_b.host) && !strcmp(of_a.port, of_b.port);
    origin_free(&of_a);
    origin_free(&of_b);
    return is_same;
}

/* ----------------------------------------------------------------------------------- one request
 */

di_status di_hub_http_open(const di_hub_options *options, di_hub_error *error, di_hub_http *out)
{
    *out = (di_hub_http){.options = options, .error = error, .label = ""};
    out->curl = curl_easy_init();
    if (!out->curl)
        return di_hub_fail(error, DI_ERR_MEMORY, "out of memory for a connection");
    return DI_OK;
}

void di_hub_http_close(di_hub_http *http)
{
    curl_easy_cleanup(http->curl);
    http->curl = NULL;
}

static void reset_headers(di_hub_headers *headers, bool is_first)
{
    if (is_first)
        *headers = (di_hub_headers){.linked_bytes = -1};
    headers->http_code = 0;
    headers->etag[0] = 0;
    headers->content_bytes = headers->range_begin = headers->range_total = -1;
}

static void set_common(di_hub_http *http, const char *url)
{
    CURL *curl = http->curl;
    curl_easy_reset(curl); /* keeps connections */
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "deepinfer");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, http->curl_text);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, http);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, http);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, http);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L * 1024);
}

/* One answer, whatever it is. The token goes along only to the endpoint. */
static CURLcode perform(di_hub_http *http, const char *url, int64_t offset)
{
    set_common(http, url);
    struct curl_slist *lines = NULL;
    if (http->options->token[0] && http->is_at_endpoint) {
        char line[DI_HUB_TOKEN_BYTES + 32];
        snprintf(line, sizeof line, "Authorization: Bearer %s", http->options->token);
        lines = curl_slist_append(NULL, line);
        if (!lines)
            return CURLE_OUT_OF_MEMORY;
        curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, lines);
    }
    char range[32];
    if (offset > 0) {
        snprintf(range, sizeof range, "%lld-", (long long)offset);
        curl_easy_setopt(http->curl, CURLOPT_RANGE, range);
    }
    if (!http->sink)
        curl_easy_setopt(http->curl, CURLOPT_NOBODY, 1L);
    http->curl_text[0] = 0;
    http->has_body = false;
    http->sink_status = DI_OK;
    const CURLcode code = curl_easy_perform(http->curl);
    curl_slist_free_all(lines);
    return code;
}

static bool is_transient_failure(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
}

/* The request came to no whole answer. */
static di_status transfer_failure(di_hub_http *http, CURLcode code, bool *is_transient)
{
    if (code == CURLE_ABORTED_BY_CALLBACK || is_stopped(http))
        return di_hub_fail(http->error, DI_ERR_CANCELLED, "interrupted");
    if (http->sink_status != DI_OK)
        return http->sink_status;
    *is_transient = is_transient_failure(code);
    return di_hub_fail(http->error, DI_ERR_IO, "%s: %s", http->label,
                       http->curl_text[0] ? http->curl_text : curl_easy_strerror(code));
}

static di_status refused_answer(di_hub_http *http, bool *is_transient)
{
    const long code = http->headers.http_code;
    *is_transient = code == 408 || code == 429 || code == 500 || (code >= 502 && code <= 504);
    if (!http->is_at_endpoint) { /* a signed address that has run out is renewed by asking again */
        *is_transient |= code == 401 || code == 403;
        return di_hub_fail(http->error, DI_ERR_IO, "%s: the file server answered HTTP %ld",
                           http->label, code);
    }
    if (code == 401 || code == 403)
        return di_hub_fail(http->error, DI_ERR_IO,
                           "%s: access refused (HTTP %ld): no such repository, or a private or "
                           "gated one; %s",
                           http->label, code,
                           http->options->token[0] ? "HF_TOKEN is set, but gives no access to it"
                                                   : "set HF_TOKEN to a token with access to it");
    if (code == 404)
        return di_hub_fail(http->error, DI_ERR_IO, "%s: not found at %s (HTTP 404)", http->label,
                           http->options->endpoint);
    return di_hub_fail(http->error, DI_ERR_IO, "%s: %s answered HTTP %ld", http->label,
                       http->options->endpoint, code);
}

/* Where a redirect leads. From https it may not lead to http. */
static di_status next_url(di_hub_http *http, char url[REDIRECT_URL_BYTES])
{
    char *target = NULL;
    curl_easy_getinfo(http->curl, CURLINFO_REDIRECT_URL, &target);
    if (!target || strlen(target) >= REDIRECT_URL_BYTES)
        return di_hub_fail(http->error, DI_ERR_IO, "%s: found HTTP %ld without a usable address",
                           http->label, http->headers.http_code);
    if (!strncasecmp(url, "https:", 6) && strncasecmp(target, "https:", 6))
        return di_hub_fail(http->error, DI_ERR_IO, "%s: redirected from https to %.200s",
                           http->label, target);
    memmove(url, target, strlen(target) + 1);
    return DI_OK;
}

static bool is_redirect(long code)
{
    return code == 301 || code == 302 || code == 303 || code == 307 || code == 308;
}

/* DI_OK with http->headers: a 200, a 206, or for a HEAD also the redirect that leaves the endpoint.
 */
static di_status request(di_hub_http *http, const char *start, int64_t offset, bool *is_transient)
{
    char url[REDIRECT_URL_BYTES];
    *is_transient = false;
    DI_HUB_TRY(di_hub_format(http->error, url, sizeof url, "%s", start));
    for (int hop = 0; hop <= MAX_REDIRECTS; hop++) {
        reset_headers(&http->headers, hop == 0);
        http->is_at_endpoint = is_same_origin(url, http->options->endpoint);
        const CURLcode code = perform(http, url, offset);
        curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &http->headers.http_code);
        if (code != CURLE_OK)
            return transfer_failure(http, code, is_transient);
        if (http->headers.http_code == 200 || http->headers.http_code == 206)
            return !http->sink || begin_body(http) ? DI_OK : http->sink_status;
        if (!is_redirect(http->headers.http_code))
            return refused_answer(http, is_transient);
        DI_HUB_TRY(next_url(http, url));
        if (!http->sink && !is_same_origin(url, http->options->endpoint))
            return DI_OK;
    }
    return di_hub_fail(http->error, DI_ERR_IO, "%s: found more than %d redirects", http->label,
                       MAX_REDIRECTS);
}

di_status di_hub_http_get(di_hub_http *http, const char *url, int64_t offset,
                          const di_hub_sink *sink, bool *is_transient)
{
    http->sink = sink;
    return request(http, url, offset, is_transient);
}

/* ---------------------------------------------------------------------------------------- retries
 */

di_status di_hub_http_sleep(di_hub_http *http, int64_t ms)
{
    while (ms > 0 && !is_stopped(http)) {
        const int64_t piece = ms < 100 ? ms : 100;
        nanosleep(&(struct timespec){.tv_nsec = (long)piece * 1000000}, NULL);
        ms -= piece;
    }
    return is_stopped(http) ? di_hub_fail(http->error, DI_ERR_CANCELLED, "interrupted") : DI_OK;
}

di_status di_hub_http_wait(di_hub_http *http, di_status status)
{
    if (http->n_failures >= MAX_FAILURES)
        return status;
    int64_t delay_ms = (int64_t)http->options->retry_delay_ms << http->n_failures++;
    curl_off_t retry_after_s = 0;
    curl_easy_getinfo(http->curl, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (retry_after_s > 0 && retry_after_s * 1000 > delay_ms)
        delay_ms = retry_after_s * 1000;
    if (delay_ms > MAX_DELAY_MS)
        delay_ms = MAX_DELAY_MS;
    if (http->progress)
        di_hub_progress_note(http->progress, "%s; trying again in %.1f s", http->error->text,
                             (double)delay_ms / 1000);
    return di_hub_http_sleep(http, delay_ms);
}

static di_status request_again(di_hub_http *http, const char *url, const di_hub_sink *sink)
{
    http->n_failures = 0;
    http->sink = sink;
    for (;;) {
        bool is_transient;
        const di_status status = request(http, url, 0, &is_transient);
        if (status == DI_OK || !is_transient)
            return status;
        DI_HUB_TRY(di_hub_http_wait(http, status));
    }
}

di_status di_hub_http_head(di_hub_http *http, const char *url)
{
    return request_again(http, url, NULL);
}

typedef struct text_sink {
    char *text;
    size_t len, cap, max_bytes;
    const char *label;
} text_sink;

static di_status text_begin(void *user, const di_hub_headers *headers, di_hub_error *error)
{
    (void)headers, (void)error;
    ((text_sink *)user)->len = 0;
    return DI_OK;
}

static di_status text_add(void *user, const char *data, size_t len, di_hub_error *error)
{
    text_sink *sink = user;
    if (len > sink->max_bytes - sink->len)
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found an answer of more than %zu bytes",
                           sink->label, sink->max_bytes);
    if (sink->len + len >= sink->cap) {
        const size_t cap = 2 * (sink->len + len) + 4096;
        char *text = realloc(sink->text, cap);
        if (!text)
            return di_hub_fail(error, DI_ERR_MEMORY, "out of memory: %zu bytes for %s", cap,
                               sink->label);
        sink->text = text;
        sink->cap = cap;
    }
    memcpy(sink->text + sink->len, data, len);
    sink->len += len;
    sink->text[sink->len] = 0;
    return DI_OK;
}

di_status di_hub_http_text(di_hub_http *http, const char *url, size_t max_bytes, char **text,
                           size_t *len)
{
    text_sink state = {.max_bytes = max_bytes, .label = http->label};
    const di_hub_sink sink = {text_begin, text_add, &state};
    di_status status = request_again(http, url, &sink);
    if (status == DI_OK && !state.text)
        status = di_hub_fail(http->error, DI_ERR_INPUT, "%s: found an empty answer", http->label);
    if (status != DI_OK) {
        free(state.text);
        return status;
    }
    *text = state.text;
    *len = state.len;
    return DI_OK;
}
