"""A controller dies after its first step, its second, its third … until a story is over before it dies; the next one finishes it.

Every story ends in the same state, wherever it was interrupted: only the epochs differ.
"""

from __future__ import annotations

import pytest
from controller_kit import Host

from barnabas.core.controller.effects import TopicWrite
from barnabas.model.ids import TopicPartition

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def steps(host):
    """Do what is to be done, one write or order at a time."""
    while True:
        busy = sorted(broker for broker, lane in host.lanes.items() if lane)
        if host.writes:
            host.write()
        elif busy:
            host.deliver(busy[0])
        elif not any(host.catch_up(id_) for id_ in (T0, T1, T2)):
            return
        yield


def a_leader_dies(host):
    host.kill(1)


def two_die_and_one_returns(host):
    host.kill(1, 2).start(2)


def a_broker_restarts(host):
    host.start(1)


def move(host, targets):
    """Ask for it, until it is answered: what is not answered is the client's to ask again."""
    host.do(host.controller.on_reassign(targets)[1])
    (asked,) = [write for write in host.writes if isinstance(write, TopicWrite)]
    host.write(host.writes.index(asked))


def all_move(host):
    move(host, {T0: (4, 3), T1: (4,), T2: (2, 1, 4)})


def a_move_away_from_a_dead_broker(host):
    host.kill(1)
    move(host, {T0: (4, 3), T1: (3, 4)})


def a_move_is_cancelled(host):
    all_move(host)
    host.run()
    move(host, {T0: None, T1: (2,)})


def the_topic_is_deleted(host):
    host.delete("t")


def the_topic_is_deleted_while_it_moves(host):
    all_move(host)
    host.delete("t")


STORIES = [
    a_leader_dies,
    two_die_and_one_returns,
    a_broker_restarts,
    all_move,
    a_move_away_from_a_dead_broker,
    a_move_is_cancelled,
    the_topic_is_deleted,
    the_topic_is_deleted_while_it_moves,
]


def play(story, dies_after):
    """The end of the story, and whether the controller died before it."""
    host = Host(1, 2, 3, 4).create("t", [1, 2], [1, 3], [2, 1]).run()
    story(host)
    is_dead = False
    for number, _ in enumerate(steps(host)):
        if number == dies_after:
            host.take_office()
            is_dead = True
    return host, is_dead


def outcome(host):
    logs = {id_: {b for b in host.live if id_ in host.brokers[b].logs} for id_ in (T0, T1, T2)}
    sets = {
        id_: (host.assignment(id_), set(state.in_sync)) for id_, (state, _) in host.states.items()
    }
    return sets, logs, host.deletions


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_next_controller_finishes(story):
    host, _ = play(story, dies_after=None)
    expected, dies_after, is_dead = outcome(host), 0, True
    while is_dead:
        host, is_dead = play(story, dies_after)
        assert outcome(host) == expected, f"interrupted after step {dies_after}"
        assert all(state.leader in host.live for state, _ in host.states.values())
        dies_after += 1
    assert dies_after > 3
