"""Removing a new segment that will not take the place of old ones: it could not be completed, as on a full disk, or is not wanted any more.

Job: let nothing of it stay beside the log. Must not know who made it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.storage.cleaned_segment import remove_cleaned

if TYPE_CHECKING:
    from barnabas.broker.log_claims import LogClaim
    from barnabas.broker.tasks import Task
    from barnabas.ports import World

log = logging.getLogger(__name__)


def remove_unfinished(world: World, claim: LogClaim) -> Task[None]:
    """Remove a new segment that failed or that nobody wants; TenureOver if the claim becomes void.

    Where that fails, the next cleaning or the next opening of the log removes it.
    """
    log_ = claim.replica.log
    if claim.is_void or log_.is_broken:
        return  # a swap in a broken log may be half done: the next opening of the log completes it
    removing = partial(remove_cleaned, world.disk, log_.directory)
    try:
        yield claim.work(partial(world.background.run, removing))
    except OSError as problem:
        log.warning("%s: a new segment could not be removed: %s", claim.replica.key, problem)
