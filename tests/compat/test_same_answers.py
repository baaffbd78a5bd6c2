"""Every API with the same requests to Apache Kafka and to us: the answers agree, field by field.

Edge cases above all: what is refused, with which code, and what stands in the other fields then. See two_brokers.py
for what may differ. BARNABAS_TEST_KAFKA=HOST:PORT takes an Apache Kafka that runs already.
"""

import time

import pytest
from chaos.packed_lies import CODECS, INSIDE, LENGTHS, lies, odd_but_good
from compat.apache_kafka import shared_kafka
from compat.two_brokers import NO_ID, TIMEOUT_MS, TwoBrokers

from barnabas.wire import batch
from barnabas.wire.batch import Producer, Record
from barnabas.wire.compression import Codec
from barnabas.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

pytestmark = pytest.mark.java

#: Not long ago: Kafka looks half a minute after its start for what is too old to be kept.
NOW = time.time_ns() // 1_000_000 - 60_000
OTHER_ID = bytes(range(16))
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
#: Kafka looks at each record and lists those at fault.
BESIDE_AN_ERROR = ("record_errors",)
BAD_NAMES = ["", ".", "..", "a b", "a/b", "é", "x" * 250]


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory):
    with shared_kafka(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture
def both(bootstrap, kafka_address):
    brokers = TwoBrokers(bootstrap, kafka_address)
    yield brokers
    for side in brokers.sides:
        side.client.close()
    assert not brokers.differences, "\n".join(brokers.differences)
    assert brokers.asked


@pytest.fixture
def topic(both, topic_name):
    both.create(topic_name, partitions=2)
    return topic_name


def batch_of(count=1, *, codec=Codec.NONE, producer=None, timestamp=NOW, attributes=0, size=10):
    records = [Record(i, timestamp + i, b"k%d" % i, b"v" * size, ()) for i in range(count)]
    return batch.build(records, codec=codec, producer=producer or Producer(), attributes=attributes)


# Produce


def produce_request(name, index, records, acks=-1, topic_id=NO_ID, transactional_id=None):
    data = produce.PartitionProduceData(index=index, records=records)
    topic = produce.TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])
    return produce.ProduceRequest(
        acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic], transactional_id=transactional_id
    )


def append(both, name, records, index=0):
    both.ask(lambda side: produce_request(name, index, bytearray(records)), 9)


def test_produce_good(both, topic):
    for codec in Codec:
        both.ask(produce_request(topic, 0, batch_of(3, codec=codec)), 7)
    both.ask_all(produce_request(topic, 0, batch_of(2)), since=3, until=12)
    both.ask(lambda side: produce_request("", 1, batch_of(2), topic_id=side.ids[topic]), 13)
    both.ask(produce_request(topic, 0, batch_of(1), acks=1), 9)


def test_produce_refused(both, topic):
    good = batch_of(1)
    both.ask_all(produce_request(topic, 7, good), since=3, until=12)
    both.ask(produce_request(topic, -1, good), 9)
    both.ask(produce_request("no-such-topic", 0, good), 9)
    both.ask(produce_request("", 0, good, topic_id=OTHER_ID), 13)
    both.ask(lambda side: produce_request("", 9, good, topic_id=side.ids[topic]), 13)
    for name in BAD_NAMES:
        both.ask(produce_request(name, 0, good), 9)
    for acks in (2, -2, 100):
        both.ask_all(produce_request(topic, 0, good, acks=acks), since=3, until=12)
    both.ask(produce_request(topic, 0, batch_of(1, codec=Codec.ZSTD)), 6)
    both.ask(produce.ProduceRequest(acks=1, timeout_ms=0), 9)


def test_produce_bad_batches(both, topic):
    good = bytes(batch_of(2))
    wrong_crc = bytearray(good)
    wrong_crc[-1] ^= 1
    cases = [
        bytes(wrong_crc),
        good + good,
        good[:-1],
        good[:20],
        b"",
        good[:16] + b"\x01" + good[17:],
        good[:16] + b"\x00" + good[17:],
        good[:16] + b"\x03" + good[17:],
        good[:8] + b"\x00\x00\x00\x01" + good[12:],
        good[:8] + b"\xff\xff\xff\xff" + good[12:],
    ]
    for records in cases:
        both.ask(produce_request(topic, 0, records), 9)


def signed(raw):
    """A batch with its checksum made right again after its header was changed."""
    import crc32c

    changed = bytearray(raw)
    changed[17:21] = crc32c.crc32c(bytes(changed[21:])).to_bytes(4)
    return changed


def test_produce_inconsistent_headers(both, topic):
    good = bytes(batch_of(2))
    count_wrong = signed(good[:57] + (3).to_bytes(4) + good[61:])
    delta_wrong = signed(good[:23] + (5).to_bytes(4) + good[27:])
    no_records = signed(good[:57] + (0).to_bytes(4) + good[61:])
    negative = signed(good[:57] + b"\xff\xff\xff\xff" + good[61:])
    control = batch_of(1, attributes=0x20)
    offset_5 = (5).to_bytes(8) + good[8:]
    for records in (count_wrong, delta_wrong, no_records, negative, control, offset_5):
        both.ask(produce_request(topic, 0, records), 9, allowed=BESIDE_AN_ERROR)


