"""Fetch: what is there, what is waited for, sessions, limits, cold reads."""

import errno
import gc
from contextlib import contextmanager, nullcontext

import pytest
from node_kit import DATA, NodeKit

from barnabas.broker import fetch_look, fetch_wanted
from barnabas.broker.api import fetch
from barnabas.broker.pieces import Pieces
from barnabas.model.errors import ErrorCode
from barnabas.sim.disk import SimFile
from barnabas.sim.world import MS
from barnabas.wire import batch
from barnabas.wire.batch import Record, headers
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)


@pytest.fixture(autouse=True, params=[fetch.MANY, 0], ids=["at once", "in pieces"])
def many(request, monkeypatch):
    """What is found is the same, however many partitions are looked at at once."""
    monkeypatch.setattr(fetch, "MANY", request.param)


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", partitions=3)
    return kit


def request(offsets, *, topic="t", max_bytes=1 << 20, each=1 << 20, **fields):
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=each)
        for index, offset in offsets.items()
    ]
    topics = [FetchTopic(topic=topic, partitions=partitions)] if partitions else []
    fields = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **fields}
    return FetchRequest(max_bytes=max_bytes, topics=topics, **fields)


def partitions(answer):
    return {p.partition_index: p for topic in answer.responses for p in topic.partitions}


def bases(partition):
    return [header.base_offset for _, header in headers(memoryview(partition.records))]


@contextmanager
def held_turns(kit):
    """Bytes have come, and readers are not answered: as in a server that is busy with producers."""
    node = kit.node
    end_turn, node.on_turn_end = node.on_turn_end, node.staging.write
    node.replicas.waiting.is_fed = True
    yield
    node.on_turn_end = end_turn
    node.on_turn_end()


def test_batches_come_whole_from_the_one_that_holds_the_offset(kit):
    for _ in range(3):
        kit.produce("t", count=5)
    found = partitions(kit.ask(request({0: 7}), 12))[0]
    assert bases(found) == [5, 10]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (15, 15, 0)


def test_at_the_end_there_is_nothing_and_past_it_an_error(kit):
    kit.produce("t", count=5)
    found = partitions(kit.ask(request({0: 5}), 12))[0]
    assert (found.error_code, len(found.records)) == (0, 0)
    for offset in (6, -1):
        found = partitions(kit.ask(request({0: offset}), 12))[0]
        assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_partition_that_fails_does_not_hide_the_others(kit):
    kit.produce("t", 1)
    found = partitions(kit.ask(request({0: 0, 1: 0, 9: 0}), 12))
    assert [found[i].error_code for i in (0, 1, 9)] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert bases(found[1]) == [0]


def test_the_first_batch_comes_even_if_it_is_over_the_limit_and_only_the_first(kit):
    for index in (0, 1):
        kit.produce("t", index, count=50)
    found = partitions(kit.ask(request({0: 0, 1: 0}, max_bytes=10, each=10), 12))
    assert bases(found[0]) == [0]
    assert len(found[1].records) == 0


@pytest.mark.parametrize("limits", ["each", "max_bytes"])
def test_a_piece_of_a_batch_and_nothing_else_is_not_sent(kit, limits):
    """Java's consumer takes it for a broker that makes no progress, and gives up."""
    for index in (0, 1):
        kit.produce("t", index, count=50)
    size = len(partitions(kit.ask(request({0: 0}), 12))[0].records)
    room = {"each": size - 1} if limits == "each" else {"max_bytes": 2 * size - 1}
    found = partitions(kit.ask(request({0: 0, 1: 0}, **room), 12))
    assert len(found[0].records) == size
    assert len(found[1].records) == 0
    assert found[1].high_watermark == 50


def test_a_partitions_own_limit_cuts(kit):
    for _ in range(3):
        size = len(partitions(kit.ask(request({0: 0}), 12))[0].records)
        kit.produce("t", count=5)
    one = (size) // 2
    found = partitions(kit.ask(request({0: 0}, each=one + 1), 12))[0]
    assert len(found.records) == one + 1
    assert bases(found) == [0]


