"""What ZooKeeper answers to reads that shared a request: each gets its own answer, whatever the others do with theirs."""

import pytest
from kazoo.exceptions import NoNodeError, ZookeeperError

from barnabas.ports import CoordinationError
from barnabas.runtime.zookeeper_reads import _hand_out, _Read


def test_one_who_cannot_use_its_answer_does_not_keep_the_others_from_theirs():
    heard = []

    def fail(_value, _error):
        raise RuntimeError("planted")

    def hear(value, error):
        heard.append((value, type(error)))

    batch = [_Read(4, "/a", hear), _Read(4, "/b", fail), _Read(4, "/c", hear), _Read(4, "/d", hear)]
    with pytest.raises(RuntimeError, match="planted"):
        _hand_out(batch, ["found", "found", NoNodeError(), ZookeeperError()], None)
    assert heard == [("found", type(None)), (None, type(None)), (None, CoordinationError)]
    heard.clear()
    with pytest.raises(RuntimeError, match="planted"):
        _hand_out(batch, [], OSError("lost"))
    assert heard == [(None, OSError)] * 3
