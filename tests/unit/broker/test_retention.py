"""Old segments go by the clock, and their records stay gone."""

import errno
import logging

import pytest
from node_kit import DATA, NodeKit

from barnabas.core.steady_clock import HOLD_MS
from barnabas.sim.machine import Crash
from barnabas.sim.world import START_MS
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest

SETTINGS = {
    "log_initial_task_delay_ms": "1000",
    "log_retention_check_interval_ms": "1000",
}
TOPIC = {
    "internal_segment_bytes": "300",
    "file_delete_delay_ms": "1500",
    "flush_messages": "1",
    "retention_ms": "60000",
}


def new_kit(**settings):
    return NodeKit(**{**SETTINGS, **settings})


def fill(kit, topic="t", batches=10, timestamp=START_MS, index=0):
    for _ in range(batches):
        assert kit.produce(topic, index=index, count=3, timestamp=timestamp).error_code == 0


def files(kit, ending=".log", folder="t-0"):
    return [name for name in kit.disk.list(f"{DATA}/{folder}") if name.endswith(ending)]


def bounds(kit, topic="t", index=0):
    return kit.offset(topic, -2, index), kit.offset(topic, -1, index)


def test_old_segments_go_and_the_active_one_with_them():
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    kit.advance(50_000)
    assert bounds(kit) == (0, 30)
    kit.advance(12_000)
    assert bounds(kit) == (30, 30)
    assert files(kit) == [f"{30:020d}.log"]
    assert kit.produce("t").base_offset == 30


def test_young_records_in_the_active_segment_stay():
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    fill(kit, batches=1, timestamp=START_MS + 30_000)
    kit.advance(62_000)
    start, end = bounds(kit)
    assert 0 < start <= 30
    assert end == 33
    assert files(kit) == [f"{start:020d}.log"]


def test_a_wrong_time_in_an_index_takes_nothing_early(caplog):
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    for name in files(kit, ".timeindex")[:-1]:
        kit.disk.open(f"{DATA}/t-0/{name}").write(0, ((START_MS - 10**9).to_bytes(8, "big"),))
    kit.restart()
    kit.advance(50_000)
    assert bounds(kit) == (0, 30)
    assert "timeindex does not fit the batch at byte 0" in caplog.text
    kit.advance(20_000)
    assert bounds(kit) == (30, 30), "put right, they go when they are due"


def test_files_go_after_their_delay():
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    kit.run(lambda: bool(files(kit, ".deleted")))
    kit.advance(1000)
    assert files(kit, ".log.deleted")
    kit.advance(600)
    assert not files(kit, ".deleted")


def test_the_size_of_a_log_is_kept():
    kit = new_kit()
    kit.create("t", **{**TOPIC, "retention_ms": "-1", "retention_bytes": "600"})
    fill(kit)
    kit.advance(2000)
    log = kit.node.replicas.get("t", 0).log
    assert 600 <= log.size_bytes < 600 + 300
    assert bounds(kit)[0] == log.base_offsets[0] > 0


def test_records_without_a_time_go_by_the_file():
    kit = new_kit()
    kit.create("t", **TOPIC)
    kit.advance(30_000)
    fill(kit, timestamp=-1)
    kit.advance(50_000)
    assert bounds(kit) == (0, 30)
    kit.advance(15_000)
    assert bounds(kit) == (30, 30)


def test_the_settings_of_the_moment_count():
    kit = new_kit(log_retention_minutes="1", log_retention_hours="5")
    kit.create("t", internal_segment_bytes="300")
    fill(kit)
    kit.advance(62_000)
    assert bounds(kit) == (30, 30)


@pytest.mark.parametrize("crash", list(Crash))
def test_what_went_stays_gone(crash):
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    kit.run(lambda: bool(files(kit, ".deleted")))
    kit.crash(crash)
    assert bounds(kit) == (30, 30)
    assert kit.produce("t", timestamp=START_MS + 120_000).base_offset == 30
    kit.restart()
    assert bounds(kit) == (30, 31)


@pytest.mark.parametrize("nth", range(1, 40))
def test_a_crash_at_any_call_of_a_round_loses_nothing_else(nth):
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    fill(kit, batches=2, timestamp=START_MS + 300_000)
    kit.advance(59_000)
    kit.machine.crash_at_call(Crash.POWER, nth, 1000)
    kit.advance(10_000)
    kit.run(lambda: kit.machine.is_up)
    kit.machine.disk.spare()
    kit.client = kit.new_client()
    start, end = bounds(kit)
    assert end == 36
    assert start <= 30
    answer = kit.ask(kit.fetch_request("t", max(start, 30)), 11).responses[0].partitions[0]
    assert answer.error_code == 0
    assert answer.records


def test_a_clock_that_jumps_ahead_deletes_nothing(caplog):
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    kit.advance(1500)
    with caplog.at_level(logging.INFO, "barnabas"):
        kit.machine.clock.wrong_by_ms = 3_600_000
        kit.advance(5000)
        assert "jumped ahead by 3600 s" in caplog.text
        assert bounds(kit) == (0, 30)
        kit.machine.clock.wrong_by_ms = 0
        kit.advance(5000)
        assert "by the clock again" in caplog.text
    assert bounds(kit) == (0, 30)


