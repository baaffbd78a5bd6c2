"""Markers on a partition with a follower: they count when it has them. And what goes over the wire says the same as what is called."""

import pytest
from node_kit import NodeKit

from barnabas.broker import admission, marker_sending
from barnabas.broker.markers import PATIENCE_MS, End, write
from barnabas.broker.tasks import drive
from barnabas.core.txn.requests import PartitionsRequest
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import Producer
from barnabas.wire.control_batch import EndMarker
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

PLACE, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)
NOWHERE = TopicPartition("nowhere", 0)
FOLLOWER = 2


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("a", partitions=2)
    return kit


def end_of(producer_id, *partitions, epoch=0, coordinator_epoch=0):
    return End(EndMarker(True, coordinator_epoch), Producer(producer_id, epoch), 0, partitions)


def begin(kit, *ends):
    answers = []
    drive(write(kit.node, ends), lambda every, problem: answers.append(problem or every))
    return answers


def give_follower(kit, leader_epoch=1):
    """Let another broker follow the partition from here on."""
    replica = kit.node.replicas.get(*PLACE)
    replica.log.assign_epoch(leader_epoch)
    assert replica.state.become_leader(
        replicas=(1, FOLLOWER), in_sync=(1, FOLLOWER), leader_epoch=leader_epoch, partition_epoch=1,
        log_end_offset=replica.log.log_end_offset, now_ms=kit.node.world.clock.monotonic_ms(),
    )  # fmt: skip
    return replica


def fetch_all(kit, replica):
    """Let the follower say that it has everything."""
    now_ms = kit.node.world.clock.monotonic_ms()
    if replica.state.on_follower_fetch(FOLLOWER, replica.log.log_end_offset, 0, now_ms):
        replica.on_high_watermark()


def test_a_marker_is_written_when_the_follower_has_it(kit):
    replica = give_follower(kit)
    answers = begin(kit, end_of(7, PLACE, OTHER), end_of(8, PLACE, NOWHERE))
    kit.advance(1000)
    assert answers == []
    fetch_all(kit, replica)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answers == [[[(PLACE, 0), (OTHER, 0)], [(PLACE, 0), (NOWHERE, unknown)]]]


def test_a_marker_whose_leader_goes_is_to_be_written_again(kit):
    replica = give_follower(kit)
    answers = begin(kit, end_of(7, PLACE, OTHER))
    replica.state.become_follower(
        leader=FOLLOWER, leader_epoch=2, partition_epoch=2, replicas=(1, FOLLOWER), in_sync=(FOLLOWER,)
    )  # fmt: skip
    replica.settle()
    assert answers == [[[(PLACE, ErrorCode.NOT_LEADER_OR_FOLLOWER), (OTHER, 0)]]]


def test_who_sent_a_marker_does_not_wait_for_ever(kit):
    give_follower(kit)
    answers = begin(kit, end_of(7, PLACE))
    kit.advance(PATIENCE_MS + 1)
    assert answers == [[[(PLACE, ErrorCode.REQUEST_TIMED_OUT)]]]


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(kit):
    assert begin(kit, end_of(7, PLACE, coordinator_epoch=5)) == [[[(PLACE, 0)]]]
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert begin(kit, end_of(7, PLACE, coordinator_epoch=4)) == [[[(PLACE, fenced)]]]


@pytest.mark.parametrize("version", marker_sending.WRITE_TXN_MARKERS_VERSIONS)
def test_another_broker_is_told_and_answers_the_same(kit, version):
    ends = [end_of(7, PLACE, OTHER), end_of(8, NOWHERE, PLACE)]
    response = kit.ask(marker_sending._request(ends), version)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert marker_sending._answers(ends, response) == [
        [(PLACE, 0), (OTHER, 0)],
        [(NOWHERE, unknown), (PLACE, 0)],
    ]
    assert kit.offset("a", -1) == 2
    silent = end_of(9, PLACE)
    assert marker_sending._answers([silent], response) == [
        [(PLACE, ErrorCode.UNKNOWN_SERVER_ERROR)]
    ]


def become_producer(kit, name):
    find = FindCoordinatorRequest(coordinator_keys=[name], key_type=1)
    assert kit.ask(find, 4).coordinators[0].error_code == 0
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    return kit.ask(request, 5)


def test_another_brokers_coordinator_is_asked_for_many_transactions_at_once(kit):
    one, other = (become_producer(kit, name) for name in ("one", "other"))

    def asked(name, producer, *partitions, adds):
        identity = producer.producer_id, producer.producer_epoch
        return admission._Asked(PartitionsRequest(name, *identity, partitions, 2), adds)

    questions = [
        asked("one", one, OTHER, PLACE, adds=True),
        asked("other", other, PLACE, adds=False),
        asked("nobody", other, PLACE, adds=True),
    ]
    version = admission.ADD_PARTITIONS_VERSIONS[1]
    response = kit.ask(admission._request(questions), version)
    assert admission._codes(questions, response) == [
        [0, 0],
        [ErrorCode.TRANSACTION_ABORTABLE],
        [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
    ]
    again = [asked("one", one, PLACE, adds=False)]
    assert admission._codes(again, kit.ask(admission._request(again), version)) == [[0]]
    refused = type(response)(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert admission._codes(again, refused) == [[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]]


def test_a_new_leader_knows_also_what_it_has_not_heard_to_be_committed(kit):
    producer = become_producer(kit, "one")
    transactions = kit.node.transactions
    hosted = transactions.find("one")
    replica = hosted.replica
    state = replica.state
    state.become_follower(
        leader=FOLLOWER, leader_epoch=5, partition_epoch=2, replicas=(1, FOLLOWER), in_sync=(1, FOLLOWER)
    )  # fmt: skip
    transactions.on_following(replica)
    state.high_watermark = 0
    replica.log.assign_epoch(6)
    state.become_leader(
        replicas=(1, FOLLOWER), in_sync=(1, FOLLOWER), leader_epoch=6, partition_epoch=3,
        log_end_offset=replica.log.log_end_offset, now_ms=kit.node.world.clock.monotonic_ms(),
    )  # fmt: skip
    transactions.on_opened(replica)
    kit.run(lambda: transactions._hosted[replica.key.partition].is_loaded)
    found = transactions.find("one").shard.transactions["one"]
    assert found.producer_id == producer.producer_id
