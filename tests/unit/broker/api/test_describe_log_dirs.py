"""DescribeLogDirs: what each partition takes where, and the room that is left."""

from node_kit import DATA, NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


def describe(kit, topics):
    return kit.ask(DescribeLogDirsRequest(topics=topics), 4)


def sizes(result):
    return {
        (topic.name, p.partition_index): p.partition_size
        for topic in result.topics
        for p in topic.partitions
    }


def test_all_or_those_asked_for():
    kit = NodeKit()
    kit.create("t", partitions=2)
    kit.create("u")
    kit.produce("t", index=1)
    size = kit.node.replicas.get("t", 1).log.size_bytes
    (everything,) = describe(kit, None).results
    assert everything.log_dir == DATA
    assert everything.total_bytes >= everything.usable_bytes > 0
    assert sizes(everything) == {("t", 0): 0, ("t", 1): size, ("u", 0): 0}
    asked = [DescribableLogDirTopic(topic="t", partitions=[1, 9])]
    assert sizes(describe(kit, asked).results[0]) == {("t", 1): size}
    assert sizes(describe(kit, []).results[0]) == {}


def test_every_directory_and_only_the_one_that_failed_is_in_trouble():
    kit = NodeKit(log_dirs="/one,/two")
    kit.create("t", partitions=4)
    results = describe(kit, None).results
    assert [result.log_dir for result in results] == ["/one", "/two"]
    assert [len(sizes(result)) for result in results] == [2, 2]
    assert {result.error_code for result in results} == {ErrorCode.NONE}
