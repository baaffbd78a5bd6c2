"""A classic group against a naive model: clients that join, crash, pause and lose replies, in any order.

The model knows only what clients were told: which generation each is in, and what it was assigned there. Checked all
the time: a generation has one leader and one assignment, so a partition has one owner in it; who is fenced changes
nothing; every request that waits is known to the group. At the end faults stop, and the group must become stable with
exactly the clients that live.
"""

from __future__ import annotations

import pytest
from group_kit import Machine, uuids
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.core.group.classic.group import State
from barnabas.core.group.classic.machine import ClassicGroups
from barnabas.core.group.classic.requests import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

E = ErrorCode
PARTITIONS = range(6)
SESSION_MS, REBALANCE_MS = 10_000, 30_000
NAMES = st.sampled_from(["a", "b", "c", "d"])
FENCED = (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.ILLEGAL_GENERATION)


class Client:
    """What a client remembers; a static one keeps its instance id over a crash."""

    def __init__(self, name):
        self.name = name
        self.instance = name if name in "ab" else None
        self.lives = True
        self.forget()

    def forget(self):
        self.member_id, self.generation, self.leads_over = "", -1, ()
        self.joined = self.owns = False
        self.ticket = None


class ClassicGroupModel(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3000]), max_size=st.sampled_from([2, 100]))
    def start(self, delay_ms, max_size):
        self.max_size = max_size
        self.settings = GroupSettings(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.new_uuid = uuids()
        self.machine = Machine(self.fresh())
        self.clients = {name: Client(name) for name in "abcd"}
        self.waiting = {}
        self.asked = 0
        self.coordinator = 0
        self.leaders = {}
        self.owners = {}

    def fresh(self):
        self.groups = {}
        return ClassicGroups(self.settings, self.groups, self.new_uuid, lambda _: [])

    # What clients do

    @rule(name=NAMES, metadata=st.sampled_from([b"", b"", b"", b"x"]))
    def join(self, name, metadata=b""):
        client = self.clients[name]
        if not client.lives or client.ticket is not None:
            return
        client.owns = client.joined = False
        request = JoinRequest(
            "g",
            client.member_id,
            client.instance,
            "consumer",
            (("range", metadata),),
            SESSION_MS,
            REBALANCE_MS,
            name,
        )
        self.ask(client, "join", request)

    @rule(name=NAMES)
    def sync(self, name):
        client = self.clients[name]
        if not client.lives or client.ticket is not None or not client.joined:
            return
        assignments = ()
        if client.leads_over:
            owned = {member: [] for member in client.leads_over}
            for partition in PARTITIONS:
                owned[client.leads_over[partition % len(client.leads_over)]].append(partition)
            assignments = tuple((member, bytes(owned[member])) for member in owned)
        request = SyncRequest(
            "g",
            client.generation,
            client.member_id,
            client.instance,
            assignments=assignments,
        )
        self.ask(client, "sync", request)

    @rule(name=NAMES)
    def heartbeat(self, name):
        client = self.clients[name]
        if not client.lives or client.generation < 0:
            return
        request = HeartbeatRequest("g", client.generation, client.member_id, client.instance)
        error = self.machine.answer("heartbeat", request).error_code
        if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.drop(client)
        elif error:
            client.owns = client.joined = False

    @rule(name=NAMES)
    def leave(self, name):
        client = self.clients[name]
        if client.lives and client.member_id:
            leaving = LeavingMember(client.member_id, client.instance)
            self.machine.answer("leave", LeaveRequest("g", (leaving,)))
            self.hear()
            self.drop(client)

    @rule(seconds=st.sampled_from([1, 4, 8]))
    def go_on(self, seconds):
        """Everybody who lives does what a client does, for a while."""
        for _ in range(seconds):
            for client in self.clients.values():
                self.heartbeat(client.name)
                if not client.joined:
                    self.join(client.name)
                elif not client.owns:
                    self.sync(client.name)
            self.wait(1000)

    # What goes wrong

    @rule(name=NAMES)
    def crash(self, name):
        """The client is gone with all it knew; it may come back as a new process."""
        client = self.clients[name]
        self.drop(client)
        client.lives = not client.lives

    @rule(name=NAMES)
    def lose_link(self, name):
        """Whatever is answered now does not arrive; the client will ask again."""
        client = self.clients[name]
        self.waiting.pop(client.ticket, None)
        client.ticket = None

    @rule(duration_ms=st.sampled_from([1, 3000, 9000, 31_000]))
    def wait(self, duration_ms):
        self.machine.advance(duration_ms)
        self.hear()

    @rule()
    def change_coordinator(self):
        self.coordinator += 1
        self.machine.restart(self.fresh())
        self.hear()

    @rule(code=st.sampled_from([None, E.NOT_ENOUGH_REPLICAS]))
    def break_or_mend_the_log(self, code):
        self.machine.fail_appends_with = code

    @rule(data=st.data(), entry_point=st.sampled_from(["sync", "heartbeat", "leave", "join"]))
    def act_as_who_is_fenced(self, data, entry_point):
        """Somebody of no or of an old generation changes nothing."""
        known = self.snapshot()
        member = data.draw(st.sampled_from(["made-up", ""]))
        instance = data.draw(st.sampled_from([None, "nobody"]))
        requests = {
            "sync": SyncRequest("g", 1, member, instance, assignments=(("made-up", b"\0"),)),
            "heartbeat": HeartbeatRequest("g", 1, member, instance),
            "leave": LeaveRequest("g", (LeavingMember(member, instance),)),
            "join": JoinRequest(
                "g", "made-up", instance, "consumer", (("range", b""),), SESSION_MS, REBALANCE_MS
            ),
        }
        reply = self.machine.answer(entry_point, requests[entry_point])
        codes = [one.error_code for one in getattr(reply, "members", ())] or [reply.error_code]
        assert codes[0] in (*FENCED, E.GROUP_MAX_SIZE_REACHED)
        assert self.snapshot() == known

    @rule(name=NAMES, by=st.sampled_from([-1, 1]))
    def act_of_another_generation(self, name, by):
        client = self.clients[name]
        known = self.snapshot()
        request = SyncRequest(
            "g",
            client.generation + by,
            client.member_id,
            client.instance,
            assignments=((client.member_id, b"\0"),),
        )
        group = self.groups.get("g")
        if group is None or group.generation == client.generation + by:
            return
        assert self.machine.answer("sync", request).error_code in FENCED
        assert self.snapshot() == known

    def snapshot(self):
        group = self.groups.get("g")
        if group is None:
            return None
        members = [
            (member.member_id, member.assignment, member.join_ticket, member.sync_ticket)
            for member in group.members.values()
        ]
        return group.state, group.generation, group.leader, members, len(self.machine.log)

    # What clients hear

    def ask(self, client, entry_point, request):
        self.asked += 1  # never the same ticket: one whose link was lost may still be answered
        client.ticket = (client.name, entry_point, self.asked)
        self.waiting[client.ticket] = client
        self.machine.ask(entry_point, request, client.ticket)
        self.hear()

    def hear(self):
        for ticket, reply in self.machine.heard():
            client = self.waiting.pop(ticket, None)
            if client is None:
                continue
            client.ticket = None
            if isinstance(reply, JoinReply):
                self.hear_joined(client, reply)
            elif isinstance(reply, SyncReply):
                self.hear_assigned(client, reply)

    def hear_joined(self, client, reply):
        if reply.error_code is E.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
        elif reply.error_code in (*FENCED, E.GROUP_MAX_SIZE_REACHED):
            self.drop(client)
        elif not reply.error_code:
            client.member_id, client.generation = reply.member_id, reply.generation_id
            client.joined = True
            client.leads_over = ()
            if reply.leader == reply.member_id and not reply.skip_assignment:
                client.leads_over = tuple(member.member_id for member in reply.members)
                # A generation that was not written may be counted again by the next coordinator.
                generation = self.coordinator, reply.generation_id
                leader = self.leaders.setdefault(generation, reply.leader)
                assert leader == reply.leader, "a generation has one leader"

    def hear_assigned(self, client, reply):
        if reply.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.drop(client)
        elif reply.error_code:
            client.joined = False
        else:
            client.owns = True
            owners = self.owners.setdefault(client.generation, {})
            for partition in reply.assignment:
                who = client.instance or client.member_id
                owner = owners.setdefault(partition, who)
                assert owner == who, "a partition has one owner in a generation"

    def drop(self, client):
        self.waiting.pop(client.ticket, None)
        client.forget()

    # What always holds

    @invariant()
    def books_agree(self):
        group = getattr(self, "groups", {}).get("g")
        if group is None:
            return
        members = group.members
        assert group.joining_count == sum(member.awaits_join for member in members.values())
        assert (group.leader in members) if members else group.leader is None
        assert not (members and group.state is State.EMPTY)
        assert members or group.state in (State.EMPTY, State.PREPARING_REBALANCE)
        assert group.protocol_counts == ({"range": len(members)} if members else {})
        statics = {m.group_instance_id: m.member_id for m in members.values()}
        statics.pop(None, None)
        assert group.static_members == statics
        assert not set(group.pending) & set(members)
        assert set(group.pending_sync) <= set(members)
        for member in members.values():
            assert member.join_ticket is None or group.state is State.PREPARING_REBALANCE
            assert member.sync_ticket is None or group.state is State.COMPLETING_REBALANCE
        assert group.unsaved is None

    @invariant()
    def nobody_waits_in_vain(self):
        group = getattr(self, "groups", {}).get("g")
        known = [] if group is None else list(group.members.values())
        tickets = [m.join_ticket for m in known] + [m.sync_ticket for m in known]
        for ticket in getattr(self, "waiting", {}):
            assert ticket in tickets, "a request waits that the group does not know of"

    def teardown(self):
        """Faults stop: everybody who lives does what a client does, and the group becomes stable."""
        if not hasattr(self, "machine"):
            return
        self.machine.fail_appends_with = None
        living = [client for client in self.clients.values() if client.lives]
        self.go_on(200)
        owners = [client for client in living if client.owns]
        assert len(owners) == min(len(living), self.max_size)
        if owners:
            group = self.groups["g"]
            assert group.state is State.STABLE
            assert len(group.members) == len(owners)
            owned = [partition for m in group.members.values() for partition in m.assignment]
            assert sorted(owned) == list(PARTITIONS), "every partition has one owner"


TestClassicGroup = pytest.mark.timeout(600)(ClassicGroupModel.TestCase)
TestClassicGroup.settings = settings(max_examples=60, stateful_step_count=40)
