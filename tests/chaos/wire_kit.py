"""What the attacks are made with: raw connections, broker processes, and waiting for conditions with a deadline."""

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from pathlib import Path

from fork_kit import fork_server
from process_kit import ready_line, with_no_retention

from barnabas.wire import batch as batches
from barnabas.wire import frame
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

#: Also for a client that was away and looks for its broker every ten seconds, on a machine with much else to do.
DEADLINE_S = 60
NOW_MS = 1_700_000_000_000


def eventually(condition, what="the condition", deadline_s=DEADLINE_S):
    """Return the condition's value as soon as it is true."""
    end_s = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end_s, f"{what} did not come true within {deadline_s} s"
        pause.wait(0.005)
    return found


def split(bootstrap):
    host, _, port = bootstrap.rpartition(":")
    return host.strip("[]"), int(port)


def encode(request, version, correlation_id, client_id=b"attack"):
    """A request's frame without its length."""
    head = (
        struct.pack(">hhih", request.API_KEY, version, correlation_id, len(client_id)) + client_id
    )
    if version >= request.FLEXIBLE_FROM:
        head += b"\0"
    return head + b"".join(bytes(part) for part in request.encode(version))


@contextlib.contextmanager
def reserved_address():
    """An address that nobody else is given while brokers come and go on it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))  # bound and never listening: a listener may join it
        yield f"127.0.0.1:{holder.getsockname()[1]}"


class ClosedByPeer(AssertionError):
    """There is no answer, and there will be none."""


class RawClient:
    """One blocking connection that can send anything."""

    def __init__(self, bootstrap, *, receive_buffer=0):
        host, port = split(bootstrap)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE_S)
        try:
            self.socket.connect((host, port))
        except OSError:
            self.socket.close()
            raise
        self.correlation_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send_frame(self, body):
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def send(self, request, version):
        """Send without waiting; the correlation id."""
        self.correlation_id += 1
        self.send_frame(encode(request, version, self.correlation_id))
        return self.correlation_id

    def receive(self):
        """The next frame without its length, None once the broker has closed; TimeoutError after the deadline."""
        head = self._exactly(4)
        return head and self._exactly(struct.unpack(">i", head)[0])

    def receive_for(self, request, version, correlation_id):
        data = self.receive()
        if data is None:
            raise ClosedByPeer(f"{request} version {version}: the broker closed the connection")
        header = frame.response_header(correlation_id, request.API_KEY, version)
        assert data[: len(header)] == header
        _, kind = frame.message_types(request.API_KEY)
        return kind.decode(data, version, len(header))

    def ask(self, request, version):
        return self.receive_for(request, version, self.send(request, version))

    def is_closed_by_peer(self):
        """Wait until the broker closes, dropping what it still says; TimeoutError if it does not."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(65536):
                pass
        return True

    def _exactly(self, size):
        data = b""
        with contextlib.suppress(ConnectionError):
            while len(data) < size and (more := self.socket.recv(size - len(data))):
                data += more
        return data if len(data) == size else None

    # What most attacks need around them

    def create_topic(self, name, partitions=1, **configs):
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                for key, value in configs.items()
            ],
        )
        return self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0]

    def produce(self, topic, records, *, partition=0, version=9, acks=-1):
        """The partition's part of the answer."""
        request = produce_request(topic, records, partition=partition, acks=acks)
        return self.ask(request, version).responses[0].partition_responses[0]

    def end_offset(self, topic, partition=0):
        asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
        )
        return self.ask(request, 5).topics[0].partitions[0].offset

    def fetch(self, topic, offset, *, partition=0, **options):
        """The partition's part of the answer."""
        return (
            self.ask(fetch_request(topic, offset, partition=partition, **options), 11)
            .responses[0]
            .partitions[0]
        )

    def read_all(self, topic, partition=0):
        """Every record's (offset, value) in the log, read with checks of checksum and order."""
        found, offset = [], 0
        while True:
            data = self.fetch(topic, offset, partition=partition, max_wait_ms=0)
            assert data.error_code == 0, data
            records = memoryview(bytes(data.records))
            before = offset
            for position, header in batches.headers(records):
                batch = records[position : position + header.size]
                assert batches.checksum_matches(batch, header), f"checksum at {header.base_offset}"
                records_ = batches.read_records(batch, 1 << 30)
                found += [(each.offset, each.value) for each in records_ if each.offset >= offset]
                offset = header.next_offset
            if offset == before:
                return found


def fetch_request(topic, offset, *, partition=0, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20):
    asked = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, log_start_offset=-1
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


def produce_request(topic, records, *, partition=0, acks=-1):
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=DEADLINE_S * 1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def batch(*values, **options):
    """A good batch with these values."""
    records = [Record(at, NOW_MS + at, None, value) for at, value in enumerate(values)]
    return bytes(batches.build(records, **options))


#: What a start of a broker imports, in a cluster too.
BROKER_MODULES = ("barnabas.cli.up", "barnabas.runtime.assembly", "barnabas.runtime.zookeeper")


class BrokerProcess:
    """`barnabas up` as a user starts it, but for its imports, on a directory that outlives it."""

    def __init__(self, data_dir, *, listen=("127.0.0.1:0",), settings=(), log_dir=None):
        self.data_dir = Path(data_dir)
        self.log_path = (log_dir or self.data_dir.parent) / f"{self.data_dir.name}.log"
        arguments = ["up", "--data-dir", str(data_dir)]
        for address in listen:
            arguments += ["--listen", address]
        for setting in with_no_retention(settings):
            arguments += ["--set", setting]
        self.process = self._start(arguments)
        line = ready_line(self.process)
        if line is None:
            self.process.stdout.close()
            code = self.process.wait(DEADLINE_S)
            raise AssertionError(f"exit code {code} before ready:\n{self.log[-4000:]}")
        self.addresses = line.split()[1].split(",")

    def _server(self):
        """Who forks it."""
        return fork_server(*BROKER_MODULES)

    def _start(self, arguments):
        stdout, theirs = os.pipe()
        try:
            with self.log_path.open("a") as log, Path(os.devnull).open() as nothing:
                self._log_start = log.tell()
                streams = nothing.fileno(), theirs, log.fileno()
                process = self._server().start(arguments, *streams)
        finally:
            os.close(theirs)
        process.stdout = os.fdopen(stdout)
        return process

    @property
    def bootstrap(self):
        return self.addresses[0]

    @property
    def log(self):
        """What this life has logged."""
        with self.log_path.open() as log:
            log.seek(self._log_start)
            return log.read()

    @property
    def resident_bytes(self):
        statm = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def kill(self):
        """No goodbye."""
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()

    def terminate(self):
        """Ask it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            self.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        assert "Traceback" not in self.log, self.log[max(0, self.log.index("Traceback") - 1000) :][
            :4000
        ]
