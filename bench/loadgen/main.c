/* loadgen: prepared Kafka requests against 127.0.0.1, and what the answers took.
 *
 *   loadgen requests --port P --produce FILE --connections C --depth D --seconds S [--rate R] [--warmup W] [--hold]
 *   loadgen follow   --port P --produce FILE --fetch FILE --rate RECORDS --seconds S [--warmup W] [--producers P] [--connections C]
 *   loadgen drain    --port P --fetch FILE --records N --seconds LIMIT [--connections C]
 *
 * Prints one JSON object. With --hold it says when all connections are open, runs for as many seconds as each line on
 * stdin says and prints an object for each, and keeps the connections until stdin ends. Files come from bench/frames.py. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "load.h"

#define MAX_CONNECTIONS 20000
#define MAX_DEPTH 1024

enum { PORT, PRODUCE, FETCH, CONNECTIONS, DEPTH, SECONDS, RATE, WARMUP, RECORDS, PRODUCERS, HOLD };

static const struct option KNOWN[] = {
    {"port", 1, 0, PORT},       {"produce", 1, 0, PRODUCE}, {"fetch", 1, 0, FETCH}, {"connections", 1, 0, CONNECTIONS},
    {"depth", 1, 0, DEPTH},     {"seconds", 1, 0, SECONDS}, {"rate", 1, 0, RATE},   {"warmup", 1, 0, WARMUP},
    {"records", 1, 0, RECORDS}, {"hold", 0, 0, HOLD},       {"producers", 1, 0, PRODUCERS}, {0, 0, 0, 0},
};

static Options parse(int count, char **arguments) {
    Options o = {.host = "127.0.0.1", .connections = 1, .depth = 1, .producers = 1, .seconds = 1};
    int which;
    while ((which = getopt_long(count, arguments, "", KNOWN, NULL)) != -1) switch (which) {
            case PORT: o.port = atoi(optarg); break;
            case PRODUCE: o.produce_file = optarg; break;
            case FETCH: o.fetch_file = optarg; break;
            case CONNECTIONS: o.connections = atoi(optarg); break;
            case DEPTH: o.depth = atoi(optarg); break;
            case SECONDS: o.seconds = atof(optarg); break;
            case RATE: o.rate = atof(optarg); break;
            case WARMUP: o.warmup = atof(optarg); break;
            case RECORDS: o.records = strtoull(optarg, NULL, 10); break;
            case PRODUCERS: o.producers = atoi(optarg); break;
            case HOLD: o.hold = 1; break;
            default: die("see the head of main.c for the options");
        }
    if (o.port < 1 || o.connections < 1 || o.connections > MAX_CONNECTIONS || o.depth < 1 || o.depth > MAX_DEPTH || o.seconds <= 0)
        die("--port, --connections (at most %d), --depth (at most %d) and --seconds must be positive", MAX_CONNECTIONS, MAX_DEPTH);
    if (o.producers < 1 || o.producers > MAX_CONNECTIONS) die("--producers must be from 1 to %d", MAX_CONNECTIONS);
    return o;
}

/* As many descriptors as we may have: the usual limit of 1,024 is too few for thousands of connections. */
static void allow_open_files(int connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) die("getrlimit failed");
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < (rlim_t)connections + 16)
        die("%d connections need more open files than this user may have (%llu)", connections, (unsigned long long)limit.rlim_max);
}

int main(int count, char **arguments) {
    if (count < 2) die("requests, follow or drain?");
    Options options = parse(count - 1, arguments + 1);
    allow_open_files(options.connections + options.producers);
    if (!strcmp(arguments[1], "requests")) run_requests(&options);
    else if (!strcmp(arguments[1], "follow")) {
        if (options.rate <= 0) die("follow needs --rate");
        run_follow(&options);
    } else if (!strcmp(arguments[1], "drain")) run_drain(&options);
    else die("%s is not one of requests, follow, drain", arguments[1]);
    return 0;
}
