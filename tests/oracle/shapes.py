"""Small loads, each of a shape in which records once went astray: a few raw connections, and what has to happen meanwhile.

Each takes a broker and a ledger, which it fills; whether the records are where they should be, the ledger says. One pass takes a second or
two. The moment that counts is made long, by batches that take long to open and are opened first, and not hit by luck.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
import struct
import time

from chaos.wire_kit import RawClient, encode, produce_request
from oracle.audit import audit_raw
from oracle.ledger import Promise, verdict
from oracle.records import make

from barnabas.wire.batch import Record, build
from barnabas.wire.compression import Codec
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.list_offsets import ListOffsetsRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE_VERSION = 9
#: Topics are named by id.
BY_ID_VERSION = 13
#: A batch of so many zeros takes a tenth of a second to open, and is small on the wire.
LONG_BYTES = 60_000_000
#: One that is opened in the background, too.
BACKGROUND_BYTES = 2_000_000
FILLERS = 8
#: Requests that look like each other: of the first a lane may be opened, the others go it.
REPEATS = 3
FILLER_TOPIC = "filler"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def zeros(topic: str, client: str, number: int, size: int) -> bytes:
    """One record, mostly of zeros, in a batch of gzip."""
    value = make(topic, 0, client, number, bytes(size))
    return bytes(build([Record(0, now_ms(), None, value)], codec=Codec.GZIP))


def plain_of_size(topic: str, client: str, number: int, size: int) -> bytes:
    """One record in a plain batch of exactly this size."""
    for padding in range(max(0, size - 200), size):
        value = make(topic, 0, client, number, b"." * padding)
        made = build([Record(0, now_ms(), None, value)])
        if len(made) == size:
            return bytes(made)
    raise AssertionError(f"no batch has {size} bytes")


class Writer:
    """One connection, and the client in the ledger that writes through it, from number 0 on."""

    def __init__(self, bootstrap, ledger, name, topic, *, topic_id=None, life=None, promise=None):
        self._raw = RawClient(bootstrap)
        self._ledger = ledger
        self.name, self.topic = name, topic
        self._topic_id, self._life = topic_id, life
        self.number = 0
        self._waiting = []
        ledger.add_client(name, promise or Promise())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._raw.socket.close()

    def send(self, batch):
        """Send a batch of one record, the next one, and do not wait."""
        data = PartitionProduceData(index=0, records=batch)
        by_name = self._topic_id is None
        topic = (
            TopicProduceData(name=self.topic)
            if by_name
            else TopicProduceData(topic_id=self._topic_id)
        )
        topic.partition_data = [data]
        request = ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[topic])
        version = PRODUCE_VERSION if by_name else BY_ID_VERSION
        self._ledger.sent(self.name, self.topic, 0, self.number, 1, now_ms(), self._life)
        self._waiting.append((request, version, self._raw.send(request, version), self.number))
        self.number += 1

    def receive(self):
        """Wait for an answer; whether the record was acknowledged."""
        request, version, correlation_id, number = self._waiting.pop(0)
        answer = self._raw.receive_for(request, version, correlation_id)
        told = answer.responses[0].partition_responses[0]
        if told.error_code:
            self._ledger.failed(self.name, self.topic, 0, number, 1)
        else:
            self._ledger.acknowledged(self.name, self.topic, 0, number, 1, told.base_offset)
        self._ledger.ended(self.name, now_ms())
        return not told.error_code

    def write(self, batch):
        self.send(batch)
        return self.receive()


@functools.cache
def filler():
    """A batch that takes long to open. It belongs to no client: nobody asks what becomes of it."""
    return zeros(FILLER_TOPIC, "nobody", 0, LONG_BYTES)


@contextlib.contextmanager
def busy_opener(bootstrap):
    """Who opens batches in the background has enough to do; what comes now waits for a while."""
    request = produce_request(FILLER_TOPIC, filler(), acks=1)
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(RawClient(bootstrap)) for _ in range(FILLERS)]
        sent = [writer.send(request, PRODUCE_VERSION) for writer in writers]
        yield
        for writer, correlation_id in zip(writers, sent, strict=True):
            writer.receive_for(request, PRODUCE_VERSION, correlation_id)


def was_taken_in(client):
    """Wait until everything that was sent before, on whatever connection, was received by the broker and its handling has begun."""
    client.ask(ListOffsetsRequest(replica_id=-1, topics=[]), 5)


def burst_then_singles(broker, ledger, tag):
    """One connection sends a batch that is opened in the background; meanwhile and afterwards another sends such as look the same."""
    burst_topic, single_topic = f"burst-{tag:04}", f"other-{tag:04}"
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(RawClient(broker.bootstrap))
        for topic in (burst_topic, single_topic, FILLER_TOPIC):
            admin.create_topic(topic)
        # The names are of one length, and so is what repeats.
        one = stack.enter_context(Writer(broker.bootstrap, ledger, f"bursts-{tag}", burst_topic))
        other = stack.enter_context(Writer(broker.bootstrap, ledger, f"single-{tag}", single_topic))
        burst = zeros(burst_topic, one.name, 0, BACKGROUND_BYTES)
        with busy_opener(broker.bootstrap):
            was_taken_in(admin)
            one.send(burst)
            was_taken_in(admin)
            assert other.write(plain_of_size(single_topic, other.name, 0, len(burst)))
            assert one.receive()
        for number in range(1, REPEATS + 1):
            assert other.write(plain_of_size(single_topic, other.name, number, len(burst)))
        return verdict(
            fault
            for topic in (burst_topic, single_topic)
            for fault in audit_raw(ledger, admin, topic, 0)
        )


def made_again_while_opened(broker, ledger, tag):
    """A topic is deleted and made again under its name while a batch for it, named by id, is opened in the background."""
    name = f"reborn-{tag}"
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(RawClient(broker.bootstrap))
        admin.create_topic(FILLER_TOPIC)
        first_id = admin.create_topic(name).topic_id
        writer = stack.enter_context(
            Writer(broker.bootstrap, ledger, f"by-id-{tag}", name, topic_id=first_id, life=1)
        )
        with busy_opener(broker.bootstrap):
            was_taken_in(admin)
            writer.send(zeros(name, writer.name, 0, BACKGROUND_BYTES))
            was_taken_in(admin)
            deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=60_000)
            assert admin.ask(deletion, 6).responses[0].error_code == 0
            made = admin.create_topic(name)
            assert (made.error_code, made.topic_id != first_id) == (0, True)
            writer.receive()  # whether it is acknowledged depends on who was first; where it stands does not
        return verdict(audit_raw(ledger, admin, name, 0, life=2))


#: One request in the records has this many bytes: what TLS hands over at once are multiples of it.
SMUGGLED_BYTES = 256
SMUGGLED_COUNT = 3_500
TRIES = 10
#: For an answer over a connection that may have lost its way.
ANSWER_S = 5


def requests_in_records(broker, ledger, tag, tls):
    """Over TLS, records full of Produce requests: none of them is carried out."""
    topic, aim, client = f"carrier-{tag}", f"aim-{tag:04}", f"carrier-{tag}"
    with RawClient(broker.addresses[0]) as admin:
        for each in (topic, aim):
            admin.create_topic(each)
        ledger.add_client(client, Promise())
        for number in range(TRIES):
            ledger.sent(client, topic, 0, number, 1, now_ms())
            if produce_over_tls(
                broker.addresses[1], tls, smuggling_frame(topic, client, number, aim)
            ):
                ledger.acknowledged(client, topic, 0, number, 1)
            found = verdict(audit_raw(ledger, admin, aim, 0))
            if found:
                return found
        return verdict(audit_raw(ledger, admin, topic, 0))


def framed(body):
    return struct.pack(">i", len(body)) + body


def smuggling_frame(topic, client, number, aim):
    """A Produce request whose one record holds Produce requests to another topic, one at every multiple of their size."""
    hidden = bytes(build([Record(0, now_ms(), None, make(topic, 0, client, number))]))
    request = produce_request(aim, hidden, acks=1)
    spare = SMUGGLED_BYTES - len(framed(encode(request, 3, 7, client_id=b"")))
    inner = framed(encode(request, 3, 7, client_id=b"x" * spare)) * SMUGGLED_COUNT
    for shift in range(SMUGGLED_BYTES):
        value = make(topic, 0, client, number, bytes(shift) + inner)
        batch = bytes(build([Record(0, now_ms(), None, value)]))
        whole = framed(encode(produce_request(topic, batch, acks=1), 3, 1))
        if whole.index(inner[:SMUGGLED_BYTES]) % SMUGGLED_BYTES == 0:
            return whole
    raise AssertionError("every shift was tried")


def produce_over_tls(address, tls, frame):
    """Send a Produce request with the correlation id 1 on a connection of its own; whether it was acknowledged."""
    with contextlib.suppress(OSError), RawClient(address) as raw:
        raw.socket = tls.wrap_socket(raw.socket, server_hostname="127.0.0.1")
        raw.socket.settimeout(ANSWER_S)
        raw.socket.sendall(frame)
        answer = raw.receive()
        return (
            answer is not None
            and answer[:4] == b"\0\0\0\1"
            and ProduceResponse.decode(answer, 3, 4).responses[0].partition_responses[0].error_code
            == 0
        )
    return False


def client_tls(files):
    """Trust who signed the broker, and nobody else."""
    return ssl.create_default_context(cafile=str(files.authority))
