"""What Apache Kafka denies is what we deny: the cases of `acl_cases.py` to both, with none, each and all of the permissions they need.

Both have a listener without login, on which everybody is a super user, and one on which `alice` logs in with PLAIN, under the same
settings. Compared are the codes that tell of a missing permission, and what an allowed client finds in lists.
"""

import pytest
from acl_cases import CASES, CODES, GROUP, NAMES, TOPIC, TXN, Ids, codes_in
from acl_kit import any_filter, creation
from chaos.wire_kit import BrokerProcess
from compat.apache_kafka import Kafka, free_ports
from compat.members import GROUP_SETTINGS
from compat.two_brokers import Side
from compat.wire_client import WireClient

from barnabas.wire.messages import (
    create_acls,
    create_topics,
    delete_acls,
    describe_acls,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_commit,
    sasl_authenticate,
    sasl_handshake,
)

pytestmark = pytest.mark.java

SETTINGS = (
    "sasl.enabled.mechanisms=PLAIN",
    "super.users=User:ANONYMOUS",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config="
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";',
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # A member that joined is in the way of commits from outside until its session ends.
    *GROUP_SETTINGS,
)
#: Not served by KRaft's brokers, or not by a lone broker of ours; fetches of followers are refused there before anybody asks.
LEFT_OUT = {4, 5, 6, 7, 43, 45, 46, 56, 58, 67}
CASES_OF_BOTH = [case for case in CASES if case.key not in LEFT_OUT and case.note != "follower"]
DENIALS = set(CODES.values())


class SecureKafka(Kafka):
    """Apache Kafka with a second listener, on which clients log in."""

    def __init__(self, home):
        (self.secure_port,) = free_ports(1)
        super().__init__(home, *SETTINGS)
        texts = []
        for line in self.properties.read_text().splitlines():
            if line.startswith(("listeners=", "advertised.listeners=")):
                line += f",SASL_PLAINTEXT://127.0.0.1:{self.secure_port}"
            texts.append(line)
        names = ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT")
        protocols = {"CONTROLLER": "PLAINTEXT"}
        protocol_map = ",".join(f"{name}:{protocols.get(name, name)}" for name in names)
        texts.append(f"listener.security.protocol.map={protocol_map}\n")
        self.properties.write_text("\n".join(texts))


class Secured(Side):
    """One broker: a super user's connection, and one of alice."""

    def __init__(self, address, secure_address):
        super().__init__(address)
        self.alice = WireClient(secure_address)
        shaken = self.alice.ask(sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert shaken.error_code == 0
        token = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonderland")
        assert self.alice.ask(token, 2).error_code == 0

    def fill(self):
        """Let there be a topic, a group and a transactional id."""
        asked = [metadata.MetadataRequestTopic(name=TOPIC)]
        request = metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        if self.ask(request, 12).topics[0].error_code:
            topic = create_topics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            self.ask_until(request, 7, lambda answer: not answer.topics[0].error_code)
        self.learn_ids([TOPIC])
        for kind, name in ((0, GROUP), (1, TXN)):
            find = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            self.ask_until(find, 4, lambda answer: not answer.coordinators[0].error_code)
        part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
        commit = offset_commit.OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=-1, topics=[topic]
        )
        self.ask_until(commit, 8, lambda answer: not any(codes_in(answer)))
        init = init_producer_id.InitProducerIdRequest(
            transactional_id=TXN, transaction_timeout_ms=1000
        )
        self.ask_until(init, 4, lambda answer: not answer.error_code)

    def let(self, needs):
        """Give alice these permissions and no others, and wait until that is in force."""
        filters = [any_filter(principal_filter="User:alice")]
        self.ask(delete_acls.DeleteAclsRequest(filters=filters), 3)
        creations = [
            creation(operation, kind, NAMES[kind], "User:alice") for operation, kind in needs
        ]
        if creations:
            answer = self.ask(create_acls.CreateAclsRequest(creations=creations), 3)
            assert not any(codes_in(answer)), answer
        wanted = {(one.resource_type, one.resource_name, one.operation) for one in creations}
        request = describe_acls.DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter="User:alice", host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip

        def is_in_force(answer):
            return wanted == {
                (one.resource_type, one.resource_name, acl.operation)
                for one in answer.resources
                for acl in one.acls
            }

        self.ask_until(request, 3, is_in_force)

    def told(self, case):
        """What alice is told: the denials, and whether she finds what she looks for."""
        answer = self.alice.ask(case.build(Ids(bytes(self.ids[TOPIC]))), case.version)
        denials = sorted(code for code in codes_in(answer) if code in DENIALS)
        return denials, case.sees is not None and case.sees(answer)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    home = tmp_path_factory.mktemp("acls")
    listen = ("127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0")
    with (
        SecureKafka(tmp_path_factory.mktemp("kafka")) as kafka,
        BrokerProcess(home / "data", listen=listen, settings=SETTINGS) as broker,
    ):
        kafka.wait_ready()
        kafkas = f"127.0.0.1:{kafka.secure_port}"
        both = [Secured(*broker.addresses), Secured(kafka.address, kafkas)]
        yield both
        for side in both:
            side.client.close()
            side.alice.close()


@pytest.mark.parametrize("case", CASES_OF_BOTH, ids=str)
def test_the_same_is_denied(sides, case):
    for side in sides:
        side.fill()
    lacking = [[one for one in case.needs if one != need] for need in case.needs]
    for needs in [[], *lacking, *[[one] for one in case.instead], case.needs]:
        for side in sides:
            side.let(needs)
        ours, kafkas = [side.told(case) for side in sides]
        assert ours == kafkas, f"with {needs}"
    assert not kafkas[0], "Kafka allows it with all permissions, too"
