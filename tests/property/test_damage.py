"""An enemy of one file: nothing wrong is ever served, all that is undamaged is, and what is lost is told with its offsets.

Each seed makes a log of several segments with plain, packed, idempotent and transactional batches, stops the broker, cleanly or
not, damages one file in one way, and starts again. Then everything is read, as it is, committed only, and by time, and held against
what was written. DAMAGE_SEEDS says which seeds: a count, or one after a colon.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass

import pytest
from node_kit import DATA, NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.sim.machine import Crash
from barnabas.sim.world import MS, START_MS
from barnabas.storage import checkpoints, checksums
from barnabas.storage.verify import DAMAGE, verify_partition
from barnabas.storage.verify_directory import view_directory
from barnabas.wire.batch import (
    TRANSACTIONAL,
    Producer,
    Record,
    build,
    checksum_matches,
    headers,
    read_header,
    read_records,
)
from barnabas.wire.compression import Codec
from barnabas.wire.control_batch import EndMarker, read_marker
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_WANTED = os.environ.get("DAMAGE_SEEDS", "100")
SEEDS = [int(_WANTED[1:])] if _WANTED.startswith(":") else range(int(_WANTED))

FOLDER = f"{DATA}/t-0"
KEY = TopicPartition("t", 0)
PRODUCERS = (11, 12, 13)
KINDS = (
    ".log", ".log", ".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
    "partition.metadata", "meta.properties", "barnabas-checksums",
)  # fmt: skip
WAYS = ("flip", "flip", "zero", "cut", "delete", "swap")
#: Without them nobody can tell whose the records are: then nothing is served, and told. The first is known by its sum, once there is one.
IDENTITY = ("partition.metadata", "meta.properties")

_LOST = re.compile(r"offsets (\d+) to (\d+) are lost")
_CUT = re.compile(r"records from offset (\d+) on are lost")


@dataclass
class Written:
    """A batch as it was written."""

    base_offset: int
    records: list[Record]
    producer_id: int
    is_transactional: bool
    leader_epoch: int
    marker: EndMarker | None = None
    #: None while it is undecided.
    is_committed: bool | None = True

    @property
    def last_offset(self):
        return self.base_offset + len(self.records) - 1


class Story:
    """One seed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.kit = NodeKit(seed, log_flush_offset_checkpoint_interval_ms="2000")
        settings = {
            "internal_segment_bytes": str(self.chance.choice((700, 1500, 4000))),
            "index_interval_bytes": str(self.chance.choice((1, 150, 400))),
        }
        if self.chance.random() < 0.5:
            settings["flush_messages"] = str(self.chance.choice((1, 5)))
        self.kit.create("t", **settings)
        self.written = []
        self.open = {}
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.start_offset = 0
        self.touched = {}
        self.recovery_point = 0
        self.path = ""
        #: Nobody can tell any more whose the records are.
        self.is_anonymous = False
        #: The others that were damaged with it.
        self.damaged = []

    @property
    def replica(self):
        return self.kit.node.replicas.get("t", 0)

    @property
    def leader_epoch(self):
        return self.replica.state.leader_epoch

    # Writing

    def write(self):
        for _ in range(self.chance.randint(20, 60)):
            step = self.chance.random()
            if step < 0.25 and self.open:
                self.end(self.chance.choice(sorted(self.open)))
            elif step < 0.27:
                self.kit.advance(3000)
            elif step < 0.28:
                self.kit.crash(Crash.PROCESS)
            else:
                self.append()
        if self.chance.random() < 0.7:
            for producer_id in sorted(self.open):
                self.end(producer_id)
        if self.chance.random() < 0.3:
            self.delete_some()
        self.end_offset = self.replica.log.log_end_offset
        self.stable_offset = self.replica.last_stable_offset

    def timestamp(self):
        return START_MS + 10 * len(self.written) - self.chance.choice((0, 0, 0, 15, 40))

    def append(self):
        chance, base = self.chance, self.replica.log.log_end_offset
        count, at = chance.randint(1, 4), self.timestamp()
        records = [
            Record(n, at + n, b"k%d" % (base + n), chance.randbytes(chance.randint(0, 60)), ())
            for n in range(count)
        ]
        kind = chance.choice(("plain", "idempotent", "transaction", "transaction"))
        producer, attributes, producer_id = Producer(), 0, -1
        if kind == "idempotent" and len(self.open) < len(PRODUCERS):
            producer_id = chance.choice([one for one in PRODUCERS if one not in self.open])
        elif kind == "transaction":
            producer_id, attributes = chance.choice(PRODUCERS), TRANSACTIONAL
            self.open.setdefault(producer_id, [])
        if producer_id >= 0:
            producer = Producer(producer_id, 0, self.sequences[producer_id])
            self.sequences[producer_id] += count
        batch = memoryview(
            build(
                records, codec=chance.choice(list(Codec)), producer=producer, attributes=attributes
            )
        )
        assert self.replica.append(batch, read_header(batch), at) == base
        kept = [one._replace(offset=base + number) for number, one in enumerate(records)]
        written = Written(base, kept, producer_id, bool(attributes), self.leader_epoch)
        self.written.append(written)
        if attributes:
            written.is_committed = None
            self.open[producer_id].append(written)

    def end(self, producer_id):
        base, commit = self.replica.log.log_end_offset, self.chance.random() < 0.5
        assert self.replica.append_marker(EndMarker(commit, 0), producer_id, 0, 0) == 0
        for one in self.open.pop(producer_id):
            one.is_committed = commit
        self.written.append(
            Written(base, [None], producer_id, True, self.leader_epoch, EndMarker(commit, 0))
        )

    def delete_some(self):
        offset = self.chance.randint(0, self.replica.state.high_watermark)
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name="t", partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
        assert self.kit.ask(request, 2).topics[0].partitions[0].error_code == 0
        self.start_offset = offset

    # Damaging

    def stop_and_damage(self):
        machine, self.is_clean = self.kit.machine, self.chance.random() < 0.6
        if self.is_clean:
            machine.stop_cleanly(100 * MS)
            self.kit.run(lambda: machine.is_off)
        else:
            machine.crash(Crash.PROCESS, 100 * MS)
        machine.disk.is_off = False
        found = machine.disk.contents()
        offsets = checkpoints.decode(found.get(f"{DATA}/{checkpoints.RECOVERY_POINTS}", b""))
        self.recovery_point = offsets.get(KEY, 0)
        self.damage(found)

    def damage(self, found):
        kind = self.chance.choice(KINDS)
        paths = sorted(
            path
            for path in found
            if path.endswith(kind) and found[path] and "quarantine" not in path
        )
        if not paths:
            return
        disk, way = self.kit.disk, self.chance.choice(WAYS)
        self.path = path = self.chance.choice(paths)
        size = len(found[path])
        is_known = path.startswith(FOLDER) and f"{FOLDER}/{checksums.FILE_NAME}" in found
        self.is_anonymous = path.endswith(IDENTITY) and not is_known
        if way == "flip":
            place = self.chance.randrange(size)
            disk.flip(path, place, self.chance.randrange(8))
            self.touch(found, path, place, place + 1)
        elif way == "zero":
            place = self.chance.randrange(size) // 64 * 64
            length = min(size - place, self.chance.choice((64, 512)))
            disk.open(path).write(place, (bytes(length),))
            self.touch(found, path, place, place + length)
        elif way == "cut":
            place = self.chance.randrange(size)
            disk.open(path).truncate(place)
            self.touch(found, path, place, size)
        elif way == "delete":
            disk.remove(path)
            self.touch(found, path, 0, size)
        else:
            self.swap(found, paths)
        self.told = f"{way} of {path}, {'clean' if self.is_clean else 'unclean'}"
        print(self.told, "recovery point", self.recovery_point, "end", self.end_offset)  # noqa: T201  (which story it was)

    def swap(self, found, paths):
        one, two = self.path, self.chance.choice(paths)
        if one == two:
            return
        self.damaged = [two]
        for path, data in ((one, found[two]), (two, found[one])):
            self.kit.disk.write_file_atomically(path, data)
            self.touch(found, path, 0, len(found[path]))

    def touch(self, found, path, start, end):
        """Note the offsets of the batches that lie in these bytes."""
        if path.endswith(".log"):
            for position, header in headers(memoryview(found[path])):
                if position < end and position + header.size > start:
                    self.touched.update(
                        dict.fromkeys(range(header.base_offset, header.next_offset))
                    )

    def may_be_missing(self, offset):
        """Tell whether a record's loss is what the damage brought: a crash leaves unsynced bytes of which the first bad ones end the log."""
        first = min((one for one in self.touched if one >= self.recovery_point), default=None)
        is_cut_off = not self.is_clean and first is not None and offset >= first
        return offset in self.touched or is_cut_off

    def undecided_from(self):
        """Return from where on records are undecided because a marker was cut off."""
        first = min(self.touched, default=None)
        if self.is_clean or first is None:
            return 1 << 62
        ends = {}
        undecided = 1 << 62
        for one in reversed(self.written):
            if one.marker is not None:
                ends[one.producer_id] = one.base_offset
            elif one.is_transactional and ends.get(one.producer_id, 1 << 62) >= first:
                undecided = one.base_offset
        return undecided

    # Reading

    def ask_until_good(self, ask):
        """Ask as a client does, again and again; None if it is refused for good."""
        for _ in range(100):
            answer = ask()
            if not answer.error_code:
                return answer
            assert answer.error_code in (
                ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ), answer  # fmt: skip
            self.kit.advance(200)
        return None

    def fetch(self, offset, isolation_level):
        request = self.kit.fetch_request("t", offset)
        request.isolation_level = isolation_level
        request.topics[0].partitions[0].partition_max_bytes = self.max_bytes
        return self.kit.ask(request, 11).responses[0].partitions[0]

    def read(self, *, committed):
        """Return every record by its offset: those that a reader gets, markers left out."""
        found, offset = {}, self.kit.offset("t", -2)
        if offset < 0:
            return None
        is_later = all(self.may_be_missing(one) for one in range(self.start_offset, offset))
        # Without it, deleted records are shown again rather than others hidden.
        assert offset >= self.start_offset or self.path.endswith("log-start-offset-checkpoint")
        assert is_later
        while True:
            answer = self.ask_until_good(lambda at=offset: self.fetch(at, int(committed)))
            if answer is None:
                return None
            data = memoryview(bytes(answer.records or b""))
            if not data:
                return found
            to_come = sorted(
                (one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()
            )
            found.update(self.take(data, offset, to_come))
            offset = [header.next_offset for _, header in headers(data)][-1]

    def take(self, data, offset, to_come):
        left_out = set()
        for position, header in headers(data):
            batch = data[position : position + header.size]
            assert checksum_matches(batch, header)
            self.check_epoch(header)
            while to_come and to_come[0][0] <= header.last_offset:
                left_out.add(to_come.pop(0)[1])
            if header.is_control:
                self.check_marker(header, read_marker(batch))
                if not read_marker(batch).commit:
                    left_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in left_out):
                for one in read_records(batch, 1 << 20):
                    if one.offset >= offset:
                        yield one.offset, one._replace(key=bytes(one.key), value=bytes(one.value))

    def check_epoch(self, header):
        """Only what a crash makes the start read again, to learn the epochs from it, may be believed though it is wrong."""
        epochs = [one.leader_epoch for one in self.written if one.base_offset == header.base_offset]
        is_right = epochs in ([], [header.partition_leader_epoch])
        assert is_right or (not self.is_clean and self.path.endswith(".log"))

    def check_marker(self, header, marker):
        written = next(one for one in self.written if one.base_offset == header.base_offset)
        assert written.marker is not None
        assert (written.marker.commit, written.producer_id) == (marker.commit, header.producer_id)

    def find(self, timestamp):
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name="t", partitions=[asked])
        return (
            self.kit.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
            .topics[0]
            .partitions[0]
        )

    # Judging

    def judge(self, found, told, *, committed):
        batches = [one for one in self.written if one.marker is None]
        if committed:
            batches = [one for one in batches if one.is_committed]
        right = {record.offset: record for one in batches for record in one.records}
        wrong = {at: one for at, one in found.items() if right.get(at) != one}
        assert not wrong, f"served {wrong}, not {[right.get(at) for at in wrong]}"
        end_offset = self.stable_offset if committed else self.end_offset
        wanted = [at for at in right if self.start_offset <= at < end_offset]
        missing = [offset for offset in wanted if offset not in found]
        undecided = self.undecided_from() if committed else 1 << 62
        missing = [offset for offset in missing if offset < undecided]
        unexpected = [offset for offset in missing if not self.may_be_missing(offset)]
        assert not unexpected, f"not served: {unexpected}"
        if not self.is_clean:  # nobody knows how far it went
            missing = [offset for offset in missing if offset < self.recovery_point]
        untold = [at for at in missing if not any(first <= at <= last for first, last in told)]
        assert not untold, f"nobody told of {untold}"

    def judge_times(self, found):
        times = sorted({one.timestamp for one in found.values()})
        for timestamp in [*times[:: max(1, len(times) // 12)], times[-1] + 100] if times else ():
            answer = self.ask_until_good(lambda at=timestamp: self.find(at))
            expected = [one.offset for one in found.values() if one.timestamp >= timestamp]
            markers = [one.base_offset for one in self.written if one.marker is not None]
            if answer.offset not in markers:
                assert answer.offset == min(expected, default=-1), f"by time {timestamp}"
            else:
                assert answer.offset < min(expected, default=1 << 60)

    def run(self, caplog):
        self.max_bytes = self.chance.choice((200, 1000, 1 << 20))
        self.write()
        self.stop_and_damage()
        machine = self.kit.machine
        self.kit.run(lambda: machine.is_up or machine.failed_starts)
        if machine.failed_starts:
            assert self.is_anonymous, machine.last_failure
            return
        self.kit.client = self.kit.new_client()
        found = self.look(caplog)
        if found is None:
            assert self.is_anonymous
            assert any(word in caplog.text for word in ("offline", "stray", "begin anew"))
            return
        self.go_on(found, caplog)

    def look(self, caplog):
        # By time first for some: an index is held against the batches whoever uses it first.
        if (
            self.chance.random() < 0.5
            and self.ask_until_good(lambda: self.find(START_MS + 100)) is None
        ):
            return None
        found = self.read(committed=False)
        if found is None or (not found and self.is_anonymous):
            return None
        committed = self.read(committed=True)
        told = [(int(first), int(last)) for first, last in _LOST.findall(caplog.text)]
        told += [(int(first), 1 << 62) for first in _CUT.findall(caplog.text)]
        self.judge(found, told, committed=False)
        self.judge(committed, told, committed=True)
        self.judge_times(found)
        return found

    def go_on(self, found, caplog):
        """Write and stop once more: what is there stays, and no offset is given twice."""
        answer = self.kit.produce("t")
        assert answer.error_code == 0
        if self.is_clean or not self.touched:
            assert answer.base_offset == self.end_offset
        assert answer.base_offset > max(found, default=-1)
        self.kit.restart()
        again = self.read(committed=False)
        again.pop(answer.base_offset)
        assert again == found
        self.kit.machine.stop_cleanly(10_000 * MS)
        self.kit.run(lambda: self.kit.machine.is_off)
        view = view_directory(self.kit.disk, DATA)
        report = verify_partition(self.kit.disk, FOLDER, view.left(KEY), lambda _size: None)
        # An index whose wrong entry nobody came upon misleads nobody.
        damaged = [
            one
            for one in report.findings
            if one.severity == DAMAGE and one.path not in (self.path, *self.damaged)
        ]
        assert damaged == []


@pytest.mark.parametrize("seed", SEEDS)
def test_damage(seed, caplog):
    Story(seed).run(caplog)
