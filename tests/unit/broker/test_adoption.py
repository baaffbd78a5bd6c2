import random

import pytest
from metadata_kit import ID_A, ID_B, setting, topic, write_log

from barnabas.broker import znodes
from barnabas.broker.adoption import find_folders, plan_adoption
from barnabas.broker.kafka_metadata import BROKER, GROUP, TOPIC
from barnabas.core.epochs import EpochEntry
from barnabas.core.producer_state import ProducerEntry
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.ids import TopicId
from barnabas.ports import ZNode
from barnabas.sim.disk import SimDisk
from barnabas.storage import epoch_file, partition_metadata, producer_snapshot
from barnabas.storage.directory import CLEAN_SHUTDOWN_FILE
from barnabas.wire.batch import Producer, Record, build
from barnabas.wire.messages.metadata_records.client_quota_record import ClientQuotaRecord
from barnabas.wire.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from barnabas.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord

ID_C = bytes(range(3, 19))

ROOT = "/data"
NEW_ID = b"new id for tests"


@pytest.fixture
def disk():
    disk = SimDisk(random.Random(1))
    disk.make_dir(ROOT)
    return disk


def folder(disk, name, topic_id=None, *, epoch=None, producer=None):
    path = f"{ROOT}/{name}"
    disk.make_dir(path)
    if topic_id is not None:
        content = partition_metadata.encode(TopicId(topic_id))
        disk.write_file_atomically(f"{path}/{partition_metadata.FILE_NAME}", content)
    if epoch is not None:
        content = epoch_file.encode([EpochEntry(0, 0), EpochEntry(epoch, 3)])
        disk.write_file_atomically(f"{path}/leader-epoch-checkpoint", content)
    if producer is not None:
        content = producer_snapshot.encode([ProducerEntry(producer, 0)])
        disk.write_file_atomically(f"{path}/{3:020d}.snapshot", content)


def plan(disk, **how):
    return plan_adoption(disk, [ROOT, "/not/there"], BrokerConfig({}), lambda: NEW_ID, **how)


def shape(adoption):
    return {
        topic.name: (topic.id, [one.leader_epoch for one in topic.partitions])
        for topic in adoption.topics
    }


def test_an_empty_directory_brings_nothing(disk):
    adoption = plan(disk)
    assert (adoption.topics, adoption.notes, adoption.operations(1)) == ([], [], [])


def test_folders_alone_make_topics(disk):
    folder(disk, "a-0", ID_A, epoch=4)
    folder(disk, "a-2", ID_A)
    folder(disk, "b-0")
    folder(disk, "__cluster_metadata-0x")
    disk.write_file_atomically(f"{ROOT}/file-0", b"")
    adoption = plan(disk)
    assert shape(adoption) == {"a": (ID_A, [5, 0, 0]), "b": (NEW_ID, [0])}
    assert adoption.notes == ["topic a: no folder of partition 1: they begin empty"]
    assert not adoption.has_metadata
    assert [str(one.key) for one in adoption.folders] == ["a-0", "a-2", "b-0"]


def test_files_that_cannot_be_read_say_nothing(disk):
    folder(disk, "a-0")
    for name in ("partition.metadata", "leader-epoch-checkpoint", f"{0:020d}.snapshot"):
        disk.write_file_atomically(f"{ROOT}/a-0/{name}", b"nonsense")
    (found,) = find_folders(disk, [ROOT])
    assert (found.topic_id, found.leader_epoch, found.producer_id) == (None, -1, -1)


def test_the_metadata_log_says_what_still_exists(disk):
    removed = RemoveTopicRecord(topic_id=ID_C)
    write_log(
        disk, ROOT,
        topic("a", ID_A, 7, 2, 0), topic("gone", ID_B, 0), topic("deleted", ID_C, 0), [removed],
    )  # fmt: skip
    folder(disk, "a-0", ID_A, epoch=4)
    folder(disk, "a-1", ID_A, epoch=9)
    folder(disk, "a-2", ID_B)
    folder(disk, "deleted-0", ID_C)
    adoption = plan(disk)
    assert shape(adoption) == {"a": (ID_A, [8, 10, 1])}
    assert len(adoption.folders) == 2
    assert adoption.notes == [
        "a-2 is of an older topic of that name: its folder is left out",
        "topic a: no folder of partition 2: they begin empty",
        "topic deleted had been deleted: its folders are left out",
        "topic gone has no folder here",
    ]


