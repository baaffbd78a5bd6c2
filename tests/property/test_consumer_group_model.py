"""A consumer group under any order of joins, losses, silence, failures and restarts, against a naive model.

The model is the clients' own view: each owns what its last answer said. Whatever happens, a partition is never held by
two members; what a client the group still takes for a member owns is what the group says it holds; epochs never fall; who
is fenced changes nothing. When faults stop, everybody comes to own a fair share of everything.
"""

from __future__ import annotations

from consumer_kit import Client, Fleet, Topics
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
SUBSCRIPTIONS = st.sampled_from([("t",), ("t", "u"), ("u",), ()])
REGEXES = st.sampled_from(["t", "[tuv]", "nothing"])


class ConsumerGroupModel(RuleBasedStateMachine):
    """Five names, two or three topics, one group."""

    def __init__(self):
        super().__init__()
        self.fleet = Fleet(Topics(t=3, u=2), GroupSettings())
        self.epochs = (0, 0)
        self.member_epochs = {}

    @property
    def group(self):
        return self.fleet.both.groups.get("g")

    def client(self, name):
        return self.fleet.clients.get(name)

    def say(self, client, request, *, lost):
        """Send; a lost answer was acted on by the group and never heard. A client says everything after that, or an error."""
        reply = self.fleet.machine.answer("consumer_heartbeat", request)
        client.says_all = lost or reply.error_code is not ErrorCode.NONE
        if not lost:
            client.hear(reply)
        return reply

    # What clients do

    @rule(name=NAMES, topics=SUBSCRIPTIONS, static=st.booleans(), lost=st.booleans())
    def join(self, name, topics, static, lost):
        client = self.fleet.client(name, topics=topics, instance_id=name if static else None)
        self.say(client, client.join(), lost=lost)

    @rule(name=NAMES, regex=REGEXES, lost=st.booleans())
    def join_with_an_expression(self, name, regex, lost):
        client = self.fleet.client(name, topics=None, regex=regex)
        self.say(client, client.join(), lost=lost)

    @rule(name=NAMES, lost=st.booleans(), owned=st.booleans())
    def beat(self, name, lost, owned):
        client = self.client(name)
        if client is not None and client.epoch > 0:
            owns = dict(client.owned) if owned else None
            bare = client.beat(topic_partitions=owns)
            self.say(client, client.full() if client.says_all else bare, lost=lost)

    @rule(name=NAMES, topics=SUBSCRIPTIONS, lost=st.booleans())
    def change_subscription(self, name, topics, lost):
        client = self.client(name)
        if client is not None and client.epoch > 0:
            client.topics = topics
            self.say(client, client.full(), lost=lost)

    @rule(name=NAMES, away=st.booleans())
    def leave(self, name, away):
        client = self.client(name)
        if client is not None and client.epoch > 0:
            epoch = -2 if away and client.instance_id else -1
            reply = self.fleet.machine.answer("consumer_heartbeat", client.beat(member_epoch=epoch))
            if reply.error_code is ErrorCode.NONE:
                del self.fleet.clients[name]

    @rule(name=NAMES, epoch=st.integers(1, 50))
    def speak_from_another_epoch(self, name, epoch):
        """A member that is not at its epoch changes nothing."""
        member = self.group.members.get(name) if self.group else None
        if member is None or epoch not in (member.member_epoch, member.previous_member_epoch):
            written = len(self.fleet.machine.log)
            stranger = Client(name, instance_id=member.instance_id if member else None)
            request = stranger.beat(member_epoch=epoch, subscribed_topic_names=["t", "u"])
            reply = self.fleet.machine.answer("consumer_heartbeat", request)
            assert reply.error_code is not ErrorCode.NONE
            assert len(self.fleet.machine.log) == written

    # What the world does

    @rule(duration_ms=st.sampled_from([0, 500, 1000, 5000, 20_000, 45_000, 60_000]))
    def wait(self, duration_ms):
        self.fleet.machine.advance(duration_ms)

    @rule(count=st.integers(4, 7))
    def grow(self, count):
        topic = self.fleet.topics.by_name("t")
        if topic is not None and count > topic.partition_count:
            self.fleet.topics.grow("t", count)
            self.fleet.both.consumer.on_topics_changed(["t"])

    @rule(name=st.sampled_from(["t", "u", "v"]))
    def make_or_delete(self, name):
        if self.fleet.topics.by_name(name) is None:
            self.fleet.topics.make(name, 2)
        else:
            self.fleet.topics.delete(name)
        self.fleet.both.consumer.on_topics_changed([name])

    @rule()
    def break_the_log(self):
        self.fleet.machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS

    @precondition(lambda self: self.fleet.machine.fail_appends_with is not None)
    @rule()
    def mend_the_log(self):
        self.fleet.machine.fail_appends_with = None

    @rule()
    def restart(self):
        before = self.fleet.both.consumer.describe("g")
        self.fleet.restart()
        assert self.fleet.both.consumer.describe("g") == before

    # What always holds

    @invariant()
    def what_a_member_owns_is_held_for_it(self):
        if self.group is None:
            return
        for name, client in self.fleet.clients.items():
            member = self.group.members.get(name)
            if member is None or client.epoch not in (
                member.member_epoch,
                member.previous_member_epoch,
            ):
                continue  # fenced at its next word
            for topic_id, partitions in client.owned.items():
                for partition in partitions:
                    assert self.group.owner(topic_id, partition) == name

    @invariant()
    def epochs_never_fall(self):
        if self.group is None:
            return
        epochs = (self.group.group_epoch, self.group.assignment_epoch)
        assert epochs >= self.epochs
        assert epochs[1] >= self.epochs[1]
        assert epochs[0] >= epochs[1]
        self.epochs = epochs
        alive = {
            name: member.member_epoch
            for name, member in self.group.members.items()
            if member.member_epoch >= 0
        }
        for name, epoch in alive.items():
            assert self.member_epochs.get(name, 0) <= epoch <= epochs[1]
        self.member_epochs = alive

    @invariant()
    def a_partition_is_held_once(self):
        if self.group is not None:
            held = {
                (topic_id, partition)
                for member in self.group.members.values()
                for share in (member.assigned, member.pending_revocation)
                for topic_id, partitions in share.items()
                for partition in partitions
            }
            counted = sum(len(owners) for owners in self.group.owners.values())
            assert len(held) == counted

    # When faults stop

    def teardown(self):
        self.fleet.machine.fail_appends_with = None
        for _ in range(40):
            self.fleet.machine.advance(5000)
            for client in list(self.fleet.clients.values()):
                self.everyday(client)
        if self.fleet.clients:
            self.check_rest()

    def everyday(self, client):
        """What a healthy client does: join when it must, say what it owns, give up at once."""
        if client.epoch == 0:
            request = client.join()
        elif client.says_all:
            request = client.full()
        else:
            request = client.beat(topic_partitions=dict(client.owned))
        reply = self.say(client, request, lost=False)
        if reply.error_code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.epoch, client.owned = 0, {}

    def check_rest(self):
        group = self.group
        assert group.state_name == "Stable"
        assert set(group.members) == set(self.fleet.clients)
        topics = self.fleet.topics
        read = {name for name in topics.names() if group.is_subscribed_to(name)}
        wanted = {
            (topics.by_name(name).topic_id, partition)
            for name in read
            for partition in range(topics.by_name(name).partition_count)
        }
        owners = self.fleet.owners()
        assert set(owners) == wanted
        by_subscription = {}
        for name, client in self.fleet.clients.items():
            member = group.members[name]
            assert member.member_epoch == client.epoch
            key = (member.subscribed_topic_names, member.subscribed_topic_regex)
            load = sum(map(len, client.owned.values()))
            by_subscription.setdefault(key, []).append(load)
        for loads in by_subscription.values():
            assert max(loads) - min(loads) <= 1


TestConsumerGroupModel = ConsumerGroupModel.TestCase
TestConsumerGroupModel.settings = settings(max_examples=100, stateful_step_count=40)
