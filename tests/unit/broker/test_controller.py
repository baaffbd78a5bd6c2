"""What a controller's office does after answers of the store that come late, or not at all."""

import pytest
from fuzz import good_request
from fuzz_world import FuzzLink
from member_kit import make_topic_again, new_store, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.tasks import drive
from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode
from barnabas.ports import Delete, OutcomeUnknown
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)


@pytest.fixture
def store():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    return store


@pytest.fixture
def member(store):
    return start_member(store)


class LostAnswer:
    """Loses the answer to the commit that deletes a topic; `then` is called in its place."""

    def __init__(self, events, path, then):
        self._commit, self._path, self._then = events.commit, path, then
        self._events = events
        events.commit = self

    def __call__(self, operations, done):
        if not any(isinstance(one, Delete) and one.path == self._path for one in operations):
            self._commit(operations, done)
            return
        self._events.commit = self._commit

        def lose(_paths, problem):
            assert problem is None
            self._then()
            done((), OutcomeUnknown("the connection was lost"))

        self._commit(operations, lose)


def test_a_deletion_of_which_nobody_knows_is_not_done_to_the_next_topic(member, store):
    path = cluster_znodes.topic_path("t")
    LostAnswer(member.events, path, lambda: make_topic_again(store, "t"))
    topic, answers = member.node.topics.by_name["t"], []
    drive(member.node.members.topics.delete(topic, 60_000), lambda *answer: answers.append(answer))
    for _ in range(20):
        member.events.advance(10)
    assert answers == [(None, None)]
    assert path in store.tree
    assert cluster_znodes.id_of_topic(store.tree[path]) != topic.id
    assert cluster_znodes.id_of_topic(store.tree[path]) == member.node.topics.by_name["t"].id


def test_a_deletion_of_which_nobody_knows_is_tried_until_it_is_done(member, store):
    path = cluster_znodes.topic_path("t")
    LostAnswer(member.events, path, lambda: None)
    topic, answers = member.node.topics.by_name["t"], []
    drive(member.node.members.topics.delete(topic, 60_000), lambda *answer: answers.append(answer))
    for _ in range(20):
        member.events.advance(10)
    assert answers == [(None, None)]
    assert path not in store.tree
    assert "t" not in member.node.office.machine.view.topics


def look_again(member):
    """The seat is ours, and looked at; the epoch is still to be read."""
    seat = member.node.members.controller
    seat.leave("it is to be taken again")
    seat.look()
    member.events._later.popleft()()
    assert seat.office is None
    assert member.events._later, "it reads the epoch"
    return seat


def test_who_leaves_meanwhile_takes_no_office(member):
    seat = look_again(member)
    seat.stop()
    member.events.settle()
    assert seat.office is None


def test_whose_session_ends_meanwhile_takes_no_office(member):
    seat = look_again(member)
    member.node.members.is_registered = False
    member.events.settle()
    assert seat.office is None


def test_the_office_is_taken_if_nothing_has_changed(member):
    seat = look_again(member)
    member.events.settle()
    assert seat.office is not None


def reassign(member):
    """Ask for the partition to be moved to broker 2 as well."""
    partition = ReassignablePartition(partition_index=0, replicas=[1, 2])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[partition])]
    )
    member.node.office.machine.view.brokers[2] = LiveBroker(2)
    link = FuzzLink()
    frame = memoryview(bytearray(good_request(request, 0, 1)))
    assert member.node.on_request(link, frame) is None
    assert not link.answers
    return link


def outcome(link):
    """The code of the request, and of its partition if it was judged."""
    (found,) = link.answers
    answer = AlterPartitionReassignmentsResponse.decode(found, 0, 4 + 5)
    codes = [one.error_code for topic in answer.responses for one in topic.partitions]
    return answer.error_code, codes


def test_what_was_asked_for_is_told_when_it_is_written(member, store):
    link = reassign(member)
    member.events.settle()
    assert outcome(link) == (ErrorCode.NONE, [ErrorCode.NONE])
    stored = cluster_znodes.read_topic(store.tree[cluster_znodes.topic_path("t")])
    assert stored.adding == {0: (2,)}


def test_a_term_that_ends_before_it_is_written_promises_nothing(member, store):
    """It told that the move had begun, and nobody knew of it."""
    link = reassign(member)
    seat = member.node.members.controller
    before = store.tree[cluster_znodes.topic_path("t")]
    seat.leave("another one was elected")
    assert outcome(link) == (ErrorCode.NOT_CONTROLLER, [])
    assert store.tree[cluster_znodes.topic_path("t")] == before
