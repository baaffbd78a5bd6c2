"""What a fetch request names, as the partitions of a session.

Job: add them to those that are known, or change them there; tell whether so many may be remembered. Very many are taken in pieces first,
and added all at once. Must not know how sessions are kept, or what is found of a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.pieces import PIECE
from barnabas.core.fetch_session import Wanted
from barnabas.model.ids import TOPIC_NAME_LENGTH_MAX
from barnabas.wire.messages.fetch import FetchTopic

if TYPE_CHECKING:
    from collections.abc import Hashable

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Pieces
    from barnabas.broker.tasks import Task

TOPIC_IDS_SINCE: Final = 13
NO_EPOCH: Final = -1
#: Partitions that a session may have besides those that are hosted here: a client's idea of them may be old.
STRAY_MAX: Final = 250

#: By id or name of the topic, and index.
Partitions = dict["Hashable", Wanted]


def take(call: Call, topics: list[FetchTopic], partitions: Partitions) -> Partitions:
    """Add what these topics of a request name to `partitions`, or change it there."""
    by_id = call.version >= TOPIC_IDS_SINCE
    known = call.node.topics.by_id
    for asked in topics:
        name, topic_id = asked.topic, asked.topic_id
        if by_id:
            topic = known.get(topic_id)
            name = "" if topic is None else topic.name
        for p in asked.partitions:
            key = (topic_id if by_id else name, p.partition)
            wanted = partitions.get(key)
            if wanted is None:
                wanted = partitions[key] = Wanted(key, name, topic_id, p.partition)
            epoch = p.current_leader_epoch
            if epoch < NO_EPOCH:
                epoch = NO_EPOCH  # as in Kafka, any below 0 is none: here only
            wanted.update(p.fetch_offset, p.partition_max_bytes, epoch, p.last_fetched_epoch)
    return partitions


def take_in_pieces(call: Call, pieces: Pieces) -> Task[Partitions]:
    """Take what a long request names."""
    taken: Partitions = {}
    for topic in call.request.topics:
        for start in range(0, max(len(topic.partitions), 1), PIECE):
            some = topic.partitions[start : start + PIECE]
            part = FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=some)
            take(call, [part], taken)
            pieces.count(1 + len(some))
            if pieces.is_full:
                yield pieces.pause
    return taken


def add(taken: Partitions, partitions: Partitions) -> Partitions:
    """Add what was taken, or change it where it is known: what its client was told is remembered there."""
    if not partitions:
        partitions.update(taken)
        return partitions
    for key, new in taken.items():
        known = partitions.setdefault(key, new)
        if known is not new:
            known.update(
                new.fetch_offset, new.max_bytes, new.current_leader_epoch, new.last_fetched_epoch
            )
    return partitions


def may_be_kept(call: Call, partitions: Partitions, known: int) -> bool:
    """Tell whether a session may keep these, of which so many it had before.

    A client may name anything, also what nobody has or it may not read; to remember that takes twenty times the memory of the request.
    """
    if any(len(topic.topic) > TOPIC_NAME_LENGTH_MAX for topic in call.request.topics):
        return False
    count = len(partitions)
    return count <= max(known, STRAY_MAX) or count <= STRAY_MAX + len(call.node.replicas)
