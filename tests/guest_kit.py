"""Members that speak the classic protocol, for tests of groups in which both protocols meet."""

from __future__ import annotations

import json

from consumer_kit import SETTINGS, Fleet, Topics

from barnabas.core.group.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from barnabas.model.errors import ErrorCode

E = ErrorCode


def metadata(topics=("t",), owned=None, rack=None):
    return json.dumps({"topics": list(topics), "owned": owned or {}, "rack": rack}).encode()


def partitions(**numbers):
    return json.dumps({"partitions": numbers}).encode()


class Guest:
    """A classic consumer."""

    def __init__(self, fleet, name, instance=None, protocols=None, topics=("t",)):
        self.fleet = fleet
        self.name = name
        self.instance = instance
        self.topics = topics
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.owned = {}

    def join_request(self, **changes):
        said = metadata(self.topics, self.owned)
        protocols = self.protocols or (("range", said), ("roundrobin", said))
        request = JoinRequest(
            "g",
            self.member_id,
            self.instance,
            "consumer",
            protocols,
            10_000,
            30_000,
            self.name,
            "/h",
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def ask(self, entry_point, request):
        return self.fleet.machine.answer(entry_point, request)

    def join(self, **changes):
        reply = self.ask("join", self.join_request(**changes))
        return self.learn(reply)

    def learn(self, reply):
        if reply.error_code in (E.NONE, E.MEMBER_ID_REQUIRED):
            self.member_id = reply.member_id
            self.generation = reply.generation_id
        if reply.error_code is E.MEMBER_ID_REQUIRED:
            return self.join()
        return reply

    def join_and_sync(self):
        assert self.join().error_code is E.NONE
        reply = self.sync()
        assert reply.error_code is E.NONE
        self.owned = json.loads(reply.assignment)["partitions"]

    def sync(self, **fields):
        fields = {"protocol_type": "consumer", "protocol_name": "range", **fields}
        generation = fields.pop("generation_id", self.generation)
        return self.ask(
            "sync", SyncRequest("g", generation, self.member_id, self.instance, **fields)
        )

    def beat(self, **fields):
        request = HeartbeatRequest("g", self.generation, self.member_id, self.instance)
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask("heartbeat", request).error_code

    def leave(self):
        leaving = LeavingMember(self.member_id, self.instance)
        return self.ask("leave", LeaveRequest("g", (leaving,))).members[0].error_code


def fleet_with(settings=SETTINGS, **counts):
    return Fleet(Topics(**(counts or {"t": 4})), settings)


def classic_group(fleet, *names, assignments=None, **options):
    """A stable classic group of these members."""
    guests = [Guest(fleet, name, **options) for name in names]
    tickets = []
    for guest in guests:
        if guest.instance is None:
            guest.member_id = fleet.machine.answer("join", guest.join_request()).member_id
        tickets.append(fleet.machine.ask("join", guest.join_request()))
    fleet.machine.advance(6000)
    for guest, ticket in zip(guests, tickets, strict=True):
        guest.learn(fleet.machine.replies[ticket])
    shares = assignments or [partitions(t=[0, 1]), partitions(t=[2, 3])]
    given = tuple((guest.member_id, share) for guest, share in zip(guests, shares, strict=False))
    waiting = [
        fleet.machine.ask(
            "sync",
            SyncRequest(
                "g",
                guest.generation,
                guest.member_id,
                guest.instance,
                assignments=given if guest is guests[0] else (),
            ),
        )
        for guest in reversed(guests)
    ]
    for guest, ticket in zip(reversed(guests), waiting, strict=True):
        assert fleet.machine.replies[ticket].error_code is E.NONE
        read = json.loads(fleet.machine.replies[ticket].assignment or b'{"partitions": {}}')
        guest.owned = read.get("partitions", {})
    return guests


def mixed(settings=SETTINGS, **options):
    """A consumer group of anna, who speaks the new protocol, and bob, who does not; at rest."""
    fleet = fleet_with(settings)
    fleet.join("anna", **options)
    bob = Guest(fleet, "bob")
    bob.join_and_sync()
    fleet.settle()
    bob.join_and_sync()
    assert bob.owned == {"t": [2, 3]}
    return fleet, bob


def static_pair():
    """anna (static, new protocol) and bob (static, classic), at rest."""
    fleet = fleet_with()
    fleet.join("anna", instance_id="a")
    bob = Guest(fleet, "bob", instance="b")
    bob.join_and_sync()
    fleet.settle()
    bob.join_and_sync()
    return fleet, bob
