"""The stage for the consumer group protocol (KIP-848). Actors are clients; each remembers its epoch and what it owns.

> anna joins                 options: topics=t,u regex=t.* instance= assignor= rack= id=
> anna beats                 options: epoch=, owns=t:0,1 (nothing: `owns=`), topics=, regex=; `lost` drops the answer
> anna leaves | goes away    for good | a static member for a while
> carl enters                JoinGroup (twice if told to) and SyncGroup of the classic protocol; options: instance=
> carl pulses | quits        Heartbeat | LeaveGroup of the classic protocol
> topics t=4 u=2             make, grow, or (t=0) delete topics; u=4@north,south makes one whose partitions take turns in racks
> wait 3s | group | restart | fail CODE | work | limits name=value

Partitions are written t:0,1. A record in the log is one line.
"""

from __future__ import annotations

import itertools
import json

from consumer_kit import Both, Client, Topics
from group_kit import Machine
from scenarios.stage import Stage

from barnabas.core.group import records as r
from barnabas.core.group.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from barnabas.core.group.consumer.requests import ConsumerHeartbeatReply
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

STATES = {0: "stable", 1: "must give up", 2: "waits"}


class Guest:
    """A client of the classic protocol."""

    def __init__(self):
        self.member_id = ""
        self.generation = -1
        self.instance = None
        self.owned = {}


class ConsumerStage(Stage):
    """One group, `g`."""

    def __init__(self):
        self.settings = GroupSettings(consumer_assignment_interval_ms=0)
        self.topics = Topics(t=4)
        numbers = itertools.count(1)
        self.new_uuid = lambda: f"id-{next(numbers)}"
        self.machine = Machine(self.fresh())
        self.clients = {}
        self.guests = {}
        self.written = 0
        self.told = []

    def fresh(self):
        return Both(self.topics, self.settings, new_uuid=self.new_uuid)

    # Commands of the stage

    def do_limits(self, **settings):
        values = {
            name: int(value) if value.isdigit() else value for name, value in settings.items()
        }
        self.settings = GroupSettings(**{"consumer_assignment_interval_ms": 0, **values})
        return self.do_restart()

    def do_restart(self):
        self.machine.restart(self.fresh())
        return []

    def do_fail(self, code):
        self.machine.fail_appends_with = ErrorCode[code]
        return []

    def do_work(self):
        self.machine.fail_appends_with = None
        return []

    def do_topics(self, **counts):
        for name, count in counts.items():
            if count == "0":
                self.topics.delete(name)
            elif self.topics.by_name(name) is None:
                self._make_topic(name, *count.split("@"))
            else:
                self.topics.grow(name, int(count))
        self.machine.machine.consumer.on_topics_changed(counts)
        return []

    def _make_topic(self, name, count, racks=None):
        turns = itertools.cycle([(rack,) for rack in racks.split(",")] if racks else ())
        self.topics.make(name, int(count), tuple(itertools.islice(turns, int(count))))

    def do_group(self):
        group = self.machine.machine.groups.get("g")
        if group is None:
            return ["no group"]
        if group.group_type == "classic":
            return [f"classic, {group.state_name}, generation {group.generation}"]
        shown = self.machine.machine.consumer.describe("g")
        lines = [
            f"{shown.group_state}, epoch {shown.group_epoch}, "
            f"target of epoch {shown.assignment_epoch}"
        ]
        for member in shown.members:
            has = self._named(member.assignment)
            shall = self._named(member.target_assignment)
            kind = "" if member.member_type else " (classic)"
            lines.append(
                f"{member.member_id}{kind} at epoch {member.member_epoch} "
                f"has {has}, shall have {shall}"
            )
        return lines

    @staticmethod
    def _named(shares):
        by_name = {one.topic_name: one.partitions for one in shares}
        return _partitions(by_name)

    # Commands of members of the new protocol

    def act_joins(self, name, topics="t", regex=None, instance=None, **said):
        member_id = said.pop("id", name)
        options = {
            {"assignor": "server_assignor", "rack": "rack_id"}[key]: value
            for key, value in said.items()
        }
        names = [one for one in topics.split(",") if one]
        client = Client(member_id, names, regex, instance, **options)
        self.clients[name] = client
        return self._say(name, client.join())

    def act_beats(self, name, *how, **said):
        client = self.clients[name]
        owned = client.owned
        if "owns" in said:
            owned = self._ids(said["owns"])
        changes = {"topic_partitions": dict(owned)}
        if "epoch" in said:
            changes["member_epoch"] = int(said["epoch"])
        if "topics" in said:
            changes["subscribed_topic_names"] = [one for one in said["topics"].split(",") if one]
        if "regex" in said:
            changes["subscribed_topic_regex"] = said["regex"]
        return self._say(name, client.beat(**changes), lost="lost" in how)

    def act_leaves(self, name):
        return self._say(name, self.clients[name].beat(member_epoch=-1))

    def act_goes(self, name, away):
        assert away == "away"
        return self._say(name, self.clients[name].beat(member_epoch=-2))

    def _ids(self, text):
        owned = {}
        for share in text.split("+"):
            topic, _, numbers = share.partition(":")
            if topic:
                topic_id = self.topics.by_name(topic).topic_id
                owned[topic_id] = tuple(int(one) for one in numbers.split(","))
        return owned

    def _say(self, name, request, *, lost=False):
        reply = self.machine.answer("consumer_heartbeat", request)
        if not lost:
            self.clients[name].hear(reply)
        self.told.append(f"{name} <- {self._reply(reply)}" + (" (lost)" if lost else ""))
        return []

    def _reply(self, reply):
        assert isinstance(reply, ConsumerHeartbeatReply)
        if reply.error_code:
            return reply.error_code.name
        if reply.assignment is None:
            return f"epoch {reply.member_epoch}"
        return f"epoch {reply.member_epoch}, owns {self._by_id(reply.assignment)}"

    def _by_id(self, partitions):
        by_name = {_topic(topic_id): numbers for topic_id, numbers in partitions.items()}
        return _partitions(by_name)

    # Commands of members of the classic protocol

    def act_enters(self, name, topics="t", instance=None):
        guest = self.guests.setdefault(name, Guest())
        guest.instance = instance or guest.instance
        said = json.dumps({"topics": topics.split(","), "owned": guest.owned}).encode()
        for _ in range(2):
            request = JoinRequest(
                "g",
                guest.member_id,
                guest.instance,
                "consumer",
                (("range", said),),
                10_000,
                60_000,
                client_id=name,
            )
            reply = self._wait_for("join", request)
            if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                guest.member_id, guest.generation = reply.member_id, reply.generation_id
            if reply.error_code is not ErrorCode.MEMBER_ID_REQUIRED:
                break
        if reply.error_code:
            self.told.append(f"{name} <- {reply.error_code.name}")
            return []
        return self._sync(name, guest, leads=reply.leader == guest.member_id)

    def _sync(self, name, guest, *, leads):
        everything = {
            topic: list(range(self.topics.by_name(topic).partition_count))
            for topic in self.topics.names()
        }
        share = json.dumps({"partitions": everything}).encode()
        given = ((guest.member_id, share),) if leads else ()
        request = SyncRequest(
            "g", guest.generation, guest.member_id, guest.instance, assignments=given
        )
        reply = self.machine.answer("sync", request)
        guest.owned = json.loads(reply.assignment)["partitions"]
        role = ", leads" if leads else ""
        self.told.append(
            f"{name} <- generation {guest.generation}{role}, owns {_partitions(guest.owned)}"
        )
        return []

    def _wait_for(self, entry_point, request):
        ticket = self.machine.ask(entry_point, request)
        while self.machine.waits(ticket):
            self.machine.advance(1000)
        return self.machine.replies[ticket]

    def act_pulses(self, name):
        guest = self.guests[name]
        request = HeartbeatRequest("g", guest.generation, guest.member_id, guest.instance)
        reply = self.machine.answer("heartbeat", request)
        self.told.append(f"{name} <- {reply.error_code.name if reply.error_code else 'ok'}")
        return []

    def act_quits(self, name):
        guest = self.guests[name]
        leaving = LeavingMember(guest.member_id, guest.instance)
        reply = self.machine.answer("leave", LeaveRequest("g", (leaving,)))
        code = reply.members[0].error_code
        self.told.append(f"{name} <- {code.name if code else 'left'}")
        return []

    # What comes of it

    def news(self):
        lines = [f"log: {self._record(record)}" for record in self.machine.log[self.written :]]
        self.written = len(self.machine.log)
        lines += self.told
        self.told = []
        return lines

    def _record(self, record):
        return _WRITE.get(type(record), _write_removal)(self, record)