#: Where Kafka fails in its own way, a batch is refused here as what it is. Clients retry neither.
KAFKA_FAILS = (*BESIDE_AN_ERROR, "error_code")


@pytest.mark.parametrize("codec", CODECS)
def test_produce_compressed_content(both, topic, codec):
    for _name, data in odd_but_good(codec):
        both.ask(produce_request(topic, 0, data), 9)
    spoilt = {name: data for name, data in lies(codec) if name not in INSIDE | LENGTHS}
    for name, data in lies(codec, kafka_refuses=True):
        allowed = KAFKA_FAILS if name in spoilt else BESIDE_AN_ERROR
        answer = both.ask(produce_request(topic, 0, data), 9, allowed=allowed)
        assert answer.responses[0].partition_responses[0].error_code == 87, name
    both.ask(produce_request(topic, 0, batch_of(3, codec=codec)), 9)


def test_produce_limits(both, topic_name):
    both.create(topic_name, max_message_bytes="200", message_timestamp_type="CreateTime")
    both.ask(produce_request(topic_name, 0, batch_of(1, size=500)), 9)
    both.ask(produce_request(topic_name, 0, batch_of(1, size=50)), 9)


def test_produce_where_more_must_be_in_sync_than_there_are_replicas(both, topic_name):
    both.create(topic_name, min_insync_replicas="2")
    for acks in (-1, 1):
        both.ask(lambda _side, acks=acks: produce_request(topic_name, 0, batch_of(1), acks), 9)


def test_produce_timestamps(both, topic_name):
    both.create(
        topic_name, message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000"
    )
    both.ask(
        produce_request(topic_name, 0, batch_of(2, timestamp=1000)), 9, allowed=BESIDE_AN_ERROR
    )
    both.ask(
        produce_request(topic_name, 0, batch_of(2, timestamp=NOW * 2)), 9, allowed=BESIDE_AN_ERROR
    )
    both.ask(produce_request(topic_name, 0, batch_of(1, timestamp=-1)), 9, allowed=BESIDE_AN_ERROR)


def test_produce_future_timestamp(both, topic):
    both.ask(produce_request(topic, 0, batch_of(1, timestamp=NOW * 2)), 9, allowed=BESIDE_AN_ERROR)
    both.ask(
        produce_request(topic, 0, batch_of(1, timestamp=NOW * 2, codec=Codec.GZIP)),
        9,
        allowed=BESIDE_AN_ERROR,
    )


def test_produce_append_time(both, topic_name):
    both.create(topic_name, message_timestamp_type="LogAppendTime")
    both.ask(produce_request(topic_name, 0, batch_of(2, timestamp=1000)), 9)


def test_produce_compacted_without_key(both, topic_name):
    both.create(topic_name, cleanup_policy="compact")
    keyless = batch.build([Record(0, NOW, b"k", b"v", ()), Record(1, NOW, None, b"v", ())])
    both.ask(produce_request(topic_name, 0, keyless), 9, allowed=BESIDE_AN_ERROR)
    both.ask(produce_request(topic_name, 0, keyless), 7, allowed=BESIDE_AN_ERROR)
    both.ask(produce_request(topic_name, 0, batch_of(2)), 9, allowed=BESIDE_AN_ERROR)


def test_where_the_log_starts_is_told_beside_errors_of_the_log(both, topic):
    append(both, topic, batch_of(5, producer=Producer(424242, 1, 0)))
    cut = delete_records.DeleteRecordsPartition(partition_index=0, offset=3)
    topics = [delete_records.DeleteRecordsTopic(name=topic, partitions=[cut])]
    both.ask(delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 2)
    good = bytes(batch_of(2))
    of_log = [
        batch_of(1, producer=Producer(424242, 1, 9)),
        batch_of(1, producer=Producer(424242, 0, 0)),
        batch_of(1, producer=Producer(424242, -1, 0)),
        batch_of(1, producer=Producer(424242, 1, -1)),
        batch_of(1, timestamp=NOW * 2),
        batch_of(1, attributes=0x20),
        signed(good[:57] + (3).to_bytes(4) + good[61:]),
        (5).to_bytes(8) + good[8:],
    ]
    for records in of_log:
        answer = both.ask(produce_request(topic, 0, records), 9, allowed=BESIDE_AN_ERROR)
        assert answer.responses[0].partition_responses[0].log_start_offset == 3
    for records in (good + good, good[:-1] + b"x", b"", good[:16] + b"\x01" + good[17:]):
        answer = both.ask(produce_request(topic, 0, records), 9)
        assert answer.responses[0].partition_responses[0].log_start_offset == -1
    unknown_codec = signed(good[:22] + b"\x05" + good[23:])
    both.ask(produce_request(topic, 0, unknown_codec), 9, allowed=("error_code",))
    both.ask(produce_request(topic, 0, batch_of(1, size=2_000_000)), 9)
    both.ask(produce_request(topic, 0, batch_of(1, attributes=0x10)), 9)


