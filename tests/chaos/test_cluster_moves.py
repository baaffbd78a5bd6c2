"""F7: replicas that move while they are written to, a broker with an empty disk in a dead one's place, storms of topics."""

import pytest
from chaos.wire_kit import RawClient
from cluster_kit import Cluster, assert_logs_equal, only_in_make_chaos, wait_until
from confluent_kafka import KafkaError, KafkaException
from load_kit import Load, assert_nothing_lost

from barnabas.model.errors import ErrorCode
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper) as running:
        yield running


def move(cluster, targets):
    """Ask for other replicas; None cancels. The error codes, in order."""
    partitions = [
        ReassignablePartition(partition_index=index, replicas=replicas)
        for index, replicas in targets.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[ReassignableTopic(name="t", partitions=partitions)]
    )
    answer = cluster.ask_controller(request, 0)
    assert answer.error_code == 0, answer
    return [each.error_code for each in answer.responses[0].partitions]


def is_moving(cluster):
    request = ListPartitionReassignmentsRequest(timeout_ms=30_000, topics=None)
    answer = cluster.ask_controller(request, 0)
    return answer.error_code != 0 or bool(answer.topics)


def test_replicas_move_under_load(cluster):
    cluster.create("t", [[1], [1, 2], [2, 3]])
    with Load(cluster, "t") as load:
        for targets in (
            {0: [1, 2, 3], 1: [2, 3], 2: [1]},  # add, move, replace by one
            {0: [3], 1: [1, 2, 3], 2: [2, 3, 1]},
            {0: [2, 1, 3], 1: [3, 2, 1], 2: [1, 2, 3]},
        ):
            load.wait_for_more()
            assert move(cluster, targets) == [0, 0, 0]
            wait_until(lambda: not is_moving(cluster), "they have moved")
            wait_until(
                lambda want=targets: all(
                    cluster.replicas("t", each) == list(want.values()) for each in cluster.answering
                ),
                "all know of it",
            )
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def test_who_stood_still_while_its_replica_was_moved_away_takes_nothing_and_drops_it(cluster):
    """What a client sent meanwhile is the first thing that it reads."""
    cluster.create("t", [[3, 1, 2]])
    cluster.pause(3)
    records = batch.build([Record(0, 1, b"k", b"v", ())])
    data = [PartitionProduceData(index=0, records=records)]
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    with RawClient(cluster.address_of(3)) as client:
        number = client.send(request, 9)
        wait_until(lambda: cluster.controller not in (-1, 3), "another one is controller")
        wait_until(lambda: cluster.leaders("t") not in ([3], [-1]), "another one leads")
        assert move(cluster, {0: [1, 2]}) == [0]
        wait_until(lambda: not is_moving(cluster), "it has moved")
        cluster.resume(3)
        answer = client.receive_for(request, 9, number)
    assert answer.responses[0].partition_responses[0].error_code == NOT_LEADER
    (directory,) = cluster.directories_of(3)
    wait_until(lambda: not (directory / "t-0").exists(), "the folder is out of the way")
    wait_until(lambda: cluster.replicas("t", 3) == [[1, 2]], "it knows where the replicas are")


@only_in_make_chaos
def test_a_move_goes_on_when_the_controller_dies_and_can_be_cancelled(cluster):
    cluster.create("t", [[1, 2], [2, 3], [3, 1]])
    with Load(cluster, "t") as load:
        load.wait_for_more()
        controller = cluster.controller
        others = [broker_id for broker_id in (1, 2, 3) if broker_id != controller]
        cluster.kill(others[0])
        assert move(cluster, {index: [1, 2, 3] for index in range(3)}) == [0, 0, 0]
        assert is_moving(cluster), "one of them is not there"
        load.wait_for_more()
        cluster.start(others[0])
        cluster.kill(controller)
        wait_until(lambda: cluster.controller in others, "another is controller")
        load.wait_for_more()
        cluster.start(controller)
        wait_until(lambda: not is_moving(cluster), "they have moved")
        cluster.wait_healthy("t")
        victim = next(each for each in (1, 2, 3) if each != cluster.controller)
        cluster.kill(victim)
        assert move(cluster, {0: [victim]}) == [0]
        assert move(cluster, {0: None}) == [0]
        cluster.start(victim)
        wait_until(lambda: not is_moving(cluster), "it is cancelled")
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def test_an_empty_disk_in_a_dead_ones_place(cluster):
    cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
    with Load(cluster, "t") as load:
        load.wait_for_more(500)
        cluster.kill(1)
        wait_until(
            lambda: all(leader > 1 and 1 not in isr for leader, isr in cluster.partitions("t")),
            "others lead, and nobody relies on it",
        )
        cluster.wipe(1)
        cluster.start(1)
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


@only_in_make_chaos
def test_topics_come_and_go_while_brokers_do(cluster):
    """None is left half made or half deleted, whoever is controller."""
    cluster.create("t", [[1, 2, 3]], min_insync_replicas=2)
    with Load(cluster, "t") as load:
        for round_ in range(3):
            names = [f"topic-{round_}-{number}" for number in range(10)]
            for name in names:
                wait_until(lambda n=name: is_created(cluster, n), "it is there")
            controller = cluster.controller
            admin = cluster.admin()
            deletions = admin.delete_topics(names[:5], operation_timeout=0)
            cluster.kill(controller)
            for deletion in deletions.values():
                deletion.exception(60)  # whatever it says, nobody may know
            wait_until(lambda c=controller: c not in cluster.leaders("t"), "others lead")
            cluster.start(controller)
            cluster.wait_healthy("t")
            for name in names[5:]:
                cluster.wait_healthy(name)
            load.wait_for_more()
            wait_until(lambda some=names: are_deleted(cluster, some), "they are gone")
    wait_until(lambda: not leftovers(cluster), "no log of them is left")
    assert_nothing_lost(cluster, "t", load)


# The client may ask who was controller before: then it is told so, and tries again.


def is_created(cluster, name):
    try:
        cluster.create(name, [[1, 2, 3], [2, 3, 1]])
    except KafkaException as refusal:
        return refusal.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    return True


def are_deleted(cluster, names):
    admin = cluster.admin()
    problems = [each.exception(60) for each in admin.delete_topics(names).values()]
    gone = KafkaError.UNKNOWN_TOPIC_OR_PART
    return all(problem is not None and problem.args[0].code() == gone for problem in problems)


def leftovers(cluster):
    return [
        path
        for broker_id in cluster.brokers
        for directory in cluster.directories_of(broker_id)
        for path in directory.glob("topic-*")
        if not path.name.endswith("-delete")
    ]
