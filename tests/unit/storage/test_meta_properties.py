from __future__ import annotations

import pytest

from barnabas.storage.meta_properties import (
    CorruptMetaProperties,
    ForeignDirectory,
    MetaProperties,
    check_owner,
    decode,
    encode,
)

# Written by Apache Kafka 4.3.1; the date comment is the only thing that we leave out.
DATE = b"#Sun Nov 15 22:30:04 UTC 2026\n"
KAFKA_4 = (
    b"#\n" + DATE + b"node.id=1\ndirectory.id=XMBlz_6EGANfXL4kKMNBxg\nversion=1\n"
    b"cluster.id=a6dZrxC77yTLAp_zLsUmmA\n"
)
KAFKA_3_ZOOKEEPER = b"#\n" + DATE + b"broker.id=1\nversion=0\ncluster.id=a6dZrxC77yTLAp_zLsUmmA\n"


def test_kafka_4_both_ways() -> None:
    meta = decode(KAFKA_4)
    assert meta.version == 1
    assert meta.cluster_id == "a6dZrxC77yTLAp_zLsUmmA"
    assert meta.node_id == 1
    assert meta.directory_id is not None
    assert meta.directory_id.hex() == "5cc065cffe8418035f5cbe2428c341c6"
    assert encode(meta) == KAFKA_4.replace(DATE, b"")


def test_zookeeper_era_both_ways() -> None:
    meta = decode(KAFKA_3_ZOOKEEPER)
    assert meta == MetaProperties(0, "a6dZrxC77yTLAp_zLsUmmA", 1, None)
    assert encode(meta) == KAFKA_3_ZOOKEEPER.replace(DATE, b"")


def test_version_0_may_leave_out_everything() -> None:
    meta = decode(b"")
    assert meta == MetaProperties(0, None, None, None)
    assert decode(encode(meta)) == meta
    check_owner(meta, "/data", "cluster", 1)


def test_the_ways_of_java_properties() -> None:
    text = b"! note\n\n  version : 1\nnode.id 3\ncluster.id=a\\=b\\:c\n"
    meta = decode(text)
    assert meta == MetaProperties(1, "a=b:c", 3, None)
    assert decode(encode(meta)) == meta


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"version=2\n", "version 2"),
        (b"version=one\n", "version=one"),
        (b"version=1\nnode.id=1\n", "needs cluster.id"),
        (b"version=1\ncluster.id=a\n", "needs cluster.id and node.id"),
        (b"version=1\ncluster.id=a\nnode.id=x\n", "node.id=x"),
        (b"broker.id=\n", "no number"),
        (b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=abc\n", "directory.id=abc"),
        (b"\xff\xff", "no text"),
    ],
)
def test_corrupt(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptMetaProperties, match=problem):
        decode(data)


def test_owner() -> None:
    meta = decode(KAFKA_4)
    check_owner(meta, "/data", "a6dZrxC77yTLAp_zLsUmmA", 1)
    with pytest.raises(
        ForeignDirectory, match="belongs to cluster a6dZrxC77yTLAp_zLsUmmA"
    ) as refusal:
        check_owner(meta, "/data", "other", 1)
    assert "/data/meta.properties" in str(refusal.value)
    with pytest.raises(ForeignDirectory, match=r"belongs to broker 1, .* start with broker.id=1"):
        check_owner(meta, "/data", "a6dZrxC77yTLAp_zLsUmmA", 2)
