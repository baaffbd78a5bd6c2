"""Apache Kafka's kafka-acls, over the wire and straight into ZooKeeper, and brokers that follow each other's changes."""

import pytest
from acl_kit import AUTHORIZER
from cluster_kit import Cluster, wait_until
from kazoo.client import KazooClient

from barnabas.model.acl import Operation, PatternType, ResourceType
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

pytestmark = pytest.mark.java

TOOLS = {"4.3.1": "org.apache.kafka.tools.AclCommand", "3.9.2": "kafka.admin.AclCommand"}
SETTINGS = (f"authorizer.class.name={AUTHORIZER}", "super.users=User:ANONYMOUS")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    root = f"{zookeeper_server}/acl-tools"
    with Cluster(tmp_path_factory.mktemp("acls"), root, count=2, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def rules(cluster):
    """Which rules a broker has: (principal, operation, kind, name, pattern)."""

    def find(broker_id):
        request = DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        return {
            (
                one.principal.removeprefix("User:"),
                Operation(one.operation).title,
                ResourceType(place.resource_type).title,
                place.resource_name,
                PatternType(place.pattern_type).title,
            )
            for place in cluster.ask(request, 3, broker_id).resources
            for one in place.acls
        }

    return find


@pytest.mark.parametrize("release", TOOLS)
def test_kafka_acls_over_the_wire(cluster, kafka_tool, rules, release):
    def tool(*words):
        address = ("--bootstrap-server", cluster.address_of(1))
        return kafka_tool(TOOLS[release], *address, *words, release=release).stdout

    def mine(broker_id):
        return {one for one in rules(broker_id) if one[0] == user}

    user = f"wire-{release}"
    who = ("--allow-principal", f"User:{user}")
    tool("--add", *who, "--producer", "--topic", "ord", "--resource-pattern-type", "prefixed")
    tool("--add", *who, "--consumer", "--topic", "orders", "--group", "readers")
    tool("--add", "--deny-principal", f"User:{user}", "--operation", "Delete", "--topic", "*")
    expected = {
        (user, "Write", "Topic", "ord", "Prefixed"),
        (user, "Describe", "Topic", "ord", "Prefixed"),
        (user, "Create", "Topic", "ord", "Prefixed"),
        (user, "Read", "Topic", "orders", "Literal"),
        (user, "Describe", "Topic", "orders", "Literal"),
        (user, "Read", "Group", "readers", "Literal"),
        (user, "Delete", "Topic", "*", "Literal"),
    }
    # The tool asks the controller; whoever is not it hears of that.
    wait_until(lambda: mine(1) == expected == mine(2), "both brokers know")
    listed = tool("--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert f"principal=User:{user}, host=*, operation=READ, permissionType=ALLOW" in listed
    assert f"principal=User:{user}, host=*, operation=DELETE, permissionType=DENY" in listed
    assert "name=ord, patternType=PREFIXED" in listed
    for words in (("--topic", "ord", "--resource-pattern-type", "prefixed"), ("--topic", "*")):
        tool("--remove", "--force", *words)
    tool("--remove", "--force", "--topic", "orders", "--group", "readers")
    wait_until(lambda: not mine(1) and not mine(2), "both brokers know")


def test_kafkas_own_authorizer_in_the_same_zookeeper(cluster, kafka_tool, rules):
    """What Kafka 3.9 writes is in force here, and it reads what is written here."""

    def kafkas(*words):
        properties = ("--authorizer-properties", f"zookeeper.connect={cluster.zookeeper}")
        done = kafka_tool(
            TOOLS["3.9.2"], "--authorizer", AUTHORIZER, *properties, *words, release="3.9.2"
        )
        return done.stdout

    who = ("--allow-principal", "User:zoe")
    kafkas("--add", *who, "--operation", "Read", "--topic", "theirs")
    kafkas(
        "--add", *who, "--operation", "All", "--group", "pre", "--resource-pattern-type", "prefixed"
    )
    expected = {
        ("zoe", "Read", "Topic", "theirs", "Literal"),
        ("zoe", "All", "Group", "pre", "Prefixed"),
    }
    for broker_id in (1, 2):
        wait_until(lambda: expected <= rules(broker_id), "what Kafka wrote is in force")  # noqa: B023
    kafka_tool(
        TOOLS["4.3.1"], "--bootstrap-server", cluster.address_of(2), "--add", "--allow-principal", "User:ours",
        "--operation", "IdempotentWrite", "--cluster",
    )  # fmt: skip
    listed = kafkas("--list")
    assert "principal=User:ours, host=*, operation=IDEMPOTENT_WRITE, permissionType=ALLOW" in listed
    kafkas("--remove", "--force", "--topic", "theirs")
    gone = ("zoe", "Read", "Topic", "theirs", "Literal")
    for broker_id in (1, 2):
        wait_until(lambda: gone not in rules(broker_id), "what Kafka removed is gone")  # noqa: B023


def test_a_broker_that_was_away_has_the_rules_of_the_store(cluster, rules):
    server, _, root = cluster.zookeeper.partition("/")
    client = KazooClient(f"{server}/{root}")
    client.start()
    try:
        cluster.kill(2)
        data = b'{"version":1,"acls":[{"principal":"User:late","permissionType":"Allow","operation":"Read","host":"*"}]}'
        client.create("/kafka-acl/Topic/late", data, makepath=True)
        client.create("/kafka-acl-changes/acl_changes_", b"TOPIC:late", sequence=True)
        cluster.start(2)
        late = ("late", "Read", "Topic", "late", "Literal")
        for broker_id in (1, 2):
            wait_until(lambda: late in rules(broker_id), "all have it")  # noqa: B023
    finally:
        client.stop()
        client.close()