def test_produce_sequences(both, topic):
    def ask(sequence, count=1, epoch=0, producer_id=424242, index=0):
        records = batch_of(count, producer=Producer(producer_id, epoch, sequence))
        both.ask(produce_request(topic, index, records), 9)

    ask(0)
    ask(0)
    ask(1, count=3)
    ask(1, count=3)
    ask(1, count=2)
    ask(7)
    ask(4)
    ask(0, epoch=1)
    ask(5, epoch=0)
    ask(5, epoch=1)
    ask(3, epoch=2)
    ask(9, producer_id=515151)
    ask(-1, producer_id=515151)
    ask(2147483646, producer_id=616161, count=3)
    ask(0, epoch=-1)
    ask(5, index=1)


# Fetch


def fetch_request(name, offset, index=0, topic_id=NO_ID, session=(0, -1), **fields):
    keep = {"current_leader_epoch", "log_start_offset", "partition_max_bytes", "last_fetched_epoch"}
    partition = fetch.FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=fields.get("partition_max_bytes", 1 << 20),
        current_leader_epoch=fields.get("current_leader_epoch", -1),
        last_fetched_epoch=fields.get("last_fetched_epoch", -1),
    )
    rest = {key: value for key, value in fields.items() if key not in keep}
    topic = fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])
    return fetch.FetchRequest(
        max_wait_ms=rest.pop("max_wait_ms", 0),
        min_bytes=rest.pop("min_bytes", 1),
        max_bytes=rest.pop("max_bytes", 1 << 20),
        session_id=session[0],
        session_epoch=session[1],
        topics=[topic],
        **rest,
    )


def test_fetch(both, topic):
    for _ in range(3):
        append(both, topic, batch_of(4))
    for offset in (0, 3, 4, 11, 12, 13, -1, 1 << 40):
        both.ask_all(fetch_request(topic, offset), since=4, until=12)
        both.ask(lambda side, o=offset: fetch_request("", o, topic_id=side.ids[topic]), 13)
    both.ask_all(lambda side: fetch_request("", 0, topic_id=side.ids[topic]), since=13, until=18)
    for fields in (
        {"partition_max_bytes": 1},
        {"partition_max_bytes": 0},
        {"max_bytes": 1},
        {"max_bytes": 0},
        {"current_leader_epoch": 0},
        {"current_leader_epoch": 5},
        {"current_leader_epoch": -2},
        {"isolation_level": 1},
        {"last_fetched_epoch": 0},
    ):
        both.ask(fetch_request(topic, 4, **fields), 12)
    both.ask(fetch_request(topic, 0, index=9), 12)
    both.ask(fetch_request(topic, 0, index=1), 12)
    both.ask(fetch_request("no-such-topic", 0), 12)
    both.ask(fetch_request("", 0, topic_id=OTHER_ID), 13)
    both.ask(fetch_request("", 0), 13)
    both.ask(fetch.FetchRequest(max_wait_ms=0, session_epoch=-1), 12)


@pytest.mark.parametrize("room", ["partition", "request"])
def test_fetch_with_less_room_than_a_batch(both, topic, room):
    """The first partition makes progress; the second gets no piece of a batch, which would be the end of Java's consumer."""
    for index in (0, 1):
        for _ in range(2):
            append(both, topic, batch_of(4), index)
    size = len(batch_of(4))
    for limit in (1, size - 1, size, size + 1, 2 * size - 1, 2 * size, 3 * size - 1):
        each = limit if room == "partition" else 1 << 20
        asked = [
            fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=each)
            for index in (0, 1)
        ]
        request = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=limit if room == "request" else 1 << 20,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic=topic, partitions=asked)],
        )
        both.ask(request, 12)


def test_fetch_sessions(both, topic):
    append(both, topic, batch_of(1))
    for version in (7, 11, 12):
        both.ask(fetch_request(topic, 0, session=(0, 0)), version)
        both.ask(fetch_request(topic, 0, session=(12345, 1)), version)
        both.ask(fetch_request(topic, 0, session=(12345, 0)), version)
        both.ask(fetch_request(topic, 0, session=(12345, -1)), version)
        both.ask(fetch_request(topic, 0, session=(0, 5)), version)


@pytest.mark.parametrize(("before", "after"), [(12, 13), (13, 12)])
def test_a_fetch_session_keeps_to_names_or_to_ids(both, topic, before, after):
    append(both, topic, batch_of(1))
    by_name = fetch_request(topic, 0).topics

    def asked(side, version, session):
        request = fetch_request("", 0, topic_id=side.ids[topic], session=session)
        if version < 13:
            request.topics = by_name
        return request

    sessions = {s: s.ask(asked(s, before, (0, 0)), before).session_id for s in both.sides}
    assert all(sessions.values())
    both.ask(lambda side: asked(side, after, (sessions[side], 1)), after)
    both.ask(
        lambda side: fetch.FetchRequest(max_wait_ms=0, session_id=sessions[side], session_epoch=1),
        after,
    )
    both.ask(lambda side: asked(side, before, (sessions[side], 1)), before)
    both.ask(lambda side: asked(side, before, (sessions[side], 2)), before)


