"""What a controller's office does after answers of the store that come late, or not at all."""

import pytest
from member_kit import make_topic_again, new_store, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.tasks import drive
from barnabas.ports import Delete, OutcomeUnknown


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
