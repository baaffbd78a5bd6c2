"""Which log is compacted when, and what becomes of it when things go wrong on the way."""

import errno

import pytest
from crc32c import crc32c
from node_kit import DATA, NodeKit

from barnabas.broker.cleaners import BackgroundCleaner, CleanerGone
from barnabas.sim.machine import Crash
from barnabas.sim.world import START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Producer, Record, headers, read_records
from barnabas.wire.compression import Codec
from barnabas.wire.control_batch import EndMarker
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CHECKPOINT = f"{DATA}/cleaner-offset-checkpoint"
COMPACT = {
    "cleanup_policy": "compact",
    "segment_ms": "1000",
    "file_delete_delay_ms": "100",
    "flush_messages": "1",
}


def new_kit(**settings):
    settings.setdefault("log_cleaner_backoff_ms", "500")
    return NodeKit(**settings)


def put(kit, pairs, topic="t", *, timestamp=0):
    records = [Record(n, START_MS + timestamp, *pair) for n, pair in enumerate(pairs)]
    data = PartitionProduceData(index=0, records=batch.build(records))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    answer = kit.ask(request, 9).responses[0].partition_responses[0]
    assert answer.error_code == 0, answer


def fill(kit, topic="t", segments=4):
    """Write two keys into each segment, by timestamps a segment.ms apart; the last one stays open."""
    for number in range(segments + 1):
        put(kit, [(b"a", b"%d" % number), (b"k%d" % number, b"v")], topic, timestamp=number * 2000)


def log_of(kit, topic="t"):
    return kit.node.replicas.get(topic, 0).log


def is_compacted(kit):
    """Tell whether it was written down, without a call that a fault could meet."""
    return CHECKPOINT in kit.disk.contents()


def records_of(kit, topic="t"):
    answer = kit.ask(kit.fetch_request(topic, 0), 12)
    found, offset = [], 0
    end = log_of(kit, topic).log_end_offset
    while offset < end:
        answer = kit.ask(kit.fetch_request(topic, offset), 12)
        data = memoryview(answer.responses[0].partitions[0].records)
        for position, header in headers(data):
            found += read_records(data[position : position + header.size], 1 << 20)
            offset = header.next_offset
    return [(one.offset, one.key, one.value) for one in found]


COMPACTED = [
    (1, b"k0", b"v"), (3, b"k1", b"v"), (5, b"k2", b"v"), (6, b"a", b"3"), (7, b"k3", b"v"),
    (8, b"a", b"4"), (9, b"k4", b"v"),
]  # fmt: skip


def test_a_dirty_log_is_compacted_by_the_clock():
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    kit.run(lambda: is_compacted(kit))
    assert records_of(kit) == COMPACTED
    assert kit.disk.read_file(CHECKPOINT) == b"0\n1\nt 0 8\n"
    assert log_of(kit).base_offsets == [0, 8]
    kit.advance(1000)
    assert not [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".deleted")]


def test_no_more_than_one_new_segment_takes_room_at_a_time():
    kit = new_kit()
    kit.create("t", **COMPACT, internal_segment_bytes="250")
    fill(kit, segments=12)
    most, count_call = [0], kit.disk.count_call

    def look(path):
        new = [name for name in kit.disk.contents() if name.endswith((".log.cleaned", ".log.swap"))]
        most[0] = max(most[0], len(new))
        count_call(path)

    kit.disk.count_call = look
    kit.run(lambda: is_compacted(kit))
    assert len(log_of(kit).base_offsets) > 3
    assert most == [1]


def test_what_is_not_synced_does_not_count():
    """A power loss would take the newer value of a key, and compaction had taken the older one."""
    kit = new_kit()
    kit.create("t", **{**COMPACT, "flush_messages": str(1 << 40)})
    fill(kit)
    replica = kit.node.replicas.get("t", 0)
    compaction, now_ms = kit.node.upkeep.compaction, kit.node.world.clock.now_ms()
    replica.log.recovery_point = 4
    assert compaction.measure(replica, now_ms).end_offset <= 4
    replica.log.recovery_point = 10
    assert compaction.measure(replica, now_ms).end_offset == 8


def test_an_open_transaction_is_not_compacted():
    """It may be aborted, and then the older values that it hides count."""
    kit = new_kit()
    kit.create("t", **COMPACT)
    put(kit, [(b"a", b"0")])
    replica = kit.node.replicas.get("t", 0)
    records = [Record(0, START_MS + 2000, b"a", b"undecided")]
    data = batch.build(records, attributes=batch.TRANSACTIONAL, producer=Producer(1, 0, 0))
    assert replica.append(memoryview(data), batch.read_header(data), START_MS) == 1
    for number in range(2, 5):
        put(kit, [(b"a", b"%d" % number)], timestamp=number * 2000)
    compaction = kit.node.upkeep.compaction
    assert compaction.measure(replica, START_MS).end_offset <= 1
    assert replica.append_marker(EndMarker(commit=False, coordinator_epoch=0), 1, 0, 0) == 0
    replica.log.recovery_point = replica.log.log_end_offset
    assert compaction.measure(replica, START_MS).end_offset > 1