def test_fetch_session_goes_on(both, topic):
    append(both, topic, batch_of(1))
    sessions = {}
    for side in both.sides:
        request = fetch_request("", 0, topic_id=side.ids[topic], session=(0, 0))
        sessions[side] = side.ask(request, 13).session_id
        assert sessions[side] != 0

    def go_on(epoch, offset=None, forget=False):
        def request(side):
            found = fetch_request(
                "", offset or 0, topic_id=side.ids[topic], session=(sessions[side], epoch)
            )
            if offset is None:
                found.topics = []
            if forget:
                gone = fetch.ForgottenTopic(topic_id=side.ids[topic], partitions=[0])
                found.forgotten_topics_data = [gone]
            return found

        return request

    both.ask(go_on(1), 13)
    both.ask(go_on(2, offset=1), 13)
    both.ask(go_on(3), 13)
    both.ask(go_on(9), 13)
    append(both, topic, batch_of(1))
    both.ask(go_on(4), 13)
    both.ask(go_on(5, offset=99), 13)
    both.ask(go_on(6), 13)
    both.ask(go_on(7, forget=True), 13)
    both.ask(go_on(8), 13)
    both.ask(go_on(-1), 13)
    both.ask(go_on(9), 13)


# ListOffsets


def list_request(name, *partitions, **fields):
    asked = [
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)
        for index, timestamp in partitions
    ]
    topic = list_offsets.ListOffsetsTopic(name=name, partitions=asked)
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic], timeout_ms=TIMEOUT_MS)


def test_list_offsets(both, topic):
    special = [*range(-7, 0), 0, NOW - 1, NOW, NOW + 1, NOW + 1000]
    for timestamp in special:
        both.ask_all(list_request(topic, (0, timestamp)), since=1, until=11)
    append(both, topic, batch_of(3))
    append(both, topic, batch_of(3, codec=Codec.LZ4, timestamp=NOW - 50))
    for timestamp in special:
        both.ask_all(list_request(topic, (0, timestamp)), since=1, until=11)
    both.ask(list_request(topic, (0, -1), (1, -1), (7, -1), (-1, -1)), 7)
    both.ask(list_request(topic, (0, -1), (0, -2), (1, -1)), 7)
    both.ask(list_request("no-such-topic", (0, -1)), 7)
    both.ask(list_request("a b", (0, -1)), 7)
    for epoch in (-2, 0, 3):
        both.ask(list_request(topic, (0, -1), current_leader_epoch=epoch), 7)
        both.ask(list_request(topic, (0, NOW), current_leader_epoch=epoch), 7)


# Metadata


def metadata_request(*names, ids=(), **fields):
    topics = [metadata.MetadataRequestTopic(name=name) for name in names]
    topics += [metadata.MetadataRequestTopic(name=None, topic_id=one) for one in ids]
    return metadata.MetadataRequest(topics=topics, **fields)


def test_metadata(both, topic):
    # Kafka names any broker as controller in KRaft, and there is one.
    for version in range(14):
        both.ask(metadata_request(topic, allow_auto_topic_creation=version < 4), version)
    both.ask_all(metadata_request("no-such", allow_auto_topic_creation=False), since=4)
    for name in BAD_NAMES:
        both.ask_all(metadata_request(name, allow_auto_topic_creation=False), since=4)
        both.ask_all(metadata_request(name, allow_auto_topic_creation=True), since=4)
    both.ask(metadata_request(topic, topic, allow_auto_topic_creation=False), 12)
    both.ask_all(metadata_request(), since=4)
    both.ask_all(lambda side: metadata_request(ids=[side.ids[topic]]), since=12)
    both.ask_all(metadata_request(ids=[OTHER_ID]), since=12)
    both.ask_all(lambda side: metadata_request(topic, ids=[side.ids[topic]]), since=12)
    asked = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
    both.ask_all(metadata_request(topic, "no-such", **asked), since=8)
    both.ask_all(metadata_request(include_cluster_authorized_operations=True), since=8, until=10)


# CreateTopics


def create_request(*topics, **fields):
    return create_topics.CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, **fields)


def new_topic(name, partitions=1, factor=1, assignments=None, **configs):
    found = create_topics.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor
    )
    found.assignments = [
        create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in assignments or []
    ]
    found.configs = [
        create_topics.CreatableTopicConfig(name=name.replace("_", "."), value=value)
        for name, value in configs.items()
    ]
    return found


