"""A topic that is deleted while something works on its logs' files: that comes to its end first, and never meets the new topic's log.

The disk lets time pass inside a sync here, as a slow one does: the loop goes on meanwhile.
"""

import pytest
from node_kit import DATA, NodeKit

from barnabas.broker.cleaners import BackgroundCleaner, CleanerGone
from barnabas.model.errors import ErrorCode
from barnabas.sim.world import START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

COMPACT = {
    "cleanup_policy": "compact",
    "segment_ms": "1000",
    "file_delete_delay_ms": "100",
    "flush_messages": "1",
}


def put(kit, key, number):
    records = [Record(0, START_MS + number * 2000, key, b"%d" % number)]
    data = PartitionProduceData(index=0, records=batch.build(records))
    topic = TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    return kit.ask(request, 9).responses[0].partition_responses[0].error_code


def fill(kit):
    """One segment for each record, all of one key."""
    for number in range(5):
        assert put(kit, b"old", number) == ErrorCode.NONE


def keys_of(kit):
    log = kit.node.replicas.get("t", 0).log
    found = log.read(0, 1 << 20, end_offset=log.log_end_offset, min_one=True, nowait=False)
    data = memoryview(found.read())
    return [
        record.key
        for position, header in batch.headers(data)
        for record in batch.read_records(data[position : position + header.size], 1 << 20)
    ]


class Blocked:
    """Lets two seconds pass in the first disk call for a path while this is so: the topic is deleted and made again."""

    def __init__(self, kit, path, is_so):
        self.kit, self.path, self.is_so = kit, path, is_so
        self.deleting, self.creating = kit.new_client(), kit.new_client()
        self.has_passed = False
        self.answered_meanwhile = self.was_known = None
        self._count_call = kit.disk.count_call
        kit.disk.count_call = self._look

    def _look(self, path):
        self._count_call(path)
        if path != self.path or self.has_passed or not self.is_so(self.kit):
            return
        self.has_passed = True
        self.deleting.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        self.kit.advance(1000)
        self.was_known = put(self.kit, b"nobody's", 0) == ErrorCode.NONE
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        self.creating.send(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        self.kit.advance(1000)
        self.answered_meanwhile = len(self.deleting.answers), len(self.creating.answers)

    def settle(self):
        """Let it all come to its end."""
        self.kit.run(lambda: self.deleting.answers and self.creating.answers)
        assert self.deleting.answers[0].responses[0].error_code == 0
        assert self.creating.answers[0].topics[0].error_code == 0


def is_swapping(kit):
    return any(name.endswith(".log.swap") for name in kit.disk.contents())


def is_rescuing(kit):
    return any(name.endswith(".log.cleaned") for name in kit.disk.contents())


def check_new_topic(kit):
    """It has what was written to it, now and after restarts and once what was put aside has gone."""
    for number in range(3):
        assert put(kit, b"new", number) == ErrorCode.NONE
    assert keys_of(kit) == [b"new"] * 3
    kit.advance(120_000)
    assert keys_of(kit) == [b"new"] * 3
    assert kit.folders() == ["t-0"]
    kit.restart()
    assert keys_of(kit) == [b"new"] * 3


def test_a_swap_does_not_rename_the_log_of_a_topic_that_was_made_again():
    kit = NodeKit(log_cleaner_backoff_ms="500")
    kit.create("t", **COMPACT)
    blocked = Blocked(kit, f"{DATA}/t-0", is_swapping)
    fill(kit)
    kit.run(lambda: blocked.has_passed)
    blocked.settle()
    assert not blocked.was_known, "for clients it is gone at once"
    check_new_topic(kit)
    assert blocked.answered_meanwhile == (0, 0), "both wait"


def test_a_repair_does_not_write_into_the_log_of_a_topic_that_was_made_again():
    kit = NodeKit()
    kit.create("t", segment_ms="1000")
    fill(kit)
    kit.restart()
    base = kit.node.replicas.get("t", 0).log.base_offsets[1]
    kit.disk.flip(f"{DATA}/t-0/{base:020d}.log", 65)
    blocked = Blocked(kit, f"{DATA}/t-0/{base:020d}.timeindex.cleaned", is_rescuing)
    kit.new_client().send(kit.fetch_request("t", base), 11)
    kit.run(lambda: blocked.has_passed)
    blocked.settle()
    check_new_topic(kit)
    assert blocked.answered_meanwhile == (0, 0)


@pytest.mark.parametrize("step", ["begin", "next_segment"])
def test_a_cleaner_that_reads_is_told_to_end_for_a_deletion(step):
    kit = NodeKit(log_cleaner_backoff_ms="500")
    kit.create("t", **COMPACT)
    world, at_work, closed = kit.node.world, [], []

    class Endless(BackgroundCleaner):
        """It reads for ever, until it is closed: as a process does that is killed then."""

        def begin(self, order, rate, done):
            self._wait("begin", done) or super().begin(order, rate, done)

        def next_segment(self, done):
            self._wait("next_segment", done) or super().next_segment(done)

        def _wait(self, name, done):
            if name == step and not at_work:
                at_work.append(done)
                return True
            return False

        def close(self):
            super().close()
            if at_work and not closed:
                closed.append(self)
                gone = CleanerGone("it was killed")
                world.timers.call_at(world.clock.monotonic_ms(), lambda: at_work[0](None, gone))

    kit.node.upkeep.compaction.make_cleaner = lambda: Endless(world.disk, world.background)
    fill(kit)
    kit.run(lambda: at_work)
    answer = kit.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert answer.responses[0].error_code == 0
    assert closed
    assert "t-0" not in kit.folders()
    kit.create("t", **COMPACT)
    fill(kit)
    kit.run(lambda: kit.node.replicas.get("t", 0).log.base_offsets == [0, 4])
    assert kit.node.upkeep.compaction.find_dirtiest() is None, "the new one was compacted"


def test_segments_that_were_dropped_are_put_aside_before_a_deletion_of_their_topic():
    """Their names may be those of the new topic's segments."""
    kit = NodeKit(log_retention_check_interval_ms="500", log_initial_task_delay_ms="500")
    kit.create("t", segment_ms="1000", retention_ms="1")
    fill(kit)
    log = kit.node.replicas.get("t", 0).log
    blocked = Blocked(kit, f"{DATA}/t-0/{0:020d}.log", lambda _: log.base_offsets[0] > 0)
    kit.run(lambda: blocked.has_passed)
    blocked.settle()
    check_new_topic(kit)
    assert blocked.answered_meanwhile == (0, 0)


def test_files_that_were_put_aside_are_not_looked_for_in_the_folder_of_a_topic_that_was_made_again():
    kit = NodeKit()
    kit.create("t", segment_ms="1000", file_delete_delay_ms="5000")
    fill(kit)
    asked = DeleteRecordsPartition(partition_index=0, offset=3)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[asked])], timeout_ms=1000
    )
    assert kit.ask(request, 2).topics[0].partitions[0].error_code == 0
    aside = [path for path in kit.disk.contents() if path.endswith(".log.deleted")]
    assert len(aside) == 3
    kit.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    kit.create("t")
    for path in aside:
        kit.disk.open(path, create=True)
    kit.advance(10_000)
    assert set(aside) <= set(kit.disk.contents()), "they are the new topic's"
