"""A crash at every call of the disk while a log goes on in a new segment."""

import pytest
from node_kit import NodeKit

from barnabas.sim.machine import Crash
from barnabas.sim.world import MS
from barnabas.wire import batch
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)


def new_kit(seed):
    """A log whose next record begins a new segment: every record waits for the disk, segments live a second."""
    kit = NodeKit(seed=seed)
    kit.create("t", flush_messages="1", segment_ms="1000")
    for number in range(3):
        assert kit.produce("t", timestamp=number * 2000).base_offset == number
    assert kit.node.replicas.get("t", 0).log.segment_count == 3
    return kit


def next_record():
    record = batch.Record(0, 6000, b"k", b"v", ())
    data = PartitionProduceData(index=0, records=batch.build([record]))
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def offsets(kit):
    found, offset = [], 0
    while offset < kit.offset("t", -1):
        answer = kit.ask(kit.fetch_request("t", offset), 11).responses[0].partitions[0]
        assert answer.error_code == 0
        data = memoryview(bytes(answer.records))
        for position, header in batch.headers(data):
            assert batch.checksum_matches(data[position:], header)
            found += range(header.base_offset, header.next_offset)
            offset = header.next_offset
    return found


@pytest.mark.parametrize("crash", list(Crash))
def test_nothing_that_was_acknowledged_is_lost(crash):
    for nth in range(1, 200):
        kit = new_kit(nth)
        kit.machine.crash_at_call(crash, nth, MS)
        kit.client.send(next_record(), 9)
        asked = len(kit.client.sent)
        kit.run(lambda kit=kit, asked=asked: kit.machine.is_off or len(kit.client.answers) == asked)
        was_acknowledged = not kit.machine.is_off
        if was_acknowledged:
            kit.disk.spare()
            assert kit.client.answers[-1].responses[0].partition_responses[0].base_offset == 3
            assert kit.node.replicas.get("t", 0).log.segment_count == 4
            kit.crash(crash)
        else:
            kit._wait_up()
        found = offsets(kit)
        assert found in ([0, 1, 2, 3], [0, 1, 2])
        assert not was_acknowledged or 3 in found
        assert kit.produce("t", timestamp=9000).base_offset == len(found)
        kit.restart()
        assert offsets(kit) == [*found, len(found)]
        if was_acknowledged:
            break
    assert nth > 5