def test_a_log_is_left_alone_until_enough_of_it_is_dirty_again():
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    kit.run(lambda: is_compacted(kit))
    kit.restart()
    replica = kit.node.replicas.get("t", 0)
    compaction = kit.node.upkeep.compaction
    assert compaction.measure(replica, START_MS).first_dirty_offset == 8
    assert compaction.find_dirtiest() is None
    for number in range(5, 12):
        put(kit, [(b"a", b"%d" % number)], timestamp=number * 2000)
    assert compaction.find_dirtiest() is not None
    kit.run(lambda: b"t 0 1" in kit.disk.read_file(CHECKPOINT))
    assert [value for _, key, value in records_of(kit) if key == b"a"] == [b"10", b"11"]


def test_the_dirtiest_log_comes_first():
    kit = new_kit(log_cleaner_backoff_ms="100000")
    for name in ("clean", "dirty", "other"):
        kit.create(name, **COMPACT)
        fill(kit, name)
    directory = kit.node.directories[0]
    offsets = {"clean": 2, "dirty": 0, "other": 4}
    for replica in kit.node.replicas:
        directory.cleaner_offsets[replica.key] = offsets[replica.key.topic]
    replica, dirtiness = kit.node.upkeep.compaction.find_dirtiest()
    assert replica.key.topic == "dirty"
    assert dirtiness.ratio == 1.0


@pytest.mark.parametrize(
    ("settings", "topic"),
    [
        ({"log_cleaner_enable": "false"}, {}),
        ({"log_cleaner_threads": "0"}, {}),
        ({}, {"cleanup_policy": "delete"}),
        ({}, {"min_compaction_lag_ms": "100000000"}),
    ],
)
def test_what_is_not_compacted(settings, topic):
    kit = new_kit(**settings)
    kit.create("t", **{**COMPACT, **topic})
    fill(kit)
    kit.advance(5000)
    assert not is_compacted(kit)
    assert len(records_of(kit)) == 10


def test_several_logs_at_a_time():
    kit = new_kit(log_cleaner_threads="2")
    for name in ("x", "y", "z"):
        kit.create(name, **COMPACT)
        fill(kit, name)
    kit.run(lambda: is_compacted(kit) and len(kit.disk.read_file(CHECKPOINT).split()) == 11)
    assert all(records_of(kit, name) == COMPACTED for name in ("x", "y", "z"))


def test_a_damaged_log_is_repaired_and_then_compacted(caplog):
    kit = new_kit()
    for name in ("bad", "good"):
        kit.create(name, **COMPACT)
        fill(kit, name)
    kit.disk.flip(f"{DATA}/bad-0/{2:020d}.log", 70)
    kit.run(lambda: is_compacted(kit) and len(kit.disk.read_file(CHECKPOINT).split()) == 8)
    assert records_of(kit, "good") == COMPACTED
    assert records_of(kit, "bad") == [one for one in COMPACTED if one[0] not in (2, 3)]
    assert "bad-0: offsets 2 to 3 are lost (a batch with a wrong checksum)" in caplog.text


def test_a_log_of_whole_batches_that_hold_what_cannot_be_is_left_alone(caplog):
    kit = new_kit()
    for name in ("bad", "good"):
        kit.create(name, **COMPACT)
        fill(kit, name)
    path = f"{DATA}/bad-0/{2:020d}.log"
    data = memoryview(bytearray(kit.disk.read_file(path)))
    data[22] = Codec.GZIP  # its records are not packed
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    kit.disk.open(path).write(0, (data,))
    kit.run(lambda: is_compacted(kit))
    kit.advance(5000)
    assert records_of(kit, "good") == COMPACTED
    assert log_of(kit, "bad").segment_count == 5
    assert not kit.node.replicas.get("bad", 0).offline
    assert caplog.text.count("bad-0: not compacted until the next start") == 1


def test_a_disk_that_fails_takes_the_log_offline():
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    kit.disk.fail_path(f"{DATA}/t-0/{0:020d}.log.cleaned")
    kit.run(lambda: kit.node.replicas.get("t", 0).offline)


def test_a_full_disk_puts_it_off():
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    kit.disk.fail_path(f"{DATA}/t-0/{0:020d}.log.cleaned", errno.ENOSPC)
    kit.advance(5000)
    assert not kit.node.replicas.get("t", 0).offline
    kit.disk.heal()
    kit.run(lambda: is_compacted(kit))
    assert records_of(kit) == COMPACTED


def cleaned_files(kit):
    return [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".cleaned")]


