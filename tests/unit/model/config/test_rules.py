"""Settings that are fine alone and wrong together."""

import pytest

from barnabas.model.config import BrokerConfig, ConfigProblem


@pytest.mark.parametrize(
    ("static", "name", "part"),
    [
        ({"node.id": "1", "broker.id": "2"}, "broker.id", "name the same broker"),
        ({"log.retention.ms": "0"}, "log.retention.ms", "comes to 0 ms"),
        ({"log.retention.hours": "0"}, "log.retention.ms", "-1 for no limit"),
        ({"log.roll.ms": "0"}, "log.roll.ms", "at least 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms", "at least 0"),
        ({"log.flush.interval.ms": "-1"}, "log.flush.interval.ms", "at least 0"),
        (
            {"replica.fetch.wait.max.ms": "500", "replica.socket.timeout.ms": "499"},
            "replica.fetch.wait.max.ms",
            "(500) is more than replica.socket.timeout.ms (499)",
        ),
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            "log.cleaner.min.compaction.lag.ms",
            "is more than",
        ),
        ({"group.min.session.timeout.ms": "1800001"}, "group.min.session.timeout.ms", "is more"),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes", "cannot hold one request"),
        (
            {"node.id": "1001", "zookeeper.connect": "a:1"},
            "node.id",
            "(1001) is more than reserved.broker.max.id (1000): choose a smaller one",
        ),
        ({"log.dir": ""}, "log.dirs", "at least one directory"),
    ],
)
def test_refused(static, name, part):
    with pytest.raises(ConfigProblem) as caught:
        BrokerConfig(static)
    assert caught.value.name == name
    assert part in caught.value.message


@pytest.mark.parametrize(
    "static",
    [
        {"log.retention.ms": "-1"},
        {"log.retention.ms": "1"},
        {"node.id": "1001"},
        {"node.id": "1000", "zookeeper.connect": "a:1"},
        {"node.id": "1001", "zookeeper.connect": "a:1", "reserved.broker.max.id": "1001"},
        {"log.roll.ms": "1"},
        {"queued.max.request.bytes": "0"},
        {"queued.max.request.bytes": "5", "socket.request.max.bytes": "5"},
    ],
)
def test_at_the_edge(static):
    BrokerConfig(static)