def test_a_long_poll_is_answered_when_bytes_come(kit):
    reader = kit.new_client()
    reader.send(request({0: 0, 1: 0}, max_wait_ms=10_000), 12)
    kit.advance(100)
    assert reader.answers == []
    assert kit.node.replicas.waiting.count == 1
    kit.produce("t", 1)
    kit.run(lambda: reader.answers)
    assert bases(partitions(reader.answers[0])[1]) == [0]
    assert kit.node.replicas.waiting.count == 0
    assert not kit.node.waiters


def test_a_long_poll_waits_for_all_the_bytes_it_wants(kit):
    reader = kit.new_client()
    reader.send(request({0: 0}, max_wait_ms=10_000, min_bytes=300), 12)
    for _ in range(10):
        kit.produce("t")
        kit.advance(10)
        if reader.answers:
            break
    assert len(partitions(reader.answers[0])[0].records) >= 300


def test_a_long_poll_ends_at_its_time(kit):
    before = kit.scheduler.now_us
    answer = kit.ask(request({0: 0}, max_wait_ms=500), 12)
    assert len(partitions(answer)[0].records) == 0
    assert kit.scheduler.now_us - before >= 500 * MS


def test_an_error_does_not_wait(kit):
    before = kit.scheduler.now_us
    kit.ask(request({9: 0}, max_wait_ms=50_000), 12)
    assert kit.scheduler.now_us - before < 1000 * MS


def test_while_bytes_come_a_fetch_is_looked_at_when_readers_are_answered(kit):
    """What comes until then is in the same answer; one that finds too little waits as ever."""
    kit.produce("t")
    reader, patient = kit.new_client(), kit.new_client()
    waiting = kit.node.replicas.waiting
    with held_turns(kit):
        reader.send(request({0: 0}, max_wait_ms=10_000), 12)
        patient.send(request({2: 0}, max_wait_ms=10_000), 12)
        kit.advance(100)
        assert len(kit.node.waiters) == 2
        assert waiting.count == 0
        records = batch.build([Record(0, 1, None, b"v", ())])
        replica = kit.node.replicas.get("t", 1)
        replica.append(memoryview(bytearray(records)), batch.read_header(records, 0), 1)
        assert reader.answers == []
    kit.run(lambda: reader.answers)
    assert bases(partitions(reader.answers[0])[0]) == [0]
    assert waiting.count == 1
    kit.produce("t", 2)
    kit.run(lambda: patient.answers)
    assert bases(partitions(patient.answers[0])[2]) == [0]
    assert not kit.node.waiters


def test_nothing_is_kept_of_a_fetch_that_left_before_it_was_looked_at(kit):
    reader = kit.new_client()
    with held_turns(kit):
        reader.send(request({0: 0}, max_wait_ms=10_000), 12)
        kit.run(lambda: kit.node.waiters)
        reader.connection.close()
        kit.run(lambda: not kit.node.waiters)
    kit.advance(100)
    assert kit.node.replicas.waiting.count == 0
    assert not kit.node.replicas.waiting.has_ready


def test_nothing_is_kept_for_a_reader_that_left(kit):
    reader = kit.new_client()
    reader.send(request({0: 0}, max_wait_ms=1 << 30), 12)
    kit.run(lambda: kit.node.waiters)
    reader.connection.close()
    kit.run(lambda: not kit.node.waiters)
    assert kit.node.replicas.waiting.count == 0


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def fetches_in_memory():
    return [each for each in gc.get_objects() if isinstance(each, fetch._Fetch)]


@pytest.mark.parametrize("ending", ["bytes", "time", "held", "left"])
def test_a_fetch_that_has_waited_is_no_work_for_the_collector(kit, no_collector, ending):
    """A look for garbage stops everybody: with many connections that is what their neighbours would notice."""
    reader = kit.new_client()
    with held_turns(kit) if ending == "held" else nullcontext():
        reader.send(request({0: 0}, max_wait_ms=500), 12)
        kit.run(lambda: kit.node.waiters)
        assert len(fetches_in_memory()) == 1
    if ending == "left":
        reader.connection.close()
        kit.run(lambda: not kit.node.waiters)
    else:
        if ending == "bytes":
            kit.produce("t")
        kit.run(lambda: reader.answers)
    assert fetches_in_memory() == []


