"""Requests for the controller: what becomes of a task that is thrown away while another broker is asked."""

from types import SimpleNamespace

from fuzz_world import FuzzLink
from member_kit import new_store, start_member

from barnabas.broker.channel import Unreachable
from barnabas.broker.tasks import drive

CONTROLLER = 2


def begin():
    """A request on its way to another broker: the member, the task and what came of it."""
    member = start_member(new_store())
    call = SimpleNamespace(
        request=SimpleNamespace(timeout_ms=1000), frame=b"request", link=FuzzLink(),
        correlation_id=1, api_key=19, version=7,
    )  # fmt: skip
    ends = []
    task = member.node.members.forwarding._ask(call, CONTROLLER)
    drive(task, lambda result, error: ends.append((result, error)))
    return member, task, ends


def test_a_task_that_is_thrown_away_is_not_resumed_while_it_ends():
    """Its channel was closed by the task itself, and answered it at once: "generator already executing"."""
    _member, task, ends = begin()
    task.close()  # as Python does with a generator that nobody holds
    assert ends == []


def test_a_stop_answers_what_is_under_way_and_forgets_its_channel():
    member, _task, ends = begin()
    forwarding = member.node.members.forwarding
    assert len(forwarding._channels) == 1
    forwarding.close()
    assert ends == []
    for _ in range(3):
        member.events.advance(0)
    [(nothing, error)] = ends
    assert nothing is None
    assert error.code.name == "NOT_CONTROLLER"
    assert isinstance(error.__context__, Unreachable)
    assert not forwarding._channels
