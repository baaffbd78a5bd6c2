"""Every API x principal x resource: what each needs is needed, is enough, and helps nobody else.

The node is the only member of a cluster, so that it serves everything there is. The cases are in `acl_cases.py`; an API without one
fails the first test here.
"""

from __future__ import annotations

import struct
from random import Random

import pytest
from acl_cases import CASES, CODES, FREE, GROUP, NAMES, TOPIC, TXN, Ids, codes_in
from acl_kit import AUTHORIZER, creation
from fuzz_world import FuzzLink, FuzzNode, joined

from barnabas.broker import dispatch
from barnabas.broker.permissions import PERMISSIONS
from barnabas.core.quota_table import REQUEST, Entity
from barnabas.model.acl import Operation, Permission, ResourceType
from barnabas.model.principal import Principal
from barnabas.wire import frame
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.primitives import WireError

SERVED = {**dispatch.TABLE, **dispatch.cluster_table()}
DENIALS = set(CODES.values())


class Member:
    """The only broker of its cluster, asked by anybody."""

    def __init__(self):
        settings = {
            "zookeeper.connect": "localhost:2181",
            "node.id": "1",
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:root;User:ANONYMOUS",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
        }
        self._fuzz = FuzzNode(Random(1), settings)
        self.node = self._fuzz.node
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        (made,) = self.ask("root", CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics
        assert made.error_code == 0, made
        self.ids = Ids(bytes(made.topic_id))
        self._fill()

    def _fill(self):
        """Let there be a group and a transactional id."""
        for kind, name in ((0, GROUP), (1, TXN)):
            find = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            self._until(find, 4, lambda answer: answer.coordinators[0].error_code == 0)
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        commit = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
        )
        self._until(commit, 8, lambda answer: not any(codes_in(answer)))
        init = InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=1000)
        self._until(init, 4, lambda answer: answer.error_code == 0)

    def _until(self, request, version, is_done):
        for _ in range(100):
            answer = self.ask("root", request, version)
            if is_done(answer):
                return
            self._fuzz.events.advance(100)
        raise AssertionError(answer)

    def ask(self, user, request, version):
        """Ask as somebody, on a connection of its own."""
        link = FuzzLink()
        link.principal = Principal("User", user)
        head = struct.pack(">hhih", request.API_KEY, version, 7, -1)
        if version >= request.FLEXIBLE_FROM:
            head += b"\0"
        body = b"".join(bytes(part) for part in request.encode(version))
        parts = self.node.on_request(link, memoryview(bytearray(head + body)))
        if parts is not None:
            link.answers.append(joined(parts))
        for _ in range(100):
            self.node.on_turn_end()
            self._fuzz.events.settle()
            if link.answers:
                break
            self._fuzz.events.advance(100)
        (answer,) = link.answers
        start = 4 + len(frame.response_header(7, request.API_KEY, version))
        _, response = frame.message_types(request.API_KEY)
        return response.decode(answer, version, start)

    def allow(self, *creations):
        answer = self.ask("root", CreateAclsRequest(creations=list(creations)), 3)
        assert not any(codes_in(answer)), answer


def rule(need, user="alice", name=None, **more):
    operation, kind = need
    return creation(operation, kind, name or NAMES[kind], f"User:{user}", **more)


@pytest.fixture(scope="module")
def shared():
    """A member on which nothing is allowed to those who ask, and so nothing changes."""
    return Member()


def test_every_api_has_a_case():
    assert {case.key for case in CASES} | FREE == set(SERVED)
    assert set(SERVED) <= set(PERMISSIONS)
    for case in CASES:
        api = SERVED[case.key]
        assert api.min_version <= case.version <= api.max_version


@pytest.mark.parametrize("case", CASES, ids=str)
def test_who_has_no_permission_is_denied(shared, case):
    assert is_denied(
        case, shared.ask("nobody", case.build(shared.ids), case.version), case.needs[0]
    )


#: Versions that cannot tell it: an empty list, as in Kafka; and ids before they could be asked for.
UNTOLD = {(35, 1), (35, 2), (3, 10), (3, 11)}


