"""aiokafka: the asyncio client, which speaks older versions of most APIs than the others do."""

import asyncio
import contextlib

import aiokafka
import aiokafka.errors
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from compat.records import CODECS, FIRST_TIMESTAMP_MS, RECORDS, records

TIMEOUT_S = 30
PARTITIONS = 3


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


async def create(bootstrap, name, **configs):
    """Creates the topic and waits until it can be written to."""
    async with new_admin(bootstrap) as admin:
        answer = await admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=configs)])
        assert [error[1] for error in answer.topic_errors] == [0]
        while name not in await admin.list_topics():
            pass
    # Kafka shows a topic before it leads it, and drops what comes with acks=0 in between.
    async with new_consumer(bootstrap) as consumer:
        await consumer.end_offsets([TopicPartition(name, p) for p in range(PARTITIONS)])


async def produce(bootstrap, topic, partition, sent, **settings):
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        futures = [await producer.send(topic, v, k, partition, t, h) for k, v, h, t in sent]
        return [await future for future in futures]


def new_consumer(bootstrap, **settings):
    settings = {"fetch_max_wait_ms": 50} | settings
    return aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings)


async def read_from_beginning(consumer, topic, partition, count):
    where = TopicPartition(topic, partition)
    consumer.assign([where])
    await consumer.seek_to_beginning(where)
    return [await consumer.getone() for _ in range(count)]


def as_record(message):
    return message.key, message.value, list(message.headers), message.timestamp


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_record_comes_back_as_it_was_written(bootstrap, topic_name, codec, idempotent):
    async def scenario():
        await create(bootstrap, topic_name)
        reports = await produce(
            bootstrap,
            topic_name,
            1,
            records(codec),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=50,
        )
        assert [r.offset for r in reports] == list(range(RECORDS))
        async with new_consumer(bootstrap) as consumer:
            found = await read_from_beginning(consumer, topic_name, 1, RECORDS)
        assert [as_record(m) for m in found] == records(codec)
        assert [m.offset for m in found] == list(range(RECORDS))

    run(scenario())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(bootstrap, topic_name, acks):
    async def scenario():
        await create(bootstrap, topic_name)
        await produce(bootstrap, topic_name, 2, records("a"), acks=acks)
        async with new_consumer(bootstrap) as consumer:
            found = await read_from_beginning(consumer, topic_name, 2, RECORDS)
        assert [as_record(m) for m in found] == records("a")

    run(scenario())


def test_reading_from_offset_end_and_timestamp(bootstrap, topic_name):
    async def scenario():
        await create(bootstrap, topic_name)
        await produce(bootstrap, topic_name, 0, records("t"), linger_ms=50)
        where = TopicPartition(topic_name, 0)
        async with new_consumer(bootstrap) as consumer:
            consumer.assign([where])
            consumer.seek(where, 15)
            assert [(await consumer.getone()).offset for _ in range(5)] == [15, 16, 17, 18, 19]
            await consumer.seek_to_end(where)
            assert await consumer.position(where) == RECORDS
            assert await consumer.getmany(timeout_ms=200) == {}
            assert await consumer.beginning_offsets([where]) == {where: 0}
            assert await consumer.end_offsets([where]) == {where: RECORDS}
            at = FIRST_TIMESTAMP_MS + 4500
            assert (await consumer.offsets_for_times({where: at}))[where].offset == 5
            late = FIRST_TIMESTAMP_MS + 10**6
            assert await consumer.offsets_for_times({where: late}) == {where: None}

    run(scenario())


def test_offset_out_of_range(bootstrap, topic_name):
    async def scenario():
        await create(bootstrap, topic_name)
        where = TopicPartition(topic_name, 0)
        async with new_consumer(bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([where])
            consumer.seek(where, 1000)
            with pytest.raises(aiokafka.errors.OffsetOutOfRangeError):
                await consumer.getone()

    run(scenario())


def test_waiting_consumer_gets_what_is_written_later(bootstrap, topic_name):
    async def scenario():
        await create(bootstrap, topic_name)
        where = TopicPartition(topic_name, 0)
        async with new_consumer(bootstrap, fetch_max_wait_ms=5000) as consumer:
            consumer.assign([where])
            await consumer.seek_to_beginning(where)
            assert await consumer.getmany(timeout_ms=300) == {}
            await produce(bootstrap, topic_name, 0, records("w")[:1])
            assert as_record(await consumer.getone()) == records("w")[0]

    run(scenario())


def test_too_large_message_is_refused(bootstrap, topic_name):
    async def scenario():
        await create(bootstrap, topic_name, **{"max.message.bytes": "1000"})
        large = [(None, b"y" * 2000, [], None)]
        with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
            await produce(bootstrap, topic_name, 0, large)
        await produce(bootstrap, topic_name, 0, records("s")[:1])
        async with new_consumer(bootstrap) as consumer:
            (found,) = await read_from_beginning(consumer, topic_name, 0, 1)
        assert as_record(found) == records("s")[0]

    run(scenario())


def test_create_describe_and_delete_topics(bootstrap, topic_name):
    async def scenario():
        await create(bootstrap, topic_name)
        async with new_admin(bootstrap) as admin:
            again = await admin.create_topics([NewTopic(topic_name, 1, 1)])
            assert again.topic_errors[0][1] == aiokafka.errors.TopicAlreadyExistsError.errno
            cluster = await admin.describe_cluster()
            (node,) = cluster["brokers"]
            assert f"{node['host']}:{node['port']}" == bootstrap
            (described,) = await admin.describe_topics([topic_name])
            assert {p["leader"] for p in described["partitions"]} == {node["node_id"]}
            assert len(described["partitions"]) == PARTITIONS
            deleted = await admin.delete_topics([topic_name])
            assert [code for _, code, *_ in deleted.topic_error_codes] == [0]
            while topic_name in await admin.list_topics():
                pass

    run(scenario())


def test_create_partitions_and_delete_records(bootstrap, topic_name):
    async def scenario():
        await create(bootstrap, topic_name)
        where = TopicPartition(topic_name, 4)
        async with new_admin(bootstrap) as admin:
            await admin.create_partitions({topic_name: NewPartitions(5)})
            while len((await admin.describe_topics([topic_name]))[0]["partitions"]) != 5:
                pass
            await produce(bootstrap, topic_name, 4, records("p"))
            deleted = await admin.delete_records({where: RecordsToDelete(7)})
            assert deleted == {where: 7}
        async with new_consumer(bootstrap) as consumer:
            found = await read_from_beginning(consumer, topic_name, 4, RECORDS - 7)
        assert [m.offset for m in found] == list(range(7, RECORDS))

    run(scenario())


def test_configs(bootstrap, topic_name):
    async def described(admin, configs=None):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic_name, configs)
        (answer,) = await admin.describe_configs([resource])
        ((code, _message, _type, _name, entries),) = answer.resources
        assert code == 0
        return {entry[0]: entry[1] for entry in entries}

    async def scenario():
        await create(bootstrap, topic_name)
        async with new_admin(bootstrap) as admin:
            before = await described(admin)
            assert before["retention.ms"] == "604800000"
            assert before["cleanup.policy"] == "delete"
            change = {"retention.ms": "5000"}
            resource = ConfigResource(ConfigResourceType.TOPIC, topic_name, change)
            (answer,) = await admin.alter_configs([resource])
            assert [r[0] for r in answer.resources] == [0]
            while await described(admin, {"retention.ms": None}) != change:
                pass

    run(scenario())
