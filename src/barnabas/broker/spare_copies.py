"""Getting batches that are damaged here from another replica that has them.

Job: ask brokers that are in sync, one after the other, for the batches of some offsets, as a consumer would. Must not know what is
damaged, or how it is put in place. What an answer holds is checked, and bounded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.channel import Channel, Unreachable
from barnabas.wire.batch import checksum_matches, headers
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task

FETCH_VERSION: Final = 17
#: More than this of one segment is not damaged by a bad sector: such a log is better begun anew.
BYTES_MAX: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
#: No session of its own is kept for a question or two.
_NO_SESSION: Final = -1


def peers(node: Node, replica: Replica) -> list[int]:
    """Return who else has all that is committed: the leader first, as it is sure to."""
    if node.is_lone:
        return []
    state = replica.state
    others = dict.fromkeys((state.leader, *state.in_sync))
    return [one for one in others if one != node.broker_id and one in state.in_sync]


def fetch(node: Node, replica: Replica, first_offset: int, last_offset: int) -> Task[bytes | None]:
    """Get all batches of these offsets; None if nobody can give them now."""
    for broker_id in peers(node, replica):
        channel = Channel(
            node.world, broker_id, partial(node.members.endpoint_of, broker_id),
            f"broker-{node.broker_id}-repair", node.config.get_int("replica.socket.timeout.ms"),
        )  # fmt: skip
        try:
            found = yield from _read(channel, replica, first_offset, last_offset)
        except (Unreachable, ValueError):  # WireError and BatchError among them
            found = None
        finally:
            channel.close()
        if found is not None:
            return found
    return None


def _read(
    channel: Channel, replica: Replica, first_offset: int, last_offset: int
) -> Task[bytes | None]:
    found, offset = bytearray(), first_offset
    while offset <= last_offset:
        response = yield channel.asking(_request(replica, offset), FETCH_VERSION)
        data = _only_partition(response)
        if data is None or not data.records or len(found) > BYTES_MAX:
            return None
        before = offset
        for position, header in headers(data.records):
            if header.last_offset < offset:
                continue
            if header.base_offset > last_offset:
                return bytes(found)  # compacted there: there is nothing between
            batch = data.records[position : position + header.size]
            is_within = header.base_offset >= first_offset and header.last_offset <= last_offset
            if not is_within or not checksum_matches(batch, header):
                return None
            found += batch
            offset = header.next_offset
        if offset == before:
            return None
    return bytes(found)


def _request(replica: Replica, offset: int) -> FetchRequest:
    wanted = FetchPartition(
        partition=replica.key.partition,
        current_leader_epoch=replica.state.leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=_PIECE_BYTES,
    )
    return FetchRequest(
        max_bytes=_PIECE_BYTES,
        session_epoch=_NO_SESSION,
        topics=[FetchTopic(topic_id=replica.topic.id, partitions=[wanted])],
    )


def _only_partition(response: Any) -> Any:  # noqa: ANN401
    """Return what the answer says of the partition that was asked for; None if that is an error."""
    if response.error_code or not response.responses:
        return None
    (data,) = response.responses[0].partitions
    return None if data.error_code else data
