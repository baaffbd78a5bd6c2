"""Cutting the log of a follower where it has left its leader's, or letting it begin anew.

Job: keep others from working on its files meanwhile, let the files follow in the background, and write the checkpoints in between: what
comes in place of the old records is not on the medium, though it lies below where the old recovery point and high watermark
may be, and a start after a crash trusts those. Must not know where to cut.

A cut is decided in one tenure of the replica, and void when that is over: while it waits for the claim the replica may become leader, or
follow somebody else whose log agrees with this one. Once it has begun to change the log it goes to its end: until then the replica
`is_cutting`, and its role waits for that (`orders.py`). A replica that is given up meanwhile leaves its log half cut, to be removed.
"""

from __future__ import annotations

from errno import EIO
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker import checkpointing
from barnabas.broker.edge import report
from barnabas.broker.file_removal import remove_files_later
from barnabas.broker.tenure import TenureOver
from barnabas.model.ids import Offset

if TYPE_CHECKING:
    from barnabas.broker.log_claims import LogClaim
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.broker.tenure import Tenure
    from barnabas.storage.truncation import TruncationJob


def truncate(node: Node, replica: Replica, offset: int, tenure: Tenure) -> Task[None]:
    """Let the log end at or before `offset`. OSError or BatchError if that cannot be done.

    TenureOver, and nothing changed, if the tenure in which that was decided is over before it begins.
    """
    claim = yield from _begin(node, replica, tenure)
    try:
        if offset < replica.log.segments[0].base_offset:
            yield from _start_over(node, claim, offset, tenure)
        else:
            yield from _truncate(node, claim, offset)
    finally:
        _end(claim)


def start_over(node: Node, replica: Replica, offset: int, tenure: Tenure) -> Task[None]:
    """Drop everything and let the log begin at `offset`. TenureOver as `truncate`."""
    claim = yield from _begin(node, replica, tenure)
    try:
        yield from _start_over(node, claim, offset, tenure)
    finally:
        _end(claim)


def _begin(node: Node, replica: Replica, tenure: Tenure) -> Task[LogClaim]:
    def is_wanted() -> bool:
        return not (tenure.is_over or node.stopping)

    claim = yield from node.claims.wait(replica, is_wanted, alone=True)
    if claim is None:
        raise TenureOver
    replica.begin_cut()
    return claim


def _end(claim: LogClaim) -> None:
    claim.replica.end_cut()
    claim.give()


def _truncate(node: Node, claim: LogClaim, offset: int) -> Task[None]:
    replica = claim.replica
    job = replica.cut(offset, node.world.clock.now_ms())
    if job is None:
        return
    _forget_cleaned(replica)
    try:
        yield from checkpointing.write(node, replica.directory)
    except OSError as problem:
        job.error = problem  # files that the checkpoints speak of must stay: the log is broken
    else:
        yield from _run(node, claim, job)
    _finish(node, claim, job)


def _start_over(node: Node, claim: LogClaim, offset: int, tenure: Tenure) -> Task[None]:
    replica = claim.replica
    replica.state.on_truncated(replica.log.log_start_offset)
    yield from checkpointing.write(node, replica.directory)
    tenure.check()
    job = replica.start_over(offset, node.world.clock.now_ms())
    yield from _run(node, claim, job)
    _finish(node, claim, job)
    _forget_cleaned(replica)
    yield from checkpointing.write(node, replica.directory)


def _run(node: Node, claim: LogClaim, job: TruncationJob) -> Task[None]:
    """Let the files follow. After a fault nobody knows how far they did: the log is broken, and not being cut for ever."""
    try:
        yield claim.work(partial(node.world.background.run, job.run))
    except TenureOver:
        raise
    except Exception as fault:  # noqa: BLE001  (an edge: the log's)
        job.error = OSError(EIO, f"a cut failed: {fault!r}")
        report(node.world, f"the cut of {claim.replica.key}", fault)


def _finish(node: Node, claim: LogClaim, job: TruncationJob) -> None:
    replica = claim.replica
    remove_files_later(node, replica, replica.finish_cut(job))


def _forget_cleaned(replica: Replica) -> None:
    """Let the cleaner know that what comes above the new end has not been compacted."""
    cleaned, end_offset = replica.directory.cleaner_offsets, replica.log.log_end_offset
    if cleaned.get(replica.key, 0) > end_offset:
        cleaned[replica.key] = Offset(end_offset)
