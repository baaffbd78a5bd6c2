"""Where faults end: one thing fails, the others go on, and the loop tells."""

from random import Random

import pytest
from fuzz import good_request
from fuzz_world import FuzzLink, FuzzNode
from property.test_produce_lane import Peer

from barnabas.broker.edge import Contained, call_all, is_broken_state, report
from barnabas.broker.upkeep import FLUSH_CHECK_MS
from barnabas.core.partition import PartitionState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


class PlantedFault(Exception):
    """Nobody foresaw it."""


def planted(*_args):
    raise PlantedFault


def test_every_call_is_made_and_the_first_fault_is_raised():
    made = []
    with pytest.raises(PlantedFault) as fault:
        call_all([lambda: made.append(1), planted, lambda: made.append(2), lambda: 1 // 0])
    assert made == [1, 2]
    assert "ZeroDivisionError" in fault.value.__notes__[0]


def test_a_contained_fault_is_told_by_the_loop_and_its_reporter_goes_on():
    member = FuzzNode(Random(1))
    try:
        planted()
    except PlantedFault as fault:
        report(member.node.world, "the thing", fault)
    with pytest.raises(Contained, match="the thing") as told:
        member.events.advance(0)
    assert isinstance(told.value.__cause__, PlantedFault)


def test_a_reported_fault_keeps_nothing_that_was_lent_to_where_it_came_through():
    member, lent = FuzzNode(Random(1)), bytearray(9)

    def fail_with(view):
        part = view[1:]
        assert part
        planted()

    try:
        fail_with(memoryview(lent))
    except PlantedFault as fault:
        report(member.node.world, "the thing", fault)
    lent.clear()  # BufferError if a view of it still exists
    with pytest.raises(Contained) as told:
        member.events.advance(0)
    assert "in fail_with" in told.value.text
    assert "PlantedFault" in told.value.text


def raised_by(call):
    try:
        call()
    except Exception as problem:  # noqa: BLE001
        return problem


def fail_here():
    assert not True


@pytest.mark.parametrize(
    ("call", "is_broken"),
    [
        (lambda: PartitionState(1, (2, 3), 0, 0), True),  # an assertion of the core
        (fail_here, False),
        (planted, False),
        (lambda: PartitionState(1, (), 0, 0, 0), False),  # wrong arguments
    ],
)
def test_only_an_assertion_of_the_core_or_the_storage_says_that_the_state_is_wrong(call, is_broken):
    assert is_broken_state(raised_by(call)) is is_broken


class WaitingLink(FuzzLink):
    def __init__(self, *, fails):
        super().__init__()
        self.fails = fails

    def reply(self, buffers):
        if self.fails:
            planted()
        super().reply(buffers)


def test_a_reader_who_cannot_be_answered_does_not_keep_the_others_from_their_answers():
    peer = Peer()
    node = peer.host.node
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = node.topics.by_name["plain"]
    request = FetchRequest(
        max_wait_ms=10_000, min_bytes=1, max_bytes=1 << 20,
        topics=[FetchTopic(topic_id=topic.id, partitions=[wanted])],
    )  # fmt: skip
    links = [WaitingLink(fails=fails) for fails in (True, False)]
    for link in links:
        frame = memoryview(bytearray(good_request(request, 17, 1)))
        assert node.on_request(link, frame) is None
    node.replicas.get("plain", 0).wake_readers()
    with pytest.raises(PlantedFault):
        node.on_turn_end()
    assert [link.is_open for link in links] == [False, True]
    assert [len(link.answers) for link in links] == [0, 1]


@pytest.mark.source
def test_what_is_done_from_time_to_time_goes_on_after_a_fault(monkeypatch):
    peer = Peer()
    rounds = []

    def flush_due(_log, _now_ms):
        rounds.append(1)
        planted()

    replica = peer.host.node.replicas.get("plain", 0)
    monkeypatch.setattr(type(replica.log), "flush_due", flush_due)
    for number in (1, 2, 3):
        with pytest.raises(PlantedFault):
            peer.host.events.advance(FLUSH_CHECK_MS)
        assert len(rounds) == number
