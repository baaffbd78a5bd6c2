"""What people use groups for, each as a story with a real client (librdkafka), in both of Kafka's group protocols."""

import signal
import threading

import confluent_kafka as ck
import confluent_kafka.admin as cka
import pytest
from compat.members import (
    TIMEOUT_S,
    Member,
    MemberProcess,
    StoppableBroker,
    all_owned,
    committed,
    create_topic,
    member_settings,
    produce,
    shares,
    until,
)


@pytest.fixture(params=["classic", "consumer"])
def protocol(request):
    return request.param


@pytest.fixture
def admin(group_bootstrap):
    return cka.AdminClient({"bootstrap.servers": group_bootstrap})


@pytest.fixture
def group(topic_name):
    return f"{topic_name}-group"


@pytest.fixture
def join(group_bootstrap, protocol, group):
    """Makes members, and drops those the test has left."""
    made = []

    def make(topic, group=group, kind=Member, bootstrap=group_bootstrap, plan=(), **settings):
        name = {"client.id": f"member-{len(made)}"}
        all_settings = member_settings(bootstrap, group, protocol, **name | settings)
        made.append(kind([topic], all_settings, **dict(plan)))
        return made[-1]

    yield make
    for member in made:
        member.drop()


def numbers(count, first=0):
    return [str(n) for n in range(first, first + count)]


def in_order(values):
    return sorted(values, key=int)


# Who reads what


def test_a_spare_waits_and_takes_over_when_an_owner_dies(
    group_bootstrap, admin, topic_name, group, join
):
    topic = create_topic(admin, topic_name, 2)
    trio = {name: join(topic, kind=MemberProcess, **{"client.id": name}) for name in "abc"}
    until(lambda: sorted(shares(admin, group).values()) == [0, 1, 1])
    owned = shares(admin, group)
    (spare,) = (trio[name] for name, count in owned.items() if count == 0)
    dying, living = (trio[name] for name, count in owned.items() if count == 1)
    produce(group_bootstrap, topic, numbers(10), 2)
    for owner in (dying, living):
        owner.wait_until_processed(5)
    until(lambda: committed(admin, group, topic, 2) == [5, 5])

    dying.kill()
    until(lambda: sorted(shares(admin, group).values()) == [1, 1])
    produce(group_bootstrap, topic, numbers(10, first=10), 2)
    spare.wait_until_processed(5)
    living.wait_until_processed(10)
    # The spare went on where the dead one had stopped; together they have everything, once.
    everything = dying.processed + living.processed + spare.processed
    assert in_order(everything) == numbers(20)


def two(topic):
    return [ck.TopicPartition(topic, partition) for partition in range(2)]


def test_fewer_members_than_partitions_share_them(group_bootstrap, admin, topic_name, join):
    topic = create_topic(admin, topic_name, 6)
    produce(group_bootstrap, topic, numbers(60), 6)
    one = join(topic)
    until(lambda: len(one.owned) == 6, one)
    two = join(topic)
    until(lambda: len(one.owned) == len(two.owned) == 3, one, two)
    assert all_owned(topic, 6, one, two)
    one.read.clear()
    two.read.clear()
    produce(group_bootstrap, topic, [f"late {n}" for n in range(60)], 6)

    def late(member):
        return [value for value in member.values if value.startswith("late")]

    until(lambda: len(late(one)) + len(late(two)) == 60, one, two)
    assert len(late(one)) == len(late(two)) == 30
    for member in (one, two):
        assert {(m.topic(), m.partition()) for m in member.read} <= set(member.owned)


def test_queue_and_publish_subscribe_at_once(group_bootstrap, admin, topic_name, group, join):
    topic = create_topic(admin, topic_name, 4)
    pairs = [[join(topic, group=f"{group}-{name}") for _ in range(2)] for name in ("a", "b")]
    for pair in pairs:
        until(lambda pair=pair: all_owned(topic, 4, *pair) and all(m.owned for m in pair), *pair)
    produce(group_bootstrap, topic, numbers(200), 4)
    for one, other in pairs:
        until(lambda one=one, other=other: len(one.read) + len(other.read) >= 200, one, other)
        # Within a group each record goes to one member, and both have work; each group has all of them.
        assert in_order(one.values + other.values) == numbers(200)
        assert len(one.values) == len(other.values) == 100


def poll_through(condition, member):
    """As `until`, but the client may say meanwhile that it misses the topic."""
    while not condition():
        try:
            until(condition, member)
        except AssertionError as told:
            if "UNKNOWN_TOPIC_OR_PART" not in str(told):
                raise


