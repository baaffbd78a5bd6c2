"""Exactly once when a task or the broker dies at any step: before a request, or after it and before its answer was heard."""

import pytest
from pipeline_kit import Sink, rows
from topic_kit import make_topic

from barnabas import Broker
from barnabas.pipelines import delivery
from barnabas.runtime.lasting_port import lasting_port


class Killed(BaseException):
    """The process is gone."""


class Steps:
    """A client and its producer sessions, with something that happens at one of the calls to them.

    `at` counts calls; half of the moments are before a call, half after it.
    """

    def __init__(self, target, at, happening):
        self._target, self._happening = target, happening
        self.left = at

    def __getattr__(self, name):
        found = getattr(self._target, name)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*args, **kwargs):
            self._moment()
            result = found(*args, **kwargs)
            self._moment()
            if name.endswith("_producer"):
                return _Session(result, self)
            return result

        return call

    def _moment(self):
        if self.left == 0:
            self._happening()
        self.left -= 1


class _Session(Steps):
    def __init__(self, target, steps):
        self._target, self._steps = target, steps

    def _moment(self):
        self._steps._moment()


def batches(epoch):
    return rows(f"{epoch}-a", f"{epoch}-b"), rows(f"{epoch}-c")


def written(epochs):
    """What a topic holds after so many epochs, exactly once each."""
    return sorted(f"{epoch}-{each}" for epoch in range(epochs) for each in "abc")


def write_while(sink, epoch, at, happening, kind=Steps):
    """Write an epoch, with something happening at a step; return how many steps were left when all was done."""
    with sink.client() as client:
        steps = kind(client, at, happening)
        delivery.write_epoch(steps, sink.options, sink.name, epoch, iter(batches(epoch)))
        return steps.left


def count_steps(sink):
    """Write epoch 0, and return how many moments there are to die in."""
    never = 10_000
    count = never - write_while(sink, 0, never, lambda: None)
    assert count > 12
    return count


def test_a_task_killed_at_each_step_and_run_again(bootstrap, topic):
    sink = Sink(bootstrap, make_topic(bootstrap, topic))

    def die():
        raise Killed

    steps = count_steps(sink)
    for at in range(steps):
        with pytest.raises(Killed):
            write_while(sink, at + 1, at, die, _Dying)
        sink.write(at + 1, *batches(at + 1))
    assert sorted(sink.values()) == written(steps + 1)


class _Dying(Steps):
    """A dead process aborts nothing: every call after its death fails, too."""

    def _moment(self):
        if self.left <= 0:
            self._happening()
        self.left -= 1


def test_a_broker_stopped_at_each_step_comes_back(tmp_path, topic):
    port = lasting_port("127.0.0.1")
    broker = Broker(data_dir=str(tmp_path), port=port)
    bootstrap = broker.bootstrap

    def restart():
        nonlocal broker
        broker.close()
        broker = Broker(data_dir=str(tmp_path), port=port)

    try:
        sink = Sink(bootstrap, make_topic(bootstrap, topic))
        # After a call and before the next one are the same moment to a broker.
        moments = range(0, count_steps(sink), 2)
        for epoch, at in enumerate(moments, 1):
            assert write_while(sink, epoch, at, restart) < 0
            assert sink.write(epoch, *batches(epoch)) == 0
        assert sorted(sink.values()) == written(len(moments) + 1)
    finally:
        broker.close()
