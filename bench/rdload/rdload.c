/* rdload: what rdkafka_performance does not do, with librdkafka against 127.0.0.1.
 *
 *   rdload transactions --port P --topic T --partitions N --records R --size B --seconds S [--warmup W]
 *   rdload produce      --port P --topic T --records R --size B [--idempotent]
 *   rdload keyed        --port P --topic T --bytes B --keys K
 *
 * `transactions`: one producer, R records of B bytes in each transaction, spread over the partitions; commit after commit.
 * `produce`: R records as fast as they go, counted from when the first one is acknowledged: until then an idempotent producer
 * gets its id. `keyed`: records of 100 to 1,000 bytes with one of K keys, to partition 0. Prints one JSON object; a record that is not
 * delivered or a transaction that does not commit ends it. */
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>

#include "../loadgen/histogram.h"

#define TIMEOUT_MS 60000
#define LONGEST 65536
#define KEY_SIZE 16
#define SMALLEST_RECORD 100
#define LARGEST_RECORD 1000

typedef struct {
    int port, partitions, records, size, idempotent, transactional;
    double seconds, warmup;
    uint64_t bytes, keys;
    const char *topic;
} Options;

enum { PORT, TOPIC, PARTITIONS, RECORDS, SIZE, SECONDS, WARMUP, BYTES, KEYS, IDEMPOTENT };

static const struct option KNOWN[] = {
    {"port", 1, 0, PORT}, {"topic", 1, 0, TOPIC},     {"partitions", 1, 0, PARTITIONS}, {"records", 1, 0, RECORDS}, {"size", 1, 0, SIZE},
    {"keys", 1, 0, KEYS}, {"seconds", 1, 0, SECONDS}, {"warmup", 1, 0, WARMUP},         {"bytes", 1, 0, BYTES},     {"idempotent", 0, 0, IDEMPOTENT},
    {0, 0, 0, 0},
};

static char payload[LONGEST];
static uint64_t failed;

static _Noreturn void die(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("rdload: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static Options parse(int count, char **arguments) {
    Options o = {.partitions = 1, .records = 100, .size = 1024, .seconds = 1, .keys = 1};
    int which;
    while ((which = getopt_long(count, arguments, "", KNOWN, NULL)) != -1) switch (which) {
            case PORT: o.port = atoi(optarg); break;
            case TOPIC: o.topic = optarg; break;
            case PARTITIONS: o.partitions = atoi(optarg); break;
            case RECORDS: o.records = atoi(optarg); break;
            case SIZE: o.size = atoi(optarg); break;
            case SECONDS: o.seconds = atof(optarg); break;
            case WARMUP: o.warmup = atof(optarg); break;
            case BYTES: o.bytes = strtoull(optarg, NULL, 10); break;
            case KEYS: o.keys = strtoull(optarg, NULL, 10); break;
            case IDEMPOTENT: o.idempotent = 1; break;
            default: exit(2);
        }
    if (o.port < 1 || !o.topic || o.partitions < 1 || o.records < 1 || o.size < 1 || o.size > LONGEST || !o.keys)
        die("--port, --topic, --partitions, --records, --size (at most %d) and --keys must be given or positive", LONGEST);
    return o;
}

static void on_delivery(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque) {
    (void)producer, (void)opaque;
    if (message->err) failed++;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error)) die("%s", error);
}