def test_a_topic_that_is_deleted_wakes_its_readers(kit):
    reader = kit.new_client()
    reader.send(request({0: 0}, max_wait_ms=50_000), 12)
    kit.run(lambda: kit.node.waiters)
    kit.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    kit.run(lambda: reader.answers)
    assert partitions(reader.answers[0])[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_named_by_id_from_version_13_on(kit):
    topic_id = kit.create("ids")
    kit.produce("ids")
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    for asked, code in ((topic_id, 0), (bytes([9]) * 16, ErrorCode.UNKNOWN_TOPIC_ID)):
        topic = FetchTopic(topic_id=asked, partitions=[wanted])
        answer = kit.ask(
            FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic], session_epoch=-1), 16
        )
        assert answer.responses[0].topic_id == asked
        assert answer.responses[0].partitions[0].error_code == code


def test_a_session_names_only_what_has_news(kit):
    first = kit.ask(request({0: 0, 1: 0, 2: 0}, session_epoch=0), 12)
    assert sorted(partitions(first)) == [0, 1, 2]
    session = {"session_id": first.session_id}
    assert first.session_id > 0
    quiet = kit.ask(request({}, session_epoch=1, **session), 12)
    assert partitions(quiet) == {}
    kit.produce("t", 1)
    news = kit.ask(request({}, session_epoch=2, **session), 12)
    assert list(partitions(news)) == [1]
    moved = kit.ask(request({1: 1}, session_epoch=3, **session), 12)
    assert partitions(moved) == {}
    forgotten = [ForgottenTopic(topic="t", partitions=[2])]
    kit.ask(request({}, session_epoch=4, forgotten_topics_data=forgotten, **session), 12)
    kit.produce("t", 2)
    assert partitions(kit.ask(request({}, session_epoch=5, **session), 12)) == {}


def test_a_wrong_session_or_epoch_is_told(kit):
    first = kit.ask(request({0: 0}, session_epoch=0), 12)
    wrong_epoch = kit.ask(request({}, session_id=first.session_id, session_epoch=7), 12)
    assert wrong_epoch.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    wrong_id = kit.ask(request({}, session_id=first.session_id ^ 1, session_epoch=1), 12)
    assert wrong_id.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("versions", [(12, 13), (13, 12)])
def test_a_session_that_names_topics_in_another_way_is_refused_and_stays(kit, versions):
    """As Kafka's FetchManager does: a client that was upgraded, or moved behind another proxy, starts anew."""
    topic_id = kit.node.topics.by_name["t"].id

    def ask(version, index, epoch, session_id=0):
        asked = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=100)
        named = {"topic_id": topic_id} if version >= 13 else {"topic": "t"}
        topics = [] if index is None else [FetchTopic(partitions=[asked], **named)]
        return kit.ask(
            FetchRequest(
                max_wait_ms=0, min_bytes=1, max_bytes=100, topics=topics, session_id=session_id,
                session_epoch=epoch,
            ),
            version,
        )  # fmt: skip

    before, after = versions
    first = ask(before, 0, 0)
    assert first.session_id > 0
    kit.produce("t")
    refused = ask(after, 1, 1, first.session_id)
    assert (refused.error_code, refused.responses) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, [])
    again = ask(before, 2, 1, first.session_id)
    assert (again.error_code, list(partitions(again))) == (0, [0, 2])
    anew = ask(after, 1, 0, first.session_id)
    assert (anew.error_code, list(partitions(anew))) == (0, [1])
    assert anew.session_id not in (0, first.session_id)
    assert len(kit.node.fetch_sessions) == 1


def test_a_session_that_is_ended_is_forgotten(kit):
    first = kit.ask(request({0: 0}, session_epoch=0), 12)
    kit.ask(request({0: 0}, session_id=first.session_id, session_epoch=-1), 12)
    assert len(kit.node.fetch_sessions) == 0


