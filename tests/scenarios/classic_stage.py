"""The stage for the classic protocol. Actors are clients; each remembers its id and generation as a client does.

> anna join                  options: instance=, protocols=range:metadata,sticky, session=, rebalance=, id=, version=
> anna sync anna=0,1 bob=2   the leader's assignment by actor; options: generation=, instance=, id=, protocol=
> anna heartbeat | leave     options: generation=, instance=, id=
> anna restarts              forgets its id, keeps its instance
> wait 3s | group | log | restart | fail CODE | work | remove instance | limits name=value
"""

from __future__ import annotations

import itertools

from group_kit import Machine
from scenarios.stage import Stage

from barnabas.core.group.classic.machine import ClassicGroups
from barnabas.core.group.classic.requests import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode


class Actor:
    def __init__(self, name):
        self.name = name
        self.member_id = ""
        self.instance = None
        self.generation = -1
        self.protocols = (("range", b""),)


class ClassicStage(Stage):
    """One classic group, `g`."""

    def __init__(self):
        self.settings = GroupSettings()
        numbers = itertools.count(1)
        self.new_uuid = lambda: str(next(numbers))
        self.groups = {}
        self.machine = Machine(self.fresh())
        self.actors = {}
        self.tickets = {}
        self.written = 0

    def fresh(self):
        self.groups = {}
        return ClassicGroups(self.settings, self.groups, self.new_uuid, lambda _: [])

    # Commands of the stage

    def do_limits(self, **settings):
        values = {name: int(value) for name, value in settings.items()}
        self.settings = GroupSettings(**values)
        self.do_restart()
        return []

    def do_restart(self):
        self.machine.restart(self.fresh())
        return []

    def do_fail(self, code):
        self.machine.fail_appends_with = ErrorCode[code]
        return []

    def do_work(self):
        self.machine.fail_appends_with = None
        return []

    def do_group(self):
        described = self.machine.machine.describe("g")
        group = self.groups.get("g")
        if group is None:
            return [described.group_state]
        lines = [f"{described.group_state}, generation {group.generation}, leader {group.leader}"]
        for member in described.members:
            owns = member.assignment.decode() or "nothing"
            instance = f" ({member.group_instance_id})" if member.group_instance_id else ""
            lines.append(f"{member.member_id}{instance} owns {owns}")
        return lines

    def do_log(self):
        return [_record(record) for record in self.machine.log]

    def do_remove(self, instance):
        leaving = (LeavingMember("", instance),)
        return self._ask("administrator", "leave", LeaveRequest("g", leaving))

    # Commands of actors

    def act_restarts(self, name):
        actor = self._actor(name)
        actor.member_id, actor.generation = "", -1
        return []

    def act_join(self, name, session="10000", rebalance="60000", version="9", **fields):
        actor = self._actor(name)
        if "protocols" in fields:
            actor.protocols = tuple(
                (one.partition(":")[0], one.partition(":")[2].encode())
                for one in fields["protocols"].split(",")
            )
        actor.instance = fields.get("instance", actor.instance)
        request = JoinRequest(
            "g",
            fields.get("id", actor.member_id),
            actor.instance,
            fields.get("type", "consumer"),
            actor.protocols,
            int(session),
            int(rebalance),
            name,
            "/host",
            requires_known_member_id=int(version) >= 4,
            can_skip_assignment=int(version) >= 9,
        )
        return self._ask(name, "join", request)

    def act_sync(self, name, generation=None, protocol=None, **assignments):
        actor = self._actor(name)
        member_id = assignments.pop("id", actor.member_id)
        instance = assignments.pop("instance", actor.instance)
        request = SyncRequest(
            "g",
            actor.generation if generation is None else int(generation),
            member_id,
            instance,
            "consumer",
            protocol,
            tuple(
                (self._actor(owner).member_id, owned.encode())
                for owner, owned in assignments.items()
            ),
        )
        return self._ask(name, "sync", request)

    def act_heartbeat(self, name, generation=None, **fields):
        actor = self._actor(name)
        request = HeartbeatRequest(
            "g",
            actor.generation if generation is None else int(generation),
            fields.get("id", actor.member_id),
            fields.get("instance", actor.instance),
        )
        return self._ask(name, "heartbeat", request)

    def act_leave(self, name, **fields):
        actor = self._actor(name)
        leaving = LeavingMember(
            fields.get("id", actor.member_id), fields.get("instance", actor.instance)
        )
        return self._ask(name, "leave", LeaveRequest("g", (leaving,)))

    # What comes of it

    def _actor(self, name):
        return self.actors.setdefault(name, Actor(name))

    def _ask(self, name, entry_point, request):
        ticket = f"{name} {len(self.tickets)}"
        self.tickets[ticket] = name
        self.machine.ask(entry_point, request, ticket)
        return [f"{name} waits"] if self.machine.waits(ticket) else []

    def news(self):
        lines = [f"log: {_record(record)}" for record in self.machine.log[self.written :]]
        self.written = len(self.machine.log)
        for ticket, reply in self.machine.heard():
            name = self.tickets[ticket]
            if isinstance(reply, JoinReply):
                self._learn(name, reply)
            lines.append(f"{name} <- {_reply(reply)}")
        return lines

    def _learn(self, name, reply):
        actor = self._actor(name)
        if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            actor.member_id = reply.member_id
            actor.generation = reply.generation_id


def _reply(reply):
    error = reply.error_code.name
    if isinstance(reply, LeaveReply) and not reply.error_code:
        codes = [member.error_code for member in reply.members]
        return ", ".join("left" if not code else code.name for code in codes)
    if reply.error_code:
        return f"{error} {getattr(reply, 'member_id', '')}".strip()
    if isinstance(reply, JoinReply):
        return _joined(reply)
    if isinstance(reply, SyncReply):
        return f"owns {reply.assignment.decode() or 'nothing'}"
    return "ok"


def _joined(reply):
    text = f"generation {reply.generation_id} as {reply.member_id}, {reply.protocol_name}"
    if reply.leader != reply.member_id:
        return f"{text}, led by {reply.leader}"
    members = " ".join(
        member.member_id + (f":{member.metadata.decode()}" if member.metadata else "")
        for member in reply.members
    )
    skip = ", keep the assignment" if reply.skip_assignment else ""
    return f"{text}, leads [{members}]{skip}"


def _record(record):
    owners = " ".join(
        f"{member.member_id}={member.assignment.decode()}" for member in record.members
    )
    return f"generation {record.generation} [{owners}]"


STAGE = ClassicStage
