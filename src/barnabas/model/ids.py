"""Names for the numbers and names that must not be mixed up.

Job: the distinct types of ids, the rules for topic names, and topic ids as text.
Must not know: who hands the ids out, or where they are stored.
Invariants: a name without a `topic_name_problem` is safe as part of a directory name; a topic id is
16 bytes; its text is 22 characters and each id has exactly one text.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
GroupId = NewType("GroupId", str)
TopicId = NewType("TopicId", bytes)

NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
NO_BROKER: Final = BrokerId(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)

TOPIC_ID_BYTES: Final = 16
# The id of "no topic id", and the one Kafka keeps for its own metadata log; neither names a topic.
ZERO_TOPIC_ID: Final = TopicId(bytes(TOPIC_ID_BYTES))
METADATA_TOPIC_ID: Final = TopicId(bytes(TOPIC_ID_BYTES - 1) + b"\x01")

# A topic name, "-" and a partition number make a directory name, which file systems hold to 255.
TOPIC_NAME_LENGTH_MAX: Final = 249
_LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_ID_TEXT_LENGTH = 22


class TopicPartition(NamedTuple):
    """One partition of one topic. A tuple, as it is the key of the hottest tables."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Give the form Kafka logs and names directories with."""
        return f"{self.topic}-{self.partition}"


def topic_name_problem(name: str) -> str | None:
    """Say what is wrong with a topic name, or None when it may be used."""
    if not name:
        return "a topic name cannot be empty"
    if name in (".", ".."):
        return f"a topic cannot be named '{name}': that is a directory of its own"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"the topic name has {len(name)} characters, at most {TOPIC_NAME_LENGTH_MAX} "
            f"are allowed: '{name[:40]}...'"
        )
    if not _LEGAL_TOPIC_NAME.fullmatch(name):
        return (
            f"the topic name {name!r} has a character that is not allowed; "
            "allowed are ASCII letters, digits, '.', '_' and '-'"
        )
    return None


def folded(name: str) -> str:
    """Return the name as metrics show it, where '.' and '_' are the same: no two topics may share it."""
    return name.replace(".", "_")


def topic_id_text(topic_id: TopicId) -> str:
    """Write a topic id as Kafka prints it: URL-safe base64 without padding."""
    assert len(topic_id) == TOPIC_ID_BYTES
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> TopicId:
    """Read what `topic_id_text` wrote; anything else, however near, is a ValueError."""
    problem = f"{text!r} is not a topic id: 22 characters of URL-safe base64 are expected"
    if len(text) != _TOPIC_ID_TEXT_LENGTH:
        raise ValueError(problem)
    try:
        topic_id = TopicId(base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(problem) from error
    # The last character carries two bits too many; only one spelling of them is an id's own.
    if topic_id_text(topic_id) != text:
        raise ValueError(problem)
    return topic_id
