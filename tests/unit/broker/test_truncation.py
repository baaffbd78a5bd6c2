"""A cut is void with the tenure in which it was decided, and one that has begun goes to its end, whatever comes meanwhile."""

import errno

import pytest
from fuzz import good_request
from fuzz_world import START_MS, FuzzLink
from member_kit import new_store, put_topic, start_member

from barnabas.broker import follower, truncation
from barnabas.broker.edge import Contained
from barnabas.broker.log_claims import CLAIM_RETRY_MS
from barnabas.broker.tasks import drive
from barnabas.broker.tenure import TenureOver
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.storage.flush import FlushJob
from barnabas.storage.truncation import TruncationJob
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

T0 = TopicPartition("t", 0)
CLEAN = "/data/.kafka_cleanshutdown"


class Asked:
    """A channel that keeps what it is asked."""

    def __init__(self, *_):
        self.requests = []

    def ask(self, request, _version, done):
        self.requests.append((request, done))

    def close(self):
        pass


class World:
    """One of three brokers, alone: it led, and holds ten records. Jobs that cut wait for `go_on`."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(follower, "Channel", Asked)
        store = new_store()
        put_topic(store, "t", (1, 2, 3), (1, 2, 3))
        self.member = start_member(store)
        self.node = self.member.node
        self.replica = self.node.replicas.get(*T0)
        self.epoch = self.replica.state.leader_epoch
        self.version = 50
        self.held = []
        self._run = self.member.events.run
        self.member.events.run = self._hold
        for number in range(10):
            self.produce(number)
        assert self.end_offset == 10

    def _hold(self, job, done):
        if isinstance(getattr(job, "__self__", None), TruncationJob):
            self.held.append((job, done))
        else:
            self._run(job, done)

    def go_on(self):
        """Run the jobs that cut."""
        held, self.held = self.held, []
        for job, done in held:
            self._run(job, done)
        self.member.events.settle()

    @property
    def end_offset(self):
        return self.replica.log.log_end_offset

    def produce(self, number):
        records = bytes(batch.build([Record(0, START_MS, None, b"v" * 10)]))
        data = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
        frame = memoryview(bytearray(good_request(request, 12, number)))
        self.node.on_request(FuzzLink(), frame)

    def order(self, leader):
        """Give the partition to a leader in a new epoch; what was answered, once it is."""
        self.epoch += 1
        self.version += 1
        state = LeaderAndIsrPartitionState(
            partition_index=0, leader=leader, leader_epoch=self.epoch, isr=[leader],
            partition_epoch=self.version, replicas=[1, 2, 3],
        )  # fmt: skip
        topic = LeaderAndIsrTopicState(
            topic_name="t", topic_id=self.replica.topic.id, partition_states=[state]
        )
        request = LeaderAndIsrRequest(
            controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=[topic]
        )
        return self._drive(self.node.members.orders.lead_and_follow(request, 0))

    def stop_and_delete(self):
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
        topic = StopReplicaTopicState(topic_name="t", partition_states=[state])
        request = StopReplicaRequest(
            controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=[topic]
        )
        return self._drive(self.node.members.orders.stop(request, 0))

    def cut(self, offset=4, begin=truncation.truncate):
        """Begin to cut, as the fetcher does."""
        return self._drive(begin(self.node, self.replica, offset, self.replica.tenure))

    def _drive(self, task):
        answers = []
        drive(task, lambda *answer: answers.append(answer))
        self.member.events.settle()
        return answers

    def retry(self):
        """Let those who wait for the claim look again."""
        self.member.events.advance(CLAIM_RETRY_MS)

    @property
    def asked(self):
        """What the leader is asked, and where the answer is awaited."""
        for _ in range(3):
            self.member.events.advance(0)
        return self.node.members.fetchers._of[T0]._channel.requests[-1]


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def is_over(answers):
    return [type(problem) for _, problem in answers] == [TenureOver]


@pytest.mark.parametrize("begin", [truncation.truncate, truncation.start_over])
def test_a_cut_that_waits_is_void_when_the_replica_leads(world, begin):
    """Committed records would be cut off below its high watermark."""
    world.order(2)
    claim = world.node.claims.take(world.replica)
    ended = world.cut(begin=begin)
    assert not world.replica.is_cutting, "it has not begun: nobody waits for it"
    assert world.order(1)[0][0] == {T0: ErrorCode.NONE}
    assert world.replica.state.is_leader
    world.produce(10)
    claim.give()
    world.retry()
    assert is_over(ended)
    assert world.end_offset == 11
    assert not world.held
    assert not world.node.claims.is_taken(world.replica)


def test_a_cut_that_waits_is_void_when_another_leader_is_followed(world):
    """Its log may agree with this one; and its answer does not meet a log that is being cut."""
    world.order(2)
    claim = world.node.claims.take(world.replica)
    ended = world.cut()
    world.order(3)
    (request, done) = world.asked
    assert request.topics[0].partitions[0].fetch_offset == 10
    claim.give()
    world.retry()
    assert is_over(ended)
    records = memoryview(bytearray(batch.build([Record(0, START_MS, None, b"v")])))
    batch.stamp(records, 10, world.epoch)
    data = PartitionData(partition_index=0, high_watermark=10, log_start_offset=0, records=records)
    topic = FetchableTopicResponse(topic_id=world.replica.topic.id, partitions=[data])
    done(FetchResponse(session_id=7, responses=[topic]), None)
    assert world.end_offset == 11


def test_the_fetcher_gives_up_a_cut_of_an_earlier_tenure(world):
    world.order(2)
    claim = world.node.claims.take(world.replica)
    (_, done) = world.asked
    diverging = EpochEndOffset(epoch=world.epoch - 1, end_offset=4)
    data = PartitionData(partition_index=0, high_watermark=4, diverging_epoch=diverging)
    topic = FetchableTopicResponse(topic_id=world.replica.topic.id, partitions=[data])
    done(FetchResponse(session_id=7, responses=[topic]), None)
    world.order(3)
    claim.give()
    world.retry()
    assert world.end_offset == 10
    assert not world.node.claims.is_taken(world.replica)
    assert world.asked[0].topics[0].partitions[0].fetch_offset == 10, "the new leader is asked"


def test_an_order_waits_for_a_cut_that_has_begun(world):
    world.order(2)
    ended = world.cut()
    assert world.replica.is_cutting
    answers = world.order(1)
    world.retry()
    assert not answers
    assert not world.replica.state.is_leader
    world.go_on()
    world.retry()
    assert ended == [(None, None)]
    assert answers[0][0] == {T0: ErrorCode.NONE}
    assert world.end_offset == 4
    world.produce(10)
    assert world.end_offset == 5


@pytest.mark.parametrize("end", ["lose", "lead"])
def test_starting_over_asks_for_the_tenure_between_its_steps(world, end):
    """Only a lost disk or a deletion comes between, because orders wait; but it does not rely on that."""
    world.order(2)
    ended = []
    task = truncation.start_over(world.node, world.replica, 100, world.replica.tenure)
    drive(task, lambda *answer: ended.append(answer))
    if end == "lose":
        world.replica.lose()
    else:
        assert world.replica.lead(
            leader_epoch=world.epoch + 1, partition_epoch=world.version + 1,
            replicas=(1, 2, 3), in_sync=[1], now_ms=0,
        )  # fmt: skip
    world.member.events.settle()
    assert is_over(ended)
    assert not world.held
    assert not world.replica.log.is_being_cut
    assert world.end_offset == 10


def test_an_answer_for_a_log_that_is_being_cut_leaves_it_and_the_broker_alone(world):
    world.order(2)
    (_, done) = world.asked
    world.cut()
    data = PartitionData(partition_index=0, high_watermark=10, log_start_offset=0)
    topic = FetchableTopicResponse(topic_id=world.replica.topic.id, partitions=[data])
    done(FetchResponse(session_id=7, responses=[topic]), None)
    world.go_on()
    assert world.end_offset == 4
    world.member.events.advance(10_000)
    assert world.asked[0].topics[0].partitions[0].fetch_offset == 4


def test_segments_are_not_dropped_while_a_log_is_about_to_start_over(world):
    """Their files and the new one's may have the same name."""
    world.replica.log.roll(START_MS)
    world.order(2)
    task = truncation.start_over(world.node, world.replica, 0, world.replica.tenure)
    drive(task, lambda *_: None)  # the checkpoints are being written
    world.replica.log.move_log_start(10)
    assert world.replica.plan_drop() is None
    assert world.replica.log.base_offsets == [0, 10]


