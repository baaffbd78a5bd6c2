"""A group whose members speak both protocols, coming and going in any order: it moves between them and nobody loses out.

Whatever happens, a partition is held by one member; what a member owns by its last answer is held for it, while the group
takes it for a member. When everybody behaves, all partitions are owned once, by members of either protocol.
"""

from __future__ import annotations

import json

from consumer_kit import Fleet, Topics, topic_id_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.core.group.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

CLIENTS = st.sampled_from(["a", "b"])
GUESTS = st.sampled_from(["x", "y", "z"])
PARTITIONS = 4
T = topic_id_of("t")
OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)


class Guest:
    """A classic consumer that gives up what it is not assigned, and may be the leader."""

    def __init__(self, machine, instance):
        self.machine = machine
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned = ()
        self.waits_for = None
        self.members = ()
        self.phase = "out"

    def step(self):
        """Do what comes next: join, hear of it, sync, hear of it, or beat."""
        if self.waits_for is not None:
            self._hear()
        elif self.phase == "out":
            self._join()
        elif self.phase == "joined":
            self._sync()
        else:
            self._beat()

    def _ask(self, entry_point, request):
        self.waits_for = self.machine.ask(entry_point, request)
        self._hear()

    def _hear(self):
        if self.machine.waits(self.waits_for):
            return
        reply, self.waits_for = self.machine.replies[self.waits_for], None
        if reply.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.phase = "out"
        elif reply.error_code is not ErrorCode.NONE:
            self.lose()
        elif self.phase == "out":
            self.member_id, self.generation = reply.member_id, reply.generation_id
            leads = reply.leader == reply.member_id
            self.members = [one.member_id for one in reply.members] if leads else []
            self.phase = "joined"
        elif self.phase == "joined":
            shares = json.loads(reply.assignment or b'{"partitions": {}}')["partitions"]
            self.owned = tuple(shares.get("t", ()))
            self.phase = "in"

    def lose(self):
        self.member_id, self.generation, self.owned, self.phase = "", -1, (), "out"

    def _join(self):
        said = json.dumps({"topics": ["t"], "owned": {"t": self.owned}}).encode()
        protocols = (("range", said),)
        self._ask(
            "join",
            JoinRequest(
                "g", self.member_id, self.instance, "consumer", protocols, 45_000, 60_000, "c"
            ),
        )

    def _sync(self):
        given = []
        for place, member_id in enumerate(self.members):
            numbers = list(range(place, PARTITIONS, len(self.members)))
            given.append((member_id, json.dumps({"partitions": {"t": numbers}}).encode()))
        self._ask(
            "sync",
            SyncRequest(
                "g", self.generation, self.member_id, self.instance, assignments=tuple(given)
            ),
        )

    def _beat(self):
        request = HeartbeatRequest("g", self.generation, self.member_id, self.instance)
        code = self.machine.answer("heartbeat", request).error_code
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.phase = "out"
        elif code in OUT:
            self.lose()


class GroupMoveModel(RuleBasedStateMachine):
    """Two members of the new protocol, three of the classic one, one topic."""

    def __init__(self):
        super().__init__()
        self.fleet = Fleet(Topics(t=PARTITIONS), GroupSettings(initial_rebalance_delay_ms=0))
        self.guests = {}

    @property
    def group(self):
        return self.fleet.both.groups.get("g")

    @rule(name=CLIENTS, static=st.booleans())
    def client_joins(self, name, static):
        if name not in self.fleet.clients:
            client = self.fleet.client(name, instance_id=name if static else None)
            self.fleet.send(client, client.join())

    @rule(name=CLIENTS)
    def client_beats(self, name):
        client = self.fleet.clients.get(name)
        if client is not None:
            self.everyday(client)

    @rule(name=CLIENTS)
    def client_leaves(self, name):
        client = self.fleet.clients.get(name)
        if client is not None and client.epoch > 0:
            request = client.beat(member_epoch=-1)
            self.fleet.machine.answer("consumer_heartbeat", request)
            del self.fleet.clients[name]

    @rule(name=GUESTS, static=st.booleans())
    def guest_steps(self, name, static):
        if name not in self.guests:
            self.guests[name] = Guest(self.fleet.machine, name if static else None)
        self.guests[name].step()

    @rule(name=GUESTS)
    def guest_leaves(self, name):
        guest = self.guests.pop(name, None)
        if guest is not None and guest.member_id:
            leaving = (LeavingMember(guest.member_id, guest.instance),)
            self.fleet.machine.answer("leave", LeaveRequest("g", leaving))

    @rule(duration_ms=st.sampled_from([0, 1000, 5000, 45_000, 60_000]))
    def wait(self, duration_ms):
        self.fleet.machine.advance(duration_ms)

    @rule(duration_ms=st.sampled_from([0, 1000]))
    def log_breaks_for_a_while(self, duration_ms):
        self.fleet.machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
        self.fleet.machine.advance(duration_ms)
        for client in self.fleet.clients.values():
            self.everyday(client)
        self.fleet.machine.fail_appends_with = None

    @invariant()
    def what_a_member_owns_is_held_for_it(self):
        if self.group is None or self.group.group_type != "consumer":
            return
        for guest in self.guests.values():
            member = self.group.members.get(guest.member_id)
            if member is not None and member.classic and guest.phase == "in":
                for partition in guest.owned:
                    if guest.generation == member.member_epoch:
                        assert self.group.owner(T, partition) == guest.member_id

    def everyday(self, client):
        request = (
            client.join() if client.epoch == 0 else client.beat(topic_partitions=dict(client.owned))
        )
        reply = self.fleet.send(client, request)
        if reply.error_code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            client.epoch, client.owned = 0, {}

    def teardown(self):
        for _ in range(60):
            self.fleet.machine.advance(3000)
            for client in self.fleet.clients.values():
                self.everyday(client)
            for guest in self.guests.values():
                for _ in range(4):
                    guest.step()
        if self.guests or self.fleet.clients:
            self.check_rest()

    def check_rest(self):
        assert self.group.state_name == "Stable"
        assert self.group.group_type == ("consumer" if self.fleet.clients else "classic")
        owned = [guest.owned for guest in self.guests.values()]
        owned += [client.owned.get(T, ()) for client in self.fleet.clients.values()]
        assert sorted(partition for share in owned for partition in share) == list(
            range(PARTITIONS)
        )
        loads = [len(share) for share in owned]
        assert max(loads) - min(loads) <= 1


TestGroupMoveModel = GroupMoveModel.TestCase
TestGroupMoveModel.settings = settings(max_examples=60, stateful_step_count=40)
