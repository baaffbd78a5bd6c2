/* What all kinds of load share: options, prepared frames, connections that buffer both ways. */
#ifndef LOAD_H
#define LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

typedef struct {
    const char *host, *produce_file, *fetch_file;
    int port, connections, depth, producers, hold;
    double seconds, warmup, rate; /* rate 0: as fast as it goes */
    uint64_t records;             /* drain: how many each reader wants */
} Options;

/* One prepared Produce request; its length prefix is part of `bytes`. */
typedef struct {
    uint32_t error_at; /* where the answer, after its length, holds the error code */
    uint32_t records;
    uint32_t size;
    uint8_t *bytes;
} Frame;

typedef struct {
    Frame *all;
    uint32_t count, largest;
} Frames;

typedef struct {
    int fd, writing; /* writing: the socket was full, epoll tells when it is not */
    uint8_t *out, *in;
    size_t out_start, out_end, out_size, in_end, in_size;
} Connection;

int64_t now_ns(void);
_Noreturn void die(const char *format, ...);
uint8_t *read_file(const char *path, size_t *size);
uint32_t get32(const uint8_t *p);
uint64_t get64(const uint8_t *p);
void put32(uint8_t *p, uint32_t value);
void put64(uint8_t *p, uint64_t value);

Frames read_frames(const char *path);
void open_connection(Connection *c, const Options *options, int epoll, void *owner);
void await_accepted(const Connection *c);
void queue_bytes(Connection *c, const uint8_t *bytes, size_t size);
void flush_bytes(Connection *c, int epoll, void *owner);
/* Read what is there; the next whole answer, without its length, or NULL. Call with the size of the last one. */
int fill(Connection *c);
const uint8_t *next_answer(const Connection *c, size_t *position, uint32_t *size);
void forget(Connection *c, size_t position);
void wake_at(int timer, int64_t when);

void run_requests(const Options *options);
void run_follow(const Options *options);
void run_drain(const Options *options);

#endif
