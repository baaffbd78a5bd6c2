"""The node's figures as Prometheus text, under the names that Kafka's dashboards already know.

Two families of names: those of the JMX exporter's rules for Kafka (`kafka_server_…`) and those of kafka_exporter
(`kafka_topic_partition_…`). Runs on the loop's thread and only reads.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Final

from barnabas.core.controller.view import NO_LEADER
from barnabas.wire.messages.index import APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.runtime.assembly import RunningBroker

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[str, float]

_TOPIC_COUNTERS: Final = (
    ("messagesin", "messages_in", "Records appended."),
    ("bytesin", "bytes_in", "Bytes of record batches appended."),
    ("bytesout", "bytes_out", "Bytes of record batches sent to readers."),
    ("totalproducerequests", "produces", "Produce requests, counted per partition."),
    ("totalfetchrequests", "fetches", "Fetch requests, counted per partition answered."),
    ("failedproducerequests", "failed_produces", "Produce requests refused, per partition."),
    ("failedfetchrequests", "failed_fetches", "Fetch requests refused, per partition."),
)


def render(broker: RunningBroker) -> str:
    """Write all figures in the text format of Prometheus."""
    return write(_families(broker))


def write(families: Iterable[Family]) -> str:
    """Write families of samples in the text format of Prometheus."""
    lines: list[str] = []
    for name, kind, about, samples in families:
        lines.append(f"# HELP {name} {about}")
        lines.append(f"# TYPE {name} {kind}")
        lines += [f"{name}{labels} {_number(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def labelled(**labels: object) -> str:
    """Write labels, with what is special in them escaped."""
    inside = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


Family = tuple[str, str, str, "Iterable[Sample]"]


def _families(broker: RunningBroker) -> Iterator[Family]:
    yield from _traffic(broker)
    yield from _partitions(broker)
    yield from _replication(broker.node)
    yield from _controller(broker.node)
    yield from _process(broker)


def _one(value: float) -> list[Sample]:
    return [("", value)]


def _traffic(broker: RunningBroker) -> Iterator[Family]:
    metrics = broker.node.metrics
    for kafka_name, attribute, about in _TOPIC_COUNTERS:
        yield (
            f"kafka_server_brokertopicmetrics_{kafka_name}_total", "counter", about,
            [(labelled(topic=topic), getattr(m, attribute)) for topic, m in metrics.by_topic.items()],
        )  # fmt: skip
    yield (
        "kafka_network_requestmetrics_requests_total", "counter", "Requests by API.",
        [(labelled(request=APIS[key].name), count) for key, count in metrics.requests.items()],
    )  # fmt: skip
    yield (
        "kafka_server_socket_server_metrics_connection_count", "gauge", "Connections open now.",
        _one(broker.server.connection_count),
    )  # fmt: skip
    idle = broker.loop.take_idle_ratio()
    about = "Share of the time since the last look in which the broker's one thread waited."
    yield "kafka_network_socketserver_networkprocessoravgidle_percent", "gauge", about, _one(idle)
    yield (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "gauge",
        about,
        _one(idle),
    )


def _partitions(broker: RunningBroker) -> Iterator[Family]:
    node = broker.node
    replicas = list(node.replicas)
    online = [replica for replica in replicas if not replica.offline]
    now_ms, max_timeout_ms = (
        node.world.clock.now_ms(),
        node.config.get_int("transaction.max.timeout.ms"),
    )
    led = [replica for replica in online if replica.state.is_leader]
    brokers = len(node.cluster.live_ids())
    yield "kafka_brokers", "gauge", "Brokers in the cluster.", _one(brokers)
    yield (
        "kafka_topic_partitions", "gauge", "Partitions of a topic.",
        [(labelled(topic=name), len(t.partitions)) for name, t in node.topics.by_name.items()],
    )  # fmt: skip
    for name, about, value in (
        ("partitioncount", "Partitions hosted.", len(replicas)),
        ("leadercount", "Partitions led.", len(led)),
        ("underreplicatedpartitions", "Partitions with replicas out of sync.", sum(map(_is_under_replicated, led))),
        ("underminisrpartitioncount", "Partitions led whose in-sync set is smaller than min.insync.replicas.",
         sum(map(_is_under_min, led))),
        ("atminisrpartitioncount", "Partitions led whose in-sync set is just as large as min.insync.replicas.",
         sum(map(_is_at_min, led))),
        ("offlinereplicacount", "Replicas on a failed disk.", len(replicas) - len(online)),
        ("produceridcount", "Idempotent producers that partitions remember.", sum(len(r.log.producers) for r in online)),
        ("partitionswithlatetransactionscount", "Partitions with a transaction that nobody seems to end.",
         sum(r.log.producers.has_late_transaction(now_ms, max_timeout_ms) for r in online)),
    ):  # fmt: skip
        yield f"kafka_server_replicamanager_{name}", "gauge", about, _one(value)
    yield (
        "kafka_log_logmanager_offlinelogdirectorycount", "gauge", "Log directories whose disk has failed.",
        _one(sum(not directory.is_online for directory in node.directories)),
    )  # fmt: skip
    yield from _per_log(replicas)
    yield from _per_partition([replica for replica in replicas if replica.state.is_leader])


def _replication(node: Node) -> Iterator[Family]:
    metrics = node.metrics
    for name, about, count in (
        ("replicamanager_isrshrinks", "In-sync sets that lost a replica.", metrics.in_sync_shrinks),
        ("replicamanager_isrexpands", "In-sync sets that got one back.", metrics.in_sync_expands),
        ("brokertopicmetrics_replicationbytesin", "Bytes copied from leaders.",
         sum(topic.replication_bytes_in for topic in metrics.by_topic.values())),
        ("brokertopicmetrics_replicationbytesout", "Bytes sent to followers.",
         sum(topic.replication_bytes_out for topic in metrics.by_topic.values())),
    ):  # fmt: skip
        yield f"kafka_server_{name}_total", "counter", about, _one(count)
    yield (
        "kafka_server_replicafetchermanager_maxlag", "gauge", "Records by which the slowest replica here is behind.",
        [(labelled(clientId="Replica"), 0 if node.is_lone else node.members.fetchers.lag_max)],
    )  # fmt: skip


def _controller(node: Node) -> Iterator[Family]:
    """Tell of the whole cluster, if this broker is controller; as in Kafka, the others tell zeroes, so that sums are right."""
    active, offline, not_preferred, unclean = _lone_office(node) if node.is_lone else _office(node)
    for name, about, value in (
        ("activecontrollercount", "Controllers here.", active),
        ("offlinepartitionscount", "Partitions nobody leads.", offline),
        ("preferredreplicaimbalancecount", "Partitions that another than the first replica leads.", not_preferred),
    ):  # fmt: skip
        yield f"kafka_controller_kafkacontroller_{name}", "gauge", about, _one(value)
    yield (
        "kafka_controller_controllerstats_uncleanleaderelections_total", "counter",
        "Leaders that may have lacked acknowledged records.", _one(unclean),
    )  # fmt: skip


def _lone_office(node: Node) -> tuple[int, int, int, int]:
    partitions = sum(len(topic.partitions) for topic in node.topics.by_name.values())
    return 1, partitions - sum(not replica.offline for replica in node.replicas), 0, 0


def _office(node: Node) -> tuple[int, int, int, int]:
    office = node.members.controller.office
    if office is None:
        return 0, 0, 0, 0
    partitions = list(office.machine.view.kept_partitions())
    offline = sum(partition.leader == NO_LEADER for partition in partitions)
    others = sum(partition.leader != partition.assignment.replicas[0] for partition in partitions)
    return 1, offline, others - offline, office.machine.progress.unclean_leader_elections


def _is_under_replicated(replica: Replica) -> bool:
    return len(replica.state.in_sync) < len(replica.state.replicas)


def _is_under_min(replica: Replica) -> bool:
    return replica.state.is_under(replica.config.min_insync_replicas)


def _is_at_min(replica: Replica) -> bool:
    return replica.state.is_at(replica.config.min_insync_replicas)


def _per_log(replicas: list[Replica]) -> Iterator[Family]:
    """Tell of each log on this broker."""
    yield from _each(
        replicas,
        ("kafka_log_log_size", "Bytes of the log.", lambda r: r.log.size_bytes),
        ("kafka_log_log_logstartoffset", "First offset.", lambda r: r.log.log_start_offset),
        ("kafka_log_log_logendoffset", "Offset after the last record.", lambda r: r.log.log_end_offset),
        ("kafka_log_log_numlogsegments", "Segments of the log.", lambda r: r.log.segment_count),
    )  # fmt: skip


def _per_partition(replicas: list[Replica]) -> Iterator[Family]:
    """Tell of each partition that this broker leads: one broker tells of each."""
    yield from _each(
        replicas,
        ("kafka_cluster_partition_underminisr", "In-sync set smaller than min.insync.replicas.", _is_under_min),
        ("kafka_cluster_partition_atminisr", "In-sync set just as large as min.insync.replicas.", _is_at_min),
        ("kafka_topic_partition_current_offset", "High watermark.", lambda r: r.state.high_watermark),
        ("kafka_topic_partition_oldest_offset", "First offset.", lambda r: r.log.log_start_offset),
        ("kafka_topic_partition_in_sync_replica", "Replicas in sync.", lambda r: len(r.state.in_sync)),
        ("kafka_topic_partition_replicas", "Replicas.", lambda r: len(r.state.replicas)),
        ("kafka_topic_partition_leader", "Id of the leader.", lambda r: -1 if r.offline else r.state.broker_id),
        ("kafka_topic_partition_leader_is_preferred", "The first replica leads.",
         lambda r: not r.offline and r.state.broker_id == r.state.replicas[0]),
        ("kafka_topic_partition_under_replicated_partition", "Some replica is out of sync.", _is_under_replicated),
    )  # fmt: skip


def _each(
    replicas: list[Replica], *figures: tuple[str, str, Callable[[Replica], float]]
) -> Iterator[Family]:
    named = [(labelled(topic=r.key.topic, partition=r.key.partition), r) for r in replicas]
    for name, about, value in figures:
        yield name, "gauge", about, [(labels, float(value(r))) for labels, r in named]


def _process(broker: RunningBroker) -> Iterator[Family]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield (
        "process_cpu_seconds_total", "counter", "Processor time used.",
        _one(usage.ru_utime + usage.ru_stime),
    )  # fmt: skip
    resident = _read_resident_bytes()
    if resident is not None:
        yield "process_resident_memory_bytes", "gauge", "Resident memory.", _one(resident)
    yield (
        "barnabas_request_failures_total", "counter", "Requests that ended in an unexpected error.",
        _one(broker.node.metrics.failures),
    )  # fmt: skip
    yield (
        "barnabas_faults_total", "counter", "Faults of the broker that ended one thing alone; its log has them.",
        _one(broker.loop.faults.count),
    )  # fmt: skip
    yield from _pools(broker)
    for name, value in _read_disk_bytes().items():
        about = f"Bytes this process had the disk {name}."
        yield f"kafka_server_kafkaserver_linux_disk_{name}_bytes", "gauge", about, _one(value)


def _pools(broker: RunningBroker) -> Iterator[Family]:
    pools = broker.loop.pools
    for name, about, value in (
        ("threads_max", "Jobs that run beside the loop at once, by what they wait for.", "threads_max"),
        ("running", "Jobs that run beside the loop now.", "running"),
        ("waiting", "Jobs that wait for a thread.", "waiting"),
    ):  # fmt: skip
        samples = [(labelled(pool=pool.name), getattr(pool, value)) for pool in pools]
        yield f"barnabas_background_jobs_{name}", "gauge", about, samples
    yield (
        "barnabas_background_jobs_refused_total", "counter", "Jobs that were refused because too many waited.",
        [(labelled(pool=pool.name), pool.refused) for pool in pools],
    )  # fmt: skip


def _read_resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None  # no /proc: not Linux


def _read_disk_bytes() -> dict[str, int]:
    try:
        with open("/proc/self/io") as io:
            counts = dict(line.split(": ") for line in io.read().splitlines())
    except OSError:
        return {}
    return {"read": int(counts["read_bytes"]), "write": int(counts["write_bytes"])}