def is_of(request, version):
    """Tell whether a version can carry this form of a request."""
    try:
        body = b"".join(bytes(part) for part in request.encode(version))
    except WireError:
        return False
    return type(request).decode(body, version) == request


@pytest.mark.parametrize("case", [case for case in CASES if case.sees is None], ids=str)
def test_denials_can_be_told_in_every_version(shared, case):
    told = []
    for version in range(SERVED[case.key].min_version, SERVED[case.key].max_version + 1):
        request = case.build(shared.ids)
        if not is_of(request, version) or (case.key, version) in UNTOLD:
            continue
        answer = shared.ask("nobody", request, version)
        assert set(codes_in(answer)) & DENIALS, (version, answer)
        told.append(version)
    assert case.version in told


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_permission_is_needed_on_this_very_thing_and_all_are_enough(case):
    member = Member()
    ask = lambda user: member.ask(user, case.build(member.ids), case.version)  # noqa: E731
    for number, need in enumerate(case.needs):
        user = f"lacks-{number}"
        others = [one for one in case.needs if one != need]
        # The other things of the kind, another operation, another host, and another's rules do not help.
        elsewhere = (
            [] if need[1] is ResourceType.CLUSTER else [rule(need, user, f"{NAMES[need[1]]}-other")]
        )
        if case.key == 22:
            elsewhere = []  # writing anywhere is enough
        member.allow(
            *[rule(one, user) for one in others],
            *elsewhere,
            rule(need, user, host="192.0.2.1"),
            rule((Operation.CREATE_TOKENS, need[1]), user),
        )
        assert is_denied(case, ask(user), need), need
        # A denial wins over everything.
        user = f"denied-{number}"
        member.allow(
            *[rule(one, user) for one in case.needs],
            *[rule((Operation.ALL, one[1]), user) for one in case.needs if not case.instead],
            rule(need, user, permission=Permission.DENY),
        )
        assert is_denied(case, ask(user), need), need
    member.allow(*[rule(one) for one in case.needs])
    assert is_denied(case, ask("bob"), case.needs[0])
    assert is_allowed(case, ask("alice"))


@pytest.mark.parametrize("case", [case for case in CASES if case.instead], ids=str)
def test_what_will_do_instead(case):
    for need in case.instead:
        member = Member()
        member.allow(rule(need))
        assert is_allowed(case, member.ask("alice", case.build(member.ids), case.version))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_super_users_may_everything(case):
    member = Member()
    assert is_allowed(case, member.ask("root", case.build(member.ids), case.version))


def is_denied(case, answer, need):
    found = set(codes_in(answer)) & DENIALS
    if case.sees is not None:
        return not case.sees(answer) and not found
    return case.code_of(need) in found


def is_allowed(case, answer):
    return not set(codes_in(answer)) & DENIALS and (case.sees is None or case.sees(answer))


# A failure does not reveal that a topic exists


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if (case.needs[-1][1] is ResourceType.TOPIC and case.note not in ("id", "all"))
     and (case.key, case.version) not in {(0, 13), (1, 13), (8, 10), (9, 10), (22, 4)}],
    ids=str,
)  # fmt: skip
def test_what_is_denied_looks_the_same_whether_it_is_there_or_not(shared, monkeypatch, case):
    there = shared.ask("nobody", case.build(shared.ids), case.version)
    topic = shared.node.topics.by_name[TOPIC]
    monkeypatch.delitem(shared.node.topics.by_name, TOPIC)
    monkeypatch.delitem(shared.node.topics.by_id, topic.id)
    assert shared.ask("nobody", case.build(shared.ids), case.version) == there


# Who only says to be a broker


def test_who_poses_as_a_follower_is_billed_like_others(monkeypatch):
    member = Member()
    member.node.quotas.put(Entity("eve"), {REQUEST: 1})
    spent = iter(range(0, 10**15, 10**9))
    monkeypatch.setattr(member.node.world.clock, "monotonic_ns", lambda: next(spent), raising=False)
    topics = [FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0)])]
    request = FetchRequest(replica_id=1, max_wait_ms=0, topics=topics)
    answer = member.ask("eve", request, 12)
    assert (answer.throttle_time_ms > 0, answer.responses) == (True, [])
    assert member.ask("root", request, 12).throttle_time_ms == 0
