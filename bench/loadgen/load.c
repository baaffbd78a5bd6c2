#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_ANSWER (256u << 20)

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

uint32_t get32(const uint8_t *p) {
    uint32_t value;
    memcpy(&value, p, 4);
    return __builtin_bswap32(value);
}

uint64_t get64(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, 8);
    return __builtin_bswap64(value);
}

void put32(uint8_t *p, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(p, &value, 4);
}

void put64(uint8_t *p, uint64_t value) {
    value = __builtin_bswap64(value);
    memcpy(p, &value, 8);
}

static void *grown(void *memory, size_t size) {
    void *result = realloc(memory, size);
    if (!result) die("out of memory for %zu bytes", size);
    return result;
}

uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) die("cannot open %s", path ? path : "(no file given)");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = grown(NULL, *size + 1);
    if (fread(bytes, 1, *size, file) != *size) die("cannot read %s", path);
    fclose(file);
    return bytes;
}

/* The file: count, then for each frame error_at, records, size, bytes. */
Frames read_frames(const char *path) {
    size_t size, at = 4;
    uint8_t *bytes = read_file(path, &size);
    Frames frames = {.count = get32(bytes)};
    frames.all = grown(NULL, frames.count * sizeof(Frame));
    for (uint32_t i = 0; i < frames.count; i++) {
        Frame *frame = &frames.all[i];
        if (at + 12 > size) die("%s is cut off", path);
        *frame = (Frame){get32(bytes + at), get32(bytes + at + 4), get32(bytes + at + 8), bytes + at + 12};
        at += 12 + frame->size;
        if (at > size || frame->size < 12) die("%s is cut off", path);
        if (frame->size > frames.largest) frames.largest = frame->size;
    }
    if (!frames.count) die("%s holds no frame", path);
    return frames;
}

static void watch(const Connection *c, int epoll, void *owner, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->writing ? EPOLLOUT : 0), .data.ptr = owner};
    if (epoll_ctl(epoll, operation, c->fd, &event)) die("epoll_ctl: %s", strerror(errno));
}

void open_connection(Connection *c, const Options *options, int epoll, void *owner) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->port)};
    int one = 1;
    memset(c, 0, sizeof *c);
    if (inet_pton(AF_INET, options->host, &address.sin_addr) != 1) die("%s is no IPv4 address", options->host);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to %s:%d: %s", options->host, options->port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(c, epoll, owner, EPOLL_CTL_ADD);
}

/* Connections wait in a queue of 50 on either broker until they are accepted, in order; one that finds it full tries
 * again only after a second. So the answer to ApiVersions on this one says that there is room again. */
void await_accepted(const Connection *c) {
    static const uint8_t request[14] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint8_t answer[4096];
    if (send(c->fd, request, sizeof request, MSG_NOSIGNAL) != sizeof request) die("send: %s", strerror(errno));
    if (recv(c->fd, answer, 4, MSG_WAITALL) != 4) die("no answer to ApiVersions");
    for (size_t left = get32(answer); left;) {
        ssize_t got = recv(c->fd, answer, left < sizeof answer ? left : sizeof answer, 0);
        if (got <= 0) die("the answer to ApiVersions is cut off");
        left -= (size_t)got;
    }
}

void queue_bytes(Connection *c, const uint8_t *bytes, size_t size) {
    if (c->out_end + size > c->out_size) {
        memmove(c->out, c->out + c->out_start, c->out_end - c->out_start);
        c->out_end -= c->out_start;
        c->out_start = 0;
        if (c->out_end + size > c->out_size) c->out = grown(c->out, c->out_size = 2 * (c->out_end + size));
    }
    memcpy(c->out + c->out_end, bytes, size);
    c->out_end += size;
}

void flush_bytes(Connection *c, int epoll, void *owner) {
    int blocked = 0;
    while (c->out_start < c->out_end && !blocked) {
        ssize_t sent = send(c->fd, c->out + c->out_start, c->out_end - c->out_start, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) c->out_start += (size_t)sent;
        else if (errno == EAGAIN) blocked = 1;
        else if (errno != EINTR) die("send: %s", strerror(errno));
    }
    if (c->out_start == c->out_end) c->out_start = c->out_end = 0;
    if (blocked != c->writing) {
        c->writing = blocked;
        watch(c, epoll, owner, EPOLL_CTL_MOD);
    }
}

/* Room for the answer that has begun, so that a large one arrives in few calls. */
static void make_room(Connection *c) {
    size_t wanted = c->in_end + 2048;
    if (c->in_end >= 4) {
        uint32_t size = get32(c->in);
        if (size > MAX_ANSWER) die("an answer of %u bytes", size);
        if (4 + (size_t)size > wanted) wanted = 4 + (size_t)size;
    }
    if (wanted > c->in_size) c->in = grown(c->in, c->in_size = wanted * 2);
}

int fill(Connection *c) {
    make_room(c);
    ssize_t got = recv(c->fd, c->in + c->in_end, c->in_size - c->in_end, MSG_DONTWAIT);
    if (got == 0) die("the broker closed a connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR) die("recv: %s", strerror(errno));
    if (got > 0) c->in_end += (size_t)got;
    return got > 0;
}

const uint8_t *next_answer(const Connection *c, size_t *position, uint32_t *size) {
    if (c->in_end < *position + 4) return NULL;
    *size = get32(c->in + *position);
    if (c->in_end < *position + 4 + *size) return NULL;
    const uint8_t *answer = c->in + *position + 4;
    *position += 4 + *size;
    return answer;
}

void forget(Connection *c, size_t position) {
    memmove(c->in, c->in + position, c->in_end - position);
    c->in_end -= position;
}

/* Arm the timer for a moment on the monotonic clock: epoll's own timeout counts in milliseconds, which is too coarse. */
void wake_at(int timer, int64_t when) {
    struct itimerspec next = {.it_value = {when / 1000000000, when % 1000000000}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &next, NULL)) die("timerfd_settime: %s", strerror(errno));
}
