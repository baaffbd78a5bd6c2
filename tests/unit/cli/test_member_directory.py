"""Directories on which no broker of its own is started without being told to."""

import pytest

from barnabas.cli.member_directory import objection

MEMBER = "#\nnode.id=2\ndirectory.id=Z9faQiiwSOyMu2deW9zYrQ\nversion=1\ncluster.id=Z9faQiiwSOyMu2deW9zYrA\n"
KAFKA_ON_ZOOKEEPER = "broker.id=2\nversion=0\ncluster.id=Z9faQiiwSOyMu2deW9zYrA\n"


def directory(path, meta, *names):
    path.mkdir()
    if meta is not None:
        (path / "meta.properties").write_text(meta)
    for name in names:
        (path / name).touch() if "." in name else (path / name).mkdir()
    return str(path)


def test_what_a_member_left_is_not_taken_for_a_brokers_own(tmp_path):
    member = directory(tmp_path / "data", MEMBER, "t-0", "t-1", "u-0")
    problem = objection([member])
    assert problem.startswith(f"{member} has 3 partitions of broker 2 of the cluster Z9fa")
    assert "zookeeper.connect" in problem
    assert "--adopt" in problem
    empty = directory(tmp_path / "first", None)
    assert objection([empty, member]) == problem
    kafka = directory(tmp_path / "kafka", MEMBER, "__cluster_metadata-0")
    assert objection([kafka, member]) is None


@pytest.mark.parametrize(
    ("meta", "names"),
    [
        (None, []),
        (None, ["t-0"]),
        (MEMBER, []),
        (MEMBER, ["barnabas.db", "t-0"]),
        (MEMBER, ["__cluster_metadata-0", "t-0"]),
        (KAFKA_ON_ZOOKEEPER, ["t-0"]),
        ("version=7", ["t-0"]),
    ],
    ids=["new", "of nobody", "nothing there", "its own", "of Kafka", "of Kafka 3", "damaged"],
)
def test_everything_else_is_for_the_start_to_judge(tmp_path, meta, names):
    assert objection([directory(tmp_path / "data", meta, *names)]) is None
