"""Fuzz the broker: every API and version it serves, well-formed requests with odd values and damaged ones.

    python tools/fuzz.py --seconds 600 --seed 1            straight into a node, thousands of frames a second
    python tools/fuzz.py --seconds 60 --seed 1 --cluster   into the only member of a cluster
    python tools/fuzz.py --seconds 60 --seed 1 --socket    over sockets to a real `barnabas up`

What must hold: nothing but WireError and CloseLink leaves `Node.on_request`, and nothing at all leaves the ends of turns, timers and
background answers; a request that is taken is answered, with its correlation id and in its version's layout; no handler fails in a way
that it did not mean to (UNKNOWN_SERVER_ERROR, `metrics.failures`); no request holds the one thread for a second; whatever lands in a log is
a good batch; a normal client is served afterwards. A failure prints its seed, its step and the frames as hex: they belong in
tests/fuzz/test_found.py.
"""
# ruff: noqa: ANN401, PLR0911  (a fuzzer handles values of any type)

import argparse
import contextlib
import itertools
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import cramjam
import lz4.frame
from crc32c import crc32c
from fuzz_grammar import Grammar, Mutator, Scene
from fuzz_world import FuzzLink, FuzzNode, joined

from barnabas.broker.dispatch import TABLE, Api, cluster_table
from barnabas.broker.outcomes import CloseLink
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire import frame as frames
from barnabas.wire.compression import Codec, decompress
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.primitives import Struct, WireError

PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 3, 18, 19, 20
JOIN_GROUP, SYNC_GROUP = 11, 14
#: Names that are longer make no member id: it has a dash and a UUID behind them.
NAME_BYTES_MAX = 32_767 - 37
#: CPU time that one request may take on the thread of decision.
REQUEST_CPU_S_MAX = 1.0
#: A node is thrown away and a new one started after so many requests: what they create does not add up for ever.
REQUESTS_PER_NODE = 3000
#: Topics that were deleted come back after so many.
REQUESTS_PER_TOPICS = 20
#: The APIs to draw from: those that touch record bytes come more often.
KEYS = [*TABLE, PRODUCE, PRODUCE, PRODUCE, FETCH, FETCH]
WAITING_MAX = 20
LAST_FRAMES = 24
#: How long a member of a cluster may take to answer: as long as the longest time-out that is not the request's own.
PATIENCE_MS = 60_000
PATIENCE_STEPS = 60
TOPICS = ("one", "two", "three", "four", "a.b", "UPPER", "0", "-")
SOCKET_DEADLINE_S = 20.0
#: More than any batch that is made here holds.
CONTENT_BYTES_MAX = 1 << 26
BROKER_RSS_MAX = 400 * 1024 * 1024


class FindingError(Exception):
    """The broker did what it must not do."""

    def __init__(self, reason: str, last: list[bytes]) -> None:
        """Tell what, and after which frames (the last one is the newest)."""
        shown = "\n".join(f"  {each.hex()}" for each in last)
        super().__init__(f"{reason}\nlast frames, oldest first:\n{shown}")


@dataclass
class Counts:
    """What a run did."""

    sent: int = 0
    answered: int = 0
    refused: int = 0
    silent: int = 0
    appended: int = 0

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.sent} frames: {self.answered} answered, {self.refused} refused by closing,"
            f" {self.silent} without an answer wanted, {self.appended} batches appended"
        )


def good_request(request: Any, version: int, correlation_id: int) -> bytes:
    """Encode a request of ours."""
    head = struct.pack(">hhih", request.API_KEY, version, correlation_id, -1)
    head += b"\0" if version >= request.FLEXIBLE_FROM else b""
    return head + b"".join(bytes(part) for part in request.encode(version))


def error_codes(value: Any) -> set[int]:
    """Collect every error code in a response."""
    if isinstance(value, list | tuple):
        return set().union(*(error_codes(each) for each in value)) if value else set()
    if not isinstance(value, Struct):
        return set()
    found: set[int] = set()
    for name in value.__slots__:
        child = getattr(value, name)
        if name == "error_code":
            found.add(child)
        elif isinstance(child, list | Struct):
            found |= error_codes(child)
    return found


