import glob
from importlib import import_module
from pathlib import Path

import barnabas.wire.messages as messages
from barnabas.broker import internal_records
from barnabas.broker.internal_records import decode_metadata, describe
from barnabas.wire.messages.metadata_records.topic_record import TopicRecord
from barnabas.wire.messages.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from barnabas.wire.primitives import uvarint

TOPIC_ID = bytes(range(16))


def framed(message, version=0, frame=1):
    parts = (uvarint(frame), uvarint(message.API_KEY), uvarint(version), *message.encode(version))
    return b"".join(parts)


def test_a_metadata_record():
    value = framed(TopicRecord(name="orders", topic_id=TOPIC_ID))
    assert describe("__cluster_metadata", None, value) == {
        "type": "TopicRecord",
        "name": "orders",
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
    }
    assert decode_metadata(value) == TopicRecord(name="orders", topic_id=TOPIC_ID)


def test_a_transaction_with_lists_in_it():
    key = b"".join((b"\0\0", *TransactionLogKey(transactional_id="tx").encode(0)))
    partitions = [PartitionsSchema(topic="t", partition_ids=[0, 2])]
    value = TransactionLogValue(producer_id=5, transaction_partitions=partitions)
    found = describe("__transaction_state", key, b"".join((b"\0\1", *value.encode(1))))
    assert found["type"] == "TransactionLog"
    assert found["key"] == {"transactional_id": "tx"}
    assert found["value"]["producer_id"] == 5
    assert found["value"]["transaction_partitions"] == [{"topic": "t", "partition_ids": [0, 2]}]
    assert describe("__transaction_state", key, None)["value"] is None


def test_what_is_not_known_is_not_guessed_at():
    assert describe("orders", b"\0\0", b"") is None
    assert describe("__consumer_offsets", None, b"") is None
    assert describe("__consumer_offsets", b"\0", b"") is None
    assert describe("__consumer_offsets", b"\0\x63", b"") is None
    assert describe("__transaction_state", b"\0\0\0\2tx", b"\0\x63") is None
    assert describe("__transaction_state", b"\0\0\0\x50tx", None) is None
    assert describe("__cluster_metadata", None, None) is None
    assert describe("__cluster_metadata", None, b"\1\x63\0") is None
    assert describe("__cluster_metadata", None, b"\7\2\0") is None
    assert describe("__cluster_metadata", None, b"\1\2\x63") is None
    assert describe("__cluster_metadata", None, b"\1\2\0\xff") is None


def test_the_tables_name_every_generated_module_by_its_number():
    root = Path(messages.__file__).parent
    for folder, table, suffix in (
        ("metadata_records", internal_records.METADATA_MODULES, ""),
        ("records", internal_records.GROUP_MODULES, "Key"),
    ):
        for number, module in table.items():
            name = "".join(part.capitalize() for part in module.split("_")) + suffix
            package = import_module(f"barnabas.wire.messages.{folder}.{module}")
            assert number == getattr(package, name).API_KEY
        there = {Path(path).stem for path in glob.glob(str(root / folder / "[a-z]*.py"))}
        others = {"transaction_log", "share_snapshot", "share_update"}
        assert there - set(table.values()) <= others
