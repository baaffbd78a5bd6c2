"""What every kind of group can say of itself, whichever protocol its members speak.

Job: the questions that offsets and administration ask of a group. Must not know: how members join or partitions are shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.core.group.classic.requests import ListedGroup
    from barnabas.core.group.records import Record
    from barnabas.model.errors import ErrorCode


class Group(Protocol):
    """A classic or a consumer group. Answers with an ErrorCode say NONE when there is nothing against it."""

    group_id: str

    @property
    def group_type(self) -> str:
        """Name the protocol: "classic" or "consumer"."""

    @property
    def state_name(self) -> str:
        """Name the state as Kafka spells it: "Stable", "PreparingRebalance", …"""

    @property
    def is_empty(self) -> bool:
        """Tell whether it has no members."""

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version_has_epoch: bool,
    ) -> ErrorCode:
        """Tell whether this member may commit offsets now."""

    def validate_partition_commit(
        self, member_id: str, generation_or_epoch: int, topic_id: bytes, partition: int
    ) -> ErrorCode:
        """Tell whether the member, let in by `validate_offset_commit`, may commit this partition (KIP-1251)."""

    def on_offset_commit(self, member_id: str, now_ms: int) -> None:
        """Note that a member committed: in a classic group that is a sign of life."""

    def validate_offset_fetch(
        self, member_id: str | None, member_epoch: int, now_ms: int
    ) -> ErrorCode:
        """Tell whether this member may read offsets; GROUP_ID_NOT_FOUND: there are none."""

    def validate_offset_delete(self) -> ErrorCode:
        """Tell whether offsets of topics that it is not subscribed to may be deleted."""

    def validate_delete(self) -> ErrorCode:
        """Tell whether the group may be deleted: NON_EMPTY_GROUP if it has members."""

    def subscribed_topics(self) -> Mapping[str, object] | None:
        """Give the names of the topics that the members read; None when that cannot be told."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether a member reads the topic."""

    def offsets_expiry_base(self, commit_timestamp_ms: int) -> int | None:
        """Give the wall-clock moment from which retention counts for an offset committed then; None: never expires now."""

    def as_listed(self) -> ListedGroup:
        """Give the line in a list of groups."""

    def removal_records(self) -> list[Record]:
        """Give the records that take the group out of the log (not its offsets)."""