def test_an_answer_does_not_cut_a_log_that_is_being_cut_once_more(world):
    world.order(2)
    (_, done) = world.asked
    world.cut()
    diverging = EpochEndOffset(epoch=world.epoch - 1, end_offset=2)
    data = PartitionData(partition_index=0, high_watermark=4, diverging_epoch=diverging)
    topic = FetchableTopicResponse(topic_id=world.replica.topic.id, partitions=[data])
    done(FetchResponse(session_id=7, responses=[topic]), None)
    world.go_on()
    world.retry()
    assert world.end_offset == 4
    assert not world.held


@pytest.mark.parametrize("change", ["append", "lead", "configure", "flush", "retention", "drop"])
@pytest.mark.parametrize("offset", [4, 0])
def test_nothing_that_meets_a_log_being_cut_ends_more_than_itself(world, change, offset):
    world.order(2)
    replica, node = world.replica, world.node
    begin = truncation.truncate if offset else truncation.start_over
    ended = world.cut(offset, begin)
    records = memoryview(bytearray(batch.build([Record(0, START_MS, None, b"v")])))
    batch.stamp(records, world.end_offset, world.epoch)
    flushed = []
    if change == "append":
        assert replica.append_as_follower(records, 4, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    elif change == "lead":
        with pytest.raises(OSError, match="being cut"):
            replica.lead(
                leader_epoch=world.epoch + 1, partition_epoch=world.version + 1,
                replicas=(1, 2, 3), in_sync=[1], now_ms=0,
            )  # fmt: skip
        assert not replica.state.is_leader
    elif change == "configure":
        replica.configure(node.log_config({"retention.ms": "1", "cleanup.policy": "compact"}))
    elif change == "flush":
        replica.flush(lambda _result, error: flushed.append(error))
        assert not flushed
    elif change == "retention":
        replica.configure(node.log_config({"retention.ms": "1"}))
        replica.state.high_watermark = world.end_offset
        world._drive(node.upkeep._retention.run())
    else:
        assert replica.plan_drop() is None
    world.go_on()
    assert ended == [(None, None)]
    assert (replica.offline, replica.log.is_broken) == (False, False)
    assert (world.end_offset, replica.log.base_offsets) == (offset, [0])
    assert flushed == ([None] if change == "flush" else [])
    assert replica.append_as_follower(_at(records, world), offset, 0) == ErrorCode.NONE


def _at(records, world):
    batch.stamp(records, world.end_offset, world.epoch)
    return records


def test_who_waits_for_a_flush_of_a_log_that_was_cut_hears_when_it_is_synced(world):
    """A move gives its old folder up then."""
    world.order(2)
    world.cut()
    flushed = []
    world.replica.flush(
        lambda _result, error: flushed.append((error, world.replica.log.recovery_point))
    )
    world.go_on()
    assert flushed == [(None, 4)]


def test_checkpoints_that_cannot_be_written_end_the_cut_and_the_log(world):
    """They say more than the log would hold: its files stay as they are, and the next start finds them."""
    world.order(2)
    world.member.disk.capacity_bytes = world.member.disk.used_bytes
    ended = world.cut()
    [(_, problem)] = ended
    assert problem.errno == errno.ENOSPC
    assert not world.held
    assert not world.replica.is_cutting
    assert world.replica.log.is_broken
    assert not world.replica.log.is_being_cut


class PlantedFault(Exception):
    """Nobody foresaw it."""


@pytest.mark.parametrize("begin", [truncation.truncate, truncation.start_over])
def test_a_fault_while_the_files_follow_breaks_the_log_instead_of_cutting_it_for_ever(world, begin):
    world.order(2)
    ended = world.cut(begin=begin)
    [(_job, done)] = world.held
    done(None, PlantedFault())
    [(_, problem)] = ended
    assert problem.errno == errno.EIO
    assert not world.replica.is_cutting
    assert world.replica.log.is_broken
    assert not world.replica.log.is_being_cut
    with pytest.raises(Contained):
        world.member.events.advance(0)


def test_a_fault_while_a_log_is_synced_moves_no_recovery_point(world):
    held = []
    world.member.events.run = lambda job, done: held.append((job, done))
    heard = []
    world.replica.flush(lambda _result, error: heard.append(error))
    [(job, done)] = held
    assert isinstance(job.__self__, FlushJob)
    done(None, PlantedFault())
    [error] = heard
    assert isinstance(error, OSError)
    assert world.replica.log.recovery_point == 0
    assert world.replica.log.is_broken
    assert world.replica.offline


def test_a_replica_that_is_given_up_waits_for_the_files_and_takes_its_log_away(world):
    world.order(2)
    ended = world.cut()
    flushed = []
    world.replica.flush(lambda _result, error: flushed.append(error))
    answers = world.stop_and_delete()
    assert not answers
    assert "t-0" in world.member.disk.list("/data"), "the job knows the files by their paths"
    world.go_on()
    assert is_over(ended)
    assert answers[0][0] == {T0: ErrorCode.NONE}
    assert "t-0" not in world.member.disk.list("/data")
    assert [type(error) for error in flushed] != [type(None)], "it was not synced"
    assert not world.node.claims.is_taken(world.replica)


def test_a_cut_whose_replica_goes_before_its_files_follow_touches_no_file(world):
    """The folder may be another topic's by then."""
    world.order(2)
    ended = []
    task = truncation.truncate(world.node, world.replica, 4, world.replica.tenure)
    drive(task, lambda *answer: ended.append(answer))  # the checkpoints are being written
    answers = []
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    topic = StopReplicaTopicState(topic_name="t", partition_states=[state])
    request = StopReplicaRequest(
        controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=[topic]
    )
    drive(world.node.members.orders.stop(request, 0), lambda *answer: answers.append(answer))
    world.member.events.settle()
    assert is_over(ended)
    assert not world.held
    assert answers[0][0] == {T0: ErrorCode.NONE}


def test_a_cut_waits_until_dropped_segments_were_put_aside(world):
    """One that starts over may make a file of the same name."""
    world.order(2)
    sharing = []
    world.node.claims.share(world.replica, sharing.append)(lambda *_: None)
    ended = world.cut(0, truncation.start_over)
    world.retry()
    assert not world.replica.is_cutting
    sharing[0](None, None)
    world.retry()
    assert world.replica.is_cutting
    world.go_on()
    assert ended == [(None, None)]


def test_a_clean_stop_waits_for_a_cut(world):
    world.order(2)
    world.cut()
    world.node.release_waiting()
    stopped = world._drive(world.node.stop())
    assert not stopped
    world.go_on()
    assert stopped == [(None, None)]
    assert world.member.disk.exists(CLEAN)


def test_a_stop_does_not_wait_for_a_cut_that_only_waits(world):
    world.order(2)
    claim = world.node.claims.take(world.replica)
    ended = world.cut()
    world.node.release_waiting()
    stopped = world._drive(world.node.stop())
    world.retry()
    assert is_over(ended)
    claim.give()
    world.member.events.settle()
    assert stopped == [(None, None)]
    assert world.member.disk.exists(CLEAN)
