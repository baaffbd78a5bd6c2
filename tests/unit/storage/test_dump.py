import pytest
from damage_kit import DIRECTORY, ROOT, TOPIC_ID, close, log_path
from log_kit import NOW, append, batch_of, new_disk, open_log

from barnabas.model.ids import topic_id_text
from barnabas.storage import checkpoints, meta_properties
from barnabas.storage.dump import UnknownFile, dump_file, is_known
from barnabas.storage.meta_properties import MetaProperties
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, Producer, Record, build
from barnabas.wire.compression import Codec
from barnabas.wire.control_batch import EndMarker


@pytest.fixture
def disk():
    disk = new_disk()
    log = open_log(disk)
    append(log, count=2, codec=Codec.ZSTD)
    records = [Record(0, NOW, b"k", None, (("h", b"1"),))]
    append(log, build(records, attributes=TRANSACTIONAL, producer=Producer(7, 1, 0)))
    log.append_marker(EndMarker(False, 4), 7, 1, 0, NOW)
    close(disk, log)
    return disk


def rows(disk, name, **how):
    return list(dump_file(disk, f"{DIRECTORY}/{name}", **how))


def test_batches_and_records(disk):
    found = rows(disk, "00000000000000000000.log", records=True)
    assert [row["kind"] for row in found] == [
        "batch", "record", "record", "batch", "record", "batch", "control",
    ]  # fmt: skip
    batch, first = found[0], found[1]
    assert (batch["base_offset"], batch["last_offset"], batch["records"]) == (0, 1, 2)
    assert (batch["codec"], batch["position"], batch["transactional"]) == ("zstd", 0, False)
    assert first["value"] == b"0" * 10
    assert found[3]["producer_id"] == 7
    assert (found[4]["key"], found[4]["value"]) == (b"k", None)
    assert found[4]["headers"] == (("h", b"1"),)
    assert found[6]["type"] == "abort"
    shallow = rows(disk, "00000000000000000000.log")
    assert [row["kind"] for row in shallow] == ["batch"] * 3


def test_damage_does_not_end_it(disk):
    disk.flip(log_path(0), 70)
    kinds = [row["kind"] for row in rows(disk, "00000000000000000000.log")]
    assert kinds == ["damage", "batch", "batch"]


def test_records_that_do_not_unpack_are_told():
    disk = new_disk()
    file = disk.open(log_path(0), create=True)
    batch = bytearray(batch_of(1))
    batch[22] |= 7
    batch[17:21] = crc(batch)
    file.write(0, (batch,))
    assert [row["kind"] for row in rows(disk, "00000000000000000000.log", records=True)] == [
        "batch",
        "damage",
    ]


def crc(batch):
    from crc32c import crc32c

    return crc32c(memoryview(batch)[21:]).to_bytes(4, "big")


def test_unknown_markers_are_told_by_number():
    disk = new_disk()
    key = (0).to_bytes(2, "big") + (42).to_bytes(2, "big")
    batch = build([Record(0, NOW, key, b"")], attributes=CONTROL)
    disk.open(log_path(0), create=True).write(0, (batch,))
    assert rows(disk, "00000000000000000000.log", records=True)[1]["type"] == "unknown (42)"


def test_indexes():
    disk = new_disk()
    log = open_log(disk, base_settings())
    for number in range(3):
        append(log, count=2, timestamp=NOW + number)
    close(disk, log)
    offsets = rows(disk, "00000000000000000000.index")
    assert [row["offset"] for row in offsets] == [3, 5]
    assert all(row["position"] > 0 for row in offsets)
    times = rows(disk, "00000000000000000000.timeindex")
    assert times[-1] == {"kind": "time_entry", "timestamp": NOW + 2, "offset": 5}
    file = disk.open(f"{DIRECTORY}/00000000000000000000.timeindex")
    file.truncate(1200)  # as Kafka leaves it when it is killed
    assert rows(disk, "00000000000000000000.timeindex") == times


def base_settings():
    from log_kit import config

    return config(index_interval_bytes=1)


def test_transactions_producers_and_epochs(disk):
    assert rows(disk, "00000000000000000000.txnindex") == [
        {
            "kind": "aborted_transaction",
            "first_offset": 2,
            "producer_id": 7,
            "last_offset": 3,
            "last_stable_offset": 4,
        }
    ]
    (producer,) = rows(disk, "00000000000000000004.snapshot")
    assert (producer["producer_id"], producer["coordinator_epoch"]) == (7, 4)
    assert rows(disk, "leader-epoch-checkpoint") == [
        {"kind": "leader_epoch", "epoch": 0, "start_offset": 0}
    ]


def test_what_speaks_of_the_directory(disk):
    meta = MetaProperties(1, "cluster", 3, None)
    disk.write_file_atomically(f"{ROOT}/meta.properties", meta_properties.encode(meta))
    (identity,) = dump_file(disk, f"{ROOT}/meta.properties")
    assert (identity["cluster_id"], identity["node_id"]) == ("cluster", 3)
    (offset,) = dump_file(disk, f"{ROOT}/{checkpoints.RECOVERY_POINTS}")
    assert (offset["topic"], offset["partition"], offset["offset"]) == ("topic", 0, 4)
    (metadata,) = rows(disk, "partition.metadata")
    assert metadata["topic_id"] == topic_id_text(TOPIC_ID)


def test_names(disk):
    assert is_known("00000000000000000000.timeindex")
    assert not is_known("barnabas.db")
    with pytest.raises(UnknownFile):
        dump_file(disk, "/data/barnabas.db")
    disk.rename(log_path(0), log_path(0) + ".deleted")
    assert len(rows(disk, "00000000000000000000.log.deleted")) == 3
    disk.rename(log_path(0) + ".deleted", log_path(0) + ".2.deleted")
    assert len(rows(disk, "00000000000000000000.log.2.deleted")) == 3