def test_a_topic_comes_grows_goes_and_comes_again(group_bootstrap, admin, topic_name, group, join):
    member = join(topic_name, **{"allow.auto.create.topics": False})
    topic = create_topic(admin, topic_name, 2)
    poll_through(lambda: all_owned(topic, 2, member), member)
    admin.create_partitions([cka.NewPartitions(topic, 4)])[topic].result(TIMEOUT_S)
    until(lambda: all_owned(topic, 4, member), member)
    produce(group_bootstrap, topic, numbers(40), 4)
    until(lambda: len(member.read) == 40, member)
    member.commit()
    assert committed(admin, group, topic, 4) == [10] * 4
    # What a topic's name meant goes with the topic, the offsets too: its successor is read from the start.
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    poll_through(lambda: not member.owned, member)
    assert committed(admin, group, topic, 4) == [ck.OFFSET_INVALID] * 4
    create_topic(admin, topic, 3)
    member.read.clear()
    produce(group_bootstrap, topic, numbers(9), 3)
    poll_through(lambda: len(member.read) == 9, member)
    assert all_owned(topic, 3, member)


class Load(threading.Thread):
    """Writes to every partition in turn until it is told to stop; `written` are the values."""

    def __init__(self, bootstrap, topic, partitions):
        super().__init__()
        self.producer = ck.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self.topic, self.partitions = topic, partitions
        self.written, self.failed, self.enough = [], [], threading.Event()

    def run(self):
        while not self.enough.wait(0.002):
            value = str(len(self.written))
            self.producer.produce(
                self.topic,
                value,
                partition=len(self.written) % self.partitions,
                on_delivery=lambda error, _: error and self.failed.append(error),
            )
            self.written.append(value)
        assert self.producer.flush(TIMEOUT_S) == 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.join(TIMEOUT_S)
        assert self.failed == []


class Worker(Member):
    """A member that commits after each record it has worked on, until it is told that it lost the partition."""

    def poll(self, timeout_s):
        message = super().poll(timeout_s)
        if message is not None and (message.topic(), message.partition()) in self.owned:
            self.consumer.commit(message, asynchronous=True)
        return message


def test_members_join_and_leave_under_load(group_bootstrap, admin, topic_name, group, join):
    topic = create_topic(admin, topic_name, 4)
    first = join(topic, kind=Worker)
    with Load(group_bootstrap, topic, 4) as load:
        until(lambda: len(first.read) > 50, first)
        second, third = join(topic, kind=Worker), join(topic, kind=Worker)
        trio = first, second, third
        until(lambda: all(m.owned for m in trio) and all_owned(topic, 4, *trio), *trio)
        until(lambda: min(len(second.read), len(third.read)) > 20, *trio)
        first.close()
        until(lambda: all_owned(topic, 4, second, third), second, third)
        fourth = join(topic, kind=Worker)
        until(lambda: len(fourth.read) > 20, second, third, fourth)
        second.close()
    rest = third, fourth
    everybody = *trio, fourth

    def seen():
        return {value for member in everybody for value in member.values}

    until(lambda: len(seen()) == len(load.written), *rest)
    assert seen() == set(load.written)
    # And the group as a whole knows it: what is committed is the end.
    ends = [len(load.written[p::4]) for p in range(4)]
    until(lambda: committed(admin, group, topic, 4) == ends, *rest)


# How often a record is worked on


@pytest.mark.parametrize("order", ["process", "commit"])
def test_a_crash_between_work_and_commit(group_bootstrap, admin, topic_name, join, order):
    topic = create_topic(admin, topic_name, 1)
    produce(group_bootstrap, topic, numbers(10))
    crashing = join(topic, kind=MemberProcess, plan={"order": order, "crash_at": "6"})
    before = crashing.hear_out()
    heir = join(topic, kind=MemberProcess, plan={"order": order})
    heir.wait_for("processed", value="9")
    if (
        order == "process"
    ):  # at least once: nothing is missed, and the record in between comes again
        assert (before, heir.processed) == (numbers(7), numbers(4, first=6))
    else:  # at most once: nothing comes twice, and the record in between is missed
        assert (before, heir.processed) == (numbers(6), numbers(3, first=7))


