"""Which wishes of leaders for another in-sync set may be written."""

import pytest
from controller_kit import Host

from barnabas.core.controller.alteration import Alteration, is_so, judge_alteration
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition

KEY = TopicPartition("t", 0)


@pytest.fixture
def view():
    host = Host(1, 2, 3)
    host.create("t", [1, 2, 3])
    host.run()
    return host.controller.view


def wish(view, **changes):
    now = view.partition(KEY)
    asked = Alteration(1, now.leadership.leader_epoch, (1, 2), now.version)
    return asked._replace(**changes)


def test_a_leader_may_leave_out_and_take_in_who_is_alive(view):
    assert judge_alteration(view, KEY, wish(view)) is ErrorCode.NONE
    assert not is_so(view, KEY, wish(view))


def test_what_is_so_already_is_told_again_whatever_the_version(view):
    again = wish(view, in_sync=(3, 2, 1), version=-1)
    assert judge_alteration(view, KEY, again) is ErrorCode.NONE
    assert is_so(view, KEY, again)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"version": 9}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"version": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"leader": 2}, ErrorCode.INVALID_REQUEST),
        ({"in_sync": (2,)}, ErrorCode.INVALID_REQUEST),
        ({"in_sync": ()}, ErrorCode.INVALID_REQUEST),
        ({"in_sync": (1, 4)}, ErrorCode.INVALID_REQUEST),
        ({"recovery_state": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(view, changes, code):
    assert judge_alteration(view, KEY, wish(view, **changes)) is code


def test_who_is_about_to_go_is_not_taken_in(view):
    view.shutting_down.add(2)
    assert judge_alteration(view, KEY, wish(view)) is ErrorCode.INELIGIBLE_REPLICA


def test_a_partition_that_is_not_there(view):
    asked = wish(view)
    for key in (TopicPartition("t", 1), TopicPartition("none", 0)):
        assert judge_alteration(view, key, asked) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    view.deleting["t"] = None
    assert judge_alteration(view, KEY, asked) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
