/* Readers: `drain` reads what is there as fast as it comes, `follow` waits at the end of the logs for records that a
 * producer in this process sends at a fixed rate.
 *
 * The time from a record's due moment to its arrival is known without looking into it: each partition is written by one
 * connection in order, so the offset says which record it is. The broker's work is that of any producer and reader. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "load.h"

#define TAIL_NS 20000000000ll
#define EVENTS 64
#define BATCH_HEADER 61

typedef struct {
    uint32_t offset_at; /* where the fetch request holds this partition's offset */
    int32_t index;
    uint16_t name_size;
    const uint8_t *name;
    uint64_t first; /* where reading starts */
} Place;

typedef struct {
    uint8_t *bytes;
    uint32_t size, count;
    Place *places;
} Fetch;

typedef struct {
    Connection connection;
    uint64_t *offsets; /* next one to read, by place */
    uint8_t *request;
    uint64_t records, bytes, answers;
    uint32_t correlation;
} Reader;

typedef struct {
    uint64_t requests; /* sent to this partition */
    int64_t *due;      /* by request */
} Sent;

typedef struct {
    Connection connection;
    uint64_t sent, answered;
    uint64_t *numbers; /* of all requests, those that this one sent */
} Producer;

typedef struct {
    const Options *options;
    Fetch fetch;
    Reader *readers;
    int epoll, timer, following;
    int64_t start, last;
    /* follow only */
    Frames frames;
    Producer *producers;
    Sent *sent;
    uint64_t scheduled, total, answered, wanted;
    int64_t record_from;
    Histogram end_to_end, acknowledged, late;
    int64_t *due;
} Load;

typedef struct {
    const uint8_t *at, *end;
} Cursor;

static const uint8_t *take(Cursor *c, size_t size) {
    if ((size_t)(c->end - c->at) < size) die("an answer to Fetch is cut off");
    const uint8_t *p = c->at;
    c->at += size;
    return p;
}

static uint32_t take_varint(Cursor *c) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *take(c, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    die("a varint is too long");
}

static void skip_tags(Cursor *c) {
    for (uint32_t n = take_varint(c); n; n--) {
        take_varint(c);
        take(c, take_varint(c));
    }
}

/* The file: request size and bytes, then the count of partitions and for each offset_at, index, first offset, name. */
static Fetch read_fetch(const char *path) {
    size_t size;
    uint8_t *bytes = read_file(path, &size);
    Cursor c = {bytes, bytes + size};
    Fetch fetch = {.size = get32(take(&c, 4))};
    fetch.bytes = (uint8_t *)take(&c, fetch.size);
    fetch.count = get32(take(&c, 4));
    fetch.places = calloc(fetch.count, sizeof(Place));
    for (uint32_t i = 0; i < fetch.count; i++) {
        Place *place = &fetch.places[i];
        place->offset_at = get32(take(&c, 4));
        place->index = (int32_t)get32(take(&c, 4));
        place->first = get64(take(&c, 8));
        place->name_size = (uint16_t)get32(take(&c, 4));
        place->name = take(&c, place->name_size);
    }
    return fetch;
}

static int is_place(const Place *place, const uint8_t *name, uint32_t size, int32_t index) {
    return place->index == index && place->name_size == size && !memcmp(place->name, name, size);
}

/* Brokers answer in the order of the request, so the place after the last one is looked at first. */
static uint32_t find_place(const Fetch *fetch, uint32_t guess, const uint8_t *name, uint32_t size, int32_t index) {
    for (uint32_t i = 0; i < fetch->count; i++) {
        uint32_t place = (guess + i) % fetch->count;
        if (is_place(&fetch->places[place], name, size, index)) return place;
    }
    die("an answer names a partition that was not asked for");
}

static void ask(Load *load, Reader *r) {
    for (uint32_t i = 0; i < load->fetch.count; i++) put64(r->request + load->fetch.places[i].offset_at, r->offsets[i]);
    put32(r->request + 8, ++r->correlation);
    queue_bytes(&r->connection, r->request, load->fetch.size);
    flush_bytes(&r->connection, load->epoll, r);
}

static void arrived(Load *load, uint32_t place, uint64_t first, uint64_t count, int64_t now) {
    uint64_t base = load->fetch.places[place].first, per_request = load->frames.all[place].records;
    for (uint64_t offset = first; offset < first + count; offset++) {
        uint64_t request = (offset - base) / per_request;
        if (offset < base || request >= load->sent[place].requests) die("a record that was not sent: offset %llu", (unsigned long long)offset);
        int64_t due = load->sent[place].due[request];
        if (due >= load->record_from) histogram_add(&load->end_to_end, now - due, 1);
    }
}

/* Walk the batches by their headers; the last one may be cut off, it comes again. */
static void take_batches(Load *load, Reader *r, uint32_t place, Cursor records, int64_t now) {
    while (records.end - records.at >= BATCH_HEADER) {
        uint64_t base = get64(records.at), size = 12 + (uint64_t)get32(records.at + 8);
        if ((uint64_t)(records.end - records.at) < size) return;
        uint64_t next = base + get32(records.at + 23) + 1;
        if (base > r->offsets[place]) die("offset %llu follows %llu", (unsigned long long)base, (unsigned long long)r->offsets[place]);
        uint64_t from = r->offsets[place];
        if (next > from) {
            if (load->following) arrived(load, place, from, next - from, now);
            r->records += next - from;
            r->offsets[place] = next;
        }
        r->bytes += size;
        records.at += size;
    }
}

