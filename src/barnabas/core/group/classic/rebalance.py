"""How a classic group gets from one generation to the next, and what silence leads to.

Job: begin a rebalance, end its join phase, drop who is late. Must not know: requests (`classic_join` and
`classic_sync` take them), the log.

Invariants: a request that waits is answered before its member goes or the phase ends; a rebalance ends when everybody
has joined or the slowest member's rebalance timeout is over, the first one of a group not before its initial delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.classic.group import State
from barnabas.core.group.classic.requests import JoinReply, SyncReply
from barnabas.core.group.classic.unsaved import Emptied
from barnabas.core.group.classic.views import join_reply, saved_group
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.core.group.classic.deadlines import Deadlines
    from barnabas.core.group.classic.group import ClassicGroup
    from barnabas.core.group.classic.member import Member
    from barnabas.core.group.classic.turn import Turn
    from barnabas.core.group.settings import GroupSettings


class Rebalances:
    """The moves of all classic groups of a shard."""

    __slots__ = ("_deadlines", "_settings")

    def __init__(self, settings: GroupSettings, deadlines: Deadlines) -> None:
        """Work with the shard's settings and deadlines."""
        self._settings = settings
        self._deadlines = deadlines

    def rebalance_or_complete(self, turn: Turn, group: ClassicGroup) -> None:
        """Begin a rebalance, or end the join phase of the one under way if this was the last it waited for."""
        if group.state is State.PREPARING_REBALANCE:
            self.complete_when_all_joined(turn, group)
        else:
            self.prepare(turn, group)

    def prepare(self, turn: Turn, group: ClassicGroup) -> None:
        """Call everybody to join again."""
        if group.state is State.COMPLETING_REBALANCE:
            self.drop_assignments(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        group.sync_deadline_ms = None
        is_first = group.state is State.EMPTY
        group.move_to(State.PREPARING_REBALANCE, turn.wall_ms)
        if is_first:
            self._begin_initial_delay(turn, group)
        elif group.all_joined:
            self.complete_join(turn, group)
        else:
            self._deadlines.expect_joins(group, turn.now_ms + group.rebalance_timeout_ms)

    def _begin_initial_delay(self, turn: Turn, group: ClassicGroup) -> None:
        # Members of a new group come one after the other: give them time, or each would be a rebalance (KIP-134).
        delay_ms = self._settings.initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        self._deadlines.expect_joins(group, turn.now_ms + delay_ms)

    def on_join_deadline(self, turn: Turn, group: ClassicGroup) -> None:
        """End the join phase, unless it is a group's first and somebody came meanwhile."""
        assert group.state is State.PREPARING_REBALANCE, "only a join phase has this deadline"
        group.join_deadline_ms = None
        is_first = group.previous_state is State.EMPTY
        if not (is_first and group.member_was_added and group.initial_remaining_ms):
            self.complete_join(turn, group)
            return
        group.member_was_added = False
        remaining_ms = group.initial_remaining_ms
        group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
        self._deadlines.expect_joins(group, turn.now_ms + group.initial_delay_ms)

    def complete_when_all_joined(self, turn: Turn, group: ClassicGroup) -> None:
        """End the join phase if there is nobody left to wait for; a group's first has its own end."""
        if group.previous_state is not State.EMPTY and group.all_joined:
            self.complete_join(turn, group)

    def complete_join(self, turn: Turn, group: ClassicGroup) -> None:
        """Begin the next generation with those who joined, and static members in any case."""
        group.join_deadline_ms = None
        group.member_was_added = False
        late = [member for member in group.members.values() if not member.awaits_join]
        for member in late:
            if member.group_instance_id is None:
                group.remove(member)
        if group.members and not group.elect_leader():
            # Only static members are left, and none came: wait until one does or their sessions end.
            self._deadlines.expect_joins(group, turn.now_ms + group.rebalance_timeout_ms)
            return
        group.begin_generation(turn.wall_ms)
        if group.state is State.EMPTY:
            group.unsaved = Emptied()
            turn.write(saved_group(group))
        else:
            self._tell_generation(turn, group)

    def _tell_generation(self, turn: Turn, group: ClassicGroup) -> None:
        for member in group.members.values():
            if member.awaits_join:
                turn.reply(group.release_join(member), join_reply(group, member))
            member.is_new = False
            group.pending_sync[member.member_id] = None
            self.keep_session(group, member, turn.now_ms)
        self._deadlines.expect_syncs(group, turn.now_ms + group.rebalance_timeout_ms)

    def drop_assignments(self, turn: Turn, group: ClassicGroup, error_code: ErrorCode) -> None:
        """Take everybody's assignment away and tell who waits for one why."""
        assert group.state is State.COMPLETING_REBALANCE, "assignments are being made"
        for member in group.members.values():
            member.assignment = b""
            if member.sync_ticket is not None:
                turn.reply(member.sync_ticket, SyncReply(error_code))
                member.sync_ticket = None
                self.keep_session(group, member, turn.now_ms)

    def keep_session(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        """Give a member its session timeout from now."""
        self._deadlines.expect_member(group, member, now_ms + member.session_timeout_ms)

    def dismiss(self, turn: Turn, group: ClassicGroup, member: Member) -> None:
        """Let a member go, with an answer to whatever of it waits: it may come back as a new one."""
        if member.awaits_join:
            turn.reply(group.release_join(member), JoinReply(ErrorCode.UNKNOWN_MEMBER_ID))
        if member.sync_ticket is not None:
            turn.reply(member.sync_ticket, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
            member.sync_ticket = None
        group.remove(member)

    def on_session_end(self, turn: Turn, group: ClassicGroup, member: Member) -> None:
        """Drop a member that was not heard of, unless it waits for the group."""
        if not member.needs_heartbeat:
            return
        self.dismiss(turn, group, member)
        if group.state is not State.PREPARING_REBALANCE:
            self.prepare(turn, group)
        elif group.all_joined:
            self.complete_join(turn, group)

    def on_return_deadline(self, turn: Turn, group: ClassicGroup, member_id: str) -> None:
        """Forget an id that was given out and never came back; the join phase may have waited for it alone."""
        del group.pending[member_id]
        if group.state is State.PREPARING_REBALANCE and group.all_joined:
            self.complete_join(turn, group)

    def on_sync_deadline(self, turn: Turn, group: ClassicGroup) -> None:
        """Drop the members that never asked for their assignment."""
        assert group.state in (State.COMPLETING_REBALANCE, State.STABLE), "a generation began"
        group.sync_deadline_ms = None
        late = [group.members[member_id] for member_id in group.pending_sync]
        for member in late:
            self.dismiss(turn, group, member)
        if late:
            self.prepare(turn, group)