def test_a_clock_that_keeps_its_new_time_is_believed():
    kit = new_kit(log_retention_check_interval_ms="60000")
    kit.create("t", **{**TOPIC, "retention_ms": str(3 * HOLD_MS)})
    fill(kit)
    kit.machine.clock.wrong_by_ms = 5 * HOLD_MS
    kit.advance(HOLD_MS)
    assert bounds(kit) == (0, 30)
    kit.advance(120_000)
    assert bounds(kit) == (30, 30)


def test_what_goes_is_told_with_its_reason(caplog):
    kit = new_kit()
    kit.create("t", **{**TOPIC, "retention_bytes": "600"})
    with caplog.at_level(logging.INFO, "barnabas.broker.retention"):
        fill(kit)
        kit.advance(62_000)
    told = [record.getMessage() for record in caplog.records]
    assert told[0].startswith("t-0: dropped 1 segment, ")
    assert told[0].endswith("retention.bytes is 600")
    assert told[1].endswith(
        "segments, 616 bytes, offsets 9 to 29: retention.ms is 60000, and the newest is of 2023-11-14T22:13:20+00:00"
    )


def test_what_was_left_before_the_start_goes_in_the_next_round(caplog):
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    kit.node.replicas.get("t", 0).log.move_log_start(15)
    with caplog.at_level(logging.INFO, "barnabas.broker.retention"):
        kit.advance(2000)
    assert bounds(kit) == (15, 30)
    assert files(kit)[0] != f"{0:020d}.log"
    assert "deleted before" in caplog.text


def test_a_start_that_cannot_be_written_down_keeps_the_segments(caplog):
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    before = files(kit)
    kit.disk.fail_path(f"{DATA}/log-start-offset-checkpoint", errno.ENOSPC)
    kit.advance(62_000)
    assert files(kit)[: len(before)] == before
    assert "no segment is dropped for now" in caplog.text
    kit.disk.heal()
    kit.advance(2000)
    assert files(kit) == [f"{30:020d}.log"]


def test_a_disk_that_fails_takes_its_directory_offline():
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    before = files(kit)
    kit.advance(55_000)
    kit.disk.fail_path(f"{DATA}/log-start-offset-checkpoint", errno.EIO)
    kit.advance(10_000)
    kit.disk.heal()
    assert files(kit)[: len(before)] == before
    assert kit.node.replicas.get("t", 0).offline
    kit.restart()
    kit.advance(2000)
    assert bounds(kit) == (30, 30)


def test_files_that_cannot_be_put_aside_go_at_the_next_start():
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    kit.advance(55_000)
    kit.disk.fail_path(f"{DATA}/t-0/{0:020d}.log", errno.EIO)
    kit.advance(10_000)
    kit.disk.heal()
    assert kit.node.replicas.get("t", 0).offline
    assert f"{0:020d}.log" in files(kit)
    kit.restart()
    assert bounds(kit) == (30, 30)
    assert files(kit) == [f"{30:020d}.log"]


def test_an_active_segment_goes_once_there_is_room_for_the_next():
    kit = new_kit()
    kit.create("t", **TOPIC)
    fill(kit)
    kit.advance(55_000)
    kit.disk.capacity_bytes = kit.disk.used_bytes
    kit.advance(10_000)
    assert bounds(kit) == (0, 30)
    kit.disk.capacity_bytes = 1 << 40
    kit.advance(2000)
    assert bounds(kit) == (30, 30)


def test_a_topic_that_is_deleted_in_the_meantime_is_no_error(caplog):
    kit = new_kit()
    kit.create("t", **TOPIC)
    kit.create("u", partitions=3, **TOPIC)
    fill(kit)
    fill(kit, "u")
    kit.advance(60_000)
    kit.client.send(DeleteTopicsRequest(topic_names=["t"]), 5)
    kit.advance(5000)
    assert bounds(kit, "u") == (30, 30)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_many_logs_are_looked_at_in_pieces(monkeypatch):
    monkeypatch.setattr("barnabas.broker.retention._PIECE", 2)
    kit = new_kit()
    kit.create("t", partitions=5, **TOPIC)
    for index in range(5):
        fill(kit, index=index)
    kit.advance(62_000)
    assert [bounds(kit, index=index) for index in range(5)] == [(30, 30)] * 5


def test_compacted_logs_that_are_deleted_from_go_too():
    kit = new_kit()
    kit.create("t", **{**TOPIC, "cleanup_policy": "compact,delete"})
    kit.create("c", **{**TOPIC, "cleanup_policy": "compact"})
    fill(kit)
    fill(kit, "c")
    kit.advance(62_000)
    assert bounds(kit) == (30, 30)
    assert bounds(kit, "c") == (0, 30)


@pytest.mark.parametrize("backoff_ms", range(56_000, 62_000, 1500))
def test_segments_may_go_while_they_are_being_compacted(backoff_ms, caplog):
    kit = new_kit(log_cleaner_backoff_ms=str(backoff_ms))
    kit.create("t", **{**TOPIC, "cleanup_policy": "compact,delete"})
    fill(kit)
    kit.machine.slow_down(2_000_000)
    with caplog.at_level(logging.WARNING, "barnabas"):
        kit.advance(90_000)
    kit.machine.slow_down(3000)
    assert bounds(kit) == (30, 30)
    assert files(kit) == [f"{30:020d}.log"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    kit.crash(Crash.POWER)
    assert bounds(kit) == (30, 30)
