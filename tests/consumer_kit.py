"""What the tests of consumer groups share: topics made by hand, a readable embedded protocol, and both kinds of groups together.

`Both` routes as a shard does; `Fleet` drives members that behave as clients do: they give up what they are told to,
remember their epoch, and say what they own.
"""

from __future__ import annotations

import json

from group_kit import Machine, uuids

from barnabas.core.group.classic.machine import ClassicGroups
from barnabas.core.group.consumer.context import (
    EmbeddedAssignment,
    EmbeddedSubscription,
    no_overrides,
)
from barnabas.core.group.consumer.machine import ConsumerGroups
from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
from barnabas.core.group.records import ClassicGroupRemoved, ClassicGroupSaved
from barnabas.core.group.settings import GroupSettings
from barnabas.core.group.topic_view import TopicInfo
from barnabas.model.errors import ErrorCode

#: No pause between two targets unless a test wants one.
SETTINGS = GroupSettings(consumer_assignment_interval_ms=0)


class Topics:
    """A cluster's topics; ids are made from names and the number of times a name was used."""

    def __init__(self, **counts):
        self._by_name = {}
        self._made = {}
        for name, count in counts.items():
            self.make(name, count)

    def make(self, name, partition_count, racks=()):
        self._made[name] = self._made.get(name, 0) + 1
        topic_id = topic_id_of(name, self._made[name])
        self._by_name[name] = TopicInfo(topic_id, name, partition_count, racks)

    def grow(self, name, partition_count):
        self._by_name[name] = self._by_name[name]._replace(partition_count=partition_count)

    def delete(self, name):
        del self._by_name[name]

    def by_name(self, name):
        return self._by_name.get(name)

    def by_id(self, topic_id):
        return next((one for one in self._by_name.values() if one.topic_id == topic_id), None)

    def names(self):
        return self._by_name


def topic_id_of(name, number=1):
    return f"{name}#{number}".encode().ljust(16, b".")


class JsonEmbedded:
    """The embedded protocol as JSON: {"topics": [...], "owned": {...}}; anything else cannot be read."""

    def read_subscription(self, metadata):
        try:
            said = json.loads(metadata)
            return EmbeddedSubscription(
                tuple(said["topics"]), said.get("owned", {}), said.get("rack")
            )
        except (ValueError, KeyError):
            return None

    def read_assignment(self, assignment):
        try:
            said = json.loads(assignment)
            return EmbeddedAssignment(said["partitions"], bool(said.get("user_data")))
        except (ValueError, KeyError):
            return None

    def write_assignment(self, partitions, metadata):
        assert self.read_subscription(metadata) is not None
        return json.dumps(
            {"partitions": {name: list(p) for name, p in partitions.items()}}
        ).encode()