def _is_marker(data: bytes, header: batches.BatchHeader) -> bool:
    """Tell whether a control batch is what WriteTxnMarkers makes: one record, an abort or a commit."""
    if not header.is_transactional or header.record_count != 1 or header.producer_id < 0:
        return False
    (record,) = batches.read_records(memoryview(data), 1 << 16)
    return record.key in (b"\0\0\0\0", b"\0\0\0\1") and len(record.value or b"") == 6


def batch_problem(data: bytes, base_offset: int) -> str | None:
    """Say what is wrong with a batch found in a log: an opinion of our own, not the broker's check."""
    if len(data) < batches.HEADER_SIZE:
        return f"{len(data)} bytes"
    header = batches.read_header(data)
    if header.base_offset != base_offset or header.magic != batches.MAGIC:
        return f"base offset {header.base_offset}, magic {header.magic}"
    if header.size != len(data) or crc32c(data[batches.CRC_START :]) != header.crc:
        return "length or checksum"
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        return f"{header.record_count} records, last delta {header.last_offset_delta}"
    if header.is_control and not _is_marker(data, header):
        return "a control batch that is no end of a transaction"
    try:
        content = _content(Codec(header.codec), data[batches.HEADER_SIZE :])
    except (ValueError, zlib.error, RuntimeError, cramjam.DecompressionError) as problem:
        return f"it does not decompress: {problem}"
    if not _records_fill(content, header.record_count):
        return "records do not fill the batch"
    return None


def _content(codec: Codec, packed: bytes) -> bytes:
    """Decompress with other libraries than the broker where there are some."""
    match codec:
        case Codec.GZIP:
            member = zlib.decompressobj(wbits=31)
            content = member.decompress(packed)
            if not member.eof:
                raise ValueError("cut short")
            more = member.unused_data
            return content + _content(codec, more) if more.startswith(packed[:2]) else content
        case Codec.LZ4:
            frame = lz4.frame.LZ4FrameDecompressor()
            content = bytes(frame.decompress(packed))
            if not frame.eof:
                raise ValueError("cut short")
            return content
        case Codec.ZSTD:
            return bytes(cramjam.zstd.decompress(packed)) if packed else b""
        case _:
            return decompress(codec, packed, CONTENT_BYTES_MAX)


def _records_fill(data: bytes, count: int) -> bool:
    view, position = memoryview(data), 0
    for _ in range(count):
        try:
            length, position = batches.read_varint(view, position)
        except (IndexError, batches.BatchError):
            return False
        position += length
        if length < batches.MIN_RECORD_SIZE - 1 or position > len(data):
            return False
    return position == len(data)