REFUSED_TOPICS = [
    *(new_topic(name) for name in BAD_NAMES),
    new_topic("t", 0),
    new_topic("t", -2),
    new_topic("t", 1, 0),
    new_topic("t", 1, -2),
    new_topic("t", 1, 2),
    new_topic("t", 10_001),
    new_topic("t", -1, -1, [(0, [1]), (0, [1])]),
    new_topic("t", -1, -1, [(0, [1]), (2, [1])]),
    new_topic("t", -1, -1, [(1, [1])]),
    new_topic("t", -1, -1, [(0, [])]),
    new_topic("t", -1, -1, [(0, [1, 1])]),
    new_topic("t", -1, -1, [(0, [99])]),
    new_topic("t", -1, -1, [(0, [-1])]),
    new_topic("t", 1, -1, [(0, [1])]),
    new_topic("t", -1, 1, [(0, [1])]),
    new_topic("t", no_such_setting="1"),
    new_topic("t", retention_ms="soon"),
    new_topic("t", retention_ms=None),
    new_topic("t", retention_ms="-2"),
    new_topic("t", cleanup_policy="burn"),
    new_topic("t", compression_type="rar"),
    new_topic("t", min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
    new_topic("t", segment_bytes="1"),
    new_topic("t", max_message_bytes="-1"),
    new_topic("t", unclean_leader_election_enable="perhaps"),
]


@pytest.mark.parametrize("wanted", REFUSED_TOPICS, ids=lambda one: repr(one)[15:90])
def test_create_topics_refused(both, wanted):
    both.ask_all(create_request(wanted, validate_only=True), since=2)
    both.ask(create_request(wanted), 7)


def test_create_topics(both, topic_name):
    for version in range(2, 8):
        name = f"{topic_name}-{version}"
        settings = {"retention_ms": "1000", "cleanup_policy": "compact,delete"}
        wanted = new_topic(name, 2, 1, **settings)
        both.ask(create_request(wanted, validate_only=True), version, allowed=["topic_id"])
        both.ask(create_request(wanted), version, allowed=["topic_id"])
        both.ask(create_request(wanted), version)
        both.ask(create_request(wanted, validate_only=True), version)
    both.ask(
        create_request(new_topic(f"{topic_name}-a", -1, -1, [(0, [1]), (1, [1])])),
        7,
        allowed=["topic_id"],
    )
    both.ask(create_request(new_topic(f"{topic_name}-d", -1, -1)), 7, allowed=["topic_id"])
    twice = [
        new_topic(f"{topic_name}-x"),
        new_topic(f"{topic_name}-x"),
        new_topic(f"{topic_name}-y"),
    ]
    both.ask(create_request(*twice, validate_only=True), 7, allowed=["topic_id"])
    both.ask(create_request(), 7)


def test_create_colliding_topics(both, topic_name):
    both.create(f"{topic_name}.x_y")
    both.ask(create_request(new_topic(f"{topic_name}.x.y"), validate_only=True), 7)
    both.ask(create_request(new_topic(f"{topic_name}_x_y"), validate_only=True), 7)


# DeleteTopics


def delete_request(*names, ids=(), states=()):
    topics = [delete_topics.DeleteTopicState(name=name) for name in names]
    topics += [delete_topics.DeleteTopicState(topic_id=one) for one in ids]
    topics += [delete_topics.DeleteTopicState(name=name, topic_id=one) for name, one in states]
    return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def delete_names(*names):
    return delete_topics.DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)


def test_delete_topics(both, topic_name):
    for version in range(1, 6):
        name = f"{topic_name}-{version}"
        both.create(name)
        both.ask(delete_names(name, "no-such"), version)
        both.wait_gone(name)
        both.ask(delete_names(name), version)
        both.ask(delete_names("no-such", "no-such", "nor-this"), version)
    for name in BAD_NAMES:
        both.ask(delete_names(name), 5)
    both.create(topic_name)
    both.ask(delete_request(topic_name, topic_name), 6)
    both.ask(lambda side: delete_request(ids=[side.ids[topic_name]] * 2), 6)
    both.ask(lambda side: delete_request(states=[(topic_name, side.ids[topic_name])]), 6)
    both.ask(delete_request("no-such", ids=[OTHER_ID]), 6)
    both.ask(delete_request(ids=[NO_ID]), 6)
    both.ask(delete_request(), 6)
    both.ask(lambda side: delete_request(ids=[side.ids[topic_name]]), 6)
    both.wait_gone(topic_name)
    both.ask(lambda side: delete_request(ids=[side.ids[topic_name]]), 6)


def test_what_a_deleted_topic_answers(both, topic_name):
    both.create(topic_name)
    append(both, topic_name, batch_of(1))
    both.ask(delete_request(topic_name), 6)
    both.wait_gone(topic_name)
    both.ask(lambda side: produce_request("", 0, batch_of(1), topic_id=side.ids[topic_name]), 13)
    both.ask(produce_request(topic_name, 0, batch_of(1)), 9)
    both.ask(lambda side: fetch_request("", 0, topic_id=side.ids[topic_name]), 13)
    both.ask(lambda side: metadata_request(ids=[side.ids[topic_name]]), 12)
    both.ask(list_request(topic_name, (0, -1)), 7)
    both.ask(describe_request(TOPIC, topic_name), 4)
    both.create(topic_name)
    both.ask(list_request(topic_name, (0, -1)), 7)


# CreatePartitions


def partitions_request(*topics, **fields):
    return create_partitions.CreatePartitionsRequest(
        topics=[grown(*topic) for topic in topics], timeout_ms=TIMEOUT_MS, **fields
    )


def grown(name, count, assignments=None):
    given = None
    if assignments is not None:
        given = [
            create_partitions.CreatePartitionsAssignment(broker_ids=one) for one in assignments
        ]
    return create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=given)


