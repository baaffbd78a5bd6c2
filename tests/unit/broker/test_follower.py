"""What a follower's fetch says that it has: nothing that `flush.messages` wants synced first. What it makes of odd answers."""

from random import Random

import pytest
from crc32c import crc32c
from fuzz_world import START_MS
from member_kit import new_store, put_topic, start_member

from barnabas.broker import follower
from barnabas.broker.edge import Contained
from barnabas.broker.replicas import Replica
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

LEADER = 2


class Asked:
    """A channel that keeps what it is asked."""

    def __init__(self, *_):
        self.requests = []

    def ask(self, request, _version, done):
        self.requests.append((request, done))

    def close(self):
        pass


class Follower:
    """One of two brokers, which follows the other."""

    def __init__(self, monkeypatch, **settings):
        store = new_store()
        put_topic(store, "t", (1, 2), (1, 2))
        self.member = start_member(store, **settings)
        self.replica = self.member.node.replicas.get("t", 0)
        state = self.replica.state
        self.epoch = state.leader_epoch + 1
        state.become_follower(
            leader=LEADER, leader_epoch=self.epoch, partition_epoch=50, replicas=(1, 2), in_sync=(1, 2),
        )  # fmt: skip
        monkeypatch.setattr(follower, "Channel", Asked)
        self.follow()

    def follow(self):
        """Begin to pull, from the end that the log has."""
        self.fetcher = follower.Fetcher(self.member.node, LEADER, 0)
        self.fetcher.add(self.replica)

    def advance(self):
        for _ in range(5):
            self.member.events.advance(0)

    @property
    def unsynced(self):
        return self.replica.log.unflushed_records

    def take_offset(self):
        """What the fetch under way asks for."""
        ((request, self.done),) = self.fetcher._channel.requests
        self.fetcher._channel.requests.clear()
        return request.topics[0].partitions[0].fetch_offset

    def answer(self):
        """Give it one record more."""
        end_offset = self.replica.log.log_end_offset
        records = memoryview(bytearray(batch.build([Record(0, START_MS, None, b"v")])))
        batch.stamp(records, end_offset, self.epoch)
        data = PartitionData(
            partition_index=0, high_watermark=end_offset, log_start_offset=0, records=records
        )
        topic = FetchableTopicResponse(topic_id=self.replica.topic.id, partitions=[data])
        self.done(FetchResponse(session_id=7, responses=[topic]), None)
        assert self.replica.log.log_end_offset == end_offset + 1


@pytest.mark.parametrize(("messages", "left"), [("1", [0, 0, 0]), ("2", [1, 0, 1])])
def test_what_is_to_be_synced_is_before_the_leader_hears_of_it(monkeypatch, messages, left):
    one = Follower(monkeypatch, **{"log.flush.interval.messages": messages})
    one.advance()
    assert one.take_offset() == 0
    for number, unsynced in enumerate(left, start=1):
        one.answer()
        one.advance()
        assert (one.take_offset(), one.unsynced) == (number, unsynced)


def test_otherwise_the_operating_system_decides(monkeypatch):
    one = Follower(monkeypatch)
    one.advance()
    one.take_offset()
    one.answer()
    one.advance()
    assert (one.take_offset(), one.unsynced) == (1, 1)


def test_who_follows_another_leader_meanwhile_is_synced_first_too(monkeypatch):
    one = Follower(monkeypatch, **{"log.flush.interval.messages": "1"})
    one.advance()
    one.take_offset()
    one.answer()
    one.fetcher.close()
    assert one.unsynced
    one.follow()
    one.advance()
    assert (one.take_offset(), one.unsynced) == (1, 0)


def test_of_a_log_that_cannot_be_synced_the_leader_hears_nothing_more(monkeypatch):
    one = Follower(monkeypatch, **{"log.flush.interval.messages": "1"})
    one.advance()
    one.take_offset()
    one.answer()
    one.member.disk.fail_path("/data/t-0")
    for _ in range(3):
        one.advance()
        one.member.events.advance(1_000)
    assert one.replica.offline
    assert not one.fetcher._channel.requests