def test_nobody_has_a_session_remember_what_is_not_here(kit):
    many = dict.fromkeys(range(fetch_wanted.STRAY_MAX + len(kit.node.replicas) + 1), 0)
    for asked in (
        request(many, session_epoch=0),
        request({0: 0}, topic="x" * 250, session_epoch=0),
    ):
        answer = kit.ask(asked, 12)
        assert len(partitions(answer)) == len(asked.topics[0].partitions)
        assert (answer.session_id, len(kit.node.fetch_sessions)) == (0, 0)
    first = kit.ask(request({0: 0}, session_epoch=0), 12)
    grown = kit.ask(request(many, session_id=first.session_id, session_epoch=1), 12)
    assert len(partitions(grown)) == len(many)
    assert (grown.session_id, len(kit.node.fetch_sessions)) == (0, 0)


def test_a_session_may_have_all_that_is_here(kit):
    count = fetch_wanted.STRAY_MAX + 50
    kit.create("wide", partitions=count)
    every = dict.fromkeys(range(count), 0)
    first = kit.ask(request(every, topic="wide", session_epoch=0), 12)
    assert first.session_id > 0
    session = {"session_id": first.session_id}
    kit.produce("wide", count - 1)
    news = kit.ask(request({0: 0}, topic="wide", session_epoch=1, **session), 12)
    assert list(partitions(news)) == [count - 1]
    assert news.session_id == first.session_id


