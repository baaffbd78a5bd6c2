"""librdkafka's groups: its three classic assignors, the broker's two (KIP-848), static members, patterns, moving between the protocols, crowds."""

import contextlib

import confluent_kafka as ck
import confluent_kafka.admin as cka
import pytest
from compat.members import (
    TIMEOUT_S,
    Member,
    all_owned,
    committed,
    create_topic,
    member_settings,
    produce,
    shares,
    until,
)

PARTITIONS = 6
EAGER = [
    ("classic", {"partition.assignment.strategy": "range"}),
    ("classic", {"partition.assignment.strategy": "roundrobin"}),
]
INCREMENTAL = [
    ("classic", {"partition.assignment.strategy": "cooperative-sticky"}),
    ("consumer", {"group.remote.assignor": "uniform"}),
    ("consumer", {"group.remote.assignor": "range"}),
]
SPARES = 20
CROWD = 100


def name_of(case):
    protocol, settings = case
    return "-".join([protocol, *settings.values()])


@pytest.fixture
def admin(group_bootstrap):
    return cka.AdminClient({"bootstrap.servers": group_bootstrap})


@pytest.fixture
def topic(admin, topic_name):
    return create_topic(admin, topic_name, PARTITIONS)


@pytest.fixture
def group(topic_name):
    return f"{topic_name}-group"


@pytest.fixture
def join(group_bootstrap, group):
    with contextlib.ExitStack() as members:

        def make(topic, protocol="classic", **settings):
            member = Member([topic], member_settings(group_bootstrap, group, protocol, **settings))
            members.callback(member.drop)
            return member

        yield make


@pytest.mark.parametrize("case", [*EAGER, *INCREMENTAL], ids=name_of)
def test_two_members_share_commit_and_are_succeeded(
    group_bootstrap, admin, topic, group, join, case
):
    protocol, settings = case
    produce(group_bootstrap, topic, [f"first {n}" for n in range(60)], PARTITIONS)
    one = join(topic, protocol, **settings)
    until(lambda: len(one.read) == 60, one)
    one.commit()
    two = join(topic, protocol, **settings)
    until(lambda: len(one.owned) == len(two.owned) == 3, one, two)
    assert all_owned(topic, PARTITIONS, one, two)
    produce(group_bootstrap, topic, [f"second {n}" for n in range(60)], PARTITIONS)
    until(lambda: len(one.read) + len(two.read) == 120, one, two)
    assert len(two.read) == 30
    one.commit()
    two.commit()
    assert committed(admin, group, topic, PARTITIONS) == [20] * PARTITIONS

    revoked = {place for call, places in one.calls if call == "revoke" for place in places}
    if case in INCREMENTAL:
        assert len(revoked) == 3, "only what moved was taken"
    else:
        assert len(revoked) == PARTITIONS, "all was taken, half of it given back"

    one.close()
    two.close()
    heir = join(topic, protocol, **settings)
    produce(group_bootstrap, topic, ["third"])
    until(lambda: heir.read, heir)
    assert heir.values == ["third"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_comes_back_and_nobody_notices(topic, join, protocol):
    # It has to be back before it is missed; in the other protocol the broker says how long that is.
    patient = {"session.timeout.ms": 45_000} if protocol == "classic" else {}
    names = [patient | {"group.instance.id": name} for name in ("a", "b")]
    one, two = (join(topic, protocol, **name) for name in names)
    until(lambda: len(one.owned) == len(two.owned) == 3, one, two)
    had, calls = one.owned, list(two.calls)
    one.close()
    again = join(topic, protocol, **names[0])
    until(lambda: again.owned, again, two)
    assert again.owned == had
    assert two.calls == calls


def test_a_second_holder_of_a_name_fences_the_first(topic, join):
    first = join(topic, **{"group.instance.id": "a"})
    until(lambda: len(first.owned) == PARTITIONS, first)
    second = join(topic, **{"group.instance.id": "a"})
    until(lambda: len(second.owned) == PARTITIONS, second)
    with pytest.raises(AssertionError, match="fenced"):
        until(lambda: False, first)
    with pytest.raises(ck.KafkaException):
        first.commit(ck.TopicPartition(topic, 0, 1))
    assert len(second.owned) == PARTITIONS


def test_a_second_holder_of_a_name_is_refused_while_the_first_lives(topic, join):
    first = join(topic, "consumer", **{"group.instance.id": "a"})
    until(lambda: len(first.owned) == PARTITIONS, first)
    second = join(topic, "consumer", **{"group.instance.id": "a"})
    with pytest.raises(AssertionError, match="instance ID is still used"):
        until(lambda: second.owned, first, second)
    assert len(first.owned) == PARTITIONS


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_takes_in_topics_that_come_later(admin, topic_name, join, protocol):
    """The client works it out in the classic protocol; the broker does, with RE2, in the other."""
    create_topic(admin, f"{topic_name}-no", 1)
    create_topic(admin, f"{topic_name}-1", 2)
    member = join(f"^{topic_name}-[0-9]+$", protocol)
    until(lambda: len(member.owned) == 2, member)
    create_topic(admin, f"{topic_name}-22", 1)
    until(lambda: len(member.owned) == 3, member)
    assert {topic for topic, _ in member.owned} == {f"{topic_name}-1", f"{topic_name}-22"}


def test_a_group_changes_protocol_while_it_runs(group_bootstrap, admin, topic, group, join):
    """Classic to consumer and back, member by member, with nothing lost and nothing read twice."""
    sticky = {"partition.assignment.strategy": "cooperative-sticky"}
    classic = join(topic, **sticky)
    everybody = [classic]

    def settle(expected_count, *living):
        produce(group_bootstrap, topic, [f"{expected_count}"] * PARTITIONS, PARTITIONS)
        until(lambda: sum(len(m.read) for m in everybody) == expected_count, *living)
        assert all_owned(topic, PARTITIONS, *living)
        for member in living:
            member.commit()

    settle(6, classic)
    assert type_of(admin, group) == "classic"
    modern = join(topic, "consumer")
    everybody.append(modern)
    until(lambda: len(classic.owned) == len(modern.owned) == 3, classic, modern)
    assert type_of(admin, group) == "consumer"
    settle(12, classic, modern)
    classic.close()
    until(lambda: len(modern.owned) == PARTITIONS, modern)
    settle(18, modern)
    old_again = join(topic, **sticky)
    everybody.append(old_again)
    until(lambda: len(old_again.owned) == len(modern.owned) == 3, old_again, modern)
    settle(24, old_again, modern)
    modern.close()
    until(lambda: len(old_again.owned) == PARTITIONS, old_again)
    settle(30, old_again)
    assert type_of(admin, group) == "classic"


def type_of(admin, group):
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S).valid
    (found,) = [each for each in listed if each.group_id == group]
    return found.type.name.lower()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_hundred_members_join_at_once(admin, topic_name, group, join, protocol):
    """As many partitions as members without the spares: everyone gets one or none, no two the same."""
    topic = create_topic(admin, topic_name, CROWD - SPARES)
    # A rebalance with so many clients in one process takes its time; nobody should be missed meanwhile.
    patient = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 1000}
    settings = patient if protocol == "classic" else {}
    crowd = [join(topic, protocol, **{"client.id": f"c{n}"} | settings) for n in range(CROWD)]
    expected = [0] * SPARES + [1] * (CROWD - SPARES)
    until(lambda: sorted(shares(admin, group).values()) == expected, *crowd)
    until(lambda: all_owned(topic, CROWD - SPARES, *crowd), *crowd)


