/* Requests to the hub over libcurl: redirects, the token, retries. One di_hub_http per thread. */
#ifndef DI_APPS_HUB_HTTP_H
#define DI_APPS_HUB_HTTP_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "hub_cache.h"
#include "hub_progress.h"

/* What the endpoint said of the content; redirect targets are not asked but for the lengths. */
typedef struct di_hub_headers {
    long http_code;
    char linked_etag[DI_HUB_ETAG_BYTES]; /* X-Linked-Etag without quotes; "" = not said */
    char etag[DI_HUB_ETAG_BYTES];        /* ETag of the last answer of the endpoint */
    char commit[DI_HUB_COMMIT_BYTES];    /* X-Repo-Commit; "" = not said */
    int64_t linked_bytes;                /* X-Linked-Size; -1 = not said */
    int64_t content_bytes;               /* Content-Length of this answer; -1 = not said */
    int64_t range_begin;                 /* of Content-Range; -1 = not said */
    int64_t range_total;
} di_hub_headers;

/* Takes a body. begin comes once before the first byte, and for an empty body too. A status other
 * than DI_OK ends the request, which then returns it. */
typedef struct di_hub_sink {
    di_status (*begin)(void *user, const di_hub_headers *headers, di_hub_error *error);
    di_status (*add)(void *user, const char *data, size_t len, di_hub_error *error);
    void *user;
} di_hub_sink;

/* The etag that names the blob, or "". */
const char *di_hub_headers_etag(const di_hub_headers *headers);

typedef struct di_hub_http {
    CURL *curl;
    const di_hub_options *options;
    const char *label;          /* what is fetched, for error texts */
    di_hub_progress *progress;  /* told about retries; NULL: nobody is */
    const atomic_bool *is_over; /* another thread has failed; NULL: there is none */
    di_hub_error *error;

    di_hub_headers headers; /* of the latest answer */
    const di_hub_sink *sink;
    di_status sink_status;
    bool has_body;       /* sink.begin was called */
    bool is_at_endpoint; /* of the URL being asked */
    int n_failures;      /* transient ones without progress */
    char curl_text[CURL_ERROR_SIZE];
} di_hub_http;

di_status di_hub_http_open(const di_hub_options *options, di_hub_error *error, di_hub_http *out)
    __attribute__((warn_unused_result));
void di_hub_http_close(di_hub_http *http);

/* One GET of bytes from `offset` on (with offset 0 of everything), following redirects. On failure
 * *is_transient tells whether asking again may help. */
di_status di_hub_http_get(di_hub_http *http, const char *url, int64_t offset,
                          const di_hub_sink *sink, bool *is_transient)
    __attribute__((warn_unused_result));
/* Headers only, with retries; redirects that leave the endpoint are not followed. */
di_status di_hub_http_head(di_hub_http *http, const char *url) __attribute__((warn_unused_result));
/* The whole body as a malloc'ed, NUL-terminated text of at most max_bytes, with retries. */
di_status di_hub_http_text(di_hub_http *http, const char *url, size_t max_bytes, char **text,
                           size_t *len) __attribute__((warn_unused_result));

/* After a transient failure with `status`: waits and returns DI_OK to try again, or returns
 * `status` after too many. n_failures = 0 starts the count anew. */
di_status di_hub_http_wait(di_hub_http *http, di_status status) __attribute__((warn_unused_result));
/* Waits in short pieces; DI_ERR_CANCELLED once the user or another thread stops the work. */
di_status di_hub_http_sleep(di_hub_http *http, int64_t ms) __attribute__((warn_unused_result));

#endif
