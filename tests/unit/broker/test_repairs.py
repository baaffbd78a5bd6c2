"""Damage in a log that is served: never handed out, taken out, told; everything around it stays."""

import logging

import pytest
from node_kit import DATA, NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.sim.machine import Crash
from barnabas.wire import batch


def new_kit():
    """Three segments of three batches each, left by a clean stop."""
    kit = NodeKit()
    kit.create("t")
    for number in range(9):
        assert kit.produce("t", count=2).error_code == 0
        if number in (2, 5):
            kit.node.replicas.get("t", 0).log.roll(0)
    assert kit.node.replicas.get("t", 0).log.base_offsets == [0, 6, 12]
    kit.restart()
    return kit


def path(base):
    return f"{DATA}/t-0/{base:020d}.log"


def size(kit):
    return len(kit.disk.contents()[path(0)]) // 3


def read_all(kit):
    """Read as a consumer does, trying again after an error; the offsets of the records."""
    found, offset, errors = [], 0, 0
    while offset < 18:
        answer = kit.ask(kit.fetch_request("t", offset), 11).responses[0].partitions[0]
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            errors += 1
            assert errors < 100
            kit.advance(100)
            continue
        data = memoryview(bytes(answer.records))
        for position, header in batch.headers(data):
            assert batch.checksum_matches(data[position:], header)
            records = batch.read_records(data[position : position + header.size], 1 << 20)
            found += [record.offset for record in records if offset <= record.offset < 18]
            offset = header.next_offset
    return found


def kept(kit):
    prefix = f"{DATA}/t-0/quarantine/"
    return {name: data for name, data in kit.disk.contents().items() if name.startswith(prefix)}


def without(*gone):
    return [offset for offset in range(18) if offset not in gone]


@pytest.mark.parametrize("base", [0, 6, 12])
def test_a_flipped_bit_costs_its_batch(base, caplog):
    caplog.set_level(logging.CRITICAL)
    kit = new_kit()
    batch_size = size(kit)
    kit.disk.flip(path(base), batch_size + 65)
    assert read_all(kit) == without(base + 2, base + 3)
    assert f"t-0: offsets {base + 2} to {base + 3} are lost" in caplog.text
    assert [len(data) for data in kept(kit).values()] == [batch_size]
    assert kit.produce("t").base_offset == 18
    kit.crash(Crash.POWER)
    assert read_all(kit) == without(base + 2, base + 3)
    assert len(kept(kit)) == 1


def test_a_page_of_zeros_costs_the_batches_it_covers():
    kit = new_kit()
    kit.disk.open(path(6)).write(10, (bytes(size(kit)),))
    assert read_all(kit) == without(6, 7, 8, 9)


def test_a_segment_that_is_cut_short_costs_its_end(caplog):
    kit = new_kit()
    kit.node.replicas.get("t", 0).log.segments[1].size = size(kit)
    kit.disk.open(path(6)).truncate(size(kit))
    assert read_all(kit) == without(8, 9, 10, 11)
    assert "t-0: offsets 8 to 11 are lost (the records are not there)" in caplog.text


def test_segments_with_changed_names_cost_themselves():
    kit = new_kit()
    one, two = path(0), path(6)
    contents = kit.disk.contents()
    kit.disk.open(one).write(0, (contents[two],))
    kit.disk.open(two).write(0, (contents[one],))
    assert read_all(kit) == list(range(12, 18))
    assert sorted(kept(kit).values()) == sorted((contents[one], contents[two]))


def test_a_search_by_time_meets_damage_too():
    kit = new_kit()
    kit.disk.flip(path(0), 65)
    assert kit.offset("t", 1) == -1, "an error"
    kit.advance(1000)
    assert kit.offset("t", 1) == 2


def test_others_are_not_disturbed():
    kit = new_kit()
    kit.create("u")
    kit.disk.flip(path(0), 65)
    kit.ask(kit.fetch_request("t", 0), 11)
    assert kit.produce("u").error_code == 0
    assert all(directory.is_online for directory in kit.node.directories)
    assert not kit.node.replicas.get("t", 0).offline


@pytest.mark.parametrize("crash", list(Crash))
def test_a_crash_at_any_call_of_the_disk(crash):
    for nth in range(1, 500):
        kit = new_kit()
        kit.disk.flip(path(6), 65)
        kit.machine.crash_at_call(crash, nth, 1000)
        kit.client.send(kit.fetch_request("t", 6), 11)
        kit.run(lambda kit=kit: kit.machine.is_off or kept(kit) or kit.client.answers[-1:])
        kit.advance(2000)
        is_over = kit.machine.life.number == 2
        kit.disk.spare()
        kit.crash(crash)
        assert read_all(kit) == without(6, 7)
        assert kept(kit)
        if is_over:
            return
    raise AssertionError("it never ends")
