"""What a follower's fetch says that it has: nothing that `flush.messages` wants synced first."""

import pytest
from fuzz_world import START_MS
from member_kit import new_store, put_topic, start_member

from barnabas.broker import follower
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

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
