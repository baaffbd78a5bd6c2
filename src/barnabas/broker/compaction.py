"""When which log is compacted: the dirtiest first, as many at a time as log.cleaner.threads says.

Job: choose, have it cleaned by a `Cleaner`, put new segments in place, write down how far each log is clean. Must not
know which records stay (`storage/`). A segment that turns out damaged is repaired (`repairs.py`), and its log compacted after
that; one whose batches are whole and hold what cannot be is left alone until the next start, and told.

Every log.cleaner.backoff.ms each lane that rests looks for work; one that has some goes on until there is none.
"""

from __future__ import annotations

import errno
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.cleaners import BackgroundCleaner, CleanerGone
from barnabas.broker.edge import call_all
from barnabas.broker.file_removal import remove_files_later
from barnabas.broker.tasks import drive
from barnabas.broker.tenure import TenureOver
from barnabas.broker.unfinished_segments import remove_unfinished
from barnabas.storage.cleaner import CleaningStats
from barnabas.storage.cleaning_plan import CleanerLimits, is_worth_it, measure, plan
from barnabas.storage.segment import DamagedBatch
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.cleaners import Cleaner
    from barnabas.broker.log_claims import LogClaim
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Task
    from barnabas.model.ids import TopicPartition
    from barnabas.storage.cleaned_segment import CleanedSegment
    from barnabas.storage.cleaning_plan import Dirtiness
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)

#: Kafka's own bound for one cleaner's map.
_MAP_BYTES_MAX: Final = 2**31 - 1
#: Pass with time, or because the log went: tried again, and no reason to take it offline.
_PASSING: Final = (errno.ENOSPC, errno.EDQUOT, errno.ENOENT)


