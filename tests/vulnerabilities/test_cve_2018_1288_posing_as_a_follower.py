"""CVE-2018-1288: a client that called itself a follower moved the high watermark, and deleted what others had not. A fetch as a replica needs ClusterAction."""

import pytest
from acl_kit import AclKit, creation

from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_reader_cannot_pose_as_a_follower(version):
    kit = AclKit()
    kit.create("t")
    kit.produce("t")
    kit.allow(creation(Operation.READ))
    alice = kit.new_user("alice")
    request = kit.fetch_request("t", 0)
    partition = alice.ask(request, version).responses[0].partitions[0]
    assert (partition.error_code, len(partition.records) > 0) == (0, True)
    request.replica_id = 1
    answer = alice.ask(request, version)
    codes = [p.error_code for topic in answer.responses for p in topic.partitions]
    assert answer.error_code or (codes and all(codes)), "the fetch of a follower was served"
    assert {answer.error_code, *codes} <= {
        0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }  # fmt: skip
