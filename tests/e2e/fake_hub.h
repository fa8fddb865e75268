/* A hub with one repository on loopback: the API and small files on one server, large files
 * redirected to a second one, as the real hub does. It keeps a log of what was asked, and
 * misbehaves on request. */
#ifndef DI_TEST_FAKE_HUB_H
#define DI_TEST_FAKE_HUB_H

#include <pthread.h>
#include <stdatomic.h>

#include "http_server.h"
#include "hub.h"

#define DI_FAKE_REPO   "test-org/tiny-model"
#define DI_FAKE_COMMIT "0123456789abcdef0123456789abcdef01234567"
#define DI_FAKE_TOKEN  "hf_secret"

enum { DI_FAKE_MAX_FILES = 16, DI_FAKE_MAX_REQUESTS = 256, DI_FAKE_MAX_FAULTS = 8 };

typedef struct di_fake_file {
    const char *name;
    char *data; /* owned */
    size_t bytes;
    bool is_large; /* lfs: SHA-256 etag, redirected; else git SHA-1 */
    char etag[65];
} di_fake_file;

typedef enum di_fault_kind {
    DI_FAULT_CODE,          /* answers with code `value` */
    DI_FAULT_BUSY,          /* 429 and Retry-After: `value` */
    DI_FAULT_NO_ANSWER,     /* closes the connection */
    DI_FAULT_CUT,           /* closes after `value` bytes of the body */
    DI_FAULT_STALL,         /* sends `value` bytes and then nothing; sets has_stalled */
    DI_FAULT_LENGTH,        /* Content-Length is wrong by `value` */
    DI_FAULT_NO_LENGTH_CUT, /* no Content-Length, and cut after `value` bytes */
    DI_FAULT_TOO_LONG,      /* no Content-Length, and some bytes too many */
    DI_FAULT_CONTENT,       /* one byte is wrong */
    DI_FAULT_ETAG,          /* states another etag */
    DI_FAULT_COMMIT,        /* states another commit */
    DI_FAULT_LINKED_SIZE,   /* X-Linked-Size is wrong by `value` */
    DI_FAULT_NO_RANGE,      /* takes no ranges */
    DI_FAULT_RANGE,         /* Content-Range is wrong by `value` */
    DI_FAULT_LOOP           /* redirects to itself */
} di_fault_kind;

typedef struct di_fault {
    const char *where; /* part of the path: "/api/", "/resolve/", "/cdn/", a file name */
    di_fault_kind kind;
    int64_t value;
    int n_times; /* how often it happens; < 0 = always */
} di_fault;

typedef struct di_fake_request {
    di_http_request http;
    bool is_cdn;
} di_fake_request;

typedef struct di_fake_hub {
    di_http_server *endpoint, *cdn;
    char url[64]; /* of the endpoint */
    di_fake_file files[DI_FAKE_MAX_FILES];
    int n_files;
    const char *listing;   /* given out instead of the true one, if not NULL */
    bool has_bare_listing; /* names only: no sizes, no checksums */
    char *listing_text;
    int n_barrier; /* that many weight requests must be open before the first is answered */
    atomic_int n_waiting;
    atomic_bool has_stalled;

    pthread_mutex_t mutex; /* of what follows */
    di_fault faults[DI_FAKE_MAX_FAULTS];
    int n_faults;
    di_fake_request requests[DI_FAKE_MAX_REQUESTS];
    int n_requests;
    char *damaged; /* content for DI_FAULT_CONTENT and DI_FAULT_TOO_LONG */
} di_fake_hub;

/* With config.json, tokenizer.json, generation_config.json, an index of three shards of different
 * sizes, and files that nobody needs. */
void di_fake_hub_start(di_fake_hub *hub);
void di_fake_hub_stop(di_fake_hub *hub);

/* data is copied. Before the first request only. */
di_fake_file *di_fake_hub_add(di_fake_hub *hub, const char *name, const char *data, size_t bytes,
                              bool is_large);
void di_fake_hub_remove(di_fake_hub *hub, const char *name);
di_fake_file *di_fake_hub_file(di_fake_hub *hub, const char *name);
void di_fake_hub_fault(di_fake_hub *hub, di_fault fault);
void di_fake_hub_no_faults(di_fake_hub *hub);

/* Requests so far whose path has `part`; NULL: all. */
int di_fake_hub_count(di_fake_hub *hub, const char *part);
void di_fake_hub_forget(di_fake_hub *hub);
/* The i-th request whose path has `part`. */
di_http_request di_fake_hub_request(di_fake_hub *hub, const char *part, int i);
int64_t di_fake_hub_sent_bytes(const di_fake_hub *hub);

#endif
