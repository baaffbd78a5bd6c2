"""The load itself: what a client is told must not end it."""

from types import SimpleNamespace

from confluent_kafka import Message
from load_kit import Load


def test_an_acknowledgement_without_an_offset_counts():
    """A batch that was repeated too late has one: the broker knows that it has it, and no longer where."""
    load = Load(SimpleNamespace(bootstrap="127.0.0.1:1", partitions=lambda _topic: [0]), "t")
    load._told(None, Message("t", partition=0, offset=-1001, value=b"7"))
    load._told(None, Message("t", partition=0, offset=3, value=b"8"))
    assert [*load.acked] == [7, 8]
    assert load.of(0) == [3]
    assert load.history.anomalies(all_was_read=False) == []
