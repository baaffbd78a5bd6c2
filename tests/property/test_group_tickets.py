"""Whatever is asked of groups, in any order, and whatever is refused or lost meanwhile: each request is answered, and once.

Clients of both protocols know nothing of manners: they ask with ids and generations that were, are, or never will be, while the log
refuses records, the coordinator moves, topics go and members of the other protocol take groups over. `group_kit.Machine` keeps the
books: after every step a ticket is answered, or held by a member that can be found.
"""

from __future__ import annotations

import json

from consumer_kit import Both, Topics, topic_id_of
from group_kit import Machine
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from barnabas.core.group.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

GROUPS = st.sampled_from(["g", "g", "g", "h"])
INSTANCES = st.sampled_from([None, None, "one", "two"])
#: Which member of the group; or the id that was given out last, or one that never was.
LAST, NOBODY = -1, -2
MEMBERS = st.sampled_from([0, 0, 1, 1, 2, LAST, LAST, NOBODY])
GENERATIONS = st.sampled_from([0, 0, 0, 1, -1])
PROTOCOLS = st.sampled_from([*4 * [("range",)], ("range", "sticky"), ("sticky",), ("connect",)])
METADATA = st.sampled_from([*3 * [b'{"topics": ["t"]}'], *2 * [b'{"topics": ["t", "u"]}'], b"?"])
SHARES = st.sampled_from([b"", b"", b'{"partitions": {"t": [0]}}', b"?"])
KNOWS = st.sampled_from([True, False, False])
REGEXES = st.sampled_from([None, None, "t.*", "("])
SESSION_MS, REBALANCE_MS = 10_000, 20_000
#: The longest that a request may wait: for members to come back, one rebalance after the other while static ones are away.
LONGEST_MS = 20 * (SESSION_MS + REBALANCE_MS)


class GroupTickets(RuleBasedStateMachine):
    """Two groups, full with four members or, of the new protocol, two."""

    def __init__(self):
        super().__init__()
        self.topics = Topics(t=2, u=1)
        self.machine = Machine(self.fresh())
        self.ids = ["nobody"]
        self.heard = 0

    def fresh(self):
        return Both(
            self.topics,
            GroupSettings(
                initial_rebalance_delay_ms=3000, consumer_assignment_interval_ms=0, max_size=4,
                consumer_max_size=2, new_member_join_timeout_ms=60_000,
            ),
        )  # fmt: skip

    def ask(self, entry_point, request):
        self.machine.ask(entry_point, request)
        self.learn()

    def learn(self):
        for _ticket, reply in self.machine.heard():
            member_id = getattr(reply, "member_id", None)
            if member_id and member_id not in self.ids:
                self.ids.append(member_id)

    def member(self, group_id, place):
        """Give an id, and the instance id that goes with it as far as anybody knows."""
        group = self.machine.machine.groups.get(group_id)
        members = [] if group is None else list(group.members.values())
        if place < 0 or not members:
            return ("nobody" if place == NOBODY else self.ids[-1]), None
        member = members[place % len(members)]
        if group.group_type == "classic":
            return member.member_id, member.group_instance_id
        return member.member_id, member.instance_id

    def generation(self, group_id, by):
        group = self.machine.machine.groups.get(group_id)
        now = 0 if group is None else getattr(group, "generation", None)
        return by + (group.assignment_epoch if now is None else now)

    @rule(group_id=GROUPS, instance=INSTANCES, names=PROTOCOLS, metadata=METADATA, knows=KNOWS)
    def join_as_new(self, group_id, instance, names, metadata, knows):
        self.join(group_id, ("", instance), names, metadata, knows)

    @rule(group_id=GROUPS, place=MEMBERS, names=PROTOCOLS, metadata=METADATA)
    def join_again(self, group_id, place, names, metadata):
        self.join(group_id, self.member(group_id, place), names, metadata, True)

    def join(self, group_id, member, names, metadata, knows):
        kind = "connect" if names == ("connect",) else "consumer"
        protocols = tuple((name, metadata) for name in names)
        self.ask(
            "join",
            JoinRequest(
                group_id, *member, kind, protocols, SESSION_MS, REBALANCE_MS, "c", "/h",
                requires_known_member_id=knows,
            ),
        )  # fmt: skip

    @rule(group_id=GROUPS, place=MEMBERS, by=GENERATIONS, share=SHARES)
    def sync(self, group_id, place, by, share):
        group = self.machine.machine.groups.get(group_id)
        given = () if group is None else tuple((member_id, share) for member_id in group.members)
        generation, member = self.generation(group_id, by), self.member(group_id, place)
        self.ask("sync", SyncRequest(group_id, generation, *member, assignments=given))

    @rule(group_id=GROUPS, place=MEMBERS, by=GENERATIONS)
    def beat(self, group_id, place, by):
        generation, member = self.generation(group_id, by), self.member(group_id, place)
        self.ask("heartbeat", HeartbeatRequest(group_id, generation, *member))

    @rule(group_id=GROUPS, place=MEMBERS)
    def leave(self, group_id, place):
        leaving = (LeavingMember(*self.member(group_id, place)),)
        self.ask("leave", LeaveRequest(group_id, leaving))

    @rule(
        group_id=GROUPS, member_id=st.sampled_from(["x", "y"]), instance=INSTANCES,
        epoch=st.sampled_from([0, 0, 0, 1, 2, -1, -1, -2]), regex=REGEXES,
    )  # fmt: skip
    def consumer_beats(self, group_id, member_id, instance, epoch, regex):
        self.ask(
            "consumer_heartbeat",
            ConsumerHeartbeatRequest(
                group_id, member_id, epoch, instance_id=instance, rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=["t"], subscribed_topic_regex=regex, topic_partitions={},
            ),
        )  # fmt: skip

    @rule(duration_ms=st.sampled_from([0, 1000, 5000, SESSION_MS, REBALANCE_MS]))
    def wait(self, duration_ms):
        self.machine.advance(duration_ms)
        self.learn()

    @rule(what=st.sampled_from(["breaks", "works", "works", "moves", "t", "u"]))
    def something_happens(self, what):
        machine = self.machine
        if what in ("breaks", "works"):
            broken = what == "breaks"
            machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS if broken else None
        elif what == "moves":
            machine.restart(self.fresh())
        else:
            self.topics.delete(what)
            machine.machine.consumer.on_topics_changed([what])
            self.topics.make(what, 2)
            machine.machine.consumer.on_topics_changed([what])

    def teardown(self):
        self.machine.fail_appends_with = None
        self.machine.advance(LONGEST_MS)
        assert not self.machine.owed, "nobody waits for longer than a rebalance takes"


TestGroupTickets = GroupTickets.TestCase
TestGroupTickets.settings = settings(max_examples=100, stateful_step_count=40)


def test_the_books_show_a_request_that_is_forgotten():
    """What is said above is really looked at: a member that waits is taken out of its group."""
    model = GroupTickets()
    said = (("range", json.dumps({"topics": ["t"]}).encode()),)
    request = JoinRequest(
        "g", "", None, "consumer", said, SESSION_MS, REBALANCE_MS, "c", "/h",
        requires_known_member_id=False,
    )  # fmt: skip
    model.machine.ask("join", request)
    assert model.machine.owed
    model.machine.machine.groups["g"].members.clear()
    try:
        model.machine.check_books()
    except AssertionError as problem:
        assert "owed [1]" in str(problem)  # noqa: PT017
    else:
        raise AssertionError("nobody noticed")
    assert topic_id_of("t") == model.topics.by_name("t").topic_id
