"""CVE-2026-41115: what was allowed to see that something is there was taken for what is allowed to read it. Describe shows, Read reads; Read shows as well."""

import pytest
from acl_kit import AclKit, creation

from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("operation", "is_shown", "is_read"),
    [
        (None, DENIED, DENIED),
        (Operation.DESCRIBE, 0, DENIED),
        (Operation.DESCRIBE_CONFIGS, DENIED, DENIED),
        (Operation.WRITE, 0, DENIED),
        (Operation.ALTER, 0, DENIED),
        (Operation.DELETE, 0, DENIED),
        (Operation.READ, 0, 0),
        (Operation.ALL, 0, 0),
    ],
)
def test_who_may_see_a_topic_may_not_read_it(operation, is_shown, is_read):
    kit = AclKit()
    kit.create("t")
    kit.produce("t")
    if operation is not None:
        kit.allow(creation(operation))
    alice = kit.new_user("alice")
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
    )
    assert alice.ask(request, 9).topics[0].error_code == is_shown
    partition = alice.ask(kit.fetch_request("t", 0), 11).responses[0].partitions[0]
    assert partition.error_code == is_read
    assert bool(partition.records) == (is_read == 0)