def _topic(topic_id):
    name, _, number = topic_id.decode().rstrip(".").partition("#")
    return name if number == "1" else f"{name}#{number}"


def _partitions(by_name):
    shares = [f"{name}:{','.join(map(str, numbers))}" for name, numbers in sorted(by_name.items())]
    return " ".join(shares) or "nothing"


def _write_member(_, record):
    what = " ".join(record.subscribed_topic_names)
    if record.subscribed_topic_regex:
        what = f"{what} /{record.subscribed_topic_regex}/".strip()
    kind = " with the classic protocol" if record.classic_member_metadata else ""
    return f"{record.member_id} reads {what or 'nothing'}{kind}"


def _write_current(stage, record):
    has = stage._by_id({topic: sorted(held) for topic, held in record.assigned.items()})
    line = f"{record.member_id} has {has}, epoch {record.member_epoch}, {STATES[record.state]}"
    if record.pending_revocation:
        gone = {topic: sorted(held) for topic, held in record.pending_revocation.items()}
        line += f" {stage._by_id(gone)}"
    return line


def _write_classic(_, record):
    owned = " ".join(
        f"{one.member_id}={_partitions(json.loads(one.assignment or b'{}').get('partitions', {}))}"
        for one in record.members
    )
    return f"classic generation {record.generation} [{owned}]"


def _write_removal(_, record):
    kind = type(record).__name__.removesuffix("Removed")
    who = getattr(record, "member_id", getattr(record, "regular_expression", ""))
    return f"no {kind} {who}".rstrip()


_WRITE = {
    r.ConsumerGroupEpoch: lambda _, record: f"group epoch {record.epoch}",
    r.ConsumerGroupMember: _write_member,
    r.TargetAssignment: lambda stage, record: (
        f"{record.member_id} shall have {stage._by_id(record.partitions)}"
    ),
    r.TargetAssignmentEpoch: lambda _, record: f"target of epoch {record.assignment_epoch}",
    r.CurrentAssignment: _write_current,
    r.ResolvedRegularExpression: lambda _, record: (
        f"/{record.regular_expression}/ is {' '.join(record.topics) or 'nothing'}"
    ),
    r.ClassicGroupSaved: _write_classic,
}

STAGE = ConsumerStage