def test_a_member_that_was_away_too_long_changes_nothing(
    group_bootstrap, admin, topic_name, group, join
):
    topic = create_topic(admin, topic_name, 1)
    produce(group_bootstrap, topic, numbers(5))
    sleeper = join(topic, kind=MemberProcess)
    sleeper.wait_for("processed", value="4")
    partition = ck.TopicPartition(topic, 0)
    heir = join(topic)
    until(lambda: heir.committed(partition) == [5])
    # Between two shares it would have nothing to lose.
    until(lambda: sorted(shares(admin, group).values()) == [0, 1], heir)
    sleeper.pause()
    produce(group_bootstrap, topic, numbers(5, first=5))
    until(lambda: heir.values == numbers(5, first=5), heir)
    heir.commit()
    sleeper.go_on()
    # It has lost the partition, learns it, and joins again as a spare; the heir keeps what it has.
    lost = sleeper.wait_for("lost")
    assert lost["partitions"] == [0]
    produce(group_bootstrap, topic, numbers(1, first=10))
    until(lambda: heir.values[-1] == "10", heir)
    assert heir.committed(partition) == [10]


# Where reading begins


def test_rewind_and_replay(group_bootstrap, admin, topic_name, group, join):
    topic = create_topic(admin, topic_name, 1)
    produce(group_bootstrap, topic, numbers(10))
    member = join(topic)
    until(lambda: member.values == numbers(10), member)
    member.commit()
    # As a member, within its partition ...
    member.read.clear()
    member.consumer.seek(ck.TopicPartition(topic, 0, 4))
    until(lambda: member.values == numbers(6, first=4), member)
    # ... and for the next one, by what is committed.
    member.commit(ck.TopicPartition(topic, 0, 2))
    member.close()
    heir = join(topic)
    until(lambda: heir.values == numbers(8, first=2), heir)
    # Reading removes nothing: another group begins at the start.
    stranger = join(topic, group=f"{group}-other")
    until(lambda: stranger.values == numbers(10), stranger)


def test_skip_ahead(group_bootstrap, admin, topic_name, join):
    topic = create_topic(admin, topic_name, 1)
    produce(group_bootstrap, topic, numbers(100))
    member = join(topic)
    until(lambda: member.values, member)
    member.consumer.seek(ck.TopicPartition(topic, 0, 95))
    member.read.clear()
    until(lambda: member.values[-5:] == numbers(5, first=95), member)
    assert len(member.values) < 100
    # What nobody wants to read any more is skipped for whoever comes next, too.
    produce(group_bootstrap, topic, numbers(100, first=100))
    member.commit(ck.TopicPartition(topic, 0, 200))
    member.close()
    heir = join(topic, **{"enable.partition.eof": True})
    until(lambda: heir.ends == [(0, 200)], heir)
    produce(group_bootstrap, topic, ["the newest"])
    until(lambda: heir.values, heir)
    assert heir.values == ["the newest"]


@pytest.mark.parametrize("reset", ["smallest", "largest", "error"])
def test_where_a_group_begins_that_has_no_offset(
    group_bootstrap, admin, topic_name, group, join, reset
):
    topic = create_topic(admin, topic_name, 1)
    produce(group_bootstrap, topic, numbers(3))
    member = join(topic, **{"auto.offset.reset": reset, "enable.partition.eof": True})
    if reset == "error":
        with pytest.raises(AssertionError, match="_AUTO_OFFSET_RESET"):
            until(lambda: member.values, member)
        return
    if reset == "largest":
        until(lambda: member.ends == [(0, 3)], member)
    produce(group_bootstrap, topic, numbers(3, first=3))
    until(lambda: member.values[-1:] == ["5"], member)
    assert member.values == (numbers(6) if reset == "smallest" else numbers(3, first=3))
    # With an offset the setting has no meaning.
    member.commit(ck.TopicPartition(topic, 0, 1))
    member.close()
    heir = join(topic, **{"auto.offset.reset": reset})
    until(lambda: heir.values == numbers(5, first=1), heir)


# Committing


def test_auto_commit_in_the_background_and_at_the_end(group_bootstrap, admin, topic_name, join):
    topic = create_topic(admin, topic_name, 1)
    produce(group_bootstrap, topic, numbers(5))
    automatic = {"enable.auto.commit": True, "auto.commit.interval.ms": 100}
    member = join(topic, **automatic)
    until(lambda: member.values == numbers(5), member)
    partition = ck.TopicPartition(topic, 0)
    until(lambda: member.committed(partition) == [5], member)
    produce(group_bootstrap, topic, numbers(5, first=5))
    until(lambda: member.values == numbers(10), member)
    member.close()  # leaves, and commits what was read since
    heir = join(topic, **automatic)
    produce(group_bootstrap, topic, numbers(1, first=10))
    until(lambda: heir.values, heir)
    assert heir.values == ["10"]


