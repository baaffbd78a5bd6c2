"""Faults of the turn, planted: memory that is read after it was lent, and a connection that is read before what it sent first is handled.

The broker's own turn runs in the simulator, so both are found as what they lead to, or before.
"""

import pytest

from barnabas.broker import client_link, inbox, produce_lane, repeats
from barnabas.broker.client_link import ClientLink
from barnabas.broker.node import Node
from barnabas.broker.receive_memory import TURN_BYTES, TurnMemory
from barnabas.broker.tls_link import TlsLink
from barnabas.sim.run import run_seed

SEEDS = 500


def first_violation(*, start=0):
    """The first seed that finds it; `start` saves the time for those that are known to miss it."""
    for seed in range(start, SEEDS):
        violation = run_seed(seed, with_groups=False).violation
        if violation is not None:
            return violation
    return pytest.fail(f"{SEEDS} seeds and nothing found")


def open_lanes_after_waits(monkeypatch):
    def may_open(call):
        return call.denied is None and call.bill is None

    monkeypatch.setattr(repeats, "may_open", may_open)
    monkeypatch.setattr(produce_lane, "may_open", may_open)


def leave_frames_readable(monkeypatch):
    monkeypatch.setattr(Node, "on_request", Node._on_request)


def use_memory_again(monkeypatch):
    def take_back(self):
        """Whoever still reads it."""
        self.position = 0
        self.view = memoryview(self._memory)[:TURN_BYTES]
        return True

    monkeypatch.setattr(TurnMemory, "take_back", take_back)


def test_a_lane_over_a_wait_is_found(monkeypatch):
    """Records went to another topic: the lane was bound to what lay in the memory of the request by then."""
    open_lanes_after_waits(monkeypatch)
    leave_frames_readable(monkeypatch)
    use_memory_again(monkeypatch)
    first_violation(start=15)


def test_a_frame_that_is_kept_over_a_wait_is_found(monkeypatch):
    leave_frames_readable(monkeypatch)
    assert first_violation().checker == "lent memory"


class ForgetfulInbox(inbox.Inbox):
    """One that forgets, once it was asked, that it has a piece, and keeps several."""

    def __init__(self, pool):
        super().__init__(pool)
        self._pieces = []
        self._is_new = False

    def has_piece(self):
        is_new, self._is_new = self._is_new, False
        return is_new

    def receive(self, sock, turn, bytes_max):
        self._is_piece = False
        count = super().receive(sock, turn, bytes_max)
        if self._is_piece:
            self._is_new = True
            self._pieces.append((self._view, self._start, self._end, self._frame))
            self._frame = None
        return count

    def take(self):
        return self._pieces.pop(0)


def test_a_second_read_over_tls_is_found(monkeypatch):
    """Each piece was taken for the beginning of a frame: bytes of records became requests."""

    def on_readable(self):
        """Read, and read on in this turn if there is more."""
        ClientLink._on_readable(self)
        if self.tls.has_more:
            self._book_read()

    monkeypatch.setattr(client_link, "Inbox", ForgetfulInbox)
    monkeypatch.setattr(TlsLink, "_on_readable", on_readable)
    first_violation(start=30)
