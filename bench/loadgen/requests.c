/* Prepared requests on many connections, so many in flight on each: as fast as they are answered, or at a fixed rate.
 *
 * At a fixed rate every request has a moment at which it is due, fixed before the run; its latency counts from then,
 * also if it could only be sent later because the answers before it were slow (no coordinated omission). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "load.h"

#define DRAIN_NS 30000000000ll
#define EVENTS 256
#define AT_ONCE 32 /* connections that may wait to be accepted */

typedef struct {
    Connection connection;
    uint64_t sent, answered, due, next_frame;
    int64_t *started;    /* by sequence number modulo depth */
    uint32_t *error_at;  /* likewise */
} Sender;

typedef struct {
    const Options *options;
    Frames frames;
    Sender *senders;
    Histogram latency;
    int epoll, timer;
    int64_t start, stop, last_answer, record_from;
    double seconds;
    uint64_t sent, answered, records, bytes, scheduled;
} Load;

static int64_t due_at(const Load *load, uint64_t number) {
    return load->start + (int64_t)((double)number * 1e9 / load->options->rate);
}

/* Send what may be sent now on one connection: at a fixed rate only what is due. */
static void send_more(Load *load, Sender *s, int64_t now) {
    const Options *options = load->options;
    uint64_t index = (uint64_t)(s - load->senders);
    while (s->sent - s->answered < (uint64_t)options->depth && (options->rate > 0 ? s->sent < s->due : now < load->stop)) {
        Frame *frame = &load->frames.all[s->next_frame];
        uint64_t slot = s->sent % (uint64_t)options->depth;
        s->next_frame = (s->next_frame + (uint64_t)options->connections) % load->frames.count;
        s->started[slot] = options->rate > 0 ? due_at(load, s->sent * (uint64_t)options->connections + index) : now;
        s->error_at[slot] = frame->error_at;
        put32(frame->bytes + 8, (uint32_t)s->sent);
        queue_bytes(&s->connection, frame->bytes, frame->size);
        s->sent++;
        load->sent++;
        load->records += frame->records;
        load->bytes += frame->size;
    }
    flush_bytes(&s->connection, load->epoll, s);
}

static void take_answer(Load *load, Sender *s, const uint8_t *answer, uint32_t size, int64_t now) {
    uint64_t slot = s->answered % (uint64_t)load->options->depth;
    uint32_t at = s->error_at[slot];
    if (size < 4 || get32(answer) != (uint32_t)s->answered) die("an answer out of order");
    if (at) {
        if (size < at + 2) die("an answer of only %u bytes", size);
        int16_t error = (int16_t)(answer[at] << 8 | answer[at + 1]);
        if (error) die("error code %d in answer %llu", error, (unsigned long long)s->answered);
    }
    s->answered++;
    load->answered++;
    load->last_answer = now;
    if (s->started[slot] >= load->record_from) histogram_add(&load->latency, now - s->started[slot], 1);
}

static void on_readable(Load *load, Sender *s) {
    uint32_t size;
    size_t position = 0;
    const uint8_t *answer;
    if (!fill(&s->connection)) return;
    int64_t now = now_ns();
    while ((answer = next_answer(&s->connection, &position, &size))) take_answer(load, s, answer, size, now);
    forget(&s->connection, position);
    send_more(load, s, now);
}

/* Hand out all requests whose moment has come, and arm the timer for the next one. */
static void on_timer(Load *load) {
    uint64_t ignored, total = (uint64_t)(load->options->rate * load->seconds);
    if (read(load->timer, &ignored, sizeof ignored) < 0 && errno != EAGAIN) die("timer: %s", strerror(errno));
    int64_t now = now_ns();
    while (load->scheduled < total && due_at(load, load->scheduled) <= now) {
        Sender *s = &load->senders[load->scheduled++ % (uint64_t)load->options->connections];
        s->due++;
        send_more(load, s, now);
    }
    if (load->scheduled < total) wake_at(load->timer, due_at(load, load->scheduled));
}

static void open_all(Load *load) {
    const Options *options = load->options;
    load->senders = calloc((size_t)options->connections, sizeof(Sender));
    for (int i = 0; i < options->connections; i++) {
        Sender *s = &load->senders[i];
        s->started = calloc((size_t)options->depth, sizeof *s->started);
        s->error_at = calloc((size_t)options->depth, sizeof *s->error_at);
        s->next_frame = (uint64_t)i % load->frames.count;
        open_connection(&s->connection, options, load->epoll, s);
        if ((i + 1) % AT_ONCE == 0) await_accepted(&s->connection);
    }
}

/* Start from nothing on the same connections: all that was sent is answered by then. */
static void reset(Load *load, double seconds) {
    load->seconds = seconds;
    load->sent = load->answered = load->records = load->bytes = load->scheduled = 0;
    load->latency = (Histogram){0};
    for (int i = 0; i < load->options->connections; i++) {
        Sender *s = &load->senders[i];
        s->sent = s->answered = s->due = 0;
    }
}

static void begin(Load *load) {
    const Options *options = load->options;
    load->start = now_ns();
    load->stop = load->start + (int64_t)(load->seconds * 1e9);
    load->record_from = load->start + (int64_t)(options->warmup * 1e9);
    if (options->rate > 0) {
        if (load->timer < 0) {
            struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
            load->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
            epoll_ctl(load->epoll, EPOLL_CTL_ADD, load->timer, &event);
        }
        wake_at(load->timer, load->start);
        return;
    }
    for (int i = 0; i < options->connections; i++) send_more(load, &load->senders[i], load->start);
}

static void print_result(const Load *load) {
    double seconds = (double)(load->last_answer - load->start) / 1e9;
    printf("{\"requests\": %llu, \"records\": %llu, \"bytes\": %llu, \"seconds\": %.6f, ",
           (unsigned long long)load->answered, (unsigned long long)load->records, (unsigned long long)load->bytes, seconds);
    histogram_print(stdout, "latency_us", &load->latency);
    puts("}");
    fflush(stdout);
}

static void run_once(Load *load) {
    struct epoll_event events[EVENTS];
    begin(load);
    while (now_ns() < load->stop || load->answered < load->sent) {
        int count = epoll_wait(load->epoll, events, EVENTS, 10);
        for (int i = 0; i < count; i++) {
            Sender *s = events[i].data.ptr;
            if (!s) on_timer(load);
            else if (events[i].events & EPOLLIN) on_readable(load, s);
            else flush_bytes(&s->connection, load->epoll, s);
        }
        if (now_ns() > load->stop + DRAIN_NS) die("%llu requests are not answered", (unsigned long long)(load->sent - load->answered));
    }
    print_result(load);
}

/* Say that all connections are open; then every line on stdin is a number of seconds to run for, until stdin ends. */
static void run_when_told(Load *load) {
    char line[64];
    printf("{\"connections\": %d}\n", load->options->connections);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        reset(load, atof(line));
        run_once(load);
    }
}

void run_requests(const Options *options) {
    Load *load = calloc(1, sizeof *load);
    load->options = options;
    load->seconds = options->seconds;
    load->timer = -1;
    load->frames = read_frames(options->produce_file);
    load->epoll = epoll_create1(0);
    open_all(load);
    if (options->hold) run_when_told(load);
    else run_once(load);
}
