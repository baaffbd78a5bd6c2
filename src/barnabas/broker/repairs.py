"""Taking damage out of a log that is served, as soon as somebody comes upon it.

Whoever reads damaged bytes gets an error that clients try again after (`Replica.on_damage`). Meanwhile the segment is made again
without them, in the background, and takes the place of the old one; from then on readers pass over what is lost. What was
lost is told with its offsets, and the bytes are kept (`storage/rescue.py`). In a cluster nothing is lost that another replica
in sync has: it is asked first (`spare_copies.py`).
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from barnabas.broker import spare_copies
from barnabas.broker.file_removal import remove_files_later
from barnabas.broker.log_claims import log_id
from barnabas.broker.tasks import drive
from barnabas.broker.tenure import TenureOver
from barnabas.broker.unfinished_segments import remove_unfinished
from barnabas.storage.epoch_spans import NO_EPOCHS, EpochSpans
from barnabas.storage.rescue import Place, rescue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.log_claims import LogClaim, LogId
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Task
    from barnabas.storage.cleaned_segment import CleanedSegment
    from barnabas.storage.rescue import Lost

log = logging.getLogger(__name__)

#: How long to leave damage that others cannot mend for now: looking through a segment takes long.
AGAIN_MS: Final = 1000


class Repairs:
    """See the module. One at a time for each log; what is found meanwhile is found again."""

    def __init__(self, node: Node) -> None:
        """Begin with none."""
        self._node = node
        self._busy: dict[LogId, None] = {}
        self._stopped = False
        self._waiters: list[Done] = []

    def request(self, replica: Replica, base_offset: int) -> None:
        """Repair the segment with this base offset, if nobody does."""
        key = log_id(replica)
        if key in self._busy or self._stopped:
            return
        self._busy[key] = None
        drive(self._run(replica, base_offset), partial(self._on_end, replica))

    def is_busy(self, replica: Replica) -> bool:
        """Tell whether a log is being repaired, or waits for it."""
        return log_id(replica) in self._busy

    def stop(self, done: Done) -> None:
        """Begin nothing more, and answer when no log is changing."""
        self._stopped = True
        self._waiters.append(done)
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        if self._stopped and not self._busy:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter(None, None)

    def _on_end(self, replica: Replica, _result: None, problem: BaseException | None) -> None:
        del self._busy[log_id(replica)]
        if isinstance(problem, TenureOver):
            log.info("%s: not repaired, it is gone", replica.key)
        elif isinstance(problem, OSError):
            replica.on_disk_error(problem, "repair")
        elif problem is not None:
            log.error("%s: repairing it failed", replica.key, exc_info=problem)
        self._tell_waiters()

    def _run(self, replica: Replica, base_offset: int) -> Task[None]:
        claim = yield from self._node.claims.wait(replica, partial(self._is_wanted, replica))
        if claim is None:
            return
        try:
            yield from self._repair_tidily(claim, base_offset)
        finally:
            claim.give()

    def _is_wanted(self, replica: Replica) -> bool:
        is_hosted = self._node.replicas.get(*replica.key) is replica
        return is_hosted and not replica.offline and not self._stopped

    def _repair_tidily(self, claim: LogClaim, base_offset: int) -> Task[None]:
        """Repair a segment; nothing of a new one stays beside the log, unless it took its place."""
        world, log_ = self._node.world, claim.replica.log
        try:
            is_replaced = yield from self._repair(claim, base_offset)
        except OSError as problem:
            yield from remove_unfinished(world, claim)
            if not (
                base_offset not in log_.base_offsets and isinstance(problem, FileNotFoundError)
            ):
                raise
            return  # dropped since
        if not is_replaced:
            yield from remove_unfinished(world, claim)

    def _repair(self, claim: LogClaim, base_offset: int) -> Task[bool]:
        """Repair a segment; False if there is none in its place."""
        replica, world = claim.replica, self._node.world
        log_ = replica.log
        if log_.segments[-1].base_offset == base_offset:
            log_.roll(world.clock.now_ms())  # closed segments alone can be exchanged
        found = [pair for pair in pairwise(log_.segments) if pair[0].base_offset == base_offset]
        if not found:
            return False  # dropped since
        segment, end = found[0][0], found[0][1].base_offset
        # What was written since the log was opened may be of newer epochs.
        epochs = EpochSpans(log_.epochs.entries) if segment.epochs else NO_EPOCHS
        place = Place(log_.directory, base_offset, end, end, epochs)
        job = partial(
            rescue, world.disk, place,
            index_interval_bytes=log_.config.index_interval_bytes, may_have_gaps=log_.may_have_gaps,
        )  # fmt: skip
        cleaned, lost = yield claim.work(partial(world.background.run, job))
        if lost and spare_copies.peers(self._node, replica):
            spares = yield from self._fetch_spares(replica, lost)
            if spares is None:
                log.warning("%s: nobody can give what is damaged now", replica.key)
                yield partial(self._node.pause, AGAIN_MS)
                return False  # whoever reads it next lets it be tried again
            again = partial(world.background.run, partial(job, spares=spares))
            cleaned, lost = yield claim.work(again)
            log.warning("%s: %d damaged places replaced by copies", replica.key, len(spares))
        is_replaced = yield from self._swap(claim, cleaned)
        for one in lost if is_replaced else ():
            log.critical("%s: %s", replica.key, one)
        return is_replaced

    def _fetch_spares(
        self, replica: Replica, lost: Sequence[Lost]
    ) -> Task[dict[tuple[int, int], bytes] | None]:
        """Get from others what is damaged here; None if they cannot give all of it now."""
        spares: dict[tuple[int, int], bytes] = {}
        for one in lost:
            if one.first_offset > one.last_offset:
                continue  # bytes that belong to no offset
            found = yield from spare_copies.fetch(
                self._node, replica, one.first_offset, one.last_offset
            )
            if found is None:
                return None
            if found or replica.log.may_have_gaps:
                spares[one.first_offset, one.last_offset] = found
        return spares

    def _swap(self, claim: LogClaim, cleaned: CleanedSegment) -> Task[bool]:
        world, log_ = self._node.world, claim.replica.log
        job = log_.plan_swap(cleaned, world.clock.now_ms())
        if job is None:
            return False  # dropped since
        yield claim.work(partial(world.background.run, job.run))
        remove_files_later(self._node, claim.replica, log_.on_swapped(job))
        return True