def test_a_metadata_log_that_lost_its_end_hides_no_topic(disk):
    write_log(disk, ROOT, topic("a", ID_A, 7))
    folder(disk, "a-0", ID_A)
    folder(disk, "b-0", ID_B, epoch=3)
    adoption = plan(disk)
    assert shape(adoption) == {"a": (ID_A, [8]), "b": (ID_B, [4])}
    assert "topic b is not in the metadata log" in adoption.notes[0]


def test_a_damaged_metadata_log_hides_no_topic(disk):
    write_log(disk, ROOT, topic("a", ID_A, 7), topic("b", ID_B, 0))
    disk.flip(f"{ROOT}/__cluster_metadata-0/{0:020d}.log", 90)
    folder(disk, "a-0", ID_A)
    folder(disk, "b-0", ID_B)
    adoption = plan(disk)
    assert sorted(shape(adoption)) == ["a", "b"]
    assert "damaged" in adoption.notes[0]


def test_settings_come_along_and_unknown_ones_are_told(disk):
    write_log(
        disk,
        ROOT,
        topic("a", ID_A, 0),
        [
            setting(TOPIC, "a", "retention.ms", "5"),
            setting(TOPIC, "a", "strange.setting", "5"),
            setting(TOPIC, "a", "segment.ms", "soon"),
            setting(BROKER, "", "log.retention.ms", "77"),
            setting(BROKER, "", "listeners", "x"),
            setting(BROKER, "1", "log.retention.bytes", "99"),
            setting(BROKER, "2", "log.retention.bytes", "11"),
            setting(GROUP, "g", "consumer.session.timeout.ms", "50000"),
            setting(GROUP, "h", "strange.setting", "5"),
            ClientQuotaRecord(),
        ],
    )
    folder(disk, "a-0", ID_A)
    adoption = plan(disk)
    assert adoption.topics[0].overrides == {"retention.ms": "5"}
    assert adoption.broker_settings == {
        znodes.ALL_BROKERS: {"log.retention.ms": "77"},
        "1": {"log.retention.bytes": "99"},
    }
    assert adoption.group_settings == {"g": {"consumer.session.timeout.ms": "50000"}}
    written = applied(adoption)
    assert znodes.read_broker_configs(written) == adoption.broker_settings
    assert znodes.read_group_configs(written) == adoption.group_settings
    told = " ".join(adoption.notes)
    for word in ("strange.setting", "segment.ms=soon", "listeners", "1 records of quotas"):
        assert word in told


def test_producer_ids_go_on_behind_those_in_use(disk):
    folder(disk, "a-0", producer=2001)
    assert plan(disk).next_producer_id == 3000
    write_log(disk, ROOT, topic("a", ID_A, 0), [ProducerIdsRecord(next_producer_id=7000)])
    adoption = plan(disk)
    assert adoption.next_producer_id == 7000
    start, _ = znodes.next_producer_id_block(1, applied(adoption)[znodes.PRODUCER_IDS])
    assert start == 7000


def test_producers_since_the_last_snapshot_count_after_a_crash(disk):
    folder(disk, "a-0", producer=7)  # at offset 3
    producers = {1: 9001, 3: 4001, 5: -1}
    batches = [
        build([Record(offset, 5, None, b"v")], producer=Producer(producer, 0, 0))
        for offset, producer in producers.items()
    ]
    file = disk.open(f"{ROOT}/a-0/{0:020d}.log", create=True)
    file.write(0, (*batches, b"torn"))
    assert plan(disk).next_producer_id == 5000
    disk.write_file_atomically(f"{ROOT}/{CLEAN_SHUTDOWN_FILE}", b"")
    assert plan(disk).next_producer_id == 1000  # a clean stop leaves nothing behind its snapshot


def applied(adoption):
    return {one.path: ZNode(one.data, 0) for one in adoption.operations(1)}


def test_what_is_written_down_can_be_read_back(disk):
    folder(disk, "a-0", ID_A, epoch=4)
    (read,) = znodes.read_topics(applied(plan(disk)))
    assert (read.name, read.id, read.partitions[0].leader_epoch) == ("a", ID_A, 5)


def test_only_what_is_wanted(disk):
    write_log(disk, ROOT, topic("a", ID_A, 0), topic("b", ID_B, 0))
    folder(disk, "a-0", ID_A)
    folder(disk, "b-0", ID_B)
    adoption = plan(disk, wanted=lambda name: name == "b")
    assert (sorted(shape(adoption)), adoption.notes) == (["b"], [])