static void take_partition(Load *load, Reader *r, uint32_t place, Cursor *c, int64_t now) {
    int16_t error = (int16_t)(c->at[0] << 8 | c->at[1]);
    take(c, 2 + 8 + 8 + 8);
    if (error) die("error code %d for a partition in an answer to Fetch", error);
    for (uint32_t aborted = take_varint(c); aborted > 1; aborted--) {
        take(c, 16);
        skip_tags(c);
    }
    take(c, 4);
    uint32_t size = take_varint(c);
    if (size > 1) {
        const uint8_t *bytes = take(c, size - 1);
        take_batches(load, r, place, (Cursor){bytes, bytes + size - 1}, now);
    }
    skip_tags(c);
}

static void take_fetched(Load *load, Reader *r, const uint8_t *answer, uint32_t size) {
    Cursor c = {answer, answer + size};
    int64_t now = now_ns();
    uint32_t place = load->fetch.count - 1;
    if (get32(take(&c, 4)) != r->correlation) die("an answer out of order");
    skip_tags(&c);
    take(&c, 4);
    const uint8_t *error = take(&c, 2);
    if (error[0] | error[1]) die("error code %d in an answer to Fetch", error[0] << 8 | error[1]);
    take(&c, 4);
    for (uint32_t topics = take_varint(&c); topics > 1; topics--) {
        uint32_t name_size = take_varint(&c) - 1;
        const uint8_t *name = take(&c, name_size);
        for (uint32_t partitions = take_varint(&c); partitions > 1; partitions--) {
            int32_t index = (int32_t)get32(take(&c, 4));
            place = find_place(&load->fetch, place + 1, name, name_size, index);
            take_partition(load, r, place, &c, now);
        }
        skip_tags(&c);
    }
    r->answers++;
    load->last = now;
}

static int finished(const Load *load, const Reader *r) { return r->records >= load->wanted; }

static void on_reader(Load *load, Reader *r) {
    uint32_t size;
    size_t position = 0;
    if (!fill(&r->connection)) return;
    const uint8_t *answer = next_answer(&r->connection, &position, &size);
    if (!answer) return;
    take_fetched(load, r, answer, size);
    forget(&r->connection, position);
    if (!finished(load, r)) ask(load, r);
}

static void open_readers(Load *load) {
    const Options *options = load->options;
    load->readers = calloc((size_t)options->connections, sizeof(Reader));
    for (int i = 0; i < options->connections; i++) {
        Reader *r = &load->readers[i];
        r->offsets = calloc(load->fetch.count, sizeof *r->offsets);
        for (uint32_t place = 0; place < load->fetch.count; place++) r->offsets[place] = load->fetch.places[place].first;
        r->request = malloc(load->fetch.size);
        memcpy(r->request, load->fetch.bytes, load->fetch.size);
        open_connection(&r->connection, options, load->epoll, r);
    }
}

static int all_finished(const Load *load) {
    for (int i = 0; i < load->options->connections; i++)
        if (!finished(load, &load->readers[i])) return 0;
    return 1;
}

/* ---- the producer of `follow` ---- */

static int is_producer(const Load *load, const void *owner) {
    const Producer *p = owner;
    return load->producers && p >= load->producers && p < load->producers + load->options->producers;
}

static void send_request(Load *load, int64_t now) {
    uint64_t number = load->scheduled++;
    uint32_t place = (uint32_t)(number % load->frames.count);
    Producer *p = &load->producers[place % (uint32_t)load->options->producers];
    Frame *frame = &load->frames.all[place];
    put32(frame->bytes + 8, (uint32_t)number);
    queue_bytes(&p->connection, frame->bytes, frame->size);
    p->numbers[p->sent++] = number;
    load->sent[place].due[load->sent[place].requests++] = load->due[number];
    histogram_add(&load->late, now - load->due[number], 1);
    flush_bytes(&p->connection, load->epoll, p);
}

static void send_due(Load *load) {
    uint64_t ignored;
    if (read(load->timer, &ignored, sizeof ignored) < 0 && errno != EAGAIN) die("timer: %s", strerror(errno));
    int64_t now = now_ns();
    while (load->scheduled < load->total && load->due[load->scheduled] <= now) send_request(load, now);
    if (load->scheduled < load->total) wake_at(load->timer, load->due[load->scheduled]);
}

static void take_acknowledged(Load *load, Producer *p, const uint8_t *answer, uint32_t size, int64_t now) {
    if (p->answered == p->sent) die("an answer without a request");
    uint64_t number = p->numbers[p->answered++];
    uint32_t at = load->frames.all[number % load->frames.count].error_at;
    if (size < at + 2 || get32(answer) != (uint32_t)number) die("an answer out of order");
    if (answer[at] | answer[at + 1]) die("error code %d in an answer to Produce", (int16_t)(answer[at] << 8 | answer[at + 1]));
    if (load->due[number] >= load->record_from) histogram_add(&load->acknowledged, now - load->due[number], 1);
    load->answered++;
}

