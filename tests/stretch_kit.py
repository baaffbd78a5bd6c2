"""How long a node holds its loop, counted: calls that Python makes between two turns, the same in every run."""

from __future__ import annotations

import contextlib
import sys


class Stretches:
    """Counts what a node of a `NodeKit` does on its loop; jobs in the background are not counted."""

    def __init__(self, kit):
        self.longest = 0
        self._calls = 0
        machine, background = kit.machine, kit.node.world.background
        enter, run = machine.enter, background.run

        def enter_counted(call):
            enter(lambda: self._count(call))

        def run_uncounted(job, done):
            run(lambda: self._leave_out(job), done)

        # Timers and answers from outside go through `enter`, too, but know it by themselves.
        machine.enter = enter_counted
        background._enter = enter_counted
        kit.node.world.timers._enter = enter_counted
        background.run = run_uncounted

    def _count(self, call):
        self._calls = 0
        with self._profile(self._on_event):
            call()
        self.longest = max(self.longest, self._calls)

    def _leave_out(self, job):
        with self._profile(None):
            return job()

    def _on_event(self, _frame, event, _argument):
        self._calls += event in ("call", "c_call")

    @contextlib.contextmanager
    def _profile(self, function):
        before = sys.getprofile()
        sys.setprofile(function)
        try:
            yield
        finally:
            sys.setprofile(before)
