"""Signals that end a run: at once where it starts, in order where it works."""

import contextlib
import os
import signal

import pytest

from barnabas.cli.stop_signals import StopAsked, StopSignals, on_stop


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def _before():
    """Handlers are the process's, not the test's."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may do so under nohup
    given = {number: signal.getsignal(number) for number in numbers}
    yield
    left = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, before[number])
    assert left == given


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_start_is_given_up_and_that_is_no_error(number):
    done = []
    with StopSignals() as signals, signals.at_once():
        send(number)
        done.append("too much")
    assert signals.asked
    assert not done


def test_ctrl_c_while_it_starts_is_an_interruption():
    done = []

    def run():
        with StopSignals() as signals, signals.at_once():
            send(signal.SIGINT)
            done.append("too much")

    with pytest.raises(KeyboardInterrupt) as caught:
        run()
    assert caught.type is KeyboardInterrupt
    assert not done


def test_ctrl_c_while_it_works_lets_it_end_in_order_and_is_an_interruption():
    done = []

    def run():
        with StopSignals() as signals:
            send(signal.SIGINT)
            assert signals.wait(3600)
            done.append("in order")

    with pytest.raises(KeyboardInterrupt) as caught:
        run()
    assert caught.type is KeyboardInterrupt
    assert done == ["in order"]


def test_a_stop_while_it_works_lets_it_end_in_order():
    with StopSignals() as signals:
        assert not signals.wait(0)
        send(signal.SIGTERM)
        assert signals.wait(3600)


def test_a_signal_whose_exception_was_dropped_on_the_way_ends_the_start_at_its_end():
    def start(signals):
        with signals.at_once(), contextlib.suppress(StopAsked):
            send(signal.SIGTERM)

    with StopSignals() as signals, pytest.raises(StopAsked):
        start(signals)


def test_another_error_stays_what_it_is():
    def run():
        with StopSignals():
            send(signal.SIGINT)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run()


def test_ctrl_c_is_taken_back_from_who_took_it():
    def theirs(*_):
        raise AssertionError

    with StopSignals() as signals:
        signal.signal(signal.SIGINT, theirs)
        signals.take()
        assert signal.getsignal(signal.SIGINT) == signals._on_signal


def test_the_second_ctrl_c_is_not_held_back():
    def run():
        with StopSignals():
            send(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL

    with pytest.raises(KeyboardInterrupt):
        run()


def test_under_nohup_the_end_of_the_terminal_is_none_of_ours():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            signals.take()
            send(signal.SIGHUP)
            assert not signals.asked
            send(signal.SIGTERM)
            assert signals.asked
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(("under_nohup", "called"), [(False, 3), (True, 2)])
def test_what_serves_is_told_of_every_signal_that_is_not_ignored(under_nohup, called):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if under_nohup:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    calls = []
    try:
        on_stop(lambda: calls.append(1))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            send(number)
        assert len(calls) == called
    finally:
        for number, handler in (before | {signal.SIGHUP: signal.SIG_DFL}).items():
            signal.signal(number, handler)
