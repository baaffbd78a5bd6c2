"""What is measured: the workloads W1-W14, templates of pipelines, groups, compaction, the scaling series and variants, one module for each kind.

A step prepares (topics, data, files) outside of the watch and measures inside. Sizes come from the scale; what a client
or a broker prints is none of these modules' business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.workloads.compaction import compaction
from bench.workloads.compression import w8
from bench.workloads.crowd import crowd
from bench.workloads.groups import groups
from bench.workloads.java import java
from bench.workloads.latency import w3, w5
from bench.workloads.readers import w6, w7
from bench.workloads.replication import w13
from bench.workloads.requests import w4, w12
from bench.workloads.scaling import scaling
from bench.workloads.spark import w14
from bench.workloads.starts import memory_after, w11
from bench.workloads.templates import templates
from bench.workloads.tenants import tenants
from bench.workloads.throughput import w1_and_w2, w10
from bench.workloads.tls import tls
from bench.workloads.transactions import w9
from bench.workloads.variants import fsync, pinned

if TYPE_CHECKING:
    from collections.abc import Set

    from bench.plan import Step

TITLES = {
    "w1": "100 B records, as fast as they go",
    "w2": "1 KB records, as fast as they go",
    "w3": "end-to-end latency at a fixed 10,000 records/s, 1 KB, 16 partitions",
    "w4": "one-record Produce requests, no linger",
    "w5": "100 topics, 1 KB, 5,000 records/s in all",
    "w6": "fan-out: one producer, eight readers of everything",
    "w7": "backlog drained while producing",
    "w8": "compressed batches",
    "w9": "transactions of 100 records on one producer; idempotence",
    "w10": "64 KB records",
    "w11": "start, memory, topic creation",
    "w12": "500 connections, 5,000 requests/s in all",
    "w13": "three brokers, replication 3, acks all, min.insync.replicas 2 (all share the cores)",
    "w14": "Spark on Barnabas: its source and sink, and in the second column Spark's own Kafka connector",
    "templates": "pipelines: events/s of each template; metrics by the minute, and in the second column the same in Kafka Streams",
    "memory": "resident memory after load",
    "groups": "consumer groups: commits, joins, heartbeats",
    "compaction": "how fast a log of keyed records is compacted, and whether producers notice",
    "scaling": "how cost grows with partitions and connections",
    "tenants": "a quiet client beside greedy ones, with and without quotas",
    "crowd": "a quiet client beside ten thousand connections that send a byte a second",
    "tls": "1 KB records over TLS",
    "pinned": "the same with the broker on core 0 and the client on core 1",
    "fsync": "the same with every acknowledged record on disk (flush.messages=1)",
}
THROUGHPUT = {"w1", "w2", "w10"}
#: Takes long, with one broker: in the full run, or asked for by name.
LONG = {"scaling": scaling, "pinned": pinned, "fsync": fsync}
#: Needs a cluster, Spark or minutes of its own: asked for by name only.
NAMED = {
    "w13": w13,
    "w14": w14,
    "templates": templates,
    "compaction": compaction,
    "tenants": tenants,
    "crowd": crowd,
    "tls": tls,
}


def all_steps(s: float, *, full: bool, only: Set[str] = frozenset()) -> list[Step]:
    """Give every step in the order in which it is run; `s` is the scale's seconds, for the estimates.

    Starts come first, while nothing else is up; memory is read when the throughput runs are over.
    """
    asked = {
        name: steps
        for name, steps in (LONG | NAMED).items()
        if name in only or (full and name in LONG)
    }
    return [
        *w11(),
        *w1_and_w2(s),
        *java(s, full=full),
        *w10(s),
        *memory_after(),
        *w4(s),
        *w3(s),
        *w5(s),
        *w6(s),
        *w7(s, cold=full),
        *w8(s),
        *w9(s),
        *w12(s),
        *groups(s, short=not full and "groups" not in only),
        *(step for steps in asked.values() for step in steps(s)),
    ]


def chosen(steps: list[Step], only: set[str]) -> list[Step]:
    """Keep the workloads asked for; memory after load belongs to the throughput runs."""
    if not only:
        return steps
    wanted = only | ({"memory"} if only & THROUGHPUT else set())
    return [step for step in steps if step.workload in wanted]