class Both:
    """Classic and consumer groups on one table of groups, routed as a shard does."""

    def __init__(self, topics, settings=SETTINGS, overrides=no_overrides, new_uuid=None):
        self.groups = {}
        new_uuid = new_uuid or uuids()
        self.classic = ClassicGroups(settings, self.groups, new_uuid, self._read_topics)
        self.consumer = ConsumerGroups(
            settings,
            self.groups,
            topics=topics,
            new_uuid=new_uuid,
            embedded=JsonEmbedded(),
            classic=self.classic,
            overrides=overrides,
        )

    @staticmethod
    def _read_topics(metadata):
        read = JsonEmbedded().read_subscription(metadata)
        return None if read is None else read.topics

    def consumer_heartbeat(self, ticket, request, now_ms, wall_ms):
        return self.consumer.heartbeat(ticket, request, now_ms, wall_ms)

    def join(self, ticket, request, now_ms, wall_ms):
        if self.consumer.serves(request.group_id):
            return self.consumer.classic_join(ticket, request, now_ms, wall_ms)
        return self.classic.join(ticket, request, now_ms, wall_ms)

    def sync(self, ticket, request, now_ms, wall_ms):
        if self.consumer.serves(request.group_id):
            return self.consumer.classic_sync(ticket, request, now_ms, wall_ms)
        return self.classic.sync(ticket, request, now_ms, wall_ms)

    def heartbeat(self, ticket, request, now_ms, wall_ms):
        if self.consumer.serves(request.group_id):
            return self.consumer.classic_heartbeat(ticket, request, now_ms, wall_ms)
        return self.classic.heartbeat(ticket, request, now_ms)

    def leave(self, ticket, request, now_ms, wall_ms):
        if self.consumer.serves(request.group_id):
            return self.consumer.classic_leave(ticket, request, now_ms, wall_ms)
        return self.classic.leave(ticket, request, now_ms, wall_ms)

    def replay(self, record):
        if type(record) in ConsumerGroups.RECORDS:
            self.consumer.replay(record)
        elif isinstance(record, ClassicGroupSaved | ClassicGroupRemoved):
            self.classic.replay(record)

    def next_deadline_ms(self):
        both = (self.classic.next_deadline_ms(), self.consumer.next_deadline_ms())
        return min((one for one in both if one is not None), default=None)

    def on_time(self, now_ms, wall_ms):
        return [*self.classic.on_time(now_ms, wall_ms), *self.consumer.on_time(now_ms, wall_ms)]

    def on_append_failed(self, result, error_code, now_ms):
        from barnabas.core.group.classic.group import ClassicGroup

        group = self.groups.get(result.group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.on_append_failed(result, error_code, now_ms)
        return self.consumer.on_append_failed(result, error_code, now_ms)

    def on_loaded(self, now_ms, wall_ms):
        self.classic.on_loaded(now_ms, wall_ms)
        return self.consumer.on_loaded(now_ms, wall_ms)

    def unload(self):
        return [*self.classic.unload(), *self.consumer.unload()]


class Client:
    """A consumer of the new protocol: what it knows, and the heartbeats it sends."""

    def __init__(self, member_id, topics=("t",), regex=None, instance_id=None, **said):
        self.member_id = member_id
        self.topics = topics
        self.regex = regex
        self.instance_id = instance_id
        self.said = said
        self.epoch = 0
        self.owned = {}
        #: An answer was lost: it must say everything, to hear everything.
        self.says_all = False

    def join(self, **changes):
        self.epoch, self.owned = 0, {}
        return self.full(**changes)

    def full(self, **changes):
        fields = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "topic_partitions": dict(self.owned),
            **self.said,
        }
        return self.beat(**{**fields, **changes})

    def beat(self, **changes):
        fields = {"member_epoch": self.epoch, "instance_id": self.instance_id, **changes}
        return ConsumerHeartbeatRequest("g", self.member_id, **fields)

    def hear(self, reply):
        """Take an answer as a client does: what is not in the assignment is given up at once."""
        if reply.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned = 0, {}
        elif reply.error_code is ErrorCode.NONE:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = dict(reply.assignment)
        return reply


class Fleet:
    """Clients of the group `g` before a machine."""

    def __init__(self, topics, settings=SETTINGS, **options):
        self.topics = topics
        self.both = Both(topics, settings, **options)
        self.machine = Machine(self.both)
        self.clients = {}

    @property
    def group(self):
        return self.machine.machine.groups["g"]

    def client(self, member_id, *args, **options):
        self.clients[member_id] = client = Client(member_id, *args, **options)
        return client

    def send(self, client, request):
        return client.hear(self.machine.answer("consumer_heartbeat", request))

    def join(self, member_id, *args, **options):
        client = self.client(member_id, *args, **options)
        reply = self.send(client, client.join())
        assert reply.error_code is ErrorCode.NONE, reply
        return client

    def beat(self, client, **changes):
        """A heartbeat that says what the client owns."""
        if client.epoch == 0:
            return self.send(client, client.join())
        return self.send(client, client.beat(topic_partitions=dict(client.owned), **changes))

    def settle(self, rounds=8):
        """Everybody beats until nothing is written any more."""
        for _ in range(rounds):
            before = len(self.machine.log)
            self.machine.advance(0)
            for client in self.clients.values():
                self.beat(client)
            if len(self.machine.log) == before:
                return
        raise AssertionError("the group does not come to rest")

    def owners(self):
        """Who owns what by what clients know: {(topic id, partition): member id}."""
        owners = {}
        for client in self.clients.values():
            for topic_id, partitions in client.owned.items():
                for partition in partitions:
                    assert (topic_id, partition) not in owners, "two clients own one partition"
                    owners[topic_id, partition] = client.member_id
        return owners

    def restart(self):
        fresh = Both(self.topics)
        self.machine.restart(fresh)
        self.both = fresh