class Compaction:
    """See the module. `start` after the node has started, `stop` before its logs are closed."""

    def __init__(self, node: Node) -> None:
        """Book nothing yet."""
        self._node = node
        #: Makes the one who does the work of a lane: the real world puts a better one here.
        self.make_cleaner: Callable[[], Cleaner] = partial(
            BackgroundCleaner, node.world.disk, node.world.background
        )
        self._lanes: dict[int, Cleaner] = {}
        #: Logs that cannot be, by key: the replica, so that a new one of the same name counts anew.
        self._uncleanable: dict[TopicPartition, Replica] = {}
        self._swapping = 0
        self._stopped = False
        self._waiters: list[Done] = []

    def start(self) -> None:
        """Look for work by the clock."""
        if self._node.config.get_bool("log.cleaner.enable"):
            self._look_later()

    def stop(self, done: Done) -> None:
        """Begin nothing more, give up what is being read or written, and answer when no log is changing."""
        self._stopped = True
        for cleaner in list(self._lanes.values()):
            cleaner.close()
        self._waiters.append(done)
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        if self._stopped and not self._swapping:
            waiters, self._waiters = self._waiters, []
            call_all(partial(waiter, None, None) for waiter in waiters)

    def _look_later(self) -> None:
        world = self._node.world
        # Not without a pause, whatever the setting says: a look goes over every log.
        delay_ms = max(1, self._node.config.get_int("log.cleaner.backoff.ms"))
        world.timers.call_at(world.clock.monotonic_ms() + delay_ms, self._look)

    def _look(self) -> None:
        if self._stopped:
            return
        self._look_later()  # first: whatever becomes of this look, there is a next one
        for lane in range(self._node.config.get_int("log.cleaner.threads")):
            if lane not in self._lanes and self.find_dirtiest() is not None:
                self._lanes[lane] = cleaner = self.make_cleaner()
                drive(self._work(lane, cleaner), partial(self._on_rest, lane))

    def _on_rest(self, lane: int, _result: None, problem: BaseException | None) -> None:
        if problem is not None:
            log.error("a cleaner failed", exc_info=problem)
        self._lanes.pop(lane).close()

    def _work(self, lane: int, cleaner: Cleaner) -> Task[None]:
        """Clean one log after another until none is worth it, or one could not be."""
        config = self._node.config
        while not self._stopped and lane < config.get_int("log.cleaner.threads"):
            found = self.find_dirtiest()
            if found is None:
                return
            replica, dirtiness = found
            # A deletion does not wait until a gigabyte was read.
            claim = self._node.claims.take(replica, hurry=cleaner.close)
            assert claim is not None, "nobody has it: see `_is_candidate`"
            try:
                yield from self._clean_tidily(cleaner, claim, dirtiness)
            except TenureOver:
                return  # deleted, or its disk failed; the cleaner may have been closed for that
            except DamagedBatch as problem:
                replica.on_damage(problem)
            except BatchError as problem:
                self._uncleanable[replica.key] = replica
                log.error("%s: not compacted until the next start: %s", replica.key, problem)
            except (OSError, CleanerGone) as problem:
                self._on_failure(replica, problem)
                return  # tried again after a pause
            finally:
                claim.give()

    def _on_failure(self, replica: Replica, problem: OSError | CleanerGone) -> None:
        if self._stopped or replica.offline:
            return
        if isinstance(problem, OSError) and (
            problem.errno not in _PASSING or replica.log.is_broken
        ):
            replica.on_disk_error(problem, "compact")
        else:
            log.warning("%s: not compacted for now: %s", replica.key, problem)

    # Choosing

    def find_dirtiest(self) -> tuple[Replica, Dirtiness] | None:
        """Return the log that is worth compacting most; None if none is."""
        now_ms = self._node.world.clock.now_ms()
        best: tuple[Replica, Dirtiness] | None = None
        for replica in self._node.replicas:
            if not self._is_candidate(replica):
                continue
            dirtiness = self.measure(replica, now_ms)
            if is_worth_it(replica.log, dirtiness) and (
                best is None or dirtiness.ratio > best[1].ratio
            ):
                best = replica, dirtiness
        return best

    def _is_candidate(self, replica: Replica) -> bool:
        return (
            replica.log.config.compact
            and not replica.offline
            and not replica.log.is_broken
            and not self._node.claims.is_taken(replica)
            and not self._node.repairs.is_busy(replica)
            and self._uncleanable.get(replica.key) is not replica
        )

    def measure(self, replica: Replica, now_ms: int) -> Dirtiness:
        """Tell how dirty a log is; also for who wants to show it."""
        clean_offset = replica.directory.cleaner_offsets.get(replica.key)
        # What is not synced yet may not survive a power loss, and must not outdo what would.
        stable_offset = min(replica.last_stable_offset, replica.log.recovery_point)
        return measure(replica.log, clean_offset, stable_offset, now_ms)

    # Cleaning

    def _clean_tidily(self, cleaner: Cleaner, claim: LogClaim, dirtiness: Dirtiness) -> Task[None]:
        """Clean a log; if that fails, as on a full disk, nothing of a new segment stays in its folder."""
        try:
            yield from self._clean(cleaner, claim, dirtiness)
        except (OSError, BatchError, CleanerGone):
            if not self._stopped:
                yield from remove_unfinished(self._node.world, claim)
            raise

    def _clean(self, cleaner: Cleaner, claim: LogClaim, dirtiness: Dirtiness) -> Task[None]:
        replica = claim.replica
        clock, config = self._node.world.clock, self._node.config
        threads = max(1, config.get_int("log.cleaner.threads"))
        rate = config.get_float("log.cleaner.io.max.bytes.per.second") / threads
        order = plan(replica.log, dirtiness, self._limits(threads), clock.now_ms())
        started_ms = clock.monotonic_ms()
        yield claim.work(partial(cleaner.begin, order, rate))
        while True:
            found: CleanedSegment | CleaningStats = yield claim.work(cleaner.next_segment)
            if isinstance(found, CleaningStats):
                break  # every new segment is in place
            if not (yield from self._swap(claim, found)):
                return
        self._report(replica, found, clock.monotonic_ms() - started_ms)
        yield from self._write_down(replica, found.clean_offset)

    def _limits(self, threads: int) -> CleanerLimits:
        config = self._node.config
        return CleanerLimits(
            min(config.get_int("log.cleaner.dedupe.buffer.size") // threads, _MAP_BYTES_MAX),
            config.get_float("log.cleaner.io.buffer.load.factor"),
            config.get_int("log.cleaner.io.buffer.size") // threads // 2,
        )

    def _swap(self, claim: LogClaim, cleaned: CleanedSegment) -> Task[bool]:
        """Put a new segment in place; False if there is no place for it any more."""
        world, log_ = self._node.world, claim.replica.log
        job = None if self._stopped else log_.plan_swap(cleaned, world.clock.now_ms())
        if job is None:
            if not self._stopped:
                yield from remove_unfinished(world, claim)
            return False
        self._swapping += 1
        try:
            yield claim.work(partial(world.background.run, job.run))
            paths = log_.on_swapped(job)
        finally:
            self._swapping -= 1
            self._tell_waiters()
        remove_files_later(self._node, claim.replica, paths)
        return True

    def _write_down(self, replica: Replica, clean_offset: int) -> Task[None]:
        directory = replica.directory
        if self._node.replicas.get(*replica.key) is not replica:
            return  # deleted since
        directory.cleaner_offsets[replica.key] = clean_offset
        yield partial(self._node.directory_jobs.run, _plan_write(directory))

    def _report(self, replica: Replica, stats: CleaningStats, took_ms: int) -> None:
        log.info(
            "%s: compacted %d bytes (%d records) to %d (%d) in %d ms; clean up to offset %d",
            replica.key, stats.bytes_read, stats.records_read, stats.bytes_written,
            stats.records_written, took_ms, stats.clean_offset,
        )  # fmt: skip


def _plan_write(directory: LogDirectory) -> Callable[[], Any]:
    """Take the offsets now; the job that writes them."""
    return partial(directory.write_cleaner_offsets, dict(directory.cleaner_offsets))
