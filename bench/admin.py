"""One blocking connection to a broker, for what stands around a measurement: topics made, primed and deleted.

Speaks through Barnabas's own generated messages, in versions that both brokers serve. Knows nothing of workloads.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from barnabas.wire import frame
from barnabas.wire.batch import Record, build
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.wire.primitives import Message

TIMEOUT_S = 60
PRODUCE_VERSION = 9
FETCH_VERSION = 12
METADATA_VERSION = 9
CREATE_VERSION = 5
DELETE_VERSION = 4
ALTER_VERSION = 1
QUOTAS_VERSION = 1
TOPIC_RESOURCE = 2
FIND_COORDINATOR_VERSION = 3
COMMIT_VERSION = 8
API_VERSIONS_VERSION = 0
ALREADY_THERE = 36
COORDINATOR_LOADING, COORDINATOR_AWAY, NOT_COORDINATOR = 14, 15, 16
RETRY_S = 0.05
TOPICS_PER_REQUEST = 100
PARTITIONS_PER_REQUEST = 2_000
"""Apache Kafka refuses to make 10,000 at once."""
PRIMED_PER_REQUEST = 1_000
"""A request for all of 10,000 would weigh more in a broker's memory than they do."""


class Place(NamedTuple):
    """One partition, and the offset from which it is read."""

    topic: str
    partition: int
    first_offset: int = 1


class BrokerFailed(Exception):
    """A broker answered with an error or did not answer."""


def request_frame(request: Message, version: int, correlation_id: int = 0) -> bytearray:
    """Encode a request with its length and header."""
    head = struct.pack(">hhih", request.API_KEY, version, correlation_id, -1)
    if version >= request.FLEXIBLE_FROM:
        head += b"\0"
    body = head + b"".join(bytes(part) for part in request.encode(version))
    return bytearray(struct.pack(">i", len(body)) + body)