class NodeFuzzer:
    """Frames straight into a node."""

    apis: ClassVar[Mapping[int, Api]] = TABLE
    keys: ClassVar[list[int]] = KEYS
    settings: ClassVar[Mapping[str, str]] = {}
    requests_per_node = REQUESTS_PER_NODE

    def __init__(self, seed: int) -> None:
        """Everything follows from the seed."""
        self.seed = seed
        self.rng = Random(seed)
        self.counts = Counts()
        self.scene = Scene(topics=TOPICS)
        self.grammar = Grammar(self.rng, self.scene)
        self.mutator = Mutator(self.rng)
        self.last: deque[bytes] = deque(maxlen=LAST_FRAMES)
        self._correlation = itertools.count(1)
        self._start_node()

    def run(self, *, seconds: float | None = None, requests: int | None = None) -> Counts:
        """Go on for some CPU time, or for a number of requests, which is the same on every machine."""
        end_s = time.process_time() + seconds if seconds is not None else float("inf")
        for _ in range(requests) if requests is not None else itertools.count():
            if time.process_time() > end_s:
                break
            self.step()
        self._end_node()
        return self.counts

    def step(self) -> None:
        """Make one request and judge what comes of it."""
        if self.counts.sent % self.requests_per_node == self.requests_per_node - 1:
            self._end_node()
            self._start_node()
        if self.counts.sent % REQUESTS_PER_TOPICS == 0:
            self._create_topics()
        api = self.apis[self.rng.choice(self.keys)]
        version = self.rng.randint(api.min_version, api.max_version)
        frame = self.grammar.request(api.key, version, next(self._correlation))
        if self.rng.random() < 0.6:
            frame = self.mutator.mutate(frame)
        if frame:
            self.send(frame)

    def send(self, frame: bytes) -> None:
        """Hand one frame to the node and judge; FindingError if something is wrong."""
        self.counts.sent += 1
        self.last.append(frame)
        link = FuzzLink()
        before = self.fuzz_node.ends()
        started_s = time.process_time()
        parts = self._on_request(link, frame)
        took_s = time.process_time() - started_s
        if took_s > REQUEST_CPU_S_MAX:
            raise self._finding(f"one request took {took_s:.2f} s")
        if parts is not None:
            self._judge(link, frame, parts)
        self._guard("after a request", self._let_things_happen, link, frame)
        if parts is None and link.answers == [b""]:
            self.counts.silent += 1  # acks=0, and the batch took its time
        elif parts is None and link.answers:
            self._judge(link, frame, link.answers[0])
        self._check_logs(before)
        self._check_waiting()
        if self.fuzz_node.node.metrics.failures:
            raise self._finding("a handler failed: see the log")

    def _on_request(self, link: FuzzLink, frame: bytes) -> bytes | None:
        """Return the answer's bytes; None if none came (yet), and `link` then says why."""
        node = self.fuzz_node.node
        try:
            parts = node.on_request(link, memoryview(bytearray(frame)))
        except (WireError, CloseLink):
            link.is_open = False
            node.on_disconnect(link)
            self.counts.refused += 1
            return None
        except Exception as problem:
            raise self._finding(f"on_request raised {problem!r}") from problem
        if parts is None:
            return None
        if not parts:
            self.counts.silent += 1
            link.is_open = False
            return None
        return joined(parts)

    def _let_things_happen(self, link: FuzzLink, frame: bytes) -> None:
        node, events = self.fuzz_node.node, self.fuzz_node.events
        events.settle()
        node.on_turn_end()
        events.settle()
        self._help(link, frame)
        if not link.is_open or link.answers:
            return
        if link in node.waiters and self.rng.random() < 0.7:
            self.waiting[link] = frame
        elif link in node.waiters:
            events.advance(self._max_wait_ms(frame) + 1)
        elif _waits_for_members(frame):
            self.waiting[link] = frame
        if not link.answers and link not in self.waiting:
            raise self._finding("no answer, and nothing is under way")

    def _help(self, link: FuzzLink, frame: bytes) -> None:
        """Let others do what an answer waits for: a lone node needs nobody."""

    def _max_wait_ms(self, frame: bytes) -> int:
        return int(decode_request(frame).max_wait_ms)

    def _check_waiting(self) -> None:
        for link, frame in list(self.waiting.items()):
            if link.answers:
                del self.waiting[link]
                self._judge(link, frame, link.answers[0])
        while len(self.waiting) > WAITING_MAX:
            link = next(iter(self.waiting))
            frame = self.waiting.pop(link)
            if _waits_for_members(frame):
                self._guard("while members are waited for", self.fuzz_node.events.advance, 1000)
                if link.answers:
                    self._judge(link, frame, link.answers[0])
                    continue
            if _waits_for_members(frame) or self.rng.random() < 0.5:
                self._guard("on a lost connection", self.fuzz_node.node.on_disconnect, link)
                continue
            wait_ms = self._max_wait_ms(frame) + 1
            self._guard("at a deadline", self.fuzz_node.events.advance, wait_ms)
            if not link.answers:
                raise self._finding(f"a long poll was not answered in time: {frame.hex()}")
            self._judge(link, frame, link.answers[0])

    def _guard(self, when: str, call: Any, *args: Any) -> None:
        try:
            call(*args)
        except FindingError:
            raise
        except Exception as problem:
            raise self._finding(f"{when}, outside of any request: {problem!r}") from problem

    def _judge(self, link: FuzzLink, frame: bytes, answer: bytes) -> None:
        self.counts.answered += 1
        link.answers = link.answers or [answer]
        if len(link.answers) > 1:
            raise self._finding("more than one answer")
        try:
            response = decode_answer(frame, answer)
        except (WireError, AssertionError) as problem:
            raise self._finding(f"wrong answer: {problem} {answer.hex()}") from problem
        if ErrorCode.UNKNOWN_SERVER_ERROR in error_codes(response) and not _cannot_be_named(frame):
            raise self._finding(f"UNKNOWN_SERVER_ERROR: {response}")
        self._learn(response)

    def _learn(self, response: Any) -> None:
        """Use ids that the node handed out in later requests."""
        for name, kept in (
            ("session_id", self.scene.session_ids),
            ("producer_id", self.scene.producer_ids),
        ):
            value = getattr(response, name, 0)
            if value > 0 and value not in kept:
                kept.append(value)
                del kept[:-5]

    def _check_logs(self, before: dict[str, int]) -> None:
        for replica in self.fuzz_node.node.replicas:
            log, offset = replica.log, before.get(str(replica.key), 0)
            offset = max(offset, log.log_start_offset)
            while offset < log.log_end_offset:
                offset = self._check_log(replica, offset)

    def _check_log(self, replica: Any, offset: int) -> int:
        """Check what one segment holds from `offset` on; return where it ends."""
        end = replica.log.log_end_offset
        found = replica.log.read(offset, 1 << 30, end_offset=end, min_one=True, nowait=False)
        data = b"" if found is None else found.read()
        start = offset
        for position, header in batches.headers(memoryview(data)):
            problem = batch_problem(data[position : position + header.size], offset)
            if problem is not None:
                raise self._finding(f"a bad batch was appended to {replica.key}: {problem}")
            offset = header.next_offset
            self.counts.appended += 1
        if offset == start:
            raise self._finding(f"{replica.key} ends at {end}, its bytes at {offset}")
        return offset

    def _finding(self, reason: str) -> FindingError:
        where = f"seed {self.seed}, step {self.counts.sent}: "
        return FindingError(where + reason, list(self.last))

    def _start_node(self) -> None:
        settings = {"auto.create.topics.enable": "false", **self.settings}
        self.fuzz_node = FuzzNode(self.rng, settings)
        self.waiting: dict[FuzzLink, bytes] = {}
        self.scene.session_ids.clear()
        self._create_topics()

    def _create_topics(self) -> None:
        """Bring back what requests have deleted."""
        topics = [CreatableTopic(name=n, num_partitions=2, replication_factor=1) for n in TOPICS]
        self._ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
        known = self.fuzz_node.node.topics.by_name
        self.scene.topic_ids = {name: topic.id for name, topic in known.items()}

    def _end_node(self) -> None:
        """A normal client must still be served."""
        name = "normal-client"
        self._ask(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]), 7)  # fmt: skip
        answer = self._ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
        if answer.topics[0].error_code or len(answer.topics[0].partitions) != 1:
            raise self._finding(f"a normal client is not served: {answer}")

    def _ask(self, request: Any, version: int) -> Any:
        frame = good_request(request, version, next(self._correlation))
        link = FuzzLink()
        answer = self._on_request(link, frame)
        self.fuzz_node.events.settle()
        if answer is None:
            self._help(link, frame)
        return decode_answer(frame, answer or link.answers[0])