def test_create_partitions(both, topic):
    refused = [
        (topic, 2),
        (topic, 1),
        (topic, 0),
        (topic, -1),
        ("no-such", 5),
        ("", 5),
        (topic, 3, []),
        (topic, 3, [[1], [1]]),
        (topic, 3, [[]]),
        (topic, 3, [[99]]),
        (topic, 3, [[1, 1]]),
        (topic, 3, [[1, 2]]),
    ]
    for one in refused:
        both.ask_all(partitions_request(one, validate_only=True))
        both.ask(partitions_request(one), 3)
    both.ask(partitions_request((topic, 3), (topic, 4), ("no-such", 1)), 3)
    both.ask(partitions_request((topic, 3), validate_only=True), 3)
    both.ask(partitions_request((topic, 3)), 3)
    both.ask(partitions_request((topic, 5, [[1], [1]])), 3)
    both.ask(partitions_request((topic, 5)), 3)
    for side in both.sides:
        side.ask_until(
            metadata_request(topic), 12, lambda answer: len(answer.topics[0].partitions) == 5
        )
        side.learn_ids([topic])
    both.ask(metadata_request(topic), 12)
    both.ask(produce_request(topic, 4, batch_of(1)), 9)


# DeleteRecords


def records_request(name, *partitions):
    asked = [
        delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in partitions
    ]
    topic = delete_records.DeleteRecordsTopic(name=name, partitions=asked)
    return delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


def test_delete_records(both, topic):
    both.ask(records_request(topic, (0, 0), (1, -1)), 2)
    for _ in range(5):
        append(both, topic, batch_of(2))
    both.ask_all(records_request(topic, (0, 0)))
    both.ask_all(records_request(topic, (0, 3)))
    both.ask(list_request(topic, (0, -2)), 7)
    both.ask(records_request(topic, (0, 1)), 2)
    both.ask(records_request(topic, (0, 11), (1, 1), (7, 0)), 2)
    both.ask(records_request(topic, (0, -2)), 2)
    both.ask(records_request("no-such", (0, 0)), 2)
    both.ask(records_request("a b", (0, 0)), 2)
    both.ask(fetch_request(topic, 2), 12)
    both.ask(fetch_request(topic, 3), 12)
    both.ask(list_request(topic, (0, NOW)), 7)
    both.ask(epoch_request(topic, (0, -1, 0)), 4)
    both.ask(records_request(topic, (0, -1)), 2)
    both.ask(list_request(topic, (0, -2), (1, -2)), 7)
    both.ask(list_request(topic, (0, -3)), 7)
    both.ask(fetch_request(topic, 10), 12)
    both.ask(epoch_request(topic, (0, -1, 0)), 4)
    append(both, topic, batch_of(2))
    both.ask(fetch_request(topic, 10), 12)


def test_delete_records_of_a_compacted_topic(both, topic_name):
    both.create(topic_name, cleanup_policy="compact")
    append(both, topic_name, batch_of(2))
    both.ask(records_request(topic_name, (0, 1)), 2)


# OffsetForLeaderEpoch


def epoch_request(name, *partitions, replica_id=-1):
    asked = [
        offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=index, current_leader_epoch=current, leader_epoch=epoch
        )
        for index, current, epoch in partitions
    ]
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=asked)
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[topic]
    )


def test_offset_for_leader_epoch(both, topic):
    for _ in range(2):
        for epoch in (-2, -1, 0, 1, 7):
            both.ask_all(epoch_request(topic, (0, -1, epoch), (1, 0, epoch)), since=2)
        for current in (-2, 1, 7):
            both.ask(epoch_request(topic, (0, current, 0)), 4)
        append(both, topic, batch_of(3))
    both.ask(epoch_request(topic, (7, -1, 0)), 4)
    both.ask(epoch_request("no-such", (0, -1, 0)), 4)


# Settings


def describe_request(*resources, keys=None, **fields):
    if len(resources) == 2 and isinstance(resources[0], int):
        resources = [resources]
    asked = [
        describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys
        )
        for kind, name in resources
    ]
    return describe_configs.DescribeConfigsRequest(resources=asked, **fields)


def test_describe_topic_configs(both, topic):
    told = {"include_synonyms": True, "include_documentation": True}
    both.ask_all(describe_request(TOPIC, topic), since=1)
    both.ask_all(describe_request(TOPIC, topic, include_synonyms=True), since=1)
    both.ask(describe_request(TOPIC, topic, **told), 4)
    both.ask(describe_request(TOPIC, topic, keys=["retention.ms", "no.such"], **told), 4)
    both.ask(describe_request(TOPIC, topic, keys=[]), 4)
    both.ask(describe_request(TOPIC, "no-such"), 4)
    both.ask(describe_request((TOPIC, topic), (TOPIC, "no-such"), keys=["retention.ms"]), 4)
    for name in BAD_NAMES:
        both.ask(describe_request(TOPIC, name), 4)


def test_describe_broker_configs(both):
    keys = [
        "log.retention.hours", "num.partitions", "message.max.bytes", "log.cleanup.policy",
        "compression.type", "ssl.keystore.password", "auto.create.topics.enable", "delete.topic.enable",
        "log.segment.bytes", "log.roll.ms", "log.roll.hours", "log.retention.ms",
    ]  # fmt: skip
    told = {"include_synonyms": True, "include_documentation": True, "keys": keys}
    both.ask_all(describe_request(BROKER, "1", **told), since=3)
    both.ask(describe_request(BROKER, "", **told), 4)
    both.ask(describe_request(BROKER, "7"), 4)
    both.ask(describe_request(BROKER, "one"), 4)
    both.ask(describe_request(BROKER_LOGGER, ""), 4)
    both.ask(describe_request(BROKER_LOGGER, "7"), 4)
    both.ask(describe_request(0, "x"), 4)
    both.ask(describe_request(3, "x"), 4)
    both.ask(describe_request((3, "x"), (BROKER, "1"), keys=["num.partitions"]), 4)
    both.ask(describe_request(CLIENT_METRICS, ""), 4)
    both.ask(describe_request(GROUP, ""), 4)


