"""What only the controller can serve, asked of another broker: it is served for who asked, by whom the controller's rules and quotas go."""

import pytest
from acl_kit import ACLS_VERSION, AUTHORIZER, creation
from chaos.wire_kit import ClosedByPeer, RawClient, encode
from cluster_kit import wait_until

import barnabas
from barnabas.broker.forwarding import encode_principal
from barnabas.model.acl import CLUSTER_NAME, Operation, PatternType, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.model.principal import Principal
from barnabas.wire import frame
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.envelope import EnvelopeRequest
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

pytestmark = pytest.mark.java

USERS = ("broker", "root", "alice")
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="broker" password="broker-secret"'
    + "".join(f' user_{name}="{name}-secret"' for name in USERS)
    + ";"
)
TIMEOUT_MS = 60_000
LOCALHOST = b"\x7f\0\0\1"


def settings(number, zookeeper):
    return {
        "node.id": number,
        "zookeeper.connect": zookeeper,
        "listeners": "CLIENT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": JAAS,
        "listener.name.internal.plain.sasl.jaas.config": JAAS,
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:broker;User:root",
        "controller.quota.window.num": 2,
    }


@pytest.fixture(scope="module")
def brokers(zookeeper_server):
    zookeeper = f"{zookeeper_server}/forwarding"
    with (
        barnabas.Broker(settings=settings(1, zookeeper)) as one,
        barnabas.Broker(settings=settings(2, zookeeper)) as two,
    ):
        both = {1: one.bootstrap_of("CLIENT"), 2: two.bootstrap_of("CLIENT")}
        yield both


def login(address, name):
    client = RawClient(address)
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    proof = f"\0{name}\0{name}-secret".encode()
    assert client.ask(SaslAuthenticateRequest(auth_bytes=proof), 2).error_code == 0
    return client


def metadata(address):
    with login(address, "root") as client:
        return client.ask(MetadataRequest(topics=[]), 12)


@pytest.fixture
def addresses(brokers):
    """Of the controller and of the other one."""

    def known():
        try:
            told = [metadata(address) for address in brokers.values()]
        except ClosedByPeer:
            return None  # it sends clients away until the controller has spoken to it
        ids = {each.controller_id for each in told}
        return ids.pop() if len(ids) == 1 and all(len(t.brokers) == 2 for t in told) else None

    wait_until(lambda: known() in brokers, "both know each other and who is controller")
    controller = known()
    return brokers[controller], brokers[3 - controller]


def create_request(name, partitions=1, replicas=2):
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


def test_every_request_of_the_kind_is_served_by_the_other(addresses):
    with login(addresses[1], "root") as client:
        (made,) = client.ask(create_request("all"), 7).topics
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 1, 2)
        assert made.configs
        grown = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="all", count=3, assignments=None)],
            timeout_ms=TIMEOUT_MS,
        )
        assert client.ask(grown, 3).results[0].error_code == 0
        answer = client.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=TIMEOUT_MS), 2)
        assert answer.error_code == 0
        moved = ReassignableTopic(
            name="all", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
        )
        answer = client.ask(
            AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=TIMEOUT_MS), 1
        )
        assert answer.responses[0].partitions[0].error_code == 0
        listed = ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS)
        wait_until(lambda: not client.ask(listed, 0).topics, "it has moved")
        again = client.ask(create_request("all"), 7).topics[0]
        assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="all")], timeout_ms=TIMEOUT_MS)
        assert client.ask(gone, 6).responses[0].error_code == 0


def test_a_request_of_many_bytes(addresses):
    """It is decoded, and answered, in the background."""
    topics = [
        CreatableTopic(name=f"many-{number}-{'x' * 150}", num_partitions=0) for number in range(900)
    ]
    with login(addresses[1], "root") as client:
        answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 7)
    assert len(answer.topics) == 900
    assert {each.error_code for each in answer.topics} == {ErrorCode.INVALID_PARTITIONS}


