import pytest
from bench.clients import (
    ClientFailed,
    Sending,
    flags,
    parse_consumed,
    parse_java_consumed,
    parse_java_produced,
    parse_produced,
)

PRODUCED = """% Sending 1000 messages of size 100 bytes
% 400 messages produced (40000 bytes), 300 delivered (offset 299, 0 failed) in 10ms: 30000 msgs/s and 3.00 MB/s, 0 produce failures, 0 in queue, no compression
% 1000 messages produced (100000 bytes), {delivered} delivered (offset 999, {failed} failed) in 20ms: 50000 msgs/s and 5.41 MB/s, 0 produce failures, 0 in queue, no compression
"""
CONSUMED = """% 0 messages (0 bytes) consumed in 0ms: 0 msgs/s (0.00 MB/s)
% 1000 messages (1024000 bytes) consumed in 92ms: 10781 msgs/s (11.02 MB/s)
% Average application fetch latency: 5us
"""
JAVA_PRODUCED = """500 records sent, 250.0 records/sec (0.24 MB/sec), 3.1 ms avg latency, 9.0 ms max latency.
1000 records sent, 2,049.180328 records/sec (2.00 MB/sec), 12.30 ms avg latency, 251.00 ms max latency, 3 ms 50th, 60 ms 95th, 70 ms 99th, 71 ms 99.9th.
"""
JAVA_CONSUMED = """start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-01-01 10:00:00:000, 2026-01-01 10:00:04:000, 100.0, 25.0, 1024, 256.0, 3000, 1000, 100.0, 1024.0
"""
HOW = Sending(1000, 100)


def test_options_as_arguments():
    assert flags({"rate": 0.5, "hold": True, "idempotent": False}) == ["--rate", "0.5", "--hold"]


def test_rdkafka_producer():
    found = parse_produced(PRODUCED.format(delivered=1000, failed=0), HOW)
    assert found == (1000, 100_000, 5.41)


@pytest.mark.parametrize(("delivered", "failed"), [(999, 0), (1000, 1)])
def test_a_record_that_was_not_delivered_is_a_failure(delivered, failed):
    with pytest.raises(ClientFailed, match="delivered"):
        parse_produced(PRODUCED.format(delivered=delivered, failed=failed), HOW)


def test_rdkafka_consumer():
    assert parse_consumed(CONSUMED, 1000) == (1000, 1_024_000, 11.02)
    with pytest.raises(ClientFailed, match="1000 of 1001"):
        parse_consumed(CONSUMED, 1001)


def test_java_counts_in_mebibytes():
    assert parse_java_produced(JAVA_PRODUCED, HOW) == (1000, 100_000, pytest.approx(2.097152))
    found = parse_java_consumed(JAVA_CONSUMED, 1024)
    assert found == (1024, 104_857_600, pytest.approx(104.8576))


@pytest.mark.parametrize("parse", [parse_produced, parse_java_produced])
def test_no_result_is_a_failure(parse):
    with pytest.raises(ClientFailed):
        parse("something else\n", HOW)


@pytest.mark.parametrize("parse", [parse_consumed, parse_java_consumed])
def test_nothing_read_is_a_failure(parse):
    with pytest.raises(ClientFailed):
        parse("something else\n", 1)