def alter_request(*resources, validate_only=False):
    asked = [
        alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                alter_configs.AlterableConfig(name=key, value=value) for key, value in configs
            ],
        )
        for kind, name, configs in resources
    ]
    return alter_configs.AlterConfigsRequest(resources=asked, validate_only=validate_only)


def increment_request(*resources, validate_only=False):
    asked = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                incremental_alter_configs.AlterableConfig(
                    name=key, config_operation=operation, value=value
                )
                for key, operation, value in configs
            ],
        )
        for kind, name, configs in resources
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=asked, validate_only=validate_only
    )


def settled(both, name, key, value):
    request = describe_request(TOPIC, name, keys=[key])
    for side in both.sides:
        side.ask_until(request, 4, lambda answer: answer.results[0].configs[0].value == value)


def test_alter_topic_configs(both, topic):
    changes = [("retention.ms", "1000"), ("cleanup.policy", "compact")]
    both.ask_all(alter_request((TOPIC, topic, changes), validate_only=True))
    both.ask_all(alter_request((TOPIC, topic, changes)))
    settled(both, topic, "retention.ms", "1000")
    both.ask(describe_request(TOPIC, topic, include_synonyms=True), 4)
    both.ask(alter_request((TOPIC, topic, [("segment.ms", "5000")])), 2)
    settled(both, topic, "segment.ms", "5000")
    both.ask(describe_request(TOPIC, topic), 4)
    both.ask(alter_request((TOPIC, topic, [])), 2)
    settled(both, topic, "segment.ms", "604800000")
    for wrong in (
        (TOPIC, topic, [("no.such", "1")]),
        (TOPIC, topic, [("retention.ms", "x")]),
        (TOPIC, topic, [("retention.ms", None)]),
        (TOPIC, topic, [("retention.ms", "1"), ("retention.ms", "2")]),
        (TOPIC, "no-such", [("retention.ms", "1")]),
        (TOPIC, "no-such", [("retention.ms", "x")]),
        (TOPIC, "a b", [("retention.ms", "1")]),
        (TOPIC, "", [("retention.ms", "1")]),
        (BROKER, "7", [("log.cleaner.threads", "1")]),
        (BROKER, "x", [("log.cleaner.threads", "1")]),
        (BROKER, "1", [("log.cleaner.threads", "x")]),
        (BROKER, "1", [("num.partitions", "3")]),
        (BROKER_LOGGER, "1", [("root", "INFO")]),
        (3, "x", []),
        (0, "x", []),
    ):
        both.ask(alter_request(wrong), 2)
        both.ask(alter_request(wrong, validate_only=True), 2)


