"""Where the logs of a leader and a follower part, found by comparing their leader epochs (KIP-101, KIP-279, KIP-595).

Job: the leader's answer to a follower that is not on its way any more, and what the follower cuts off then. Must not know
logs, requests, or the high watermark: a follower that cut itself there would lose committed records, because it learns only
with its next fetch what is committed, and may have to lead before.

How they find together: a follower asks for records from its end on and says in which epoch its last record was written. If the leader's
records of that epoch end before, or there are none, the leader answers with the last epoch that both may know and where that ends.
The follower cuts itself there, or where that epoch ends in its own log, and asks again. Each round takes at least one
epoch off, so they end; and as one leader writes each epoch, records of the same epoch and offset are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.core.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET

if TYPE_CHECKING:
    from barnabas.core.epochs import LeaderEpochs


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record."""

    epoch: int
    end_offset: int


class UnknownEpochError(ValueError):
    """The leader never heard of the epoch: to a follower its offset is out of range."""


def find_divergence(
    epochs: LeaderEpochs, log_end_offset: int, last_fetched_epoch: int, fetch_offset: int
) -> EpochEnd | None:
    """Tell as leader whether a follower's log has left ours: None if not, else what to answer.

    `epochs` has our own epoch in it; `fetch_offset` is not below our log's start. UnknownEpochError for an epoch later than all of ours.
    """
    if last_fetched_epoch == UNDEFINED_EPOCH:
        return None  # it has no records
    found = EpochEnd(*epochs.end_offset_for(last_fetched_epoch, log_end_offset))
    if found.epoch == UNDEFINED_EPOCH:
        raise UnknownEpochError(f"leader epoch {last_fetched_epoch} is later than {epochs.latest}")
    if found.epoch < last_fetched_epoch or found.end_offset < fetch_offset:
        return found
    return None


def plan_truncation(epochs: LeaderEpochs, log_end_offset: int, leader: EpochEnd) -> int:
    """Return as follower where to cut our log, given the leader's answer; our log's end if nothing is to go.

    An answer without an offset (a log from before there were epochs) tells nothing; one for an epoch that we do not have, only that we
    go back to the end of the last one before it.
    """
    if leader.end_offset == UNDEFINED_OFFSET:
        return log_end_offset
    ours = EpochEnd(*epochs.end_offset_for(leader.epoch, log_end_offset))
    if ours.epoch == UNDEFINED_EPOCH:
        return min(leader.end_offset, log_end_offset)
    if ours.epoch != leader.epoch:
        return min(ours.end_offset, log_end_offset)
    return min(ours.end_offset, leader.end_offset, log_end_offset)


class NewStart(NamedTuple):
    """Where a follower goes on whose offset the leader called out of range."""

    offset: int
    #: Nothing that it has is in the leader's log: it drops all and begins there.
    starts_over: bool


def plan_out_of_range(
    log_end_offset: int, leader_start_offset: int, leader_end_offset: int
) -> NewStart:
    """Return as follower how to come back into the leader's log.

    Beyond its end: an unclean election took records away, so ours go, too. Before its start: they were deleted there. Within it: it has
    grown since, and the epochs will tell.
    """
    if log_end_offset > leader_end_offset:
        return NewStart(leader_end_offset, starts_over=False)
    if log_end_offset < leader_start_offset:
        return NewStart(leader_start_offset, starts_over=True)
    return NewStart(log_end_offset, starts_over=False)