static void on_acknowledged(Load *load, Producer *p) {
    uint32_t size;
    size_t position = 0;
    const uint8_t *answer;
    if (!fill(&p->connection)) return;
    int64_t now = now_ns();
    while ((answer = next_answer(&p->connection, &position, &size))) take_acknowledged(load, p, answer, size, now);
    forget(&p->connection, position);
}

static void plan(Load *load) {
    const Options *options = load->options;
    uint32_t per_request = load->frames.all[0].records;
    if (load->frames.count != load->fetch.count) die("as many Produce frames as partitions are needed");
    load->total = (uint64_t)(options->rate * options->seconds / per_request);
    load->wanted = load->total * per_request;
    load->start = now_ns() + 20000000;
    load->record_from = load->start + (int64_t)(options->warmup * 1e9);
    load->due = calloc(load->total, sizeof *load->due);
    for (uint64_t i = 0; i < load->total; i++) load->due[i] = load->start + (int64_t)((double)(i * per_request) * 1e9 / options->rate);
    load->sent = calloc(load->frames.count, sizeof(Sent));
    for (uint32_t i = 0; i < load->frames.count; i++)
        load->sent[i].due = calloc(load->total / load->frames.count + 1, sizeof(int64_t));
}

static void start_producers(Load *load) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    load->producers = calloc((size_t)load->options->producers, sizeof(Producer));
    for (int i = 0; i < load->options->producers; i++)
        open_connection(&load->producers[i].connection, load->options, load->epoll, &load->producers[i]);
    plan(load);
    for (int i = 0; i < load->options->producers; i++) load->producers[i].numbers = calloc(load->total, sizeof(uint64_t));
    load->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    epoll_ctl(load->epoll, EPOLL_CTL_ADD, load->timer, &event);
    wake_at(load->timer, load->start);
}

/* ---- both ---- */

static void on_event(Load *load, const struct epoll_event *event) {
    void *owner = event->data.ptr;
    int producer = is_producer(load, owner);
    if (!owner) send_due(load);
    else if (event->events & EPOLLIN) producer ? on_acknowledged(load, owner) : on_reader(load, owner);
    if (owner && event->events & EPOLLOUT)
        flush_bytes(producer ? &((Producer *)owner)->connection : &((Reader *)owner)->connection, load->epoll, owner);
}

static void loop(Load *load, int64_t deadline) {
    struct epoll_event events[EVENTS];
    while (!all_finished(load) || load->answered < load->total) {
        int count = epoll_wait(load->epoll, events, EVENTS, 100);
        for (int i = 0; i < count; i++) on_event(load, &events[i]);
        if (now_ns() > deadline) die("not all records arrived: the first reader has %llu of %llu",
                                     (unsigned long long)load->readers[0].records, (unsigned long long)load->wanted);
    }
}

static void sums(const Load *load, uint64_t *records, uint64_t *bytes, uint64_t *answers) {
    *records = *bytes = *answers = 0;
    for (int i = 0; i < load->options->connections; i++) {
        *records += load->readers[i].records;
        *bytes += load->readers[i].bytes;
        *answers += load->readers[i].answers;
    }
}

static void print_result(const Load *load) {
    uint64_t records, bytes, answers;
    sums(load, &records, &bytes, &answers);
    printf("{\"records\": %llu, \"bytes\": %llu, \"fetches\": %llu, \"produces\": %llu, \"seconds\": %.6f",
           (unsigned long long)records, (unsigned long long)bytes, (unsigned long long)answers,
           (unsigned long long)load->answered, (double)(load->last - load->start) / 1e9);
    if (load->following) {
        printf(", ");
        histogram_print(stdout, "end_to_end_us", &load->end_to_end);
        printf(", ");
        histogram_print(stdout, "acknowledged_us", &load->acknowledged);
        printf(", ");
        histogram_print(stdout, "late_us", &load->late);
    }
    puts("}");
    fflush(stdout);
}

static Load *prepare(const Options *options, int following) {
    Load *load = calloc(1, sizeof *load);
    load->options = options;
    load->following = following;
    load->fetch = read_fetch(options->fetch_file);
    load->epoll = epoll_create1(0);
    load->wanted = options->records;
    open_readers(load);
    return load;
}

void run_drain(const Options *options) {
    Load *load = prepare(options, 0);
    load->start = now_ns();
    for (int i = 0; i < options->connections; i++) ask(load, &load->readers[i]);
    loop(load, load->start + (int64_t)(options->seconds * 1e9));
    print_result(load);
}

void run_follow(const Options *options) {
    Load *load = prepare(options, 1);
    load->frames = read_frames(options->produce_file);
    start_producers(load);
    for (int i = 0; i < options->connections; i++) ask(load, &load->readers[i]);
    loop(load, load->start + (int64_t)(options->seconds * 1e9) + TAIL_NS);
    print_result(load);
}
