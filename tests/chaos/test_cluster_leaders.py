"""F3 and F4: whoever leads is killed again and again, or sleeps for a minute. Others lead, and nothing is lost."""

import logging
import time

import pytest
from chaos.wire_kit import RawClient, batch, produce_request
from cluster_kit import (
    ROUNDS,
    SESSION_MS,
    Cluster,
    assert_logs_equal,
    only_in_make_chaos,
    wait_until,
)
from load_kit import Load, assert_nothing_lost, messages_of

log = logging.getLogger(__name__)

SLEEP_S = 60


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper) as running:
        running.create("t", [[1, 2, 3]], min_insync_replicas=2)
        yield running


def wait_for_another_leader(cluster, before):
    wait_until(lambda: cluster.leaders("t")[0] not in (before, -1), "another leads")
    return cluster.leaders("t")[0]


def takes_a_record(cluster, topic, before):
    """Whether somebody else leads and acknowledges what all in sync have."""
    leader = cluster.leaders(topic)[0]
    if leader in (before, -1):
        return False
    with RawClient(cluster.address_of(leader)) as client:
        return client.produce(topic, batch(b"again")).error_code == 0


@only_in_make_chaos
@pytest.mark.timeout(0)
def test_the_leader_is_killed_again_and_again(cluster):
    """How long nothing can be written is seen by one who asks all the time: librdkafka looks for a leader that is gone once a second."""
    cluster.create("asked", [[1, 2, 3]], min_insync_replicas=2)
    gaps, away = [], []
    with Load(cluster, "t", timeout_s=2) as load:
        load.wait_for_more()
        for _ in range(ROUNDS):
            load.take_longest_gap()
            leader = cluster.leaders("t")[0]
            killed_s = time.monotonic()
            cluster.kill(leader)
            wait_until(lambda b=leader: takes_a_record(cluster, "asked", b), "it is written to")
            away.append(round(time.monotonic() - killed_s, 2))
            wait_for_another_leader(cluster, leader)
            load.wait_for_more()
            gaps.append(round(load.take_longest_gap(), 2))
            cluster.start(leader)
            cluster.wait_healthy("t")
            load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")
    gaps.sort()
    away.sort()
    log.warning(
        "%d leaders killed, session %d ms: written to again after %.2f s, at most %.2f s; librdkafka was without an acknowledgement for %.2f s, at most %.2f s; %d records acknowledged",
        len(gaps), SESSION_MS, away[len(away) // 2], away[-1], gaps[len(gaps) // 2], gaps[-1], len(load.acked),
    )  # fmt: skip


@only_in_make_chaos
@pytest.mark.timeout(0)
def test_a_leader_that_slept_for_a_minute_acknowledges_nothing(cluster):
    """It wakes with a request in its socket, and believes that it leads."""
    request = produce_request("t", batch(b"-1"))
    with Load(cluster, "t", timeout_s=2) as load, RawClient(cluster.address_of(1)) as late:
        load.wait_for_more()
        cluster.pause(1)
        end_s = time.monotonic() + SLEEP_S
        wait_for_another_leader(cluster, 1)
        sent = late.send(request, 9)
        while time.monotonic() < end_s:
            load.wait_for_more()
        cluster.resume(1)
        answer = late.receive_for(request, 9, sent)
        assert answer.responses[0].partition_responses[0].error_code
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")
    assert all(message.value() != b"-1" for message in messages_of(cluster, "t"))