def test_explicit_commits(group_bootstrap, admin, topic_name, join):
    topic = create_topic(admin, topic_name, 2)
    produce(group_bootstrap, topic, numbers(20), 2)
    answers = []
    member = join(topic, on_commit=lambda error, offsets: answers.append((error, offsets)))
    until(lambda: len(member.read) == 20, member)
    zero, one = two(topic)
    assert member.committed(zero, one) == [ck.OFFSET_INVALID, ck.OFFSET_INVALID]

    # One message: what is committed is the offset after it, of its partition only.
    (fourth,) = [m for m in member.read if m.partition() == 1 and m.offset() == 4]
    (told,) = member.consumer.commit(fourth, asynchronous=False)
    assert (told.partition, told.offset, told.error) == (1, 5, None)
    assert member.committed(zero, one) == [ck.OFFSET_INVALID, 5]

    # Everything that was read, in the background; the answer comes with a later poll.
    answers.clear()
    member.consumer.commit(asynchronous=True)
    until(lambda: answers, member)
    ((error, offsets),) = answers
    assert error is None
    assert sorted((p.partition, p.offset) for p in offsets) == [(0, 10), (1, 10)]
    assert member.committed(zero, one) == [10, 10]

    # Chosen offsets, with a text of the member's, which comes back; the next commit takes it away.
    member.commit(ck.TopicPartition(topic, 0, 3, "half way, ünïcode"))
    (found,) = member.consumer.committed([zero], TIMEOUT_S)
    assert (found.offset, found.metadata) == (3, "half way, ünïcode")
    member.commit(ck.TopicPartition(topic, 0, 4))
    (found,) = member.consumer.committed([zero], TIMEOUT_S)
    assert (found.offset, found.metadata or "") == (4, "")

    # A text that is too long is refused, and what was there stays.
    with pytest.raises(ck.KafkaException) as caught:
        member.commit(ck.TopicPartition(topic, 0, 5, "x" * 5000))
    assert caught.value.args[0].code() == ck.KafkaError.OFFSET_METADATA_TOO_LARGE
    assert member.committed(zero) == [4]


def test_every_message_is_committed_by_itself(group_bootstrap, admin, topic_name, join):
    topic = create_topic(admin, topic_name, 1)
    produce(group_bootstrap, topic, numbers(200))
    member = join(topic)
    for number in range(200):
        until(lambda number=number: len(member.read) > number, member)
        (told,) = member.consumer.commit(member.read[-1], asynchronous=False)
        assert told.error is None
        assert told.offset == number + 1
    assert member.committed(ck.TopicPartition(topic, 0)) == [200]


# A broker that goes away


def committed_once_loaded(admin, group, topic, partitions):
    """What the coordinator says, None while it reads its log: librdkafka's admin client does not ask again by itself."""
    try:
        return committed(admin, group, topic, partitions)
    except ck.KafkaException as problem:
        if problem.args[0].code() != ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "kill-9"])
def test_the_broker_goes_away_and_comes_back(tmp_path, topic_name, group, join, number):
    with StoppableBroker(tmp_path) as broker:
        # While no broker answers, librdkafka 2.16 begins anew from its bootstrap servers, and a request to a coordinator may then
        # wait for the connection of a broker that it has given up.
        settings = {"bootstrap.servers": broker.address, "metadata.recovery.strategy": "none"}
        admin = cka.AdminClient(settings)
        topic = create_topic(admin, topic_name, 4)
        pair = [join(topic, kind=Worker, bootstrap=broker.address) for _ in range(2)]
        until(lambda: all_owned(topic, 4, *pair) and all(m.owned for m in pair), *pair)
        produce(broker.address, topic, numbers(100), 4)
        until(lambda: sum(len(m.read) for m in pair) >= 100, *pair)
        until(lambda: committed(admin, group, topic, 4) == [25] * 4, *pair)
        broker.stop(number)
        broker.start()
        # What was committed is there before anybody reads on, ...
        until(lambda: committed_once_loaded(admin, group, topic, 4) is not None)
        assert committed(admin, group, topic, 4) == [25] * 4
        # ... and the members go on as they are: nothing is missed, nothing of before comes again.
        produce(broker.address, topic, numbers(100, first=100), 4)
        until(lambda: len({v for m in pair for v in m.values}) == 200, *pair)
        assert in_order({v for m in pair for v in m.values}) == numbers(200)
        old = [v for m in pair for v in m.values if int(v) < 100]
        assert in_order(old) == numbers(100)
        until(lambda: committed(admin, group, topic, 4) == [50] * 4, *pair)
        until(lambda: [*shares(admin, group).values()] == [2, 2], *pair)
