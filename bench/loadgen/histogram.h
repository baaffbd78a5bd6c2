/* Latencies in buckets that grow with the value: 64 per power of two, so a quantile is right to 1.6 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define SUB_BITS 6
#define SUB (1u << SUB_BITS)
#define BUCKETS (SUB * (64 - SUB_BITS))

typedef struct {
    uint64_t counts[BUCKETS];
    uint64_t total, max;
} Histogram;

static inline unsigned histogram_bucket(uint64_t value) {
    if (value < SUB) return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - SUB_BITS;
    return (shift + 1) * SUB + (unsigned)((value >> shift) - SUB);
}

/* The middle of a bucket. */
static inline double histogram_value(unsigned bucket) {
    if (bucket < SUB) return bucket;
    unsigned shift = bucket / SUB - 1;
    return ((double)(bucket % SUB + SUB) + 0.5) * (double)(1ull << shift);
}

static inline void histogram_add(Histogram *h, int64_t nanoseconds, uint64_t times) {
    uint64_t value = nanoseconds > 0 ? (uint64_t)nanoseconds : 0;
    h->counts[histogram_bucket(value)] += times;
    h->total += times;
    if (value > h->max) h->max = value;
}

static inline double histogram_quantile(const Histogram *h, double quantile) {
    uint64_t seen = 0, wanted = (uint64_t)(quantile * (double)h->total);
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
        if ((seen += h->counts[bucket]) > wanted) {
            double value = histogram_value(bucket);
            return value < (double)h->max ? value : (double)h->max;
        }
    return (double)h->max;
}

static inline void histogram_print(FILE *out, const char *name, const Histogram *h) {
    fprintf(out, "\"%s\": {\"count\": %llu, \"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}", name,
            (unsigned long long)h->total, histogram_quantile(h, 0.5) / 1e3, histogram_quantile(h, 0.99) / 1e3,
            histogram_quantile(h, 0.999) / 1e3, (double)h->max / 1e3);
}

#endif
