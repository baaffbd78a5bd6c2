"""Which directory gets a new partition."""

import pytest

from barnabas.broker.placement import WISHES_KEPT, DirectoryOffline, Placement
from barnabas.model.ids import TopicPartition
from barnabas.storage.directory import LogDirectory


@pytest.fixture
def directories():
    return [LogDirectory(None, None, path) for path in ("/a", "/b")]


def key(number):
    return TopicPartition("t", number)


def test_the_one_with_the_fewest(directories):
    placement = Placement()
    for number in range(5):
        placement.put(key(number), placement.candidates(key(number), directories)[0])
    assert [placement.get(key(number)).path for number in range(5)] == ["/a", "/b"] * 2 + ["/a"]
    placement.drop(key(0))
    placement.drop(key(2))
    assert placement.candidates(key(5), directories)[0].path == "/a"
    assert placement.get(key(0)) is None


def test_a_partition_that_moves_is_counted_once(directories):
    placement = Placement()
    placement.put(key(0), directories[0])
    placement.put(key(0), directories[1])
    assert placement.candidates(key(1), directories)[0].path == "/a"


def test_none_that_is_offline(directories):
    placement = Placement()
    directories[0].failure = OSError(5, "broken")
    assert placement.candidates(key(0), directories)[0].path == "/b"
    placement.wish(key(1), directories[0])
    assert placement.candidates(key(1), directories)[0].path == "/b"
    directories[1].failure = OSError(5, "broken")
    with pytest.raises(DirectoryOffline):
        placement.candidates(key(0), directories)


def test_wishes_count_once_and_are_bounded(directories):
    placement = Placement()
    placement.wish(key(0), directories[1])
    assert placement.candidates(key(0), directories)[0].path == "/b"
    placement.put(key(0), directories[1])
    placement.drop(key(0))
    assert placement.candidates(key(0), directories)[0].path == "/a"
    for number in range(WISHES_KEPT + 1):
        placement.wish(key(number), directories[1])
    assert placement.candidates(key(0), directories)[0].path == "/a", "the oldest is forgotten"
    assert placement.candidates(key(1), directories)[0].path == "/b"
