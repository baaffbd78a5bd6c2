"""Apache Kafka's metadata log, made by hand: for the tests of reading it and of taking a directory over."""

from __future__ import annotations

from barnabas.storage.names import LOG, file_name
from barnabas.wire.batch import CONTROL, Record, build
from barnabas.wire.messages.metadata_records.config_record import ConfigRecord
from barnabas.wire.messages.metadata_records.partition_record import PartitionRecord
from barnabas.wire.messages.metadata_records.topic_record import TopicRecord
from barnabas.wire.primitives import uvarint

FOLDER = "__cluster_metadata-0"
ID_A, ID_B = bytes(range(1, 17)), bytes(range(2, 18))


def framed(message, version=None):
    version = message.MAX_VERSION if version is None else version
    head = (uvarint(1), uvarint(message.API_KEY), uvarint(version))
    return b"".join((*head, *message.encode(version)))


def batch(messages, first_offset):
    values = [framed(message) for message in messages]
    records = [Record(first_offset + n, 5, None, value) for n, value in enumerate(values)]
    return bytes(build(records, leader_epoch=1))


def write(disk, root, name, parts):
    disk.make_dir(f"{root}/{FOLDER}")
    file = disk.open(f"{root}/{FOLDER}/{name}", create=True)
    file.write(0, (b"".join(parts),))


def write_log(disk, root, *groups, base=0, tail=b""):
    """One batch for each group of messages, behind a leader's change."""
    parts = [bytes(build([Record(base, 5, b"\0\0\0\2", b"")], attributes=CONTROL))]
    offset = base + 1
    for messages in groups:
        parts.append(batch(messages, offset))
        offset += len(messages)
    write(disk, root, file_name(base, LOG), [*parts, tail])


def topic(name, topic_id, *leader_epochs):
    """The records of a topic and its partitions."""
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=epoch,
                directories=[],
            )
            for number, epoch in enumerate(leader_epochs)
        ),
    ]


def setting(kind, whose, name, value):
    return ConfigRecord(resource_type=kind, resource_name=whose, name=name, value=value)
