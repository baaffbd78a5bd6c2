"""A node on a simulated machine, and clients that ask it one thing at a time: what the tests of the broker share."""

from __future__ import annotations

import struct

from barnabas.broker.node import Node
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.machine import Crash, Machine
from barnabas.sim.network import Network
from barnabas.sim.world import MS, SECOND, START_MS, Scheduler
from barnabas.wire import batch, frame
from barnabas.wire.batch import Record
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

DATA = "/data"
PATIENCE_US = 60 * SECOND


class Client:
    """One connection; `answers` holds what came back, decoded, in order."""

    def __init__(self, kit, name):
        self.name = name
        self.kit = kit
        self.connection = None
        self.is_closed = False
        self.sent = []
        self.answers = []
        kit.network.connect(self)
        kit.run(lambda: self.connection is not None or self.is_closed)

    def send(self, request, version):
        number = len(self.sent) + 1
        self.sent.append((request.API_KEY, version))
        head = struct.pack(">hhih", request.API_KEY, version, number, -1)
        if version >= request.FLEXIBLE_FROM:
            head += b"\0"
        body = b"".join(bytes(part) for part in request.encode(version))
        self.connection.send(head + body)

    def ask(self, request, version):
        self.send(request, version)
        self.kit.run(lambda: len(self.answers) == len(self.sent) or self.is_closed)
        assert not self.is_closed
        return self.answers[-1]

    def on_connected(self, connection):
        self.connection = connection

    def on_refused(self):
        self.is_closed = True

    def on_frame(self, _connection, data):
        key, version = self.sent[len(self.answers)]
        header = frame.response_header(len(self.answers) + 1, key, version)
        assert data[: len(header)] == header
        _, response_type = frame.message_types(key)
        self.answers.append(response_type.decode(data, version, len(header)))

    def on_closed(self, _connection):
        self.is_closed = True


class NodeKit:
    """A node that is up, and a first client."""

    def __init__(self, seed=1, **settings):
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig({"log.dirs": DATA, "node.id": "1", **texts})
        self.scheduler = Scheduler(seed)
        self.machine = Machine(self.scheduler, config, Node)
        self.network = Network(self.scheduler, self.machine)
        self._clients = 0
        self.machine.start()
        self._wait_up()

    def _wait_up(self):
        self.run(lambda: self.machine.is_up)
        self.client = self.new_client()

    @property
    def node(self):
        return self.machine.node

    @property
    def disk(self):
        return self.machine.disk

    def new_client(self):
        self._clients += 1
        return Client(self, f"client-{self._clients}")

    def run(self, finished):
        """Let things happen until this is so."""
        assert self.scheduler.run(finished, self.scheduler.now_us + PATIENCE_US)

    def advance(self, milliseconds):
        """Let this much time pass."""
        self.scheduler.run(lambda: False, self.scheduler.now_us + milliseconds * MS)

    def crash(self, crash=Crash.POWER):
        """Lose what was not synced, and start again."""
        self.machine.crash(crash, MS)
        self._wait_up()

    def restart(self):
        """Stop cleanly and start again."""
        self.machine.stop_cleanly(MS)
        self.run(lambda: not self.machine.is_up)
        self._wait_up()

    # What most tests do first

    def ask(self, request, version):
        return self.client.ask(request, version)

    def create(self, name, partitions=1, **configs):
        """Create a topic; its id."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        topic.configs = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics[0]
        assert answer.error_code == 0, answer
        return answer.topic_id

    def produce(self, name, index=0, count=1, timestamp=START_MS):
        """Append a batch; what the partition answered."""
        records = [Record(i, timestamp, b"k", b"v", ()) for i in range(count)]
        data = PartitionProduceData(index=index, records=batch.build(records))
        topic = TopicProduceData(name=name, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
        return self.ask(request, 9).responses[0].partition_responses[0]

    def fetch_request(self, name, offset, max_wait_ms=0):
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=name, partitions=[partition])
        return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])

    def offset(self, name, timestamp, index=0):
        """ListOffsets: -1 is the end, -2 the start."""
        asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topic = ListOffsetsTopic(name=name, partitions=[asked])
        answer = self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
        return answer.topics[0].partitions[0].offset

    def folders(self):
        """What lies in the log directory, files left out."""
        return [name for name in self.disk.list(DATA) if self.disk.is_dir(f"{DATA}/{name}")]