class ClusterFuzzer(NodeFuzzer):
    """Frames into the only member of a cluster: what brokers say to each other, many with the epochs that are believed.

    Orders are obeyed, so a normal client need not be served afterwards; all else must hold.
    """

    apis: ClassVar[Mapping[int, Api]] = {**TABLE, **cluster_table()}
    keys: ClassVar[list[int]] = [*TABLE, *(list(cluster_table()) * 6)]
    settings: ClassVar[Mapping[str, str]] = {
        "zookeeper.connect": "zookeeper:2181",
        "node.id": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
    }
    requests_per_node = 300

    def _start_node(self) -> None:
        super()._start_node()
        members = self.fuzz_node.node.members
        ids = (1, 1, 1, 2)
        self.scene.numbers = {
            "controller_epoch": (1, 1, 1, 0, 2),
            "broker_epoch": (members.broker_epoch, members.broker_epoch, -1),
            "leader_epoch": (0, 1, 2, 3),
            "partition_epoch": (0, 1, 2),
            "leader_recovery_state": (0, 0, 1),
            "type": (0, 1),
            **dict.fromkeys(("controller_id", "broker_id", "leader", "id"), ids),
            **dict.fromkeys(("replicas", "isr", "adding_replicas", "removing_replicas"), ids),
        }

    def _help(self, link: FuzzLink, frame: bytes) -> None:
        for _ in range(PATIENCE_STEPS):
            if link.answers or not link.is_open or link in self.fuzz_node.node.waiters:
                return
            self.fuzz_node.events.advance(PATIENCE_MS // PATIENCE_STEPS)
            self.fuzz_node.node.on_turn_end()
        if getattr(decode_request(frame), "timeout_ms", 0) >= PATIENCE_MS:
            link.is_open = False  # it said itself that it would wait for longer
            self.fuzz_node.node.on_disconnect(link)

    def _end_node(self) -> None:
        """Its orders may have taken everything."""


def decode_request(frame: bytes) -> Any:
    """Decode a request that was taken."""
    head = frames.decode_request_header(memoryview(frame))
    kind, _ = frames.message_types(head.api_key)
    return kind.decode_prefix(frame, head.api_version, head.body_pos)


def decode_answer(frame: bytes, answer: bytes) -> Any:
    """Decode the answer to a request; AssertionError or WireError if it is none."""
    (size,) = struct.unpack_from(">i", answer)
    assert size == len(answer) - 4, f"length {size} before {len(answer) - 4} bytes"
    head = frames.decode_request_header(memoryview(frame))
    api, version = TABLE[API_VERSIONS], head.api_version
    if head.api_key == API_VERSIONS and not api.min_version <= version <= api.max_version:
        version = 0
    header = frames.response_header(head.correlation_id, head.api_key, version)
    assert answer[4 : 4 + len(header)] == header, "header"
    _, kind = frames.message_types(head.api_key)
    return kind.decode(answer, version, 4 + len(header))


def _waits_for_members(frame: bytes) -> bool:
    """Tell whether a request is one that other members of its group may keep waiting: JoinGroup, SyncGroup."""
    return int.from_bytes(frame[:2]) in (JOIN_GROUP, SYNC_GROUP)


def _cannot_be_named(frame: bytes) -> bool:
    """Tell whether a request may be a JoinGroup with a name so long that no member id can be made of it: Kafka's answer is the same."""
    return int.from_bytes(frame[:2]) == JOIN_GROUP and len(frame) > NAME_BYTES_MAX


class SocketFuzzer:
    """Frames over real sockets to a real broker process."""

    def __init__(self, seed: int, address: tuple[str, int]) -> None:
        """Everything but the timing follows from the seed."""
        self.seed = seed
        self.rng = Random(seed)
        self.address = address
        self.counts = Counts()
        self.scene = Scene(topics=TOPICS, max_wait_ms=5)
        self.grammar = Grammar(self.rng, self.scene)
        self.mutator = Mutator(self.rng)
        self.last: deque[bytes] = deque(maxlen=LAST_FRAMES)
        self._correlation = itertools.count(1)

    def run(self, *, seconds: float | None = None, requests: int | None = None) -> Counts:
        """Go on for some time or for a number of connections."""
        end_s = time.monotonic() + seconds if seconds is not None else float("inf")
        for _ in range(requests) if requests is not None else itertools.count():
            if time.monotonic() > end_s:
                break
            self.rng.choice((self._damaged, self._damaged, self._wrong_lengths, self._pipelined))()
        return self.counts

    def _frame(self, *, damaged: bool) -> bytes:
        api = self.rng.choice(list(TABLE.values()))
        version = self.rng.randint(api.min_version, api.max_version)
        frame = self.grammar.request(api.key, version, next(self._correlation))
        frame = self.mutator.mutate(frame) if damaged else frame
        self.counts.sent += 1
        self.last.append(frame)
        return frame

    def _damaged(self) -> None:
        frames_ = [self._frame(damaged=True) for _ in range(self.rng.choice((1, 1, 3)))]
        self._send_and_hang_up(b"".join(struct.pack(">i", len(each)) + each for each in frames_))

    def _wrong_lengths(self) -> None:
        frame = self._frame(damaged=False)
        lies = (
            0,
            -1,
            1,
            2**31 - 1,
            104_857_601,
            len(frame) - 1,
            len(frame) + 1,
            len(frame) + 10**6,
        )
        self._send_and_hang_up(struct.pack(">i", self.rng.choice(lies)) + frame)

    def _send_and_hang_up(self, data: bytes) -> None:
        """Whatever it was: after our end of file the broker closes, too."""
        with socket.create_connection(self.address, SOCKET_DEADLINE_S) as sock:
            with contextlib.suppress(ConnectionError, OSError):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            try:
                while sock.recv(65536):
                    pass
            except TimeoutError:
                raise self._finding("the broker neither answers nor closes") from None
            except ConnectionError:
                pass

    def _pipelined(self) -> None:
        """Good requests one behind the other; the last is answered, or the connection is closed."""
        sent = [self._frame(damaged=False) for _ in range(self.rng.choice((1, 5, 20)))]
        last = struct.pack(">hhihi", 3, 1, 0x7E57, -1, 0)
        with socket.create_connection(self.address, SOCKET_DEADLINE_S) as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(
                    b"".join(struct.pack(">i", len(each)) + each for each in [*sent, last])
                )
            data = b""
            try:
                while not _holds_answer(data, 0x7E57) and (more := sock.recv(1 << 20)):
                    data += more
            except TimeoutError:
                raise self._finding("requests one behind the other got no answer") from None
            except ConnectionError:
                return
        self.counts.answered += _count_answers(data)

    def _finding(self, reason: str) -> FindingError:
        return FindingError(f"seed {self.seed}: {reason}", list(self.last))


def _count_answers(data: bytes) -> int:
    count, position = 0, 0
    while position + 8 <= len(data):
        position += 4 + struct.unpack_from(">i", data, position)[0]
        count += 1
    return count


def _holds_answer(data: bytes, correlation_id: int) -> bool:
    position = 0
    while position + 8 <= len(data):
        size, found = struct.unpack_from(">ii", data, position)
        position += 4 + size
        if found == correlation_id and position <= len(data):
            return True
    return False


def fuzz_process(seed: int, *, seconds: float | None = None, requests: int | None = None) -> Counts:
    """Start a broker, fuzz it over sockets, and see that it lives, stays small and stops cleanly."""
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as home:
        log_path = Path(home, "broker.log")
        command = [sys.executable, "-m", "barnabas.cli.main", "up", "--data-dir", f"{home}/data"]
        with log_path.open("w") as log:
            process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().split()[-1].rpartition(":")
            fuzzer = SocketFuzzer(seed, (host, int(port)))
            counts = fuzzer.run(seconds=seconds, requests=requests)
            resident = _resident_bytes(process.pid)
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        text = log_path.read_text()
        if code != 0 or "Traceback" in text or resident > BROKER_RSS_MAX:
            at = max(text.find("Traceback") - 500, 0)
            raise FindingError(
                f"seed {seed}: exit code {code}, {resident >> 20} MiB resident\n{text[at : at + 4000]}",
                list(fuzzer.last),
            )
    return counts


def _resident_bytes(pid: int) -> int:
    statm = Path(f"/proc/{pid}/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--socket", action="store_true", help="a real broker process over sockets")
    parser.add_argument("--cluster", action="store_true", help="the only member of a cluster")
    options = parser.parse_args()
    try:
        if options.socket:
            counts = fuzz_process(options.seed, seconds=options.seconds)
        else:
            fuzzer = ClusterFuzzer if options.cluster else NodeFuzzer
            counts = fuzzer(options.seed).run(seconds=options.seconds)
    except FindingError as finding:
        sys.exit(f"fuzz: {finding}")
    print(f"seed {options.seed}: {counts}; nothing found")


if __name__ == "__main__":
    main()
