"""What stands in ZooKeeper is what Kafka 3.9 writes there, and what it writes is read."""

import json

import pytest

from barnabas.broker import cluster_znodes as znodes
from barnabas.broker.cluster_znodes import StoredState, StoredTopic, Term
from barnabas.model.cluster import LiveBroker
from barnabas.ports import Check, Create, SetData, ZNode

#: As Apache Kafka 3.9.2 wrote it.
KAFKA_BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:24839"],'
    b'"jmx_port":-1,"port":24839,"host":"127.0.0.1","version":5,"timestamp":"1794818297148"}'
)


def test_a_broker_registers_as_kafka_does():
    broker = LiveBroker(9, endpoints={"PLAINTEXT": ("127.0.0.1", 24839)})
    operation = znodes.register_operation(broker, {"PLAINTEXT": "PLAINTEXT"}, 1794818297148)
    assert operation == Create("/brokers/ids/9", KAFKA_BROKER, ephemeral=True)


def test_what_kafka_registered_is_read():
    read = znodes.read_broker(9, ZNode(KAFKA_BROKER, 0, created=77))
    assert read == LiveBroker(9, 77, None, {"PLAINTEXT": ("127.0.0.1", 24839)})


@pytest.mark.parametrize("rack", [None, "r1"])
def test_several_listeners_a_rack_and_an_ipv6_address_come_back(rack):
    endpoints = {"IN": ("::1", 1), "OUT": ("broker.example", 2)}
    operation = znodes.register_operation(LiveBroker(1, rack=rack, endpoints=endpoints), {}, 0)
    assert "IN://[::1]:1" in json.loads(operation.data)["endpoints"]
    read = znodes.read_broker(1, ZNode(operation.data, 0, created=5))
    assert read == LiveBroker(1, 5, rack, endpoints)


def test_the_first_controller_creates_the_epoch_and_the_next_ones_raise_it():
    first = znodes.elect_operations(1, None, 1, 5)
    assert first[0] == Create("/controller_epoch", b"1")
    assert json.loads(first[1].data) == {
        "version": 2, "brokerid": 1, "timestamp": "5", "kraftControllerEpoch": -1,
    }  # fmt: skip
    assert first[1].ephemeral
    assert znodes.elect_operations(2, Term(7, 3), 8, 5)[0] == SetData("/controller_epoch", b"8", 3)
    assert znodes.read_term(ZNode(b"8", 4)) == Term(8, 4)
    assert znodes.read_term(None) is None
    assert znodes.read_controller(ZNode(first[1].data, 0)) == 1
    assert znodes.read_controller(None) is None
    assert znodes.fence(Term(8, 4)) == Check("/controller_epoch", 4)


def test_states_come_back():
    data = znodes.state_data(2, 5, (2, 3), 7)
    assert data == b'{"controller_epoch":7,"leader":2,"version":1,"leader_epoch":5,"isr":[2,3]}'
    assert znodes.read_state(ZNode(data, 9)) == StoredState(2, 5, (2, 3), 7, 9)
    assert znodes.state_path("t", 3) == "/brokers/topics/t/partitions/3/state"


def test_topics_come_back_in_the_order_of_their_partitions():
    topic = StoredTopic("POd6O5LwQFKM4FoULA8xIw", {10: (1,), 2: (2, 3)}, {2: (3,)}, {})
    data = znodes.topic_data(topic)
    assert data == (
        b'{"partitions":{"2":[2,3],"10":[1]},"topic_id":"POd6O5LwQFKM4FoULA8xIw",'
        b'"adding_replicas":{"2":[3]},"removing_replicas":{},"version":3}'
    )
    assert znodes.read_topic(ZNode(data, 0)) == topic


def test_notices_come_back():
    notice = znodes.in_sync_notice([("a", 0), ("b", 3)])
    assert notice.sequential
    assert notice.path == "/isr_change_notification/isr_change_"
    assert json.loads(notice.data)["version"] == 1
    assert znodes.read_in_sync_notice(ZNode(notice.data, 0)) == [("a", 0), ("b", 3)]


def test_a_notice_of_lost_logs_is_kafkas():
    notice = znodes.lost_logs_notice(3)
    assert notice.path == "/log_dir_event_notification/log_dir_event_"
    assert notice.data == b'{"version":1,"broker":3,"event":1}'
    assert notice.sequential
    assert znodes.read_lost_logs_notice(ZNode(notice.data, 0)) == 3
    changed = znodes.config_notice("topics/t")
    assert changed.data == b'{"version":2,"entity_path":"topics/t"}'
    assert znodes.read_config_notice(ZNode(changed.data, 0)) == "topics/t"
    assert znodes.notice_number("config_change_0000000042") == 42
