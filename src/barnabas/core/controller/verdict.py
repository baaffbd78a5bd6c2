"""The answer for one partition of a request that is about many."""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.model.errors import ErrorCode


class Verdict(NamedTuple):
    """A code, and words for a person where the code's own do not do."""

    code: ErrorCode
    message: str | None = None


#: It will be done, unless things change before.
PLANNED: Final = Verdict(ErrorCode.NONE)
NO_SUCH_PARTITION: Final = Verdict(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist, or is being deleted."
)