def test_incremental_alter_topic_configs(both, topic):
    changes = [("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact")]
    both.ask_all(increment_request((TOPIC, topic, changes), validate_only=True))
    both.ask_all(increment_request((TOPIC, topic, changes)))
    settled(both, topic, "retention.ms", "1000")
    both.ask(describe_request(TOPIC, topic, include_synonyms=True), 4)
    more = [("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)]
    both.ask(increment_request((TOPIC, topic, more)), 1)
    settled(both, topic, "cleanup.policy", "compact")
    both.ask(describe_request(TOPIC, topic, include_synonyms=True), 4)
    both.ask(increment_request((TOPIC, topic, [("retention.ms", DELETE, "with a value")])), 1)
    both.ask(increment_request((TOPIC, topic, [])), 1)
    for wrong in (
        (TOPIC, topic, [("no.such", SET, "1")]),
        (TOPIC, topic, [("no.such", DELETE, None)]),
        (TOPIC, topic, [("no.such", APPEND, "1")]),
        (TOPIC, topic, [("retention.ms", SET, "x")]),
        (TOPIC, topic, [("retention.ms", SET, None)]),
        (TOPIC, topic, [("retention.ms", APPEND, "1")]),
        (TOPIC, topic, [("retention.ms", SUBTRACT, "1")]),
        (TOPIC, topic, [("cleanup.policy", APPEND, "burn")]),
        (TOPIC, topic, [("cleanup.policy", SUBTRACT, "burn")]),
        (TOPIC, topic, [("cleanup.policy", APPEND, None)]),
        (TOPIC, topic, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
        (TOPIC, topic, [("retention.ms", SET, "1"), ("segment.ms", SET, "no")]),
        (TOPIC, "no-such", [("retention.ms", SET, "1")]),
        (TOPIC, "no-such", [("retention.ms", SET, "x")]),
        (TOPIC, "no-such", []),
        (TOPIC, "a b", [("retention.ms", SET, "1")]),
        (TOPIC, "", [("retention.ms", SET, "1")]),
        (BROKER, "7", [("log.cleaner.threads", SET, "1")]),
        (BROKER, "x", [("log.cleaner.threads", SET, "1")]),
        (BROKER, "1", [("log.cleaner.threads", SET, "x")]),
        (BROKER, "1", [("log.cleaner.threads", SET, "-5")]),
        (BROKER, "1", [("num.partitions", SET, "3")]),
        (BROKER, "1", [("log.cleaner.threads", APPEND, "3")]),
        (BROKER, "1", [("log.cleaner.threads", 9, "3")]),
        (BROKER, "", [("num.partitions", SET, "3")]),
        (BROKER, "", [("listener.name.x.ssl.keystore.password", SET, "p")]),
        (BROKER, "", [("ssl.keystore.password", SET, "p")]),
        (BROKER_LOGGER, "7", [("root", SET, "INFO")]),
        (3, "x", []),
        (0, "x", []),
    ):
        both.ask(increment_request(wrong), 1)
        both.ask(increment_request(wrong, validate_only=True), 1)
    both.ask(
        increment_request((TOPIC, topic, changes), (TOPIC, topic, changes), (TOPIC, "no-such", [])),
        1,
    )


def test_alter_broker_configs(both, topic):
    def default_is(value):
        request = describe_request(BROKER, "", keys=["log.retention.ms"])
        for side in both.sides:
            side.ask_until(
                request, 4, lambda answer: [c.value for c in answer.results[0].configs] == value
            )

    def own_is(value):
        request = describe_request(BROKER, "1", keys=["log.retention.ms"])
        for side in both.sides:
            side.ask_until(request, 4, lambda answer: answer.results[0].configs[0].value == value)

    told = {"include_synonyms": True, "keys": ["log.retention.ms", "retention.ms"]}
    both.ask(increment_request((BROKER, "", [("log.retention.ms", SET, "12345678")])), 1)
    default_is(["12345678"])
    own_is("12345678")
    settled(both, topic, "retention.ms", "12345678")
    both.ask(describe_request((BROKER, "1"), (BROKER, ""), (TOPIC, topic), **told), 4)
    both.ask(increment_request((BROKER, "1", [("log.retention.ms", SET, "777777")])), 1)
    own_is("777777")
    settled(both, topic, "retention.ms", "777777")
    both.ask(describe_request((BROKER, "1"), (BROKER, ""), (TOPIC, topic), **told), 4)
    both.ask(increment_request((BROKER, "1", [("log.retention.ms", DELETE, None)])), 1)
    both.ask(increment_request((BROKER, "", [("log.retention.ms", DELETE, None)])), 1)
    default_is([])
    settled(both, topic, "retention.ms", "604800000")
    both.ask(describe_request((BROKER, "1"), (BROKER, ""), (TOPIC, topic), **told), 4)


# The cluster


def test_describe_cluster(both):
    both.ask_all(describe_cluster.DescribeClusterRequest())
    both.ask_all(
        describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    for kind in (0, 2, 3, -1):
        both.ask_all(describe_cluster.DescribeClusterRequest(endpoint_type=kind), since=1)
    both.ask(describe_cluster.DescribeClusterRequest(include_fenced_brokers=True), 2)


def partitions_page(*names, limit=2000, cursor=None):
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
    )
    if cursor is not None:
        topic, index = cursor
        request.cursor = describe_topic_partitions.Cursor(topic_name=topic, partition_index=index)
    return request


def test_describe_topic_partitions(both, topic_name):
    a, b = f"{topic_name}-a", f"{topic_name}-b"
    both.create(a, 3)
    both.create(b, 3)
    for limit in (-1, 0, 1, 2, 3, 4, 5, 6, 7, 2000):
        both.ask(partitions_page(b, a, limit=limit), 0)
        both.ask(partitions_page(b, a, a, "no-such", limit=limit), 0)
    for cursor in (
        (a, 0),
        (a, 2),
        (a, 3),
        (a, 99),
        (b, 1),
        (b, -1),
        ("no-such", 0),
        ("", 0),
        ("a b", 0),
    ):
        both.ask(partitions_page(b, a, limit=2, cursor=cursor), 0)
    both.ask(partitions_page("no-such", "nor-this", limit=1), 0)
    # All topics from here on, of which there are only these with such a name.
    both.ask(partitions_page(limit=2, cursor=(a, 1)), 0)
    both.ask(partitions_page(limit=2, cursor=(a, -1)), 0)


def log_dirs(*topics):
    asked = [
        describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=partitions)
        for name, partitions in topics
    ]
    return describe_log_dirs.DescribeLogDirsRequest(topics=asked)


def test_describe_log_dirs(both, topic):
    both.ask_all(log_dirs((topic, [0, 1])), since=1)
    append(both, topic, batch_of(5))
    append(both, topic, batch_of(5), index=1)
    both.ask_all(log_dirs((topic, [0, 1])), since=1)
    both.ask(log_dirs((topic, [1, 7])), 4)
    both.ask(log_dirs((topic, [])), 4)
    both.ask(log_dirs(("no-such", [0])), 4)
    both.ask(log_dirs(), 4)


def test_init_producer_id(both):
    first = init_producer_id.InitProducerIdRequest(transactional_id=None)
    for side in both.sides:  # Kafka fetches its first block of ids when it is asked for one
        side.ask_until(first, 4, lambda answer: answer.error_code == 0)
    for version in range(6):
        both.ask(
            init_producer_id.InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=60000
            ),
            version,
        )
    for producer_id, epoch in ((5, -1), (-1, 5)):
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        both.ask(request, 4)
