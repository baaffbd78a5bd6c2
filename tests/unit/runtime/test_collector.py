"""Garbage that refers to itself is found, and looking for it takes no longer for what has long been there."""

import gc
import sys
import weakref

import pytest

from barnabas.runtime import collector as module
from barnabas.runtime.collector import Collector

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="Python itself looks at a little at a time"
)


class Circle:
    """Something that only the collector finds."""

    def __init__(self):
        self.itself = self


class Loop:
    """Makes posted calls when it is told to."""

    def __init__(self):
        self.posted = []

    def post(self, call):
        self.posted.append(call)

    def run(self):
        posted, self.posted = self.posted, []
        for call in posted:
            call()


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def collector(loop):
    gc.collect()
    collector = Collector(loop.post)
    collector.start()
    yield collector
    collector.stop()


def full_looks():
    return gc.get_stats()[2]["collections"]


def make(count):
    return [[] for _ in range(count)]


def test_python_never_looks_at_everything_by_itself(collector, loop):
    before = full_looks()
    kept = make(1_000_000)
    assert full_looks() == before
    assert len(loop.posted) == 1, "booked once, however much comes"
    loop.run()
    assert full_looks() == before + 1
    assert gc.get_freeze_count() > len(kept)


def test_what_survived_a_look_is_not_looked_at_again(collector, loop):
    kept = make(200_000)
    loop.run()
    assert len(gc.get_objects()) < len(kept)


def test_a_circle_that_is_let_go_before_a_look_is_found_by_it(collector, loop):
    circle = Circle()
    known = weakref.ref(circle)
    kept = make(200_000)
    del circle
    assert known() is not None
    loop.run()
    assert known() is None
    assert kept


def test_a_circle_that_was_put_aside_is_found_by_a_thorough_look(loop, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_THOROUGH", 3)
    collector = Collector(loop.post)
    collector.start()
    try:
        circle = Circle()
        known = weakref.ref(circle)
        kept = [make(200_000)]
        loop.run()
        del circle
        kept.append(make(200_000))
        loop.run()
        assert known() is not None
        kept.append(make(200_000))
        loop.run()
        assert known() is None
    finally:
        collector.stop()


def test_a_stop_leaves_everything_as_it_was():
    before = gc.get_threshold(), list(gc.callbacks)
    collector = Collector(lambda _call: None)
    collector.start()
    assert (gc.get_threshold(), list(gc.callbacks)) != before
    collector.stop()
    assert (gc.get_threshold(), list(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0