/* As many requests under way for all kinds: an idempotent producer may have no more than five. */
static rd_kafka_t *connect_producer(const Options *o) {
    char text[64], error[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    snprintf(text, sizeof text, "127.0.0.1:%d", o->port);
    set(conf, "bootstrap.servers", text);
    set(conf, "linger.ms", "1");
    set(conf, "batch.size", "131072");
    set(conf, "acks", "all");
    set(conf, "max.in.flight", "5");
    set(conf, "enable.idempotence", o->idempotent ? "true" : "false");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    if (o->transactional) {
        snprintf(text, sizeof text, "rdload-%d", (int)getpid());
        set(conf, "transactional.id", text);
    }
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    if (!producer) die("%s", error);
    return producer;
}

static void check(rd_kafka_error_t *error, const char *what) {
    if (error) die("%s: %s", what, rd_kafka_error_string(error));
}

/* Queue one record; when the queue is full, wait for answers. */
static void produce(rd_kafka_t *producer, const Options *o, int partition, const char *key, size_t size) {
    rd_kafka_resp_err_t code;
    while ((code = rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(o->topic), RD_KAFKA_V_PARTITION(partition),
                                     RD_KAFKA_V_KEY(key, key ? KEY_SIZE : 0), RD_KAFKA_V_VALUE(payload, size),
                                     RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END)) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        rd_kafka_poll(producer, 10);
    if (code) die("produce: %s", rd_kafka_err2str(code));
}

/* One transaction; the time that its commit took: the wait for what is not acknowledged yet is part of it. */
static int64_t transact(rd_kafka_t *producer, const Options *o) {
    check(rd_kafka_begin_transaction(producer), "begin");
    for (int i = 0; i < o->records; i++) produce(producer, o, i % o->partitions, NULL, (size_t)o->size);
    int64_t started = now_ns();
    check(rd_kafka_commit_transaction(producer, TIMEOUT_MS), "commit");
    return now_ns() - started;
}

static void run_transactions(const Options *o) {
    static Histogram latency;
    rd_kafka_t *producer = connect_producer(o);
    check(rd_kafka_init_transactions(producer, TIMEOUT_MS), "init");
    int64_t warm_until = now_ns() + (int64_t)(o->warmup * 1e9);
    do transact(producer, o);
    while (now_ns() < warm_until);
    int64_t started = now_ns(), ended, until = started + (int64_t)(o->seconds * 1e9);
    do histogram_add(&latency, transact(producer, o), 1);
    while ((ended = now_ns()) < until);
    if (failed) die("%llu records were not delivered", (unsigned long long)failed);
    printf("{\"commits\": %llu, \"bytes\": %llu, \"seconds\": %.6f, ", (unsigned long long)latency.total,
           (unsigned long long)latency.total * (uint64_t)o->records * (uint64_t)o->size, (double)(ended - started) / 1e9);
    histogram_print(stdout, "latency_us", &latency);
    puts("}");
    rd_kafka_destroy(producer);
}

static void flush(rd_kafka_t *producer) {
    if (rd_kafka_flush(producer, TIMEOUT_MS) || failed) die("%llu records were not delivered", (unsigned long long)failed);
}

static void run_produce(const Options *o) {
    rd_kafka_t *producer = connect_producer(o);
    produce(producer, o, RD_KAFKA_PARTITION_UA, NULL, (size_t)o->size);
    flush(producer);
    int64_t started = now_ns();
    for (int i = 0; i < o->records; i++) {
        produce(producer, o, RD_KAFKA_PARTITION_UA, NULL, (size_t)o->size);
        if (i % 1000 == 0) rd_kafka_poll(producer, 0);
    }
    flush(producer);
    printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)o->records * (uint64_t)o->size,
           (double)(now_ns() - started) / 1e9);
    rd_kafka_destroy(producer);
}

/* The same in every run: a linear congruential generator. */
static uint64_t next_random(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static void run_keyed(const Options *o) {
    char key[KEY_SIZE + 1];
    uint64_t bytes = 0, records = 0;
    rd_kafka_t *producer = connect_producer(o);
    for (; bytes < o->bytes; records++) {
        size_t size = SMALLEST_RECORD + next_random() % (LARGEST_RECORD - SMALLEST_RECORD + 1);
        snprintf(key, sizeof key, "key-%0*llu", KEY_SIZE - 4, (unsigned long long)(next_random() % o->keys));
        produce(producer, o, 0, key, size - KEY_SIZE);
        bytes += size;
        if (records % 1000 == 0) rd_kafka_poll(producer, 0);
    }
    flush(producer);
    printf("{\"records\": %llu, \"bytes\": %llu}\n", (unsigned long long)records, (unsigned long long)bytes);
    rd_kafka_destroy(producer);
}

int main(int count, char **arguments) {
    if (count < 2) die("transactions, produce or keyed?");
    Options options = parse(count - 1, arguments + 1);
    for (int i = 0; i < LONGEST; i++) payload[i] = (char)('a' + next_random() % 26);
    if (!strcmp(arguments[1], "transactions")) {
        options.transactional = options.idempotent = 1;
        run_transactions(&options);
    } else if (!strcmp(arguments[1], "produce")) run_produce(&options);
    else if (!strcmp(arguments[1], "keyed")) run_keyed(&options);
    else die("%s is not one of transactions, produce, keyed", arguments[1]);
    return 0;
}
