"""Lag of groups as the broker knows it: from what they committed and what its logs hold."""

import pytest
from node_kit import NodeKit

from barnabas.broker import group_lag
from barnabas.broker.group_lag import GroupFigures, GroupLag, PartitionLag
from barnabas.sim.world import START_MS
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


class Kit(NodeKit):
    """A node with groups, and one who asks for their lag."""

    def __init__(self):
        super().__init__()
        coordinator = self.ask(FindCoordinatorRequest(key="any"), 3)
        assert coordinator.error_code == 0
        replicas = self.node.replicas
        self.lag = GroupLag(self.node.world.background, self.shards, replicas.get)

    def shards(self):
        return [hosted.shard for hosted in self.node.coordinators.all_loaded()]

    def commit(self, group, topic, offset, index=0):
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        answer = self.ask(request, 8)
        assert answer.topics[0].partitions[0].error_code == 0

    def collect(self):
        found = []
        self.lag.collect(found.append)
        self.run(lambda: found)
        return {figures.group_id: figures for figures in found[0]}

    def one(self, group="g"):
        [partition] = self.collect()[group].partitions
        return partition.lag, partition.lag_seconds


@pytest.fixture
def kit():
    kit = Kit()
    kit.create("orders", 2)
    for number in range(4):
        kit.produce("orders", timestamp=START_MS + number * 1500)
    return kit


def test_no_groups_no_figures(kit):
    assert kit.collect() == {}


def test_lag_in_records_and_seconds(kit):
    kit.commit("g", "orders", 1)
    assert kit.collect() == {
        "g": GroupFigures("g", 0, [PartitionLag("orders", 0, 1, 3, 3.0)]),
    }
    kit.commit("g", "orders", 3)
    assert kit.one() == (1, 0.0)
    kit.commit("g", "orders", 4)
    assert kit.one() == (0, 0.0)
    kit.produce("orders", timestamp=START_MS + 9_000)
    kit.produce("orders", timestamp=START_MS + 9_500)
    assert kit.one() == (2, 0.5)


def test_a_partition_without_records_has_no_lag(kit):
    kit.commit("g", "orders", 0, index=1)
    assert kit.one() == (0, 0.0)


def test_an_offset_beyond_the_end_is_no_lag(kit):
    kit.commit("g", "orders", 99)
    assert kit.one() == (0, 0.0)


def test_records_deleted_before_they_were_read_still_count_in_records(kit):
    kit.commit("g", "orders", 0)
    replica = kit.node.replicas.get("orders", 0)
    replica.log.move_log_start(2)
    assert kit.one() == (4, 1.5)
    replica.log.move_log_start(4)
    assert kit.one() == (4, 0.0)


def test_a_partition_that_is_not_here_has_no_lag_to_tell(kit):
    kit.commit("g", "orders", 1)
    kit.node.replicas.get("orders", 0).offline = True
    assert kit.one() == (None, None)


def test_older_timestamps_later_are_no_lag(kit):
    kit.commit("g", "orders", 3)
    kit.produce("orders", timestamp=START_MS - 60_000)
    assert kit.one() == (2, 0.0)


def test_what_was_read_is_remembered_until_it_is_not_needed(kit, monkeypatch):
    reads = []

    def counted(read):
        return lambda *place: reads.append(read.__name__) or read(*place)

    for name in ("read_first", "read_newest"):
        monkeypatch.setattr(group_lag, name, counted(getattr(group_lag, name)))
    kit.commit("g", "orders", 1)
    kit.commit("h", "orders", 1)
    assert kit.one() == kit.one("h") == (3, 3.0)
    assert reads == ["read_first", "read_newest"]
    kit.produce("orders", timestamp=START_MS + 9_000)
    assert kit.one() == (4, 7.5)
    assert reads == ["read_first", "read_newest", "read_newest"]
    kit.commit("g", "orders", 5)
    kit.commit("h", "orders", 5)
    kit.collect()
    assert (kit.lag._times.firsts, kit.lag._times.newest) == ({}, {})


def test_reading_is_bounded_and_goes_on_where_it_stopped(kit, monkeypatch):
    monkeypatch.setattr(group_lag, "MAX_READS", 2)
    for offset in range(4):
        kit.commit(f"g{offset}", "orders", offset)

    def known():
        return sum(f.partitions[0].lag_seconds is not None for f in kit.collect().values())

    assert [known(), known()] == [2, 4]
    assert {g: f.partitions[0].lag_seconds for g, f in kit.collect().items()} == {
        "g0": 4.5,
        "g1": 3.0,
        "g2": 1.5,
        "g3": 0.0,
    }


def test_who_asks_meanwhile_gets_the_same_figures(kit, monkeypatch):
    monkeypatch.setattr(group_lag, "SLICE", 1)
    for number in range(3):
        kit.commit(f"g{number}", "orders", number)
    found = []
    for _ in range(3):
        kit.lag.collect(found.append)
    assert found == []  # it yields to the loop between slices
    kit.run(lambda: len(found) == 3)
    assert found[0] is found[1] is found[2]
    assert [figures.group_id for figures in found[0]] == ["g0", "g1", "g2"]


def test_a_group_that_goes_meanwhile_does_no_harm(kit, monkeypatch):
    monkeypatch.setattr(group_lag, "SLICE", 1)
    for number in range(3):
        kit.commit(f"g{number}", "orders", number)
    found = []
    kit.lag.collect(found.append)
    for shard in kit.shards():
        shard.groups.clear()
    kit.run(lambda: found)
    assert len(found[0]) <= 3


def test_a_failure_is_logged_and_ends_the_scrape_only(kit, caplog):
    def fail():
        raise OSError("no")

    broken = GroupLag(kit.node.world.background, fail, lambda *_: None)
    found = []
    broken.collect(found.append)
    assert found == [[]]
    assert "cannot work out the lag of groups" in caplog.text


def test_damage_leaves_the_seconds_unknown(kit):
    kit.commit("g", "orders", 1)
    log = kit.node.replicas.get("orders", 0).log
    segment = log._segments[0].log
    segment.write(70, (b"\x7f" * 20,))
    segment.write(70 + log.size_bytes // 4, (b"\x7f" * 20,))
    assert kit.one() == (3, None)