class Admin:
    """Requests one at a time; use as a context manager."""

    def __init__(self, port: int, timeout_s: float = TIMEOUT_S) -> None:
        """Connect to a broker on this machine."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        """Nothing to do: it is connected."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401
        """Send one request and give the decoded answer."""
        self._correlation_id += 1
        self._socket.sendall(request_frame(request, version, self._correlation_id))
        data = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        header = frame.response_header(self._correlation_id, request.API_KEY, version)
        if data[: len(header)] != header:
            raise BrokerFailed(f"wrong header in the answer to {type(request).__name__}")
        _, response_type = frame.message_types(request.API_KEY)
        return response_type.decode(data, version, len(header))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise BrokerFailed("the broker closed the connection")
            data += more
        return bytes(data)

    def brokers(self) -> int:
        """Count the brokers that Metadata lists."""
        return len(self.ask(MetadataRequest(topics=[]), METADATA_VERSION).brokers)

    def api_keys(self) -> set[int]:
        """Give the APIs that the broker says it serves."""
        answer = self.ask(ApiVersionsRequest(), API_VERSIONS_VERSION)
        return {api.api_key for api in answer.api_keys}

    def coordinates(self, group: str, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the broker has a coordinator for groups, which may have to be made first."""
        request = FindCoordinatorRequest(key=group)
        if request.API_KEY not in self.api_keys():
            return False
        deadline = time.monotonic() + timeout_s
        while code := self.ask(request, FIND_COORDINATOR_VERSION).error_code:
            if code != COORDINATOR_AWAY or time.monotonic() > deadline:
                raise BrokerFailed(f"FindCoordinator: error {code}")
            time.sleep(RETRY_S)
        return True

    def commit(self, commits: Sequence[tuple[str, Place]], timeout_s: float = TIMEOUT_S) -> None:
        """Commit once for each group, again and again until its coordinator takes it."""
        deadline = time.monotonic() + timeout_s
        for group, place in commits:
            while code := self._commit(group, place):
                waiting = code in (COORDINATOR_LOADING, COORDINATOR_AWAY, NOT_COORDINATOR)
                if not waiting or time.monotonic() > deadline:
                    raise BrokerFailed(f"OffsetCommit: error {code}")
                time.sleep(RETRY_S)

    def _commit(self, group: str, place: Place) -> int:
        answer = self.ask(commit_request(group, place), COMMIT_VERSION)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def create(self, topics: Mapping[str, int], settings: Mapping[str, str] | None = None) -> None:
        """Make topics with so many partitions each; returns when the broker says so."""
        configs = [CreatableTopicConfig(name=n, value=v) for n, v in (settings or {}).items()]
        for names in chunks(topics):
            wanted = [
                CreatableTopic(
                    name=name, num_partitions=topics[name], replication_factor=1, configs=configs
                )
                for name in names
            ]
            request = CreateTopicsRequest(topics=wanted, timeout_ms=30_000)
            for topic in self.ask(request, CREATE_VERSION).topics:
                if topic.error_code not in (0, ALREADY_THERE):
                    raise BrokerFailed(f"create {topic.name}: error {topic.error_code}")

    def assign(self, name: str, replicas: Sequence[Sequence[int]]) -> None:
        """Make a topic with a partition for each list of brokers, of which the first is to lead; the controller must be asked."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(replicas)
        ]
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        if code := self.ask(request, CREATE_VERSION).topics[0].error_code:
            raise BrokerFailed(f"create {name}: error {code}")

    def leaders(self, name: str) -> list[int]:
        """Give who leads each partition of a topic, -1 for nobody; nothing if the topic is not known."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        topic = self.ask(request, METADATA_VERSION).topics[0]
        found = sorted((part.partition_index, part.leader_id) for part in topic.partitions)
        return [leader for _, leader in found]

    def in_sync(self, name: str) -> int:
        """Give how many are in sync where the fewest are; 0 if the topic is not known."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        topic = self.ask(request, METADATA_VERSION).topics[0]
        return min((len(part.isr_nodes) for part in topic.partitions), default=0)

    def controller(self) -> int:
        """Give the broker that changes of topics are asked of."""
        found: int = self.ask(MetadataRequest(topics=[]), METADATA_VERSION).controller_id
        return found

    def set_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Change settings of a topic."""
        changes = [AlterableConfig(name=n, value=v) for n, v in settings.items()]
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configs=changes
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        for answer in self.ask(request, ALTER_VERSION).responses:
            if answer.error_code:
                raise BrokerFailed(f"configure {name}: {answer.error_message}")

    def limit(self, client_id: str, limits: Mapping[str, float | None]) -> None:
        """Set quotas of a client id; None removes one."""
        ops = [
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in limits.items()
        ]
        entity = [EntityData(entity_type="client-id", entity_name=client_id)]
        request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=entity, ops=ops)])
        for answer in self.ask(request, QUOTAS_VERSION).entries:
            if answer.error_code:
                raise BrokerFailed(f"limit {client_id}: {answer.error_message}")

    def delete(self, names: list[str]) -> None:
        """Delete topics."""
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            some = names[start : start + TOPICS_PER_REQUEST]
            request = DeleteTopicsRequest(topic_names=some, timeout_ms=30_000)
            for topic in self.ask(request, DELETE_VERSION).responses:
                if topic.error_code:
                    raise BrokerFailed(f"delete {topic.name}: error {topic.error_code}")

    def prime(self, topics: Mapping[str, int], timeout_s: float = TIMEOUT_S) -> None:
        """Write one record to each partition, again and again until all have taken it.

        Metadata shows a new topic's leaders before they accept writes.
        """
        places = [(name, index) for name, count in topics.items() for index in range(count)]
        for start in range(0, len(places), PRIMED_PER_REQUEST):
            self.prime_places(set(places[start : start + PRIMED_PER_REQUEST]), timeout_s)

    def prime_places(self, waiting: set[tuple[str, int]], timeout_s: float = TIMEOUT_S) -> None:
        """Do so with these partitions, which this broker leads."""
        deadline = time.monotonic() + timeout_s
        while waiting:
            answer = self.ask(_one_record_each(waiting), PRODUCE_VERSION)
            codes = {
                (topic.name, partition.index): partition.error_code
                for topic in answer.responses
                for partition in topic.partition_responses
            }
            waiting -= {place for place, code in codes.items() if code == 0}
            if waiting and time.monotonic() > deadline:
                raise BrokerFailed(
                    f"{len(waiting)} partitions take no record: {set(codes.values())}"
                )

    def make(self, topics: Mapping[str, int], settings: Mapping[str, str] | None = None) -> None:
        """Create topics and wait until every partition is writable."""
        self.create(topics, settings)
        self.prime(topics)


def commit_request(group: str, place: Place) -> OffsetCommitRequest:
    """Commit one offset to a group that has no members."""
    part = OffsetCommitRequestPartition(
        partition_index=place.partition, committed_offset=place.first_offset, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name=place.topic, partitions=[part])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def chunks(topics: Mapping[str, int]) -> list[list[str]]:
    """Split topics into requests that a broker takes: not too many of them, nor of their partitions."""
    parts: list[list[str]] = [[]]
    room = PARTITIONS_PER_REQUEST
    for name, partitions in topics.items():
        if parts[-1] and (len(parts[-1]) == TOPICS_PER_REQUEST or partitions > room):
            parts.append([])
            room = PARTITIONS_PER_REQUEST
        parts[-1].append(name)
        room -= partitions
    return parts


def _one_record_each(places: set[tuple[str, int]]) -> ProduceRequest:
    batch = bytes(build([Record(0, int(time.time() * 1000), None, b"first")]))
    topics: dict[str, list[PartitionProduceData]] = {}
    for name, index in sorted(places):
        topics.setdefault(name, []).append(PartitionProduceData(index=index, records=batch))
    data = [TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()]
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
