"""Whatever links, leaders and brokers do, a partition holds every batch once and in order.

The broker here is the naive model: it appends, remembers sequences as Kafka does, and is made to fail before and after appending.
"""

from hypothesis import given
from hypothesis import strategies as st
from talk_kit import World

from barnabas.client.errors import Unreachable
from barnabas.client.producer import Producer
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import Record, build, read_header
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

REMEMBERED = 5
FAULTS = (
    "fine",
    "fine",
    "lost before",
    "lost after",
    "not leader",
    "moved",
    "timed out after",
    "storage",
)


class Brokers:
    """Two brokers with the partitions of one topic, and faults in the order they are given."""

    def __init__(self, partitions, faults):
        self.world = World(
            {"t": [1 + each % 2 for each in range(partitions)]}, delivery_timeout_ms=10**9
        )
        self.world.on["Produce"] = self.produce
        self.world.on["InitProducerId"] = lambda *_: InitProducerIdResponse(
            producer_id=9, producer_epoch=0
        )
        self.logs = {each: [] for each in range(partitions)}
        self.faults = list(faults)

    def produce(self, request, address):
        fault = self.faults.pop(0) if self.faults else "fine"
        if fault == "lost before":
            raise Unreachable("link")
        if fault == "moved":
            self.world.topics["t"] = [3 - leader for leader in self.world.topics["t"]]
        results = []
        for index, each in enumerate(request.topic_data[0].partition_data):
            code = self.append(each, address, fault if index == 0 else "fine")
            results.append(
                PartitionProduceResponse(index=each.index, error_code=int(code), record_errors=[])
            )
        if fault == "lost after":
            raise Unreachable("link")
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=results)]
        )

    def append(self, data, address, fault):
        if (
            self.world.brokers[self.world.topics["t"][data.index]] != address
            or fault == "not leader"
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if fault == "storage":
            return ErrorCode.KAFKA_STORAGE_ERROR
        log, header = self.logs[data.index], read_header(data.records)
        known = [each.base_sequence for each in log[-REMEMBERED:]]
        if header.base_sequence in known:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        # As in Kafka: a producer that is not known yet may begin anywhere.
        if log and header.base_sequence != log[-1].base_sequence + log[-1].record_count:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.append(header)
        return ErrorCode.REQUEST_TIMED_OUT if fault == "timed out after" else ErrorCode.NONE


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=40),
    st.lists(st.sampled_from(FAULTS), max_size=30),
    st.booleans(),
)
def test_every_batch_once_and_in_order(partitions, wanted, faults, is_prompt):
    brokers = Brokers(partitions, faults)
    world = brokers.world
    world.is_prompt = is_prompt
    producer = Producer(world.cluster)
    world.run(producer.init())
    sent = {each: [] for each in range(partitions)}
    for index, count in wanted:
        place = TopicPartition("t", index % partitions)
        fields = producer.claim(place, count)
        batch = build([Record(each, 0, None, b"v") for each in range(count)], producer=fields)
        producer.add(place, batch)
        sent[place.partition].append((fields.base_sequence, count))
        world.run(producer.pump(500))
        assert producer.unacknowledged_bytes <= 500
    world.run(producer.pump(0))
    assert producer.acknowledged_count == len(wanted)
    for index, log in brokers.logs.items():
        assert [(each.base_sequence, each.record_count) for each in log] == sent[index]
