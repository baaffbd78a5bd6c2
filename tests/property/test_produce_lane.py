"""Produce requests that repeat are answered and appended as if each had come the general way."""

import struct
from random import Random

from crc32c import crc32c
from fuzz_world import FuzzLink, FuzzNode
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.outcomes import CloseLink
from barnabas.ports import FileSlice
from barnabas.wire import batch as batches
from barnabas.wire.batch import Producer, Record
from barnabas.wire.compression import Codec
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITIONS = 3
NOW_MS = 1_700_000_000_000


def signed(data):
    """The batch with a checksum that is right again."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


DAMAGE = {
    "none": lambda data: data,
    "checksum": lambda data: data[:-1] + bytes((data[-1] ^ 1,)),
    "magic": lambda data: data[:16] + b"\1" + data[17:],
    "base offset": lambda data: b"\0\0\0\0\0\0\0\5" + data[8:],
    "length": lambda data: data[:8] + struct.pack(">i", 17) + data[12:],
    "cut": lambda data: data[:40],
    "twice": lambda data: data + data,
    "count": lambda data: data[:57] + struct.pack(">i", 9) + data[61:],
    "records": lambda data: signed(
        data[:23] + struct.pack(">i", 8) + data[27:57] + struct.pack(">i", 9) + data[61:]
    ),
    "attributes": lambda data: signed(data[:21] + b"\x80" + data[22:]),
    "codec": lambda data: signed(data[:22] + bytes((data[22] ^ 5,)) + data[23:]),
}


#: Few sequences, so that batches often follow each other; at the end of its range a sequence goes on with 0.
PRODUCERS = [
    *[Producer()] * 3,
    *[Producer(7, 0, sequence) for sequence in (0, 1, 2, 3, 4, 2**31 - 1)],
    Producer(7, 1, 0),
    Producer(8, 0, 0),
]


@st.composite
def batch_bytes(draw):
    """A batch as clients send them, sometimes not quite."""
    count = draw(st.integers(1, 4))
    value = b"v" * draw(st.sampled_from([0, 1, 100, 130, 20_000, 100_000]))
    stamp = draw(st.sampled_from([NOW_MS, NOW_MS, NOW_MS, -1, NOW_MS + 10**12]))
    producer = draw(st.sampled_from(PRODUCERS))
    records = [Record(i, stamp, None, value) for i in range(count)]
    codec = draw(st.sampled_from([Codec.NONE] * 5 + list(Codec)))
    data = bytes(batches.build(records, codec=codec, producer=producer))
    return DAMAGE[draw(st.sampled_from(["none"] * 12 + list(DAMAGE)))](data)


@st.composite
def requests(draw):
    """A request that is like the others, but for one now and then."""
    topic = draw(
        st.sampled_from(["plain"] * 9 + ["other-plain"] * 2 + ["stamped", "synced", "missing"])
    )
    data = [
        PartitionProduceData(
            index=draw(st.sampled_from([0, 0, 0, 1, 2, 9])), records=draw(batch_bytes())
        )
        for _ in range(draw(st.sampled_from([1] * 9 + [2])))
    ]
    return ProduceRequest(
        acks=draw(st.sampled_from([-1] * 9 + [1, 0])),
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


class Peer:
    """A node and one connection to it."""

    def __init__(self, settings=None):
        self.host = FuzzNode(Random(1), settings)
        self.link = FuzzLink()
        self.replies = b""
        self.waiting = False
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
            )
            for name, configs in {
                "plain": [],
                "stamped": [("message.timestamp.type", "LogAppendTime")],
                "synced": [("flush.messages", "1")],
                "small": [("segment.bytes", str(1 << 20))],
                "other-plain": [],
            }.items()
        ]
        self.general(frame(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7, 0))

    def general(self, data):
        """Let the node handle one frame, its length in front, the general way."""
        view = memoryview(bytearray(data))[4:]
        try:
            parts = self.host.node.on_request(self.link, view)
        except CloseLink:
            self.take_answers()
            self.replies += b"closed"
            return
        self.take_answers()
        if parts is None:
            self.host.events.settle()
            self.take_answers()
            return
        self.replies += b"".join(
            part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts
        )

    def stream(self, data):
        """Let the node handle many frames, as the server does."""
        view = memoryview(bytearray(data))
        position = 0
        while position < len(view):
            if self.link.lanes is not None:
                start = position
                position = self.link.lanes.take(view, start, len(view))
                if position != start:
                    continue
            self.write()
            end = position + 4 + int.from_bytes(view[position : position + 4])
            self.general(bytes(view[position:end]))
            position = end
        self.write()

    def write(self):
        """End a turn."""
        self.host.node.staging.write()
        self.take_answers()

    def take_answers(self):
        self.replies += b"".join(self.link.answers)
        self.link.answers.clear()

    def contents(self):
        """Every byte of every log."""
        return {p: c for p, c in self.host.disk.contents().items() if "checkpoint" not in p}

    def counters(self):
        """What the metrics will show of the topic."""
        found = self.host.node.metrics.by_topic["plain"]
        return {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}


def frame(request, version, correlation_id):
    head = struct.pack(">hhih2s", request.API_KEY, version, correlation_id, 2, b"me")
    if version >= request.FLEXIBLE_FROM:
        head += b"\0"
    body = head + b"".join(bytes(part) for part in request.encode(version))
    return struct.pack(">i", len(body)) + body


@settings(max_examples=150)
@given(
    version=st.sampled_from([3, 5, 7, 8, 9, 11, 12]),
    reads=st.lists(st.lists(requests(), min_size=1, max_size=6), min_size=1, max_size=8),
)
def test_repeated_requests_are_handled_as_the_general_way_does(version, reads):
    lane, general = Peer(), Peer()
    number = 0
    for read in reads:
        frames = []
        for request in read:
            number += 1
            frames.append(frame(request, version, number))
        lane.stream(b"".join(frames))
        for one in frames:
            general.general(one)
        assert lane.replies == general.replies
    assert lane.contents() == general.contents()
    assert lane.counters() == general.counters()
