"""In which order steps run, and when a flow that failed is tried again: without Spark."""

import pytest

from barnabas.pipelines.graph import Step, waves
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.supervision import WAIT_MAX_S, Life


def step(name, *reads, writes=None, topics=(), sends=()):
    return Step(name, f"{name}.py:1", writes or name, frozenset(reads), frozenset(topics), frozenset(sends))  # fmt: skip


def names(found):
    return [[each.name for each in wave] for wave in found]


def test_a_step_comes_after_everything_that_writes_what_it_reads():
    steps = [step("report", "clicks", "users"), step("more", writes="clicks"), step("clicks"), step("users", "clicks")]  # fmt: skip
    assert names(waves(steps)) == [["more", "clicks"], ["users"], ["report"]]


def test_a_table_that_depends_on_itself_is_told_with_the_way_round():
    with pytest.raises(PipelineProblem, match=r"^a\.py:1: 'a' depends on itself: a -> b -> a$"):
        waves([step("a", "b"), step("b", "a")])


def test_topics_order_steps_and_may_go_round():
    steps = [step("alerts", topics=["sums"]), step("sums", topics=["clicks", "retry"], sends=["sums", "retry"])]  # fmt: skip
    assert names(waves(steps)) == [["sums"], ["alerts"]]
    ring = [step("a", topics=["y"], sends=["x"]), step("b", topics=["x"], sends=["y"])]
    assert sorted(name for wave in names(waves(ring)) for name in wave) == ["a", "b"]


def test_a_flow_that_fails_waits_longer_each_time_and_forgets_after_a_while_of_work():
    life, now = Life("clicks"), 0.0
    waits = []
    for _ in range(8):
        assert life.is_due(now)
        life.on_started(now)
        life.on_failed("broken", now)
        assert not life.is_due(now)
        waits.append(life.retry_at - now)
        now = life.retry_at
    assert waits == [1, 2, 4, 8, 16, 32, WAIT_MAX_S, WAIT_MAX_S]
    life.on_started(now)
    life.on_batch(now + 1)
    assert life.failures == 8
    life.on_batch(now + WAIT_MAX_S)
    assert (life.failures, life.restarts, life.last_error) == (0, 8, "broken")
