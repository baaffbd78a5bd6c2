"""Files that go while a background job works on them, at whichever disk call: never a failure of the disk."""

import pytest
from node_kit import DATA, NodeKit

from barnabas.broker import shard_loading
from barnabas.broker.retention import Retention
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode
from barnabas.sim.world import START_MS
from barnabas.storage.log_reader import LOOKS_MAX
from barnabas.storage.rescue import Place, rescue
from barnabas.storage.segment import DamagedBatch
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

LATER_MS = 1_000_000_000


def new_kit():
    """Five segments of two records, left by a clean stop: nothing of them was looked at yet."""
    kit = NodeKit(log_retention_check_interval_ms=str(LATER_MS))
    kit.create("t", file_delete_delay_ms="0", retention_ms="60000")
    for number in range(10):
        assert kit.produce("t", timestamp=START_MS + number).error_code == 0
        if number % 2:
            replica_of(kit).log.roll(0)
    kit.restart()
    assert replica_of(kit).log.segment_count == 6
    return kit


def replica_of(kit):
    return kit.node.replicas.get("t", 0)


def drop(kit):
    """What retention does, with no delay: the first segments go, and their files."""
    log = replica_of(kit).log
    for path in log.advance_log_start(6):
        kit.disk.remove(path)


def replace(kit):
    """What compaction and repairs do, with no delay."""
    log = replica_of(kit).log
    for cleaned in log.closed_segments[:2]:
        place = Place(log.directory, cleaned.base_offset, cleaned.base_offset + 2, 10)
        new, _ = rescue(kit.disk, place, index_interval_bytes=4096, may_have_gaps=False)
        job = log.plan_swap(new, 0)
        job.run()
        for path in log.on_swapped(job):
            kit.disk.remove(path)


def delete(kit):
    """What the deletion of a topic does in the end."""
    kit.node.topics.drop(kit.node.topics.by_name["t"])
    (replica,) = kit.node.replicas.drop_topic("t")
    replica.log.close(clean=False)
    kit.disk.remove_tree(replica.log.directory)


def at_each_call(work, act):
    """Do the work again and again in new worlds, with `act` at the first disk call of its background jobs, the second, to the last."""
    nth, is_met = 0, []
    while nth == len(is_met):
        nth += 1
        kit = new_kit()
        let_happen(kit, nth, act, is_met)
        work(kit)
        yield kit
    assert nth > 3


def let_happen(kit, nth, act, is_met):
    disk, background = kit.disk, kit.node.world.background
    run, left = background.run, [nth]

    def meet():
        is_met.append(None)
        act(kit)

    def watched(job):
        before = disk.calls
        if left[0] > 0:
            disk.at_call(left[0], meet)
        try:
            return job()
        finally:
            left[0] -= disk.calls - before
            disk.at_call(0, meet)

    background.run = lambda job, done: run(lambda: watched(job), done)


def ask_by_time(kit, timestamp):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="t", partitions=[asked])
    kit.answer = (
        kit.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7).topics[0].partitions[0]
    )


@pytest.mark.parametrize("act", [drop, replace])
@pytest.mark.parametrize(("timestamp", "offsets"), [(START_MS + 3, (3, 6)), (-3, (9,))])
def test_a_look_by_time(timestamp, offsets, act):
    for kit in at_each_call(lambda kit: ask_by_time(kit, timestamp), act):
        assert kit.answer.error_code == 0
        assert kit.answer.offset in offsets
        assert not replica_of(kit).offline


def test_a_look_by_time_at_a_topic_that_is_deleted():
    codes = set()
    for kit in at_each_call(lambda kit: ask_by_time(kit, START_MS + 3), delete):
        codes.add(kit.answer.error_code)
        assert kit.node.directories[0].is_online
    assert codes == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def fetch_cold(kit):
    for name in kit.disk.list(f"{DATA}/t-0"):
        if name.endswith((".log", "index")):
            kit.disk.chill(f"{DATA}/t-0/{name}")
    kit.answer = kit.ask(kit.fetch_request("t", 1), 12).responses[0].partitions[0]


@pytest.mark.parametrize("act", [drop, replace])
def test_a_cold_fetch(act):
    for kit in at_each_call(fetch_cold, act):
        assert kit.answer.error_code in (0, ErrorCode.OFFSET_OUT_OF_RANGE)
        assert not replica_of(kit).offline


def look_for_old_segments(kit):
    kit.advance(100_000)
    kit.ended = []
    drive(Retention(kit.node).run(), lambda _result, problem: kit.ended.append(problem))
    kit.run(lambda: kit.ended)


@pytest.mark.parametrize("act", [drop, replace])
def test_a_look_for_old_segments(act):
    for kit in at_each_call(look_for_old_segments, act):
        assert kit.ended == [None]
        assert not replica_of(kit).offline


def repair(kit):
    kit.disk.flip(f"{DATA}/t-0/{2:020d}.log", 70)
    replica = replica_of(kit)
    replica.on_damage(DamagedBatch("somebody found it", 2))
    kit.run(lambda: not kit.node.repairs.is_busy(replica))


def test_a_repair():
    for kit in at_each_call(repair, drop):
        assert not replica_of(kit).offline
        names = kit.disk.list(f"{DATA}/t-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


def load_shard(kit):
    kit.ended, kit.loaded = [], []
    loading = shard_loading.load(
        kit.node.world.background, replica_of(kit), 100, lambda _key, value: value,
        lambda offset, _producer_id, _record: kit.loaded.append(offset),
    )  # fmt: skip
    drive(loading, lambda _result, problem: kit.ended.append(problem))
    kit.run(lambda: kit.ended)


@pytest.mark.parametrize("act", [drop, replace])
def test_a_shard_that_is_loaded(act):
    for kit in at_each_call(load_shard, act):
        assert kit.ended == [None]
        assert set(range(6, 10)) <= set(kit.loaded)


def test_a_shard_whose_log_goes_on_changing_is_loaded_in_the_end():
    kit, count = new_kit(), []

    def again():
        replace(kit)
        count.append(None)
        if len(count) <= LOOKS_MAX:
            kit.disk.at_call(1, again)

    kit.disk.at_call(1, again)
    load_shard(kit)
    assert len(count) > LOOKS_MAX
    assert kit.ended == [None]
    assert kit.loaded == list(range(10))
