"""What the tests of the group machines share: a host in small, with a log, a clock that is set by hand, and an append that can fail.

`Machine` does with a result what the broker does: the records go to the log as one batch and are replayed before
anything else happens, the replies are given to their tickets. Time passes deadline by deadline, never past one. It keeps the books of
tickets: after every request and deadline each is answered once, or held by a member that can still be found.
"""

from __future__ import annotations

import inspect
import itertools

from barnabas.core.group.result import Result

NOW_MS = 1_000_000
WALL_MS = 1_700_000_000_000


def uuids():
    """Ids in a row instead of random ones: 00000001, 00000002 …"""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):08d}"


class Machine:
    """Drives one machine: a shard, or only the classic or the consumer groups in it.

    Needs of it `replay(record)`, `next_deadline_ms()`, `on_time(now_ms, wall_ms)`, `on_append_failed(result, code,
    now_ms)`; for `restart` also `unload()` and `on_loaded(now_ms, wall_ms)`.
    """

    def __init__(self, machine, *, now_ms=NOW_MS, wall_ms=WALL_MS):
        self.machine = machine
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.log = []
        self.replies = {}
        #: Tickets that are not answered.
        self.owed = {}
        self.fail_appends_with = None
        self._numbers = itertools.count(1)
        self._heard = 0

    def ask(self, entry_point, request, ticket=None):
        """Hand a request to an entry point; give back the ticket its reply will come under."""
        ticket = next(self._numbers) if ticket is None else ticket
        assert ticket not in self.replies, "a ticket is for one request"
        self.owed[ticket] = None
        self.apply(self._call(entry_point, ticket, request))
        self.check_books()
        return ticket

    def answer(self, entry_point, request):
        """Ask what is answered at once."""
        ticket = self.ask(entry_point, request)
        assert ticket in self.replies, f"{entry_point} goes on waiting"
        return self.replies[ticket]

    def waits(self, ticket):
        return ticket not in self.replies

    def heard(self):
        """Tell the replies that came since the last time, in order: (ticket, reply)."""
        new = list(self.replies.items())[self._heard :]
        self._heard = len(self.replies)
        return new

    def apply(self, result):
        """Do with a result what a host does."""
        assert isinstance(result, Result), "entry points answer with a Result"
        if result.records and self.fail_appends_with is not None:
            failed = self.machine.on_append_failed(result, self.fail_appends_with, self.now_ms)
            assert not failed.records, "after a failed append nothing more is written"
            self._deliver(failed)
            return
        for record in result.records:
            self.log.append(record)
            self.machine.replay(record)
        self._deliver(result)

    def advance(self, duration_ms):
        """Let time pass, stopping at every deadline on the way."""
        end_ms = self.now_ms + duration_ms
        for _ in range(1_000_000):
            due_ms = self.machine.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self._set_clock(max(due_ms, self.now_ms))
            for result in self.machine.on_time(self.now_ms, self.wall_ms):
                self.apply(result)
            self.check_books()
        else:
            raise AssertionError("deadlines come up again and again without time passing")
        self._set_clock(end_ms)

    def restart(self, fresh):
        """Unload the machine and load a fresh one from the log; whoever waited is told NOT_COORDINATOR."""
        for ticket, error in self.machine.unload():
            self._deliver(Result(replies=[(ticket, error)]))
        assert not self.owed, "a coordinator that goes answers everybody"
        self.machine = fresh
        for record in self.log:
            fresh.replay(record)
        loaded = fresh.on_loaded(self.now_ms, self.wall_ms)
        for result in [loaded] if isinstance(loaded, Result) else loaded or []:
            self.apply(result)
        self.check_books()

    def check_books(self):
        """See that nobody who waits was forgotten: each ticket without an answer is held by one member, and by one only."""
        held = []
        for group in self._groups().values():
            if getattr(group, "group_type", "") != "classic":
                continue
            for member in group.members.values():
                if member.join_ticket is not None:
                    held.append(member.join_ticket)
                if member.sync_ticket is not None:
                    held.append(member.sync_ticket)
        assert len(held) == len(self.owed), f"held {held}, owed {list(self.owed)}"
        assert set(held) == self.owed.keys()

    def _groups(self):
        machine = self.machine
        return machine.groups if hasattr(machine, "groups") else machine._groups

    def _call(self, entry_point, ticket, request):
        method = getattr(self.machine, entry_point)
        moments = [self.now_ms]
        if "wall_ms" in inspect.signature(method).parameters:
            moments.append(self.wall_ms)
        return method(ticket, request, *moments)

    def _deliver(self, result):
        for ticket, reply in result.replies:
            assert ticket not in self.replies, f"ticket {ticket} was answered twice"
            self.replies[ticket] = reply
            self.owed.pop(ticket, None)

    def _set_clock(self, now_ms):
        self.wall_ms += now_ms - self.now_ms
        self.now_ms = now_ms
