#include "http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 512, HEAD_BYTES = 8192 };

struct di_http_server {
    di_http_handler handler;
    void *user;
    int listener;
    int port;
    pthread_t acceptor;
    _Atomic int64_t sent_bytes;
    pthread_mutex_t mutex; /* of what follows */
    bool is_stopping;
    int n_connections;
    struct connection {
        di_http_server *server;
        pthread_t thread;
        int fd; /* -1 = closed */
    } connections[MAX_CONNECTIONS];
};

typedef struct connection connection;

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool read_head(int fd, char head[HEAD_BYTES])
{
    size_t len = 0;
    head[0] = 0;
    while (!strstr(head, "\r\n\r\n")) {
        const ssize_t n = recv(fd, head + len, HEAD_BYTES - 1 - len, 0);
        if (n <= 0)
            return false;
        len += (size_t)n;
        head[len] = 0;
        if (len == HEAD_BYTES - 1)
            return false;
    }
    return true;
}

static bool parse_head(char *head, di_http_request *out)
{
    *out = (di_http_request){.range_begin = -1};
    if (sscanf(head, "%7s %1023s HTTP/1.", out->method, out->path) != 2)
        return false;
    char *rest = NULL;
    for (char *line = strtok_r(head, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (!strncasecmp(line, "Authorization: ", 15))
            snprintf(out->authorization, sizeof out->authorization, "%s", line + 15);
        long long begin;
        if (!strncasecmp(line, "Range: ", 7) && sscanf(line + 7, "bytes=%lld-", &begin) == 1)
            out->range_begin = begin;
    }
    return true;
}

static const char *reason(int code)
{
    return code < 300 ? "OK" : code < 400 ? "Redirect" : "Error";
}

/* Sends body [begin, body_bytes) as far as the reply lets it. */
static void send_body(connection *c, const di_http_reply *reply, size_t begin)
{
    size_t len = reply->body_bytes - begin;
    if (reply->ending != DI_HTTP_WHOLE && reply->limit < len)
        len = reply->limit;
    if (send_all(c->fd, reply->body + begin, len))
        atomic_fetch_add(&c->server->sent_bytes, (int64_t)len);
    if (reply->ending != DI_HTTP_STALL)
        return;
    if (reply->on_stall)
        reply->on_stall(c->server->user);
    char byte;
    while (recv(c->fd, &byte, 1, 0) > 0)
        ;
}

static void answer(connection *c, const di_http_request *request, const di_http_reply *reply)
{
    int code = reply->code;
    size_t begin = 0;
    char range[96] = "";
    if (code == 200 && request->range_begin >= 0 && !reply->has_no_range) {
        code = (uint64_t)request->range_begin < reply->body_bytes ? 206 : 416;
        if (code == 206) {
            begin = (size_t)request->range_begin;
            snprintf(range, sizeof range, "Content-Range: bytes %lld-%zu/%zu\r\n",
                     (long long)(request->range_begin + reply->range_shift), reply->body_bytes - 1,
                     reply->body_bytes);
        }
    }
    char length[64] = "", head[4096];
    const bool has_body = code == 206 || code != 416;
    const long long n = has_body ? (long long)(reply->body_bytes - begin) + reply->extra_length : 0;
    if (!reply->has_no_length)
        snprintf(length, sizeof length, "Content-Length: %lld\r\n", n);
    const int len = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\n%s%s%sConnection: close\r\n\r\n",
                             code, reason(code), length, range, reply->headers);
    if (send_all(c->fd, head, (size_t)len) && has_body && strcmp(request->method, "HEAD") != 0)
        send_body(c, reply, begin);
}

static void *serve(void *user)
{
    connection *c = user;
    di_http_server *server = c->server;
    char head[HEAD_BYTES];
    di_http_request request;
    if (read_head(c->fd, head) && parse_head(head, &request)) {
        di_http_reply reply = {0};
        server->handler(server->user, &request, &reply);
        if (reply.code)
            answer(c, &request, &reply);
    }
    shutdown(c->fd, SHUT_WR);
    pthread_mutex_lock(&server->mutex);
    close(c->fd);
    c->fd = -1;
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

static void *accept_all(void *user)
{
    di_http_server *server = user;
    for (;;) {
        const int fd = accept(server->listener, NULL, NULL);
        pthread_mutex_lock(&server->mutex);
        if (server->is_stopping || fd < 0 || server->n_connections == MAX_CONNECTIONS) {
            pthread_mutex_unlock(&server->mutex);
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        connection *c = &server->connections[server->n_connections];
        *c = (connection){.server = server, .fd = fd};
        if (!pthread_create(&c->thread, NULL, serve, c))
            server->n_connections++;
        else
            close(fd);
        pthread_mutex_unlock(&server->mutex);
    }
}

di_http_server *di_http_server_start(di_http_handler handler, void *user)
{
    di_http_server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    server->handler = handler;
    server->user = user;
    pthread_mutex_init(&server->mutex, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof address;
    if (server->listener < 0 || bind(server->listener, (struct sockaddr *)&address, len) ||
        listen(server->listener, 64) ||
        getsockname(server->listener, (struct sockaddr *)&address, &len)) {
        free(server);
        return NULL;
    }
    server->port = ntohs(address.sin_port);
    if (pthread_create(&server->acceptor, NULL, accept_all, server)) {
        close(server->listener);
        free(server);
        return NULL;
    }
    return server;
}

void di_http_server_stop(di_http_server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->mutex);
    server->is_stopping = true;
    for (int i = 0; i < server->n_connections; i++)
        if (server->connections[i].fd >= 0)
            shutdown(server->connections[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&server->mutex);
    shutdown(server->listener, SHUT_RDWR); /* ends accept */
    pthread_join(server->acceptor, NULL);
    for (int i = 0; i < server->n_connections; i++)
        pthread_join(server->connections[i].thread, NULL);
    close(server->listener);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

int di_http_server_port(const di_http_server *server)
{
    return server->port;
}

int64_t di_http_server_sent_bytes(const di_http_server *server)
{
    return atomic_load(&server->sent_bytes);
}
