"""The same thing is said when it begins, and then once a minute with how often it was left out."""

import re
from dataclasses import replace

import pytest
from node_kit import NodeKit

from barnabas.broker.quiet import QUIET_MS, Quiet, place_of
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest


def test_the_first_is_said_and_those_of_the_next_minute_are_counted():
    quiet = Quiet()
    assert quiet.ending("a", 0) == ""
    assert [quiet.ending("a", now_ms) for now_ms in (1, 2, QUIET_MS - 1)] == [None] * 3
    assert quiet.ending("a", QUIET_MS) == " (3 more since the last line)"
    assert quiet.ending("a", QUIET_MS + 1) is None
    assert quiet.ending("a", 3 * QUIET_MS) == " (1 more since the last line)"


def test_what_comes_once_in_a_while_is_said_each_time():
    quiet = Quiet()
    assert [quiet.ending("a", number * QUIET_MS) for number in range(3)] == ["", "", ""]


def test_each_thing_is_said_by_itself():
    quiet = Quiet()
    assert (quiet.ending("a", 0), quiet.ending("b", 0)) == ("", "")


def caught(fail):
    with pytest.raises(Exception, match="wrong") as found:
        fail()
    return found.value


def test_errors_are_the_same_by_kind_and_place():
    def here():
        raise ValueError("wrong")

    def there():
        raise ValueError("wrong")

    def other():
        raise KeyError("wrong")

    assert place_of(caught(here)) == place_of(caught(here))
    assert len({place_of(caught(fail)) for fail in (here, there, other)}) == 3
    assert place_of(ValueError()) == place_of(ValueError())


def test_a_handler_that_fails_is_told_once_and_each_client_gets_an_answer(caplog):
    def handle(_call):
        raise ZeroDivisionError("a fault of ours")

    kit = NodeKit()
    key = DescribeClusterRequest.API_KEY
    broken = replace(kit.node._apis[key], handle=handle)
    kit.node._apis = {**kit.node._apis, key: broken}
    for _ in range(5):
        answer = kit.ask(DescribeClusterRequest(), 1)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (line,) = [record for record in caplog.records if record.exc_info]
    assert "DescribeCluster v1 failed" in line.getMessage()
    kit.advance(QUIET_MS)
    kit.ask(DescribeClusterRequest(), 1)
    last = caplog.records[-1].getMessage()
    assert re.search(r"\(4 more since the last line\)$", last)
    assert kit.node.metrics.failures == 6
