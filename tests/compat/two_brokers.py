"""The same requests to two brokers, and what differs between their answers.

Answers are compared decoded, field by field. What may differ is in ALLOWED, each with its reason; lists whose order means
nothing are sorted; ids of topics are replaced by the names that each broker gave them to.
"""

import contextlib
import time

from compat.wire_client import WireClient

from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.primitives import Struct

DEADLINE_S = 60
PAUSE_S = 0.01
TIMEOUT_MS = 30_000
NO_ID = bytes(16)

#: Fields that may differ, and why.
ALLOWED = {
    "error_message": "sentences for people are our own",
    "throttle_time_ms": "Kafka throttles its controller's work",
    "cluster_id": "random",
    "host": "each tells its own address",
    "port": "each tells its own address",
    "log_dir": "each has its own directory",
    "total_bytes": "the disk",
    "usable_bytes": "the disk at that moment",
    "log_append_time_ms": "the clock",
    "unknown_tagged_fields": "Kafka's own features and epochs",
    "documentation": "our own words",
    "producer_id": "a counter of each broker",
    "preferred_read_replica": "there are no followers",
    "node_endpoints": "asked for by clients that move to a new leader: there is one broker",
}
#: Settings that are not compared: KRaft copies this one into the dynamic settings of the cluster (KIP-966).
SETTINGS_LEFT_OUT = ("min.insync.replicas",)
#: What a list of structs is sorted by; lists of others keep their order.
KEYS = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "resource_name",
    "partition_index",
    "partition",
    "index",
    "api_key",
    "group_id",
    "member_id",
    "key",
    "transactional_id",
)


class Side:
    """One broker: a connection, its last answer, and the ids it gave to the test's topics and members."""

    def __init__(self, address):
        self.address = address
        self.client = WireClient(address)
        self.ids = {}
        self.last = None
        self.served = {
            api.api_key: range(api.min_version, api.max_version + 1)
            for api in self.ask(ApiVersionsRequest(), 0).api_keys
        }

    def ask(self, request, version):
        self.last = self.client.ask(request, version)
        return self.last

    def ask_until(self, request, version, is_right):
        """Ask again until the answer is right: Kafka's brokers learn of changes after they were acknowledged."""
        deadline = time.monotonic() + DEADLINE_S
        while not is_right(answer := self.ask(request, version)):
            assert time.monotonic() < deadline, f"{self.address}: still {answer}"
            time.sleep(PAUSE_S)
        return answer

    def learn_ids(self, names):
        asked = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = self.ask_until(request, 12, _all_led)
        self.ids.update((topic.name, topic.topic_id) for topic in answer.topics)
        for topic in answer.topics:
            self._wait_hosted(topic)

    def _wait_hosted(self, topic):
        asked = [
            ListOffsetsPartition(partition_index=p.partition_index, timestamp=-1)
            for p in topic.partitions
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=asked)]
        )
        self.ask_until(
            request, 7, lambda answer: not any(p.error_code for p in answer.topics[0].partitions)
        )

    def wait_gone(self, *names):
        """Wait until nobody is told of them, and then until they are not hosted any more."""
        asked = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        self.ask_until(request, 12, lambda answer: all(t.error_code == 3 for t in answer.topics))
        first = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
        topics = [ListOffsetsTopic(name=name, partitions=first) for name in names]
        self.ask_until(
            ListOffsetsRequest(replica_id=-1, topics=topics),
            7,
            lambda answer: all(t.partitions[0].error_code for t in answer.topics),
        )


def _all_led(answer):
    return all(
        not topic.error_code and all(p.leader_id >= 0 for p in topic.partitions)
        for topic in answer.topics
    )


class TwoBrokers:
    """Ask both; `differences` collects what was not the same."""

    def __init__(self, ours, kafkas):
        self.ours = Side(ours)
        self.kafkas = Side(kafkas)
        self.differences = []
        self.asked = 0

    @property
    def sides(self):
        return self.ours, self.kafkas

    def ask(self, request, version, *, allowed=()):
        """Send to both, compare, return our answer. A request that needs ids is a function of the side.

        `allowed` names more fields that may differ in this one answer.
        """
        answers = []
        for side in self.sides:
            message = request(side) if callable(request) else request
            answers.append(self._answer(side, message, version, allowed))
        self.asked += 1
        ours, kafkas = answers
        if ours != kafkas:
            found = "\n  ".join(_compare(kafkas, ours))
            self.differences.append(f"{message} v{version}:\n  {found}")
        return self.last

    def ask_all(self, request, *, since=None, until=None, allowed=()):
        """Ask in every version of the request's API that both serve."""
        message = request(self.ours) if callable(request) else request
        served = [side.served[message.API_KEY] for side in self.sides]
        first = max([versions[0] for versions in served] + [since or 0])
        last = min([versions[-1] for versions in served] + [until or message.MAX_VERSION])
        assert first <= last
        for version in range(first, last + 1):
            self.ask(request, version, allowed=allowed)

    def _answer(self, side, message, version, allowed):
        try:
            answer = side.ask(message, version)
        except AssertionError:
            with contextlib.suppress(OSError):
                side.client.close()
            side.client = WireClient(side.address)
            self.last = None
            return "the connection was closed"
        if side is self.ours:
            self.last = answer
        names = {topic_id: f"id of {name}" for name, topic_id in side.ids.items()}
        return _plain(answer, names, allowed)

    def create(self, name, partitions=1, **configs):
        """A topic on both sides, ready for use."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        topic.configs = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        for side in self.sides:
            assert side.ask(request, 5).topics[0].error_code == 0
            side.learn_ids([name])

    def wait_gone(self, *names):
        for side in self.sides:
            side.wait_gone(*names)


def _plain(value, names, allowed, name=""):
    """Turn a message into dicts and lists that can be compared."""
    if isinstance(value, Struct):
        return {
            field: _plain(getattr(value, field), names, allowed, field)
            for field in value.__slots__
            if field not in ALLOWED and field not in allowed
        }
    if name == "aborted_transactions":
        return value or None  # Kafka gives no list or an empty one, by where the reading ended
    if isinstance(value, list):
        value = [one for one in value if getattr(one, "name", None) not in SETTINGS_LEFT_OUT]
        return (
            sorted((_plain(one, names, allowed) for one in value), key=_key)
            if _are_structs(value)
            else list(value)
        )
    if name == "session_id":
        return value != 0  # random
    if isinstance(value, memoryview | bytearray):
        value = bytes(value)
    return names.get(value, value) if isinstance(value, bytes | str) else value


def _are_structs(values):
    return bool(values) and isinstance(values[0], Struct)


def _key(plain):
    return [str(plain[field]) for field in KEYS if field in plain]


def _compare(kafkas, ours, path=""):
    """Describe where two plain answers differ."""
    if isinstance(kafkas, dict) and isinstance(ours, dict):
        for field in kafkas:
            yield from _compare(kafkas[field], ours[field], f"{path}.{field}")
    elif isinstance(kafkas, list) and isinstance(ours, list):
        if len(kafkas) != len(ours):
            left = [one for one in kafkas if one not in ours]
            right = [one for one in ours if one not in kafkas]
            yield f"{path}: {len(kafkas)} in Kafka's, {len(ours)} in ours; only Kafka's {left}; only ours {right}"
            return
        for index, (one, other) in enumerate(zip(kafkas, ours, strict=True)):
            yield from _compare(one, other, f"{path}[{index}]")
    elif kafkas != ours:
        yield f"{path}: Kafka {kafkas!r}, ours {ours!r}"
