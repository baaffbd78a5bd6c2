"""Who may work on the files of a log, and who is at work there.

Job: hand out a claim on a log to one at a time, know what works on its files in the background, let a deletion wait for that. Must not know what
they do. A log is named by topic id and partition: a topic of the same name that is made again is another one.

| who                                          | what it needs                                                                     |
|----------------------------------------------|-----------------------------------------------------------------------------------|
| compaction, repair, move to another directory | the claim; whatever it does to files in the background is `work` of its claim     |
| cut of a follower's end, start over          | the same, while nobody drops segments; void with the replica's tenure, too         |
| putting dropped segments aside, removing files that were put aside, confirming a segment's largest timestamp | a `share`: beside a claim; a cut waits for it |
| setting the folder aside for a deletion      | nothing: `until_idle` hurries and awaits work under way; no other begins after it  |
| appending, rolling, moving the start, settings | nothing: on the thread of decision; a log that is being cut refuses them         |
| flushing, reading, checkpoints               | nothing: they change no file of the log that others exchange, and what was         |
|                                              | dropped meanwhile is no failure                                                    |
| opening and making a log                     | nothing: nobody knows it yet; `DirectoryJobs` has a folder of its name set aside before |

Invariants: a claim is given back exactly once. Work begins only under a claim that is held and not void; when it ends and the claim
has become void meanwhile, its owner gets TenureOver in place of the result. So nobody touches a folder that a deletion has renamed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.tasks import begin as begin_start
from barnabas.broker.tenure import TenureOver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Start, Task

#: How long to wait before a log that somebody else works on is asked for again.
CLAIM_RETRY_MS: Final = 50

#: A topic id and a partition.
LogId = tuple[bytes, int]


def log_id(replica: Replica) -> LogId:
    """Name the log of a replica."""
    return replica.topic.id, replica.key.partition


class LogClaim:
    """The right to exchange or cut the files of one log. Owned by who took it."""

    __slots__ = ("_claims", "_hurry", "_is_held", "replica")

    def __init__(self, claims: LogClaims, replica: Replica, hurry: Callable[[], None]) -> None:
        """Made by `LogClaims.take`."""
        self._claims = claims
        self._hurry = hurry
        self._is_held = True
        self.replica = replica

    @property
    def is_void(self) -> bool:
        """Tell whether the replica is hosted no more, or lost its disk."""
        return self.replica.offline

    def check(self) -> None:
        """Raise TenureOver if it is void."""
        if self.is_void:
            raise TenureOver

    def work(self, start: Start) -> Start:
        """Let what `start` sets going work on the log's files until it answers; see the invariants."""

        def begin(done: Done) -> None:
            assert self._is_held, "nobody works under a claim that was given back"
            if self.is_void:
                done(None, TenureOver())
                return

            def ended(result: object, error: BaseException | None) -> None:
                if self.is_void:
                    done(None, TenureOver())
                else:
                    done(result, error)

            self._claims.share(self.replica, start)(ended)

        return begin

    def hurry(self) -> None:
        """Have work under way end soon: a deletion waits for it."""
        self._hurry()

    def give(self) -> None:
        """Give it back: exactly once."""
        assert self._is_held, "it was given back already"
        self._is_held = False
        self._claims.on_given(self)


class LogClaims:
    """See the module. Bounded by the number of partitions."""

    __slots__ = ("_idle_waiters", "_pause", "_stop_waiters", "_stopped", "_taken", "_working")

    def __init__(self, pause: Callable[[int, Done], None]) -> None:
        """Start with none; `pause` is `Node.pause`."""
        self._pause = pause
        self._taken: dict[LogId, LogClaim] = {}
        #: How many jobs are at work on a log's files.
        self._working: dict[LogId, int] = {}
        self._idle_waiters: list[tuple[dict[LogId, None], Done]] = []
        self._stopped = False
        self._stop_waiters: list[Done] = []

    def is_taken(self, replica: Replica) -> bool:
        """Tell whether somebody has the claim."""
        return log_id(replica) in self._taken

    def is_working(self, replica: Replica) -> bool:
        """Tell whether anything works on the files now."""
        return log_id(replica) in self._working

    def take(self, replica: Replica, hurry: Callable[[], None] | None = None) -> LogClaim | None:
        """Take the claim; None if somebody has it, or it would be void. `give` must follow.

        `hurry` makes work that may take long end soon.
        """
        key = log_id(replica)
        if self._stopped or replica.offline or key in self._taken:
            return None
        claim = self._taken[key] = LogClaim(self, replica, hurry or _need_not_hurry)
        return claim

    def wait(
        self, replica: Replica, is_wanted: Callable[[], bool], *, alone: bool = False
    ) -> Task[LogClaim | None]:
        """Take the claim as soon as it is free, and `alone` once nothing works on the files; None if it is not wanted any more."""
        while is_wanted() and not replica.offline and not self._stopped:
            if not (alone and self.is_working(replica)):
                claim = self.take(replica)
                if claim is not None:
                    return claim
            yield partial(self._pause, CLAIM_RETRY_MS)
        return None

    def share(self, replica: Replica, start: Start) -> Start:
        """Let what `start` sets going work on the log's files until it answers, beside who has the claim."""
        key = log_id(replica)

        def begin(done: Done) -> None:
            self._working[key] = self._working.get(key, 0) + 1

            def ended(result: object, error: BaseException | None) -> None:
                try:
                    done(result, error)  # first: its owner may have something left to do on the log
                finally:
                    self._on_ended(key)

            begin_start(start, ended)  # one that fails to start has ended, too

        return begin

    def until_idle(self, replicas: Sequence[Replica]) -> Start:
        """Wait until nothing works on the files of replicas that are hosted no more."""

        def begin(done: Done) -> None:
            ids = dict.fromkeys(map(log_id, replicas))
            for key in ids:
                claim = self._taken.get(key)
                if claim is not None:
                    claim.hurry()
            self._idle_waiters.append((ids, done))
            self._tell_idle()

        return begin

    def stop(self, done: Done) -> None:
        """Hand out no more, and answer when every claim was given back and nothing works on any file."""
        self._stopped = True
        self._stop_waiters.append(done)
        self._tell_stopped()

    def on_given(self, claim: LogClaim) -> None:
        """Hear from a claim that it was given back."""
        del self._taken[log_id(claim.replica)]
        self._tell_stopped()

    def _on_ended(self, key: LogId) -> None:
        self._working[key] -= 1
        if not self._working[key]:
            del self._working[key]
            self._tell_idle()
            self._tell_stopped()

    def _tell_idle(self) -> None:
        ready = [
            waiter
            for waiter in self._idle_waiters
            if not any(key in self._working for key in waiter[0])
        ]
        for waiter in ready:
            self._idle_waiters.remove(waiter)
        for _, done in ready:
            done(None, None)

    def _tell_stopped(self) -> None:
        if self._stopped and not self._taken and not self._working:
            waiters, self._stop_waiters = self._stop_waiters, []
            for waiter in waiters:
                waiter(None, None)


def _need_not_hurry() -> None:
    """Its jobs are short."""
