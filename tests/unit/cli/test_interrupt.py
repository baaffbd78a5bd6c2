import os
import signal

import pytest

from barnabas.cli.interrupt import Interrupt


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_noted_and_raises_nothing_in_the_middle_of_work():
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.pressed
        press()
        assert interrupt.pressed
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL  # the second one ends the process
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_wakes_a_wait_for_input():
    with Interrupt() as interrupt, pytest.raises(KeyboardInterrupt), interrupt.raising():
        press()


def test_a_wait_for_input_does_not_begin_after_ctrl_c():
    with Interrupt() as interrupt:
        press()
        with pytest.raises(KeyboardInterrupt), interrupt.raising():
            pytest.fail("the wait began")


def test_a_process_started_to_ignore_ctrl_c_goes_on_ignoring_it():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            press()
            assert not interrupt.pressed
    finally:
        signal.signal(signal.SIGINT, before)