def test_a_thousand_groups(group_bootstrap, admin, topic, group):
    names = [f"{group}-{n:04}" for n in range(1000)]
    for number, name in enumerate(names):
        place = ck.TopicPartition(topic, number % PARTITIONS, number)
        assert altered(admin, ck.ConsumerGroupTopicPartitions(name, [place])) is None
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert listed.errors == []
    assert [g.group_id for g in sorted(listed.valid, key=lambda g: g.group_id)
            if g.group_id.startswith(f"{group}-")] == names  # fmt: skip
    for number in (0, 499, 999):
        found = committed(admin, names[number], topic, PARTITIONS)
        assert found[number % PARTITIONS] == number
    deleted = admin.delete_consumer_groups(names, request_timeout=TIMEOUT_S)
    assert [future.result(TIMEOUT_S) for future in deleted.values()] == [None] * 1000


def refused(future):
    with pytest.raises(ck.KafkaException) as caught:
        future.result(TIMEOUT_S)
    return caught.value.args[0].code()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_administration(admin, topic, group, join, protocol):
    member = join(topic, protocol, **{"client.id": "me", "group.instance.id": "i-1"})
    until(lambda: len(member.owned) == PARTITIONS, member)
    member.commit(ck.TopicPartition(topic, 0, 5, "text"), ck.TopicPartition(topic, 1, 6))
    (future,) = admin.describe_consumer_groups([group]).values()
    described = future.result(TIMEOUT_S)
    assert described.group_id == group
    assert described.state == ck.ConsumerGroupState.STABLE
    assert described.type.name.lower() == protocol
    assert described.partition_assignor == {"classic": "range", "consumer": "uniform"}[protocol]
    (only,) = described.members
    assert (only.client_id, only.group_instance_id) == ("me", "i-1")
    assert "127.0.0.1" in only.host
    assert len(only.assignment.topic_partitions) == PARTITIONS

    # A group with members keeps them, its topics, and what they have committed.
    assert refused(*admin.delete_consumer_groups([group]).values()) == ck.KafkaError.NON_EMPTY_GROUP
    change = ck.ConsumerGroupTopicPartitions(group, [ck.TopicPartition(topic, 0, 3)])
    assert altered(admin, change).code() == ck.KafkaError.UNKNOWN_MEMBER_ID
    states = {ck.ConsumerGroupState.STABLE}
    assert group in listed(admin, states=states)
    assert group not in listed(admin, states={ck.ConsumerGroupState.EMPTY})
    other = "consumer" if protocol == "classic" else "classic"
    assert group in listed(admin, types={ck.ConsumerGroupType[protocol.upper()]})
    assert group not in listed(admin, types={ck.ConsumerGroupType[other.upper()]})

    member.consumer.unsubscribe()
    until(lambda: not member.owned, member)
    member.close()
    # A static member goes when its session ends; then the offsets are free.
    until(lambda: not shares(admin, group))
    assert altered(admin, change) is None
    assert committed(admin, group, topic, 2) == [3, 6]
    assert [f.result(TIMEOUT_S) for f in admin.delete_consumer_groups([group]).values()] == [None]
    assert refused(*admin.delete_consumer_groups([group]).values()) == ck.KafkaError.GROUP_ID_NOT_FOUND  # fmt: skip
    assert group not in listed(admin)


def altered(admin, change):
    """The error of the one partition that was to be changed."""
    (future,) = admin.alter_consumer_group_offsets([change]).values()
    (told,) = future.result(TIMEOUT_S).topic_partitions
    return told.error


def listed(admin, **filters):
    answer = admin.list_consumer_groups(request_timeout=TIMEOUT_S, **filters).result(TIMEOUT_S)
    assert answer.errors == []
    return {each.group_id for each in answer.valid}