def test_an_old_leader_epoch_is_fenced_and_a_newer_one_unknown(kit):
    for epoch, code in (
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        asked = request({0: 0})
        asked.topics[0].partitions[0].current_leader_epoch = epoch
        assert partitions(kit.ask(asked, 12))[0].error_code == code


def test_a_client_that_poses_as_a_follower_is_refused(kit):
    asked = request({0: 0}, replica_id=5)
    answer = kit.ask(asked, 12)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asked = request({0: 0}, replica_state=ReplicaState(replica_id=5))
    asked.topics[0].topic_id = kit.node.topics.by_name["t"].id
    assert kit.ask(asked, 17).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_cold_bytes_are_brought_into_memory_off_the_loop(kit):
    for _ in range(3):
        kit.produce("t", count=5)
    kit.restart()
    for name in kit.disk.list(f"{DATA}/t-0"):
        kit.disk.chill(f"{DATA}/t-0/{name}")
    reads = []
    background = kit.node.world.background
    run = background.run
    background.run = lambda job, done: (reads.append(job), run(job, done))
    found = partitions(kit.ask(request({0: 0}), 12))[0]
    assert bases(found) == [0, 5, 10]
    assert reads


def chill(kit, index):
    """Let a partition's files be out of memory; they have been looked at before."""
    kit.ask(request({index: 0}), 12)
    for name in kit.disk.list(f"{DATA}/t-{index}"):
        kit.disk.chill(f"{DATA}/t-{index}/{name}")


def note_loads(monkeypatch):
    loads = []
    load = SimFile.load

    def noted(file, position, size):
        loads.append((file.path.split("/")[-2], position, size))
        load(file, position, size)

    monkeypatch.setattr(SimFile, "load", noted)
    return loads


def test_no_more_is_brought_into_memory_than_the_answer_has_room_for(kit, monkeypatch):
    for index in (0, 1, 2):
        kit.produce("t", index, count=50)
    kit.restart()
    for index in (0, 1, 2):
        chill(kit, index)
    loads = note_loads(monkeypatch)
    size = kit.node.replicas.get("t", 0).log.size_bytes
    found = partitions(kit.ask(request({0: 0, 1: 0, 2: 0}, max_bytes=2 * size), 12))
    assert [len(found[index].records) for index in (0, 1, 2)] == [size, size, 0]
    assert loads == [("t-0", 0, size), ("t-1", 0, size)]


def test_what_is_cold_is_not_held_back_by_what_is_in_memory_behind_it(kit):
    for index in (0, 1):
        kit.produce("t", index, count=50)
    kit.restart()
    chill(kit, 0)
    size = kit.node.replicas.get("t", 1).log.size_bytes
    kit.ask(request({1: 0}, max_bytes=size), 12)  # it is in memory, and has been looked at
    found = partitions(kit.ask(request({0: 0, 1: 0}, max_bytes=size), 12))
    assert [len(found[index].records) for index in (0, 1)] == [size, 0]


def test_much_is_brought_into_memory_in_several_jobs(kit, monkeypatch):
    for index in (0, 1, 2):
        kit.produce("t", index, count=50)
    kit.restart()
    for index in (0, 1, 2):
        chill(kit, index)
    size = kit.node.replicas.get("t", 0).log.size_bytes
    monkeypatch.setattr(fetch_look, "LOAD_BYTES", size + 1)
    jobs = []
    background = kit.node.world.background
    run = background.run
    background.run = lambda job, done: (jobs.append(job), run(job, done))
    found = partitions(kit.ask(request({0: 0, 1: 0, 2: 0}), 12))
    assert [len(found[index].records) for index in (0, 1, 2)] == [size] * 3
    assert sum(getattr(job, "__func__", None) is fetch_look.Loading.load_some for job in jobs) == 2


def test_what_left_memory_again_at_once_is_sent_all_the_same(kit, monkeypatch):
    kit.produce("t", count=5)
    kit.restart()
    chill(kit, 0)
    monkeypatch.setattr(SimFile, "load", lambda *_: None)
    assert bases(partitions(kit.ask(request({0: 0}), 12))[0]) == [0]


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_a_range_that_cannot_be_loaded(kit, monkeypatch, code):
    """A disk that fails is offline; for what passes, the others are served and the next fetch tries again."""
    for index in (0, 1):
        kit.produce("t", index, count=5)
    kit.restart()
    for index in (0, 1):
        chill(kit, index)
    load = SimFile.load

    def fail(file, position, size):
        if "/t-0/" in file.path:
            raise OSError(code, "no", file.path)
        load(file, position, size)

    monkeypatch.setattr(SimFile, "load", fail)
    found = partitions(kit.ask(request({0: 0, 1: 0}), 12))
    assert kit.node.replicas.get("t", 0).offline == (code == errno.EIO)
    if code == errno.EIO:
        assert found[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    else:
        assert bases(found[1]) == [0]
        monkeypatch.undo()
        assert bases(partitions(kit.ask(request({0: 0}), 12))[0]) == [0]


def test_a_disk_that_cannot_be_read_takes_the_replica_offline(kit):
    for _ in range(3):
        kit.produce("t", count=5)
    kit.restart()
    kit.disk.fail_path(f"{DATA}/t-0/00000000000000000000.log", 5)
    assert partitions(kit.ask(request({0: 0}), 12))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert kit.node.replicas.get("t", 0).offline
    assert partitions(kit.ask(request({0: 0}), 12))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_damage_in_one_partition_is_told_there(kit):
    for index in (0, 1):
        for _ in range(3):
            kit.produce("t", index, count=5)
    kit.restart()
    for position in range(8, 12):  # the first batch's length: the others cannot be found any more
        kit.disk.flip(f"{DATA}/t-0/00000000000000000000.log", position)
    found = partitions(kit.ask(request({0: 7, 1: 7}), 12))
    assert found[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bases(found[1]) == [5, 10]


def test_what_comes_for_a_partition_while_others_are_looked_at_is_not_waited_for(kit, monkeypatch):
    monkeypatch.setattr(fetch, "MANY", 0)
    pause = Pieces.pause

    def pause_and_append(pieces, done):
        monkeypatch.setattr(Pieces, "pause", pause)
        records = batch.build([Record(0, 1000, b"k", b"v")])
        kit.node.replicas.get("t", 1).append(memoryview(records), batch.read_header(records), 0)
        pause(pieces, done)

    monkeypatch.setattr(Pieces, "pause", pause_and_append)
    kit.client.send(request({0: 0, 1: 0, 2: 0}, max_wait_ms=10_000), 12)
    kit.advance(1000)
    assert len(partitions(kit.client.answers[-1])[1].records) > 0
