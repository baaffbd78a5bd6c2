"""Three brokers of which leaders are killed while our client reads, writes and commits: it follows, once and in order."""

import pytest
from cluster_kit import Cluster

from barnabas.client.offsets import LATEST
from barnabas.client.settings import ClientSettings
from barnabas.model.ids import TopicPartition
from barnabas.runtime.blocking_client import BlockingClient
from barnabas.wire.batch import TRANSACTIONAL, Record, build, read_records

PLACES = [TopicPartition("t", each) for each in range(3)]
SETTINGS = (
    "transaction.state.log.num.partitions=3",
    "default.replication.factor=3",
    "min.insync.replicas=2",
)


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, settings=SETTINGS) as running:
        running.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
        running.wait_healthy("t")
        yield running


def write(session, number):
    """One number, to all partitions."""
    for place in PLACES:
        fields = session.claim(place, 1)
        value = b"%d" % number + b"x" * 300
        session.add(
            place, build([Record(0, 0, None, value)], producer=fields, attributes=TRANSACTIONAL)
        )


def read(client, place, on_chunk):
    end = client.list_offsets({place: LATEST}, "read_committed")[place].offset
    found = []
    for chunk in client.read_range(place, 0, end, "read_committed"):
        for batch in chunk.batches:
            found += [int(each.value.rstrip(b"x")) for each in read_records(batch, 1 << 20)]
        on_chunk(len(found))
    return found


@pytest.mark.java
def test_leaders_are_killed(cluster):
    settings = ClientSettings.parse(
        {"bootstrap.servers": cluster.bootstrap, "max.partition.fetch.bytes": "1500"}
    )
    with BlockingClient(settings) as client:
        down = []

        def kill_leader(partition):
            down.append(cluster.leaders("t")[partition])
            cluster.kill(down[-1])

        def bring_back():
            while down:
                cluster.start(down.pop())
            cluster.wait_healthy("t")

        session = client.transactional_producer("x")
        for number in range(30):
            session.begin()
            write(session, number)
            if number == 10:
                kill_leader(0)
            session.send_offsets("g", {PLACES[0]: number})
            if number == 20:
                bring_back()
                kill_leader(1)
            if number % 3 == 2:
                session.abort()
            else:
                session.commit()
        kept = [each for each in range(30) if each % 3 != 2]
        bring_back()

        def kill_once(count):
            if count > 5 and not down:
                kill_leader(0)

        assert [read(client, place, kill_once) for place in PLACES] == [kept] * 3
        assert client.committed("g") == {PLACES[0]: kept[-1]}
