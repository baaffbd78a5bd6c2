"""Requests that wait: for bytes to arrive on partitions, or for their deadline.

One table, no coroutine or timer object per partition: an append looks up its partition and takes the
bytes off what each waiter still lacks. Knows nothing of requests; a waiter is whatever the caller
hangs on it. Bounded by the number of connections: each has at most one request under way.

Those who have enough are taken by the caller when it pleases: what comes for them until then is theirs as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.core.changes import Changes

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Owner = TypeVar("Owner")


class Waiter(Generic[Owner]):
    """One waiting request. `owner` is the caller's; `done` turns true exactly once."""

    __slots__ = ("done", "keys", "missing_bytes", "owner")

    def __init__(self, owner: Owner, keys: Sequence[Hashable], missing_bytes: int) -> None:
        """Wait until `missing_bytes` more have come on any of the keys."""
        self.owner = owner
        self.keys = keys
        self.missing_bytes = missing_bytes
        self.done = False


class Waiting(Generic[Owner]):
    """All waiting requests by partition."""

    __slots__ = ("_by_key", "_ready", "changes", "count", "is_fed")

    def __init__(self) -> None:
        """Start with nobody waiting."""
        self._by_key: dict[Hashable, dict[Waiter[Owner], None]] = {}
        self._ready: list[Waiter[Owner]] = []
        self.count = 0
        #: Who waits for very many keys, again and again, is an onlooker of them and waits on that.
        self.changes = Changes()
        #: Bytes came since the ready ones were last taken.
        self.is_fed = False

    @property
    def has_ready(self) -> bool:
        """Tell whether any has enough."""
        return bool(self._ready)

    def add(self, waiter: Waiter[Owner]) -> None:
        """Let it wait on all its keys; one that lacks nothing is ready."""
        if waiter.missing_bytes <= 0:
            waiter.done = True
            self._ready.append(waiter)
            return
        self.count += 1
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[waiter] = None

    def remove(self, waiter: Waiter[Owner]) -> bool:
        """Take it out: deadline or lost connection. False if it was done already."""
        if waiter.done:
            return False
        waiter.done = True
        self.count -= 1
        for key in waiter.keys:
            waiters = self._by_key.get(key)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self._by_key[key]
        return True

    def on_bytes(self, key: Hashable, size_bytes: int) -> None:
        """Note that bytes became readable: waiters that have enough become ready."""
        self.is_fed = True
        waiters = self._by_key.get(key)
        if waiters is None:
            return
        for waiter in list(waiters):
            waiter.missing_bytes -= size_bytes
            if waiter.missing_bytes <= 0 and self.remove(waiter):
                self._ready.append(waiter)

    def on_change(self, key: Hashable) -> None:
        """Wake everyone on this key: its partition changed in a way that must be told at once."""
        for waiter in list(self._by_key.get(key, ())):
            if self.remove(waiter):
                self._ready.append(waiter)

    def take_ready(self) -> list[Waiter[Owner]]:
        """Return those that became ready, in the order they did, and forget them."""
        self.is_fed = False
        ready = self._ready
        if ready:
            self._ready = []
        return ready
