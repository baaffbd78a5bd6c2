"""F11: a bit that flips on one replica's disk. It is never served, and what it hit comes from another replica."""

import pytest
from chaos.wire_kit import RawClient, batch
from cluster_kit import Cluster, assert_logs_equal, only_in_make_chaos, wait_until

from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches

RECORDS = 60
SETTINGS = ("replica.lag.time.max.ms=2000",)


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, settings=SETTINGS) as running:
        running.create(
            "t", [[1, 2, 3]], min_insync_replicas=2, segment_bytes=1 << 20, retention_ms=-1
        )
        with RawClient(running.address_of(1)) as client:
            for number in range(RECORDS):
                value = b"%d:" % number + bytes(100_000)
                assert client.produce("t", batch(value)).error_code == 0
        yield running


def flip_a_bit(cluster, broker_id):
    """In the middle of the first segment's records, while the broker is not there; the file."""
    (folder,) = cluster.directories_of(broker_id)
    first, *others = sorted((folder / "t-0").glob("*.log"))
    assert others, "it is not the one that is written to"
    data = bytearray(first.read_bytes())
    data[len(data) // 2 + 1000] ^= 1
    first.write_bytes(data)
    return first


def read_from(cluster, broker_id):
    with RawClient(cluster.address_of(broker_id)) as client:
        found = []
        while len(found) < RECORDS:
            data = client.fetch("t", len(found), max_bytes=300_000)
            assert data.error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR), "until it is repaired"
            found += values_of(memoryview(bytes(data.records or b"")), len(found))
        return found


def values_of(records, offset):
    values = []
    for position, header in batches.headers(records):
        piece = records[position : position + header.size]
        assert batches.checksum_matches(piece, header), "never served"
        content = batches.read_records(piece, 1 << 30)
        values += [each.value for each in content if each.offset >= offset]
    return values


@pytest.mark.parametrize(
    "leads", [pytest.param(False, marks=only_in_make_chaos), True], ids=["a follower", "the leader"]
)
def test_damage_is_replaced_by_what_another_replica_has(cluster, leads):
    cluster.stop(2)
    damaged = flip_a_bit(cluster, 2)
    cluster.start(2)
    cluster.wait_healthy("t")
    if leads:
        cluster.stop(1)
        wait_until(lambda: cluster.leaders("t") == [2], "the damaged one leads")
    values = read_from(cluster, 2)
    assert [int(value.partition(b":")[0]) for value in values] == list(range(RECORDS))
    assert "damaged places replaced by copies" in cluster.brokers[2].log
    assert "lost" not in cluster.brokers[2].log
    if leads:
        cluster.start(1)
        cluster.wait_healthy("t")
    assert damaged.exists()
    assert_logs_equal(cluster, "t")
