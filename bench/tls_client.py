"""Writes records over TLS and reads them again, as fast as that goes, by librdkafka: what `bench.workloads.tls` runs as a process.

librdkafka comes with confluent-kafka here, since the one that the other workloads build has no TLS. Arguments: produce or consume, then
address, file of certificates, topic, records, size. Prints one JSON object: records and seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

SILENCE_S = 60
BATCH = 10_000


def main() -> None:
    """Do one of both."""
    kind, address, certificates, topic, records, size = sys.argv[1:]
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "ssl",
        "ssl.ca.location": certificates,
    }
    run = produce if kind == "produce" else consume
    seconds = run(settings, topic, int(records), int(size))
    print(json.dumps({"records": int(records), "seconds": seconds}))


def produce(settings: dict[str, str], topic: str, records: int, size: int) -> float:
    """Write to partition 0 with acks=all; the seconds from the first record to the last acknowledgement."""
    failed: list[object] = []
    producer = Producer({**settings, "linger.ms": 1, "batch.size": 131072, "acks": "all"})
    producer.list_topics(topic, timeout=SILENCE_S)  # the handshake is not what is measured
    value = os.urandom(size)

    def delivered(error: object, _record: object) -> None:
        if error is not None:
            failed.append(error)

    started = time.monotonic()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    left = producer.flush(SILENCE_S)
    seconds = time.monotonic() - started
    if left or failed:
        sys.exit(f"{left} records were not acknowledged, {len(failed)} refused")
    return seconds


def consume(settings: dict[str, str], topic: str, records: int, _size: int) -> float:
    """Read partition 0 from the beginning; the seconds from the first record to the last."""
    consumer = Consumer({**settings, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    first = consumer.consume(1, SILENCE_S)
    read, started = len(first), time.monotonic()
    while read < records:
        found = consumer.consume(min(BATCH, records - read), SILENCE_S)
        if not found:
            sys.exit(f"only {read} records came")
        read += len(found)
    seconds = time.monotonic() - started
    consumer.close()
    return seconds


if __name__ == "__main__":
    main()
