/* A small HTTP/1.1 server on a free port of 127.0.0.1, whose answers a test decides. Each
 * connection is answered once, in its own thread, by a handler that may block. Ranges are served
 * unless the handler says otherwise, and faults are part of the answer. */
#ifndef DI_TEST_HTTP_SERVER_H
#define DI_TEST_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct di_http_request {
    char method[8];
    char path[1024];         /* with the query */
    char authorization[600]; /* "" = none */
    int64_t range_begin;     /* of "Range: bytes=N-"; -1 = none */
} di_http_request;

typedef enum di_http_ending {
    DI_HTTP_WHOLE,
    DI_HTTP_CUT,  /* closes after `limit` bytes of the body */
    DI_HTTP_STALL /* sends no more after `limit` bytes, until the client goes */
} di_http_ending;

typedef struct di_http_reply {
    int code;           /* 200: becomes 206 or 416 for a range */
    char headers[2048]; /* lines, each ended by \r\n; besides those below */
    const char *body;   /* must live until the server is stopped */
    size_t body_bytes;
    bool has_no_length;   /* no Content-Length: the body ends with the connection */
    int64_t extra_length; /* added to the true Content-Length */
    bool has_no_range;    /* ranges are ignored */
    int64_t range_shift;  /* added to the begin that Content-Range states */
    di_http_ending ending;
    size_t limit;
    void (*on_stall)(void *user); /* called once the limit is reached; with the handler's user */
} di_http_reply;

/* Runs in several threads at once. *reply is zeroed: code 0 closes the connection without an
 * answer. */
typedef void (*di_http_handler)(void *user, const di_http_request *request, di_http_reply *reply);

typedef struct di_http_server di_http_server;

/* NULL on failure. */
di_http_server *di_http_server_start(di_http_handler handler, void *user);
void di_http_server_stop(
    di_http_server *server); /* closes what is open and waits for all threads */
int di_http_server_port(const di_http_server *server);
/* Bytes of bodies sent so far. */
int64_t di_http_server_sent_bytes(const di_http_server *server);

#endif
