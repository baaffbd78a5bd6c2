"""aiokafka's groups: the classic protocol, in older versions of its requests, and what its admin client knows of groups."""

import asyncio
import contextlib

import aiokafka
import aiokafka.errors
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

PARTITIONS = 4
TIMEOUT_S = 120


@pytest.fixture
def group(topic_name):
    return f"{topic_name}-group"


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


@contextlib.asynccontextmanager
async def new_admin(bootstrap):
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def create(bootstrap, topic):
    async with new_admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        while topic not in await admin.list_topics():
            pass


@contextlib.asynccontextmanager
async def member(bootstrap, group, topic, **settings):
    base = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 50,
        "heartbeat_interval_ms": 300,
        "session_timeout_ms": 6000,
        "metadata_max_age_ms": 1000,
    }
    consumer = aiokafka.AIOKafkaConsumer(topic, **base | settings)
    async with consumer:
        yield consumer


async def produce(bootstrap, topic, tag):
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for n in range(10 * PARTITIONS):
            await producer.send_and_wait(topic, f"{tag}-{n}".encode(), partition=n % PARTITIONS)


async def until(condition, *consumers):
    """Let the members read until it is so; return what they read meanwhile, by member."""
    found = [[] for _ in consumers]
    while not condition(*found):
        for consumer, records in zip(consumers, found, strict=True):
            for batch in (await consumer.getmany(timeout_ms=20)).values():
                records += batch
    return found


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]
)
def test_two_members_share_commit_and_are_succeeded(group_bootstrap, topic_name, group, assignor):
    settings = {"partition_assignment_strategy": [assignor]}

    async def scenario():
        await create(group_bootstrap, topic_name)
        await produce(group_bootstrap, topic_name, "first")
        async with member(group_bootstrap, group, topic_name, **settings) as one:
            await until(lambda read: len(read) == 40, one)
            await one.commit()
            async with member(group_bootstrap, group, topic_name, **settings) as two:
                await until(lambda *_: len(one.assignment()) == len(two.assignment()) == 2, one, two)  # fmt: skip
                assert one.assignment().isdisjoint(two.assignment())
                await produce(group_bootstrap, topic_name, "second")
                read = await until(lambda a, b: len(a) + len(b) == 40, one, two)
                assert [len(records) for records in read] == [20, 20]
                await one.commit()
                await two.commit()
        async with member(group_bootstrap, group, topic_name, **settings) as heir:
            await produce(group_bootstrap, topic_name, "third")
            (read,) = await until(lambda read: len(read) >= 40, heir)
            assert {record.value[:5] for record in read} == {b"third"}

    run(scenario())


def test_a_static_member_comes_back_and_nobody_notices(group_bootstrap, topic_name, group):
    async def scenario():
        await create(group_bootstrap, topic_name)

        def named(name):
            # It has to be back before it is missed.
            patient = {"group_instance_id": name, "session_timeout_ms": 45_000}
            return member(group_bootstrap, group, topic_name, **patient)

        async with named("b") as two:
            async with named("a") as one:
                await until(lambda *_: len(one.assignment()) == len(two.assignment()) == 2, one, two)  # fmt: skip
                had, kept = one.assignment(), two.assignment()
            async with named("a") as again:
                await until(lambda *_: again.assignment(), again, two)
                assert (again.assignment(), two.assignment()) == (had, kept)

    run(scenario())


def test_offsets_and_administration(group_bootstrap, topic_name, group):
    async def scenario():
        await create(group_bootstrap, topic_name)
        await produce(group_bootstrap, topic_name, "r")
        zero, one = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
        async with (
            new_admin(group_bootstrap) as admin,
            member(group_bootstrap, group, topic_name, client_id="me") as consumer,
        ):
            await until(lambda read: len(read) == 40, consumer)
            await consumer.commit({zero: (7, "half way")})
            assert await consumer.committed(zero) == 7
            assert await consumer.committed(one) is None
            with pytest.raises(aiokafka.errors.OffsetMetadataTooLargeError):
                await consumer.commit({zero: (8, "x" * 5000)})
            found = await admin.list_consumer_group_offsets(group)
            assert found == {zero: OffsetAndMetadata(7, "half way")}
            assert (group, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group])
            ((error, name, state, kind, assignor, members, *_),) = answer.groups
            assert (error, name, state) == (0, group, "Stable")
            assert (kind, assignor) == ("consumer", "roundrobin")
            assert [each[1] for each in members] == ["me"]

    run(scenario())
