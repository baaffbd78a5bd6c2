"""Three brokers on ZooKeeper: who leads after a death, and that nothing acknowledged is lost by any of them."""

import pytest
from chaos.wire_kit import RawClient, batch
from cluster_kit import SESSION_MS, Cluster, assert_logs_equal, wait_until
from load_kit import Load, assert_nothing_lost

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest

RESUME_S = 20


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper) as running:
        yield running


def test_the_next_in_line_leads_when_a_broker_dies(cluster):
    """The lists of MISSION.md: B1 dies, B2 and B3 take over, and B2 goes on leading."""
    cluster.create("t", [[1, 2, 3], [1, 3, 2], [2, 1, 3]])
    assert cluster.leaders("t") == [1, 1, 2]
    cluster.kill(1)
    others = [(2, [2, 3]), (3, [2, 3]), (2, [2, 3])]
    wait_until(lambda: cluster.partitions("t") == others, "the next in line lead")
    cluster.start(1)
    cluster.wait_healthy("t")
    assert cluster.leaders("t") == [2, 3, 2], "who leads goes on leading"
    election = ElectLeadersRequest(topic_partitions=None, timeout_ms=30_000)
    answer = cluster.ask_controller(election, 2)
    assert answer.error_code == 0
    wait_until(lambda: cluster.leaders("t") == [1, 1, 2], "the preferred lead again")


def test_nothing_is_lost_whoever_dies_in_whatever_way(cluster):
    cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
    gaps = []
    with Load(cluster, "t", timeout_s=2) as load:
        load.wait_for_more()
        for broker_id, way in ((1, "kill"), (2, "pause"), (3, "stop"), (2, "kill")):
            controller = cluster.controller
            getattr(cluster, way)(broker_id)
            if way != "stop":
                wait_until(lambda b=broker_id: b not in cluster.leaders("t"), "others lead")
            load.wait_for_more_of_each()
            was = "controller" if broker_id == controller else "broker"
            gaps.append((way, was, round(load.take_longest_gap(), 2)))
            cluster.resume(broker_id) if way == "pause" else cluster.start(broker_id)
            cluster.wait_healthy("t")
            load.wait_for_more_of_each()
            load.take_longest_gap()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")
    print(f"session {SESSION_MS} ms; seconds without an acknowledgement of a partition: {gaps}")  # noqa: T201
    # The aim is a session and a second; a machine with much else to do takes longer.
    assert all(gap_s < SESSION_MS / 1000 + RESUME_S for _way, _was, gap_s in gaps), gaps


def test_one_of_three_that_is_left_takes_no_more_for_all(cluster):
    """What it takes for itself alone nobody reads before others have it."""
    cluster.create("t", [[1, 2, 3]], min_insync_replicas=2)
    with RawClient(cluster.address_of(1)) as client:
        assert client.produce("t", batch(b"0")).error_code == 0
        wait_until(lambda: len(client.read_all("t")) == 1, "it is committed")
        cluster.kill(2)
        cluster.kill(3)
        wait_until(lambda: cluster.partitions("t") == [(1, [1])], "it is alone")
        assert client.produce("t", batch(b"1")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert client.produce("t", batch(b"2"), acks=1).error_code == 0
        assert client.end_offset("t") == 1, "not committed"
        cluster.start(2)
        wait_until(lambda: client.end_offset("t") == 2, "another has it")
        assert client.produce("t", batch(b"3")).error_code == 0
        cluster.start(3)
        cluster.wait_healthy("t")
        assert [value for _, value in client.read_all("t")] == [b"0", b"2", b"3"]
    assert_logs_equal(cluster, "t")


def test_the_orders_of_a_controller_that_was_replaced_are_refused(cluster):
    cluster.create("t", [[1, 2, 3]])
    zombie = cluster.controller
    cluster.pause(zombie)
    others = [broker_id for broker_id in (1, 2, 3) if broker_id != zombie]
    wait_until(lambda: cluster.controller in others, "another is controller")
    wait_until(lambda: cluster.leaders("t")[0] in others, "others lead")
    order = LeaderAndIsrRequest(controller_id=zombie, controller_epoch=1, broker_epoch=-1)
    wait_until(
        lambda: cluster.ask(order, 7, others[0]).error_code == ErrorCode.STALE_CONTROLLER_EPOCH,
        "the new one has given orders, and those of the old one are refused",
    )
    cluster.resume(zombie)
    wait_until(lambda: "no longer controller" in cluster.brokers[zombie].log, "it sees that")
    cluster.wait_healthy("t")
    wait_until(lambda: cluster.controller in others, "it knows who is controller")


def test_only_one_who_was_in_sync_leads_after_all_have_died(cluster):
    cluster.create("t", [[1, 2, 3]], min_insync_replicas=1)
    with Load(cluster, "t") as load:
        load.wait_for_more()
        cluster.kill(1)
        wait_until(lambda: 1 not in cluster.leaders("t"), "another leads")
        load.wait_for_more()
        cluster.kill(2)
        wait_until(lambda: cluster.partitions("t") == [(3, [3])], "the last one leads")
        load.wait_for_more()
    cluster.kill(3)
    cluster.start(1)
    cluster.start(2)
    wait_until(lambda: len(cluster.metadata().brokers) == 2, "the new controller knows both")
    assert cluster.leaders("t") == [-1], "those who lack records must not lead"
    cluster.start(3)
    cluster.wait_healthy("t")
    assert_nothing_lost(cluster, "t", load)