class Pair:
    """A broker that follows two partitions of another one over one connection."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(follower, "Channel", Asked)
        store = new_store()
        for name in ("bad", "good"):
            put_topic(store, name, (1, 2), (1, 2))
        self.member = start_member(store)
        self.node = self.member.node
        self.fetcher = follower.Fetcher(self.node, LEADER, 0)
        self.replicas = {name: self.node.replicas.get(name, 0) for name in ("bad", "good")}
        for replica in self.replicas.values():
            self.epoch = replica.state.leader_epoch + 1
            replica.state.become_follower(
                leader=LEADER, leader_epoch=self.epoch, partition_epoch=50, replicas=(1, 2), in_sync=(1, 2),
            )  # fmt: skip
            self.fetcher.add(replica)
        self.faults = []

    def advance(self, milliseconds=0):
        """Let time pass as the loop does: a fault ends the call that it came from."""
        for _ in range(10):
            try:
                self.member.events.advance(milliseconds)
            except Contained as fault:
                self.faults.append(fault)

    def take_asked(self):
        """The names in the fetch under way, which is left out of the session or new in it; None if there is none."""
        if not self.fetcher._channel.requests:
            return None
        ((request, self.done),) = self.fetcher._channel.requests
        self.fetcher._channel.requests.clear()
        return sorted(self.node.topics.by_id[topic.topic_id].name for topic in request.topics)

    def data(self, name, **fields):
        replica = self.replicas[name]
        fields = {"partition_index": 0, "high_watermark": 0, "log_start_offset": 0, **fields}
        return FetchableTopicResponse(
            topic_id=replica.topic.id, partitions=[PartitionData(**fields)]
        )

    def record(self, name):
        end_offset = self.replicas[name].log.log_end_offset
        records = memoryview(bytearray(batch.build([Record(0, START_MS, None, b"v")])))
        batch.stamp(records, end_offset, self.epoch)
        return self.data(name, records=records)


UNKNOWN_CODE = 200


def test_a_leader_that_answers_with_an_unknown_code_is_asked_again(monkeypatch, caplog):
    pair = Pair(monkeypatch)
    pair.advance()
    assert pair.take_asked() == ["bad", "good"]
    pair.done(FetchResponse(error_code=UNKNOWN_CODE), None)
    assert "UNKNOWN_SERVER_ERROR" in caplog.text
    pair.advance(1_000)
    assert pair.take_asked() == ["bad", "good"]


def test_a_partition_with_an_unknown_code_pauses_alone(monkeypatch, caplog):
    pair = Pair(monkeypatch)
    pair.advance()
    pair.take_asked()
    answers = [pair.data("bad", error_code=UNKNOWN_CODE), pair.record("good")]
    pair.done(FetchResponse(session_id=7, responses=answers), None)
    assert pair.replicas["good"].log.log_end_offset == 1
    assert "UNKNOWN_SERVER_ERROR" in caplog.text
    pair.advance()
    assert pair.take_asked() == ["good"]
    pair.done(FetchResponse(session_id=7), None)
    pair.advance(1_000)
    assert pair.take_asked() == ["bad"]


@pytest.mark.source
def test_a_fault_with_what_came_for_one_partition_pauses_that_one_and_is_told(monkeypatch):
    pair = Pair(monkeypatch)
    pair.advance()
    pair.take_asked()
    append = Replica.append_as_follower

    def fail_for_bad(replica, *args):
        if replica.key.topic == "bad":
            raise RuntimeError("planted")
        return append(replica, *args)

    monkeypatch.setattr(Replica, "append_as_follower", fail_for_bad)
    answers = [pair.record("bad"), pair.record("good")]
    pair.done(FetchResponse(session_id=7, responses=answers), None)
    assert pair.replicas["good"].log.log_end_offset == 1
    pair.advance()
    assert pair.take_asked() == ["good"]
    [told] = pair.faults
    assert "bad-0" in str(told)
    assert isinstance(told.__cause__, RuntimeError)


def test_whatever_a_leader_answers_the_follower_asks_again(monkeypatch):
    rng = Random(4)
    pair = Pair(monkeypatch)
    numbers = (-(2**63), -2, -1, 0, 1, 2, 2**31 - 1, 2**63 - 1)
    for _ in range(300):
        for _ in range(20):
            pair.advance(200)
            if pair.fetcher._channel.requests:
                break
        assert pair.take_asked() is not None
        good = pair.record("good")
        spoilt = bytearray(pair.record("bad").partitions[0].records)
        for _ in range(rng.randrange(4)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        header = batch.read_header(spoilt)
        if rng.random() < 0.5:
            crc = crc32c(bytes(spoilt[batch.CRC_START :])).to_bytes(4, "big")
            spoilt[batch.CRC_START - 4 : batch.CRC_START] = crc
        bad = pair.data(
            "bad",
            records=memoryview(spoilt)[: rng.choice((len(spoilt), rng.randrange(len(spoilt))))],
            error_code=rng.choice((0, 0, 0, 1, 74, UNKNOWN_CODE, -7)),
            high_watermark=rng.choice(numbers),
            log_start_offset=rng.choice(numbers),
            diverging_epoch=EpochEndOffset(
                epoch=rng.choice((-1, -1, -1, 0, 5, header.partition_leader_epoch)),
                end_offset=rng.choice(numbers),
            ),
        )
        pair.done(FetchResponse(session_id=7, responses=[bad, good]), None)
        pair.advance()
    assert pair.replicas["good"].log.log_end_offset == 300
