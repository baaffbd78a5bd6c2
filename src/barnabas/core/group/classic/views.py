"""A classic group as others see it: its record in the log, its description, the answer to a member that joined.

Job: read a group into plain values. Must not know: how the group came to this state; changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.classic.group import State
from barnabas.core.group.classic.requests import (
    DescribedGroup,
    DescribedMember,
    JoinedMember,
    JoinReply,
)
from barnabas.core.group.records import ClassicGroupSaved, ClassicMember

if TYPE_CHECKING:
    from barnabas.core.group.classic.group import ClassicGroup
    from barnabas.core.group.classic.member import Member
    from barnabas.model.errors import ErrorCode


def saved_group(
    group: ClassicGroup, assignments: dict[str, bytes] | None = None
) -> ClassicGroupSaved:
    """Give the record of this generation, with the assignments that hold unless new ones are given."""
    name = group.protocol_name or ""
    members = tuple(
        ClassicMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata_by_name[name],
            member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    )
    return ClassicGroupSaved(
        group.group_id,
        group.protocol_type or "",
        group.generation,
        group.protocol_name,
        group.leader,
        group.state_timestamp_ms,
        members,
    )


def saved_new_group(group: ClassicGroup) -> ClassicGroupSaved:
    """Give the record that a group exists, before its first generation."""
    return ClassicGroupSaved(group.group_id, "", 0, None, None, group.state_timestamp_ms, ())


def described_group(group: ClassicGroup) -> DescribedGroup:
    """Give the whole picture; the protocol and what members said in it are shown only while stable."""
    stable = group.state is State.STABLE
    protocol = (group.protocol_name or "") if stable else ""
    members = tuple(
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.metadata_by_name[protocol] if stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        group.group_id, group.state_name, group.protocol_type or "", protocol, members
    )


def join_reply(group: ClassicGroup, member: Member) -> JoinReply:
    """Tell a member the generation it is in; the leader also gets the list of members."""
    return JoinReply(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member.member_id,
        members=_joined_members(group) if member.member_id == group.leader else (),
    )


def refused_join(error_code: ErrorCode, member_id: str = "") -> JoinReply:
    """Answer a member that is in no generation."""
    return JoinReply(error_code, member_id=member_id)


def _joined_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    name = group.protocol_name or ""
    return tuple(
        JoinedMember(member.member_id, member.group_instance_id, member.metadata_by_name[name])
        for member in group.members.values()
    )