def test_the_client_is_judged_not_the_broker(addresses):
    with login(addresses[0], "root") as root:
        rules = [
            creation(Operation.CREATE, name="alices-", pattern=PatternType.PREFIXED),
            creation(Operation.CREATE, name="seen"),
            creation(Operation.DESCRIBE_CONFIGS, name="seen"),
        ]
        answer = root.ask(CreateAclsRequest(creations=rules), ACLS_VERSION)
        assert not any(each.error_code for each in answer.results)
    names = ("alices-one", "seen", "not-hers")
    topics = [create_request(name).topics[0] for name in names]
    with login(addresses[1], "alice") as client:
        request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        wait_until(
            lambda: client.ask(request, 7).topics[0].error_code != 29, "she may create topics"
        )
        found = {each.name: each for each in client.ask(request, 7).topics}
    assert {name: each.error_code for name, each in found.items()} == {
        "alices-one": ErrorCode.TOPIC_ALREADY_EXISTS,
        "seen": ErrorCode.TOPIC_ALREADY_EXISTS,
        "not-hers": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


def test_settings_are_not_told_to_who_may_not_see_them(addresses):
    with login(addresses[0], "root") as root:
        rules = [creation(Operation.CREATE, name="secret-settings")]
        root.ask(CreateAclsRequest(creations=rules), ACLS_VERSION)
    with login(addresses[1], "alice") as client:
        made = []

        def create():
            made[:] = client.ask(create_request("secret-settings"), 7).topics
            return made[0].error_code == 0

        wait_until(create, "she may create it")
    assert made[0].configs is None
    assert made[0].topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_clients_quota_is_used_up(addresses):
    entry = RequestEntryData(
        entity=[EntityData(entity_type="user", entity_name="root")],
        ops=[OpData(key="controller_mutation_rate", value=1.0)],
    )
    with login(addresses[0], "root") as root, login(addresses[1], "root") as client:
        assert root.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0
        codes = []

        def run_out():
            answer = client.ask(create_request(f"quota-{len(codes)}", partitions=5), 7)
            codes.append(answer.topics[0].error_code)
            return codes[-1] == ErrorCode.THROTTLING_QUOTA_EXCEEDED

        wait_until(run_out, "the quota is used up")
        assert codes[0] == 0
        entry.ops[0].remove = True
        root.ask(AlterClientQuotasRequest(entries=[entry]), 1)


def envelope(request, version, name="root", address=LOCALHOST, **changes):
    class Sender:
        principal = Principal("User", name)

    fields = {
        "request_data": encode(request, version, 7),
        "request_principal": encode_principal(Sender),
        "client_host_address": address,
    }
    return EnvelopeRequest(**(fields | changes))


def test_an_envelope_from_a_broker(addresses):
    request = create_request("enveloped")
    controller, other = addresses
    with login(other, "broker") as client:
        assert client.ask(envelope(request, 7), 0).error_code == ErrorCode.NOT_CONTROLLER
    with login(controller, "broker") as client:
        answer = client.ask(envelope(request, 7), 0)
        assert answer.error_code == 0
        header = frame.response_header(7, request.API_KEY, 7)
        _, kind = frame.message_types(request.API_KEY)
        data = memoryview(answer.response_data)
        assert data[: len(header)] == header
        assert kind.decode(data, 7, len(header)).topics[0].error_code == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"request_data": b""},
        {"request_data": encode(MetadataRequest(topics=[]), 12, 7)},
        {"request_data": encode(create_request("t"), 7, 7)[:-1]},
        {"request_data": encode(create_request("t"), 7, 7)[:3]},
        {"request_principal": None},
        {"request_principal": b""},
        {"request_principal": b"\0\1\5User\4bob\0\0"},
        {"request_principal": b"\0\0\xff"},
        {"client_host_address": b"123"},
        {"client_host_address": b""},
    ],
)
def test_an_envelope_that_makes_no_sense(addresses, changes):
    with login(addresses[0], "broker") as client:
        answer = client.ask(envelope(create_request("t"), 7, **changes), 0)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.response_data is None
        # The connection and the broker go on.
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_nobody_else_may_send_one(addresses):
    """It would let its sender be anybody."""
    with login(addresses[0], "root") as root:
        rule = creation(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
        root.ask(CreateAclsRequest(creations=[rule]), ACLS_VERSION)
    with login(addresses[0], "alice") as client:
        answer = client.ask(envelope(create_request("stolen"), 7), 0)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.response_data is None
