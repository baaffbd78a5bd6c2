"""Everything that one partition of `__consumer_offsets` holds: its groups of both kinds and their offsets.

Job: route requests, records and deadlines to the machine whose they are; what concerns groups of any kind (list, delete,
expire). Must not know: bytes, versions, where records are written.

Invariants: a group id names one group, classic or consumer; state changes only in `replay`; a result whose `group_id` is
None left no soft state behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.core.group.classic.group import ClassicGroup
from barnabas.core.group.classic.machine import ClassicGroups
from barnabas.core.group.consumer.machine import ConsumerGroups
from barnabas.core.group.offsets import NO_PRODUCER, Offsets
from barnabas.core.group.records import (
    ClassicGroupRemoved,
    ClassicGroupSaved,
    OffsetCommitted,
    OffsetRemoved,
)
from barnabas.core.group.result import Result
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from barnabas.core.group.classic.group import ReadTopics
    from barnabas.core.group.classic.requests import (
        HeartbeatRequest,
        JoinRequest,
        LeaveRequest,
        ListedGroup,
        SyncRequest,
    )
    from barnabas.core.group.consumer.context import EmbeddedProtocol
    from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
    from barnabas.core.group.group import Group
    from barnabas.core.group.offset_requests import CommitRequest, DeleteRequest, FetchRequest
    from barnabas.core.group.records import Record
    from barnabas.core.group.result import Ticket
    from barnabas.core.group.settings import GroupOverrides, GroupSettings
    from barnabas.core.group.topic_view import TopicView

#: Groups whose offsets are looked at before others have their turn.
EXPIRED_AT_ONCE: Final = 500


@dataclass(slots=True)
class ListRequest:
    """ListGroups: those of these groups that are in these states and of these types; none named: any."""

    group_ids: list[str]
    states: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)


class GroupShard:
    """The groups and offsets of one partition."""

    def __init__(
        self,
        settings: GroupSettings,
        *,
        topics: TopicView,
        new_uuid: Callable[[], str],
        read_topics: ReadTopics,
        embedded: EmbeddedProtocol,
        overrides: Callable[[str], GroupOverrides],
    ) -> None:
        """Start empty: replay the log, then call `on_loaded`. `overrides` gives a group's own settings by its id."""
        self._settings = settings
        self.groups: dict[str, Group] = {}
        self._classic = ClassicGroups(settings, self.groups, new_uuid, read_topics)
        self._consumer = ConsumerGroups(
            settings,
            self.groups,
            topics=topics,
            new_uuid=new_uuid,
            embedded=embedded,
            classic=self._classic,
            overrides=overrides,
        )
        self.offsets = Offsets(settings, self.groups, self._classic.make_simple)
        self._expiry_ms: int | None = None
        #: Groups that this check of offsets has still to look at.
        self._to_expire: list[str] = []

    # Classic protocol: a consumer group with members takes these requests as guests

    def join(self, ticket: Ticket, request: JoinRequest, now_ms: int, wall_ms: int) -> Result:
        """JoinGroup. Waits for the end of the join phase."""
        if self._consumer.serves(request.group_id):
            return self._consumer.classic_join(ticket, request, now_ms, wall_ms)
        return self._classic.join(ticket, request, now_ms, wall_ms)

    def sync(self, ticket: Ticket, request: SyncRequest, now_ms: int, wall_ms: int) -> Result:
        """SyncGroup. Waits for the leader's assignment."""
        if self._consumer.serves(request.group_id):
            return self._consumer.classic_sync(ticket, request, now_ms, wall_ms)
        return self._classic.sync(ticket, request, now_ms, wall_ms)

    def heartbeat(
        self, ticket: Ticket, request: HeartbeatRequest, now_ms: int, wall_ms: int
    ) -> Result:
        """Heartbeat."""
        if self._consumer.serves(request.group_id):
            return self._consumer.classic_heartbeat(ticket, request, now_ms, wall_ms)
        return self._classic.heartbeat(ticket, request, now_ms)

    def leave(self, ticket: Ticket, request: LeaveRequest, now_ms: int, wall_ms: int) -> Result:
        """LeaveGroup."""
        if self._consumer.serves(request.group_id):
            return self._consumer.classic_leave(ticket, request, now_ms, wall_ms)
        return self._classic.leave(ticket, request, now_ms, wall_ms)

    def describe(self, ticket: Ticket, group_id: str) -> Result:
        """DescribeGroups, for one group."""
        return Result(replies=[(ticket, self._classic.describe(group_id))])

    # Consumer protocol (KIP-848)

    def consumer_heartbeat(
        self, ticket: Ticket, request: ConsumerHeartbeatRequest, now_ms: int, wall_ms: int
    ) -> Result:
        """ConsumerGroupHeartbeat."""
        return self._consumer.heartbeat(ticket, request, now_ms, wall_ms)

    def consumer_describe(self, ticket: Ticket, group_id: str) -> Result:
        """ConsumerGroupDescribe, for one group."""
        return Result(replies=[(ticket, self._consumer.describe(group_id))])

    # Offsets

    def commit(self, ticket: Ticket, request: CommitRequest, now_ms: int, wall_ms: int) -> Result:
        """OffsetCommit."""
        return self.offsets.commit(ticket, request, now_ms, wall_ms)

    def fetch(self, ticket: Ticket, request: FetchRequest, now_ms: int) -> Result:
        """OffsetFetch, for one group."""
        return Result(replies=[(ticket, self.offsets.fetch(request, now_ms))])

    def delete_offsets(self, ticket: Ticket, request: DeleteRequest) -> Result:
        """OffsetDelete."""
        return self.offsets.delete(ticket, request)

    # Groups of any kind

    def list_groups(self, ticket: Ticket, request: ListRequest) -> Result:
        """ListGroups."""
        states = [state.strip().lower() for state in request.states]
        types = [kind.strip().lower() for kind in request.types]
        found: list[ListedGroup] = [
            group.as_listed()
            for group_id in request.group_ids
            if (group := self.groups.get(group_id)) is not None
            and (not states or group.state_name.lower() in states)
            and (not types or group.group_type in types)
        ]
        return Result(replies=[(ticket, found)])

    def delete(self, ticket: Ticket, group_id: str) -> Result:
        """DeleteGroups, for one group: it and its offsets, if it has no members."""
        group = self.groups.get(group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
        if group is None or code:
            return Result(replies=[(ticket, code)])
        records = [*self.offsets.removal_records(group_id), *group.removal_records()]
        return Result(records, [(ticket, ErrorCode.NONE)])

    # Time

    def next_deadline_ms(self) -> int | None:
        """Tell when `on_time` wants to be called; sometimes earlier than needed, never later."""
        first = self._expiry_ms
        for deadline_ms in (self._classic.next_deadline_ms(), self._consumer.next_deadline_ms()):
            if deadline_ms is not None and (first is None or deadline_ms < first):
                first = deadline_ms
        return first

    def on_time(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Do what is due."""
        results = self._classic.on_time(now_ms, wall_ms)
        results += self._consumer.on_time(now_ms, wall_ms)
        if self._expiry_ms is not None and now_ms >= self._expiry_ms:
            results += self._expire(now_ms, wall_ms)
        return results

    def _expire(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Forget offsets that nobody came back for, and groups of which nothing is left; of many groups some at a time."""
        if not self._to_expire:
            self._to_expire = list(self.groups)
        some = self._to_expire[-EXPIRED_AT_ONCE:]
        del self._to_expire[-EXPIRED_AT_ONCE:]
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._expiry_ms = now_ms if self._to_expire else now_ms + interval_ms
        results = []
        for group_id in some:
            group = self.groups.get(group_id)
            if group is None:
                continue
            records, nothing_left = self.offsets.expire(group_id, wall_ms)
            if nothing_left and group.is_empty:
                records += group.removal_records()
            if records:
                results.append(Result(records))
        return results

    # Topics

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Topics of these names came, went or got partitions."""
        self._consumer.on_topics_changed(names)

    def on_topic_deleted(
        self, name: str, topic_id: bytes, *, with_unnamed: bool = True
    ) -> Iterator[Result]:
        """Forget the positions in a topic that is gone; each result is to be carried out before the next is asked for."""
        return self.offsets.on_topic_deleted(name, topic_id, with_unnamed=with_unnamed)

    def topics_read(self) -> dict[str, None]:
        """Give the names of the topics that groups of either protocol subscribe to, as far as that can be told."""
        found: dict[str, None] = {}
        for group in self.groups.values():
            found.update(dict.fromkeys(group.subscribed_topics() or ()))
        return found

    @property
    def has_regexes(self) -> bool:
        """Whether any group subscribes by a regular expression, so that every topic may matter."""
        return self._consumer.has_regexes

    # The log

    def replay(self, record: Record, log_offset: int = -1, producer_id: int = NO_PRODUCER) -> None:
        """Take a record that the log has."""
        kind = type(record)
        if kind is OffsetCommitted or kind is OffsetRemoved:
            self.offsets.replay(record, log_offset, producer_id)  # type: ignore[arg-type]
        elif kind is ClassicGroupSaved or kind is ClassicGroupRemoved:
            self._classic.replay(record)
        else:
            assert kind in ConsumerGroups.RECORDS, f"nobody knows {kind}"
            self._consumer.replay(record)

    def replay_end_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Take the end of a transaction that the log has."""
        self.offsets.replay_end_marker(producer_id, is_commit=is_commit)

    def on_append_failed(self, result: Result, error_code: ErrorCode, now_ms: int) -> Result:
        """Put right what a result left behind that could not be written; its requests are told why."""
        if result.group_id is None:
            return Result(replies=[(ticket, error_code) for ticket, _reply in result.replies])
        group = self.groups.get(str(result.group_id))
        machine = self._classic if isinstance(group, ClassicGroup) else self._consumer
        return machine.on_append_failed(result, error_code, now_ms)

    def on_loaded(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Begin to serve: sessions and the expiration of offsets run from now."""
        self._expiry_ms = now_ms + self._settings.offsets_retention_check_interval_ms
        self._classic.on_loaded(now_ms, wall_ms)
        return self._consumer.on_loaded(now_ms, wall_ms)

    def unload(self) -> list[tuple[Ticket, object]]:
        """Stop serving: give everything that waits its answer."""
        self._expiry_ms = None
        return [*self._classic.unload(), *self._consumer.unload()]
