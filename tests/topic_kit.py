"""Topics for tests of pipelines: made, written and read with librdkafka, so that what is tested does not test itself."""

from chaos.wire_kit import RawClient
from cluster_kit import wait_until
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from barnabas.wire.messages.list_transactions import ListTransactionsRequest

#: Longer than anything takes on a machine that is busy with other things.
PATIENCE_S = 120


def make_topic(bootstrap, name, partitions=1, **config):
    """Create a topic and wait until it is there. Records may be as old as a test likes."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"retention.ms": -1, **config}
    topic = NewTopic(name, partitions, 1, config={key: str(each) for key, each in config.items()})
    admin.create_topics([topic])[name].result(PATIENCE_S)
    return name


def add_partitions(bootstrap, name, count):
    """Let a topic have more partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(name, count)])[name].result(PATIENCE_S)


def delete_topic(bootstrap, name):
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result(PATIENCE_S)


def delete_records(bootstrap, name, partition, before):
    """Let a log start later."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.delete_records([TopicPartition(name, partition, before)]).values():
        each.result(PATIENCE_S)


def produce(bootstrap, topic, values, partition=0, **settings):
    """Write values (or dicts of confluent_kafka's arguments) to one partition, one batch per call."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, **settings})
    for each in values:
        words = each if isinstance(each, dict) else {"value": each}
        producer.produce(topic, partition=words.pop("partition", partition), **words)
    assert producer.flush(PATIENCE_S) == 0


def wait_until_ended(bootstrap, topic):
    """Wait until no transaction is open in a topic: an end is answered once it is decided, and its markers are written after that."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partitions = admin.list_topics(timeout=PATIENCE_S).topics[topic].partitions
    asked = {TopicPartition(topic, each): OffsetSpec.latest() for each in partitions}

    def ends(level):
        found = admin.list_offsets(asked, isolation_level=level)
        return {place.partition: each.result(PATIENCE_S).offset for place, each in found.items()}

    wait_until(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        f"all transactions of {topic} have ended",
        PATIENCE_S,
    )


def produce_in_transaction(bootstrap, topic, values, *, commit, partition=0):
    """Write values in a transaction and end it; readers see that it has ended."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": f"test-{topic}-{partition}"}
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for each in values:
        producer.produce(topic, each, partition=partition)
    producer.flush(PATIENCE_S)
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)
    wait_until_ended(bootstrap, topic)


def consume_all(bootstrap, topic, isolation="read_committed"):
    """Read what there is of a topic, partition by partition: messages. What is committed is there, what is open is not waited for."""
    if isolation == "read_committed":
        wait_until(lambda: not _is_ending(bootstrap), "no markers are to be written", PATIENCE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "topic-kit",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions)
        return [each for one in partitions for each in _consume(consumer, topic, one)]
    finally:
        consumer.close()


def _is_ending(bootstrap):
    """Has the broker decided on the end of a transaction whose markers are not written yet?"""
    request = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"])
    with RawClient(bootstrap.partition(",")[0]) as client:
        answer = client.ask(request, 1)
    # An error passes: a coordinator that loads.
    return bool(answer.error_code or answer.transaction_states)


def _consume(consumer, topic, partition):
    consumer.assign([TopicPartition(topic, partition, 0)])
    messages = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{topic}-{partition} came to no end"
        if message.error() is None:
            messages.append(message)
        elif message.error().code() == -191:  # _PARTITION_EOF
            return messages
        else:
            raise AssertionError(message.error())


def committed(bootstrap, group, topic, partition=0):
    """Return the offset that a group has committed, or None."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], PATIENCE_S)
        return None if found.offset < 0 else found.offset
    finally:
        consumer.close()
