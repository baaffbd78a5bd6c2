"""The offsets that groups have committed: keep, tell, forget.

Job: OffsetCommit, OffsetFetch, OffsetDelete and expiration for the groups of one shard. Must not know: how members
join, bytes, where records are written. Whether a member may commit is asked of its group.

Invariants: offsets change only in `replay` and `replay_end_marker`. An offset that was committed in a transaction is
pending until its marker comes; a plain commit that was written later than it wins. A group with offsets exists:
replaying the first offset of an unknown group makes a simple one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.offset_requests import (
    NO_RETENTION_TIME,
    NO_TOPIC_ID,
    CommitReply,
    DeleteReply,
    FetchedOffset,
    FetchReply,
)
from barnabas.core.group.records import OffsetCommitted, OffsetRemoved
from barnabas.core.group.result import Result
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from barnabas.core.group.group import Group
    from barnabas.core.group.offset_requests import (
        CommitPartition,
        CommitRequest,
        CommitTopic,
        DeleteRequest,
        FetchRequest,
        FetchTopic,
    )
    from barnabas.core.group.records import Record
    from barnabas.core.group.result import Ticket
    from barnabas.core.group.settings import GroupSettings

NO_PRODUCER = -1
#: topic -> partition -> (place in the log, record)
_Topics = dict[str, dict[int, tuple[int, OffsetCommitted]]]


class Offsets:
    """Committed offsets by group, topic and partition."""

    def __init__(
        self,
        settings: GroupSettings,
        groups: Mapping[str, Group],
        make_simple_group: Callable[[str], None],
    ) -> None:
        """Start with none. `make_simple_group` is called for offsets of a group that nobody has joined."""
        self._settings = settings
        self._groups = groups
        self._make_simple_group = make_simple_group
        self._by_group: dict[str, _Topics] = {}
        #: Offsets of open transactions: producer id -> group -> topics.
        self._pending: dict[int, dict[str, _Topics]] = {}
        self.commit_count = 0
        self.expired_count = 0

    def __len__(self) -> int:
        """How many offsets are kept."""
        return sum(
            len(partitions) for topics in self._by_group.values() for partitions in topics.values()
        )

    def committed(self, group_id: str) -> Iterator[OffsetCommitted]:
        """Everything a group has committed."""
        for partitions in self._by_group.get(group_id, {}).values():
            for _place, record in partitions.values():
                yield record

    def count_of(self, group_id: str) -> int:
        """How many offsets are kept for a group."""
        return sum(map(len, self._by_group.get(group_id, {}).values()))

    # Commit

    def commit(self, ticket: Ticket, request: CommitRequest, now_ms: int, wall_ms: int) -> Result:
        """Keep offsets: all partitions that are well-formed, or none when the member may not."""
        code = self._validate_commit(request, now_ms)
        if code:
            return Result(replies=[(ticket, CommitReply(code))])
        expire_ms = (
            -1
            if request.retention_time_ms == NO_RETENTION_TIME
            else wall_ms + request.retention_time_ms
        )
        records: list[Record] = []
        topics = []
        for topic in request.topics:
            codes: list[tuple[int, ErrorCode]] = []
            for one in topic.partitions:
                if _is_longer(one.metadata, self._settings.offset_metadata_max_bytes):
                    codes.append((one.partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                else:
                    codes.append((one.partition, code))
                    records.append(_record(request.group_id, topic, one, wall_ms, expire_ms))
            topics.append((topic.name, codes))
        return Result(records, [(ticket, CommitReply(code, topics))], producer=request.producer)

    def _validate_commit(self, request: CommitRequest, now_ms: int) -> ErrorCode:
        if request.producer is not None:
            return self._validate_transactional(request)
        group, generation = (
            self._groups.get(request.group_id),
            request.generation_id_or_member_epoch,
        )
        if group is None:
            if generation < 0:
                return ErrorCode.NONE  # from outside: replay makes a simple group
            if request.knows_member_epochs:
                return ErrorCode.GROUP_ID_NOT_FOUND
            return ErrorCode.ILLEGAL_GENERATION
        member_id = request.member_id
        code = group.validate_offset_commit(
            member_id,
            request.group_instance_id,
            generation,
            False,
            request.knows_member_epochs,
        )
        if code:
            return code
        group.on_offset_commit(member_id, now_ms)
        return _validate_partitions(group, request)

    def _validate_transactional(self, request: CommitRequest) -> ErrorCode:
        """Fence a consumer that lost its partitions, if the producer says who that is (KIP-447)."""
        group, generation = (
            self._groups.get(request.group_id),
            request.generation_id_or_member_epoch,
        )
        if group is None:
            return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
        code = group.validate_offset_commit(
            request.member_id, request.group_instance_id, generation, True, True
        )
        code = code or _validate_partitions(group, request)
        # The word that producers know.
        return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code

    # Fetch

    def fetch(self, request: FetchRequest, now_ms: int) -> FetchReply:
        """Tell what is kept. Read-only."""
        group = self._groups.get(request.group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND
        if group is not None:
            code = group.validate_offset_fetch(request.member_id, request.member_epoch, now_ms)
        if code and code != ErrorCode.GROUP_ID_NOT_FOUND:
            return FetchReply(request.group_id, code)
        kept = {} if code else self._by_group.get(request.group_id, {})
        reply = FetchReply(request.group_id)
        if request.topics is None:
            for name, partitions in kept.items():
                found = [
                    self._fetched(request, name, index, entry)
                    for index, entry in partitions.items()
                ]
                reply.topics.append((name, found))
            return reply
        for topic in request.topics:
            reply.topics.append((topic.name, self._fetch_topic(request, topic, kept)))
        return reply

    def _fetch_topic(
        self, request: FetchRequest, topic: FetchTopic, kept: _Topics
    ) -> list[FetchedOffset]:
        partitions = kept.get(topic.name, {})
        found = []
        for index in topic.partitions:
            entry = partitions.get(index)
            if entry is not None and _is_of_another_topic(entry[1].topic_id, topic.topic_id):
                entry = None  # the topic was deleted and made again since
            found.append(self._fetched(request, topic.name, index, entry))
        return found

    def _fetched(
        self,
        request: FetchRequest,
        topic: str,
        index: int,
        entry: tuple[int, OffsetCommitted] | None,
    ) -> FetchedOffset:
        if request.require_stable and self.has_pending(request.group_id, topic, index):
            return FetchedOffset(index, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if entry is None:
            return FetchedOffset(index)
        record = entry[1]
        return FetchedOffset(index, record.offset, record.leader_epoch, record.metadata)

    def has_pending(self, group_id: str, topic: str, index: int) -> bool:
        """Tell whether an open transaction has committed an offset for the partition."""
        if not self._pending:
            return False
        return any(
            index in groups.get(group_id, {}).get(topic, {}) for groups in self._pending.values()
        )

    # Delete

    def delete(self, ticket: Ticket, request: DeleteRequest) -> Result:
        """Forget positions of topics that nobody in the group reads."""
        group = self._groups.get(request.group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_offset_delete()
        if group is None or code:
            return Result(replies=[(ticket, DeleteReply(code))])
        records: list[Record] = []
        reply = DeleteReply()
        for topic, indexes in request.topics:
            if group.is_subscribed_to(topic):
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                code = ErrorCode.NONE
                records += self._removals(request.group_id, topic, indexes)
            reply.topics.append((topic, [(index, code) for index in indexes]))
        return Result(records, [(ticket, reply)])

    def _removals(self, group_id: str, topic: str, indexes: list[int]) -> list[Record]:
        kept = self._by_group.get(group_id, {}).get(topic, {})
        return [
            OffsetRemoved(group_id, topic, index)
            for index in dict.fromkeys(indexes)
            if index in kept or self.has_pending(group_id, topic, index)
        ]

    def removal_records(self, group_id: str) -> list[Record]:
        """Give the records that forget everything a group has committed, pending offsets too."""
        found: dict[tuple[str, int], None] = {}
        for groups in (self._by_group, *self._pending.values()):
            for topic, partitions in groups.get(group_id, {}).items():
                found.update(((topic, index), None) for index in partitions)
        return [OffsetRemoved(group_id, topic, index) for topic, index in found]

    # What time and the topics do

    def expire(self, group_id: str, wall_ms: int) -> tuple[list[Record], bool]:
        """Find offsets that have outlived their retention: (records, whether nothing of the group is left)."""
        topics = self._by_group.get(group_id)
        has_open = any(group_id in groups for groups in self._pending.values())
        if topics is None:
            return [], not has_open
        group = self._groups[group_id]
        records: list[Record] = []
        all_expired = True
        for topic, partitions in topics.items():
            subscribed = group.is_subscribed_to(topic)
            for index, (_place, record) in partitions.items():
                if (
                    subscribed
                    or not self._is_expired(group, record, wall_ms)
                    or self.has_pending(group_id, topic, index)
                ):
                    all_expired = False
                else:
                    records.append(OffsetRemoved(group_id, topic, index))
        self.expired_count += len(records)
        return records, all_expired and not has_open

    def _is_expired(self, group: Group, record: OffsetCommitted, wall_ms: int) -> bool:
        base_ms = group.offsets_expiry_base(record.commit_timestamp_ms)
        if base_ms is None:
            return False
        if record.expire_timestamp_ms != -1:
            return wall_ms >= record.expire_timestamp_ms
        return wall_ms - base_ms >= self._settings.offsets_retention_ms

    def on_topic_deleted(
        self, name: str, topic_id: bytes, *, with_unnamed: bool = True
    ) -> Iterator[Result]:
        """Forget the positions in a topic that is gone; one result per group, to be carried out before the next is asked for.

        Whose those without a topic's id are is known only while no other topic can have the name: else they are not to be forgotten.
        """
        ids = (NO_TOPIC_ID, topic_id) if with_unnamed else (topic_id,)
        for group_id in self._group_ids():
            found: dict[int, None] = {}
            for groups in (self._by_group, *self._pending.values()):
                for index, (_place, record) in groups.get(group_id, {}).get(name, {}).items():
                    if record.topic_id in ids:
                        found[index] = None
            if found:
                yield Result([OffsetRemoved(group_id, name, index) for index in found])

    def topic_ids(self) -> dict[str, dict[bytes, None]]:
        """Give the ids of all topics, by their names, in which positions are kept; some may be gone."""
        found: dict[str, dict[bytes, None]] = {}
        for groups in (self._by_group, *self._pending.values()):
            for topics in groups.values():
                for name, partitions in topics.items():
                    ids = found.setdefault(name, {})
                    for _place, record in partitions.values():
                        if record.topic_id != NO_TOPIC_ID:
                            ids[record.topic_id] = None
        return found

    def _group_ids(self) -> list[str]:
        found = dict.fromkeys(self._by_group)
        for groups in self._pending.values():
            found.update(dict.fromkeys(groups))
        return list(found)

    # Replay

    def replay(
        self,
        record: OffsetCommitted | OffsetRemoved,
        log_offset: int = -1,
        producer_id: int = NO_PRODUCER,
    ) -> None:
        """Take over one record of the log."""
        if isinstance(record, OffsetRemoved):
            _remove(self._by_group, record)
            for groups in self._pending.values():
                _remove(groups, record)
            return
        if record.group_id not in self._groups:
            self._make_simple_group(record.group_id)
        if producer_id == NO_PRODUCER:
            _put(self._by_group, record, log_offset)
            self.commit_count += 1
        else:
            _put(self._pending.setdefault(producer_id, {}), record, log_offset)

    def replay_end_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """End a producer's transaction: its offsets count from now on, or never did."""
        groups = self._pending.pop(producer_id, {})
        if not is_commit:
            return
        for group_id, topics in groups.items():
            for topic, partitions in topics.items():
                kept = self._by_group.get(group_id, {}).get(topic, {})
                for index, (place, record) in partitions.items():
                    before = kept.get(index)
                    # Compaction may leave an older transactional commit before a newer plain one.
                    if before is None or place > before[0]:
                        _put(self._by_group, record, place)