def test_a_full_disk_leaves_nothing_of_a_new_segment(caplog):
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    kit.disk.fail_path(f"{DATA}/t-0/{0:020d}.timeindex.cleaned", errno.ENOSPC)
    kit.run(lambda: "not compacted for now" in caplog.text)
    assert not cleaned_files(kit)


def test_a_cleaner_that_was_killed_leaves_nothing_of_a_new_segment(caplog):
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    world = kit.node.world

    class Killed(BackgroundCleaner):
        def next_segment(self, done):
            kit.disk.open(f"{DATA}/t-0/{2:020d}.log.cleaned", create=True)
            done(None, CleanerGone("it was killed"))

    kit.node.upkeep.compaction.make_cleaner = lambda: Killed(world.disk, world.background)
    kit.run(lambda: "not compacted for now" in caplog.text)
    assert not cleaned_files(kit)


def test_segments_that_were_dropped_meanwhile_leave_no_new_segment():
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    world, log_ = kit.node.world, log_of(kit)
    asked = []

    class Slow(BackgroundCleaner):
        def next_segment(self, done):
            def dropped(found, problem):
                asked.append(found)
                if len(asked) == 1:
                    for path in log_.advance_log_start(log_.base_offsets[1]):
                        kit.disk.remove(path)
                done(found, problem)

            super().next_segment(dropped)

    kit.node.upkeep.compaction.make_cleaner = lambda: Slow(world.disk, world.background)
    kit.run(lambda: asked)
    kit.advance(50)
    assert not cleaned_files(kit)
    assert not kit.node.replicas.get("t", 0).offline


def test_a_topic_that_is_deleted_on_the_way():
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    gone = []

    class Slow(BackgroundCleaner):
        def next_segment(self, done):
            if not gone:
                gone.append(kit.new_client())
                gone[0].send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
                kit.node.world.timers.call_at(
                    kit.node.world.clock.monotonic_ms() + 2000,
                    lambda: super(Slow, self).next_segment(done),
                )
            else:
                super().next_segment(done)

    world = kit.node.world
    kit.node.upkeep.compaction.make_cleaner = lambda: Slow(world.disk, world.background)
    kit.advance(10_000)
    assert gone[0].answers[0].responses[0].error_code == 0
    assert kit.folders() == []
    kit.create("t", **COMPACT)
    fill(kit)
    kit.run(lambda: is_compacted(kit))
    assert records_of(kit) == COMPACTED


def test_a_cleaner_that_goes_away_is_replaced():
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    made = []

    class Mortal(BackgroundCleaner):
        def begin(self, order, rate, done):
            made.append(self)
            if len(made) == 1:
                done(None, CleanerGone("it was killed"))
            else:
                super().begin(order, rate, done)

    world = kit.node.world
    kit.node.upkeep.compaction.make_cleaner = lambda: Mortal(world.disk, world.background)
    kit.run(lambda: is_compacted(kit))
    assert len(made) == 2
    assert records_of(kit) == COMPACTED


def test_a_closed_background_cleaner_says_so():
    cleaner = BackgroundCleaner(None, None)
    answers = []
    cleaner.next_segment(lambda result, error: answers.append((result, type(error))))
    assert answers == [(None, CleanerGone)]


@pytest.mark.parametrize("crash", [Crash.POWER, Crash.PROCESS])
def test_a_crash_at_each_disk_call_of_a_compaction(crash):
    nth = 1
    while compact_and_crash(crash, nth):
        nth += 1
    assert nth > 50


def compact_and_crash(crash, nth):
    """Crash at the nth disk call once a log is dirty; False if it was compacted before that."""
    kit = new_kit(seed=nth, log_cleaner_backoff_ms="7000")
    kit.create("t", **COMPACT)
    fill(kit)
    kit.advance(3000)  # flushes end; from here on there are only the compaction and the checkpoints
    kit.machine.crash_at_call(crash, nth, 1000)
    kit.run(lambda: not kit.machine.is_up or is_compacted(kit))
    if kit.machine.is_up:
        return False
    kit._wait_up()
    # Either all of the old segments or the new one: nothing that was said last is missing.
    assert {key: value for _, key, value in records_of(kit)} == {
        key: value for _, key, value in COMPACTED
    }
    kit.run(lambda: is_compacted(kit))
    assert records_of(kit) == COMPACTED
    return True


@pytest.mark.parametrize("delay", range(490, 520, 3))
def test_a_stop_in_the_middle_is_clean(delay):
    kit = new_kit()
    kit.create("t", **COMPACT)
    fill(kit)
    kit.machine.slow_down(20_000)
    kit.advance(delay)
    kit.restart()
    assert kit.node.directories[0].was_clean
    kit.run(lambda: is_compacted(kit))
    assert records_of(kit) == COMPACTED
