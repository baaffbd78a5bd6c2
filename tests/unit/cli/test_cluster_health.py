"""What is healthy: the table in the module, case by case."""

from barnabas.cli.cluster_admin import Broker, ClusterState, Partition, Reassignment, Storage
from barnabas.cli.cluster_health import AT_RISK, BROKEN, OK, judge

BROKERS = {n: Broker(n, "h", 9092, None) for n in (1, 2, 3)}


def health(partitions, *, brokers=BROKERS, min_in_sync=1, moving=(), storage=None, controller=1):
    places = {("t", index): each for index, each in enumerate(partitions)}
    state = ClusterState("id", controller, dict(brokers), places)
    moves = {("t", index): Reassignment((1, 2), (2,), ()) for index in moving}
    return judge(state, {"t": min_in_sync}, moves, storage or {})


def test_all_is_well():
    found = health([Partition(1, (1, 2, 3), (1, 2, 3))])
    assert (found.verdict, found.lines()) == (OK, ["ok"])
    assert found.as_dict()["health"] == "ok"


def test_leaders_elsewhere_and_moves_are_told_and_no_harm():
    found = health([Partition(2, (1, 2, 3), (1, 2, 3))], moving=[0])
    assert found.verdict == OK
    assert found.lines()[1:] == [
        "not led by the preferred replica: 1 (t-0)",
        "being moved: 1 (t-0)",
    ]


def test_a_replica_out_of_sync_is_a_risk():
    found = health([Partition(1, (1, 2, 3), (1, 2))], min_in_sync=2)
    assert (found.verdict, found.as_dict()["health"]) == (AT_RISK, "at_risk")
    assert found.under_replicated == [("t", 0)]
    assert not found.under_min_in_sync


def test_too_few_in_sync_means_no_writes():
    found = health([Partition(1, (1, 2, 3), (1,))], min_in_sync=2)
    assert (found.verdict, found.under_min_in_sync) == (BROKEN, [("t", 0)])


def test_more_than_there_are_replicas_cannot_be_asked_for():
    assert health([Partition(1, (1,), (1,))], min_in_sync=2).verdict == OK


def test_nobody_leads():
    found = health([Partition(None, (2, 3), (2,))], brokers={1: BROKERS[1]})
    assert (found.verdict, found.offline, found.brokers_away) == (BROKEN, [("t", 0)], [2, 3])
    assert not found.not_preferred


def test_a_failed_directory_is_a_risk():
    found = health([], storage={2: Storage(failed_directories=["/d"])})
    assert (found.verdict, found.lines()[1]) == (AT_RISK, "failed log directory: /d of broker 2")


def test_without_controller_nothing_changes():
    assert health([], controller=None).verdict == BROKEN


def test_many_are_counted():
    found = health([Partition(1, (1, 2), (1,))] * 7)
    assert "7 (t-0, t-1, t-2, t-3, t-4 and 2 more)" in found.lines()[1]


def test_brokers_without_zookeeper_are_a_risk_though_everything_is_served():
    state = ClusterState("id", 1, dict(BROKERS), {})
    found = judge(state, {}, {}, {}, {3, 1})
    assert (found.verdict, found.as_dict()["out_of_touch"]) == (AT_RISK, [1, 3])
    assert found.lines()[1] == (
        "without ZooKeeper: 1, 3; they serve what they lead, and nothing can be changed"
    )
