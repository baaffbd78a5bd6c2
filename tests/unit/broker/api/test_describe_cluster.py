"""DescribeCluster: this broker, as the client reached it."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest


def test_the_one_broker():
    kit = NodeKit(broker_rack="r1")
    answer = kit.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "broker", 9092, "r1")
    assert (answer.cluster_id, answer.controller_id) == (kit.node.cluster_id, 1)
    assert not broker.is_fenced


@pytest.mark.parametrize(
    ("kind", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_other_endpoints(kind, code):
    answer = NodeKit().ask(DescribeClusterRequest(endpoint_type=kind), 1)
    assert answer.error_code == code
    assert answer.brokers == []