def _validate_partitions(group: Group, request: CommitRequest) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    for topic in request.topics:
        for one in topic.partitions:
            code = group.validate_partition_commit(
                request.member_id, generation, topic.topic_id, one.partition
            )
            if code:
                return code
    return ErrorCode.NONE


def _put(groups: dict[str, _Topics], record: OffsetCommitted, place: int) -> None:
    topics = groups.get(record.group_id)
    if topics is None:
        topics = groups[record.group_id] = {}
    partitions = topics.get(record.topic)
    if partitions is None:
        partitions = topics[record.topic] = {}
    partitions[record.partition] = (place, record)


def _remove(groups: dict[str, _Topics], record: OffsetRemoved) -> None:
    topics = groups.get(record.group_id)
    if topics is None or record.topic not in topics:
        return
    partitions = topics[record.topic]
    partitions.pop(record.partition, None)
    if not partitions:
        del topics[record.topic]
    if not topics:
        del groups[record.group_id]


def _record(
    group_id: str, topic: CommitTopic, one: CommitPartition, wall_ms: int, expire_ms: int
) -> OffsetCommitted:
    return OffsetCommitted(
        group_id,
        topic.name,
        one.partition,
        one.offset,
        one.leader_epoch,
        one.metadata or "",
        wall_ms,
        expire_ms,
        topic.topic_id,
    )


def _is_longer(metadata: str | None, most: int) -> bool:
    """Compare as Kafka does, which counts what Java counts: characters outside the basic plane as two."""
    if metadata is None or 2 * len(metadata) <= most:
        return False
    return len(metadata) + sum(character > "\uffff" for character in metadata) > most


def _is_of_another_topic(kept: bytes, asked: bytes) -> bool:
    return NO_TOPIC_ID not in (kept, asked) and kept != asked
