"""Each rule of the ledger: what it allows, and the fault that it names."""

import pytest
from oracle.ledger import End, Ledger, Promise, verdict
from oracle.records import make, parse

REPEATS = Promise(at_most_once=False)
TRANSACTIONAL = Promise(is_transactional=True)


def ledger_of(promise=None, count=3, *, acked=True, at_ms=100, topic="t"):
    """One client has sent `count` records to partition 0, from `at_ms` to `at_ms` + 10."""
    ledger = Ledger()
    ledger.add_client("c", promise or Promise())
    ledger.sent("c", topic, 0, 0, count, at_ms)
    if acked:
        ledger.acknowledged("c", topic, 0, 0, count, 0)
    ledger.ended("c", at_ms + 10)
    return ledger


def log(*numbers, topic="t", partition=0, client="c"):
    """Values of these numbers at offsets from 0 on."""
    return [(at, make(topic, partition, client, number)) for at, number in enumerate(numbers)]


def told(ledger, records, **options):
    return verdict(ledger.audit("t", 0, records, **options))


def test_a_name_is_read_as_it_was_written():
    name = parse(make("a.topic", 7, "java-1", 12, b"some padding \xff"))
    assert name[:4] == ("a.topic", 7, "java-1", 12)
    assert name.padding == b"some padding \xff"
    assert str(name) == "a.topic-7 java-1 12"


@pytest.mark.parametrize(
    "value", [b"", b"t 0 c 1", b"t x c 1 00000000 ", b"t 0 c 1 zzzzzzzz ", b"t 0 \xff 1 00000000 "]
)
def test_what_is_no_record_of_the_load_has_no_name(value):
    assert parse(value) is None
    assert "which nobody sent" in told(ledger_of(count=0), [(0, value)])


def test_what_was_acknowledged_is_there():
    ledger = ledger_of()
    assert told(ledger, log(0, 1, 2)) is None
    assert str(ledger.figures).startswith("1 clients sent 3 records, 3 acknowledged, 0 failed")


def test_a_lost_record_is_named_with_its_offset():
    found = told(ledger_of(), log(0, 1))
    assert found == "1 faults; not lost: t-0 c 2 was acknowledged and is not there (offset 2)"


def test_a_record_at_another_offset_is_named():
    ledger = ledger_of()
    found = told(
        ledger, [(0, make("t", 0, "c", 0)), (2, make("t", 0, "c", 1)), (3, make("t", 0, "c", 2))]
    )
    assert "t-0 c 1 was acknowledged at 1 and stands at 2" in found


def test_what_was_not_acknowledged_may_be_there_or_not():
    assert told(ledger_of(acked=False), log(0, 1, 2)) is None
    assert told(ledger_of(acked=False), []) is None
    ledger = ledger_of(acked=False)
    ledger.failed("c", "t", 0, 0, 3)
    assert told(ledger, log(1)) is None
    assert ledger.figures.failed == 3


def test_nothing_is_lost_of_a_client_that_was_promised_nothing():
    assert told(ledger_of(Promise(keeps=False)), []) is None


def test_a_record_of_another_topic_is_named():
    found = told(ledger_of(), [*log(0, 1, 2), (3, make("u", 0, "c", 7))])
    assert found == "1 faults; in its place: u-0 c 7 stands in t-0 at offset 3"


def test_a_record_of_another_partition_is_named():
    assert "t-1 c 0 stands in t-0 at offset 0" in told(ledger_of(count=0), log(0, partition=1))


def test_what_nobody_sent_is_named():
    assert "was never sent" in told(ledger_of(), log(0, 1, 2, 3))
    assert "was never sent" in told(ledger_of(count=0), log(0, client="other"))


def test_changed_bytes_are_named():
    value = bytearray(make("t", 0, "c", 0, b"padding"))
    value[-1] ^= 1
    assert "is not as it was sent" in told(ledger_of(count=1), [(0, bytes(value))])


def test_a_record_twice_is_a_fault_unless_its_client_repeats():
    assert "stands at 0 already" in told(ledger_of(acked=False), log(0, 0, 1, 2))
    assert told(ledger_of(REPEATS), log(0, 1, 0, 1, 2)) is None


def test_numbers_ascend():
    assert "comes behind number 2" in told(ledger_of(acked=False), log(0, 2, 1))
    assert "comes behind number 2" in told(ledger_of(REPEATS), log(0, 2, 1))


def test_offsets_ascend():
    records = [(1, make("t", 0, "c", 0)), (1, make("t", 0, "c", 1))]
    assert "offset 1 of t-0 comes behind 1" in told(ledger_of(acked=False), records)


def test_nothing_is_written_while_it_is_not_permitted():
    ledger = ledger_of()
    ledger.denied("c", "t", 99, 111)
    assert "had no right to write" in told(ledger, log(0, 1, 2))


@pytest.mark.parametrize("span", [(101, 120), (90, 109)])
def test_what_was_under_way_when_a_right_came_or_went_may_be_written(span):
    ledger = ledger_of()
    ledger.denied("c", "t", *span)
    assert told(ledger, log(0, 1, 2)) is None


def test_what_was_sent_to_a_topic_that_was_deleted_is_gone():
    ledger = ledger_of()
    ledger.reborn("t", 120, 130)
    assert told(ledger, []) is None
    assert "was sent before the topic was deleted" in told(ledger, log(0))


def test_what_was_under_way_when_a_topic_was_made_again_may_be_there():
    ledger = ledger_of()
    ledger.reborn("t", 105, 130)
    assert told(ledger, []) is None
    assert told(ledger, log(0, 1, 2)) is None


def test_what_came_after_a_topic_was_made_again_is_there():
    ledger = ledger_of()
    ledger.reborn("t", 50, 60)
    assert "not lost" in told(ledger, log(0, 1))


def test_a_record_sent_to_one_life_of_a_topic_stands_in_that():
    ledger = Ledger()
    ledger.add_client("c", Promise())
    ledger.sent("c", "t", 0, 0, 1, 100, life=1)
    ledger.acknowledged("c", "t", 0, 0, 1, 0)
    assert told(ledger, log(0), life=1) is None
    assert told(ledger, [], life=2) is None
    assert "was sent to life 1 of the topic, and stands in life 2" in told(ledger, log(0), life=2)


def transactions(*ends):
    """One record in each transaction."""
    ledger = Ledger()
    ledger.add_client("c", TRANSACTIONAL)
    for number, end in enumerate(ends):
        ledger.began("c")
        ledger.sent("c", "t", 0, number, 1, 100)
        ledger.acknowledged("c", "t", 0, number, 1)
        ledger.ended("c", 110)
        ledger.finished("c", end)
    return ledger


def test_committed_records_are_seen_and_aborted_ones_are_not():
    ledger = transactions(End.COMMITTED, End.ABORTED, End.COMMITTED)
    assert ledger.has_transactions("t", 0)
    assert told(ledger, log(0, 2), is_committed=True) is None
    assert told(ledger, log(0, 1, 2)) is None
    assert "not lost: t-0 c 2" in told(ledger, log(0), is_committed=True)
    assert "t-0 c 1 at t-0 offset 1 was aborted" in told(ledger, log(0, 1, 2), is_committed=True)


def test_aborted_records_are_in_the_log():
    assert "not lost: t-0 c 1" in told(transactions(End.COMMITTED, End.ABORTED), log(0))


def test_a_transaction_of_which_nobody_knows_may_be_seen():
    ledger = transactions(End.UNKNOWN)
    assert told(ledger, log(0), is_committed=True) is None
    assert told(ledger, [], is_committed=True) is None


def test_streams_do_not_disturb_each_other():
    ledger = Ledger()
    for client in ("a", "b"):
        ledger.add_client(client, Promise())
        for partition in (0, 1):
            ledger.sent(client, "t", partition, 0, 2, 100)
            ledger.acknowledged(client, "t", partition, 0, 2)
    records = [
        (at, make("t", 0, *name))
        for at, name in enumerate([("a", 0), ("b", 0), ("b", 1), ("a", 1)])
    ]
    assert told(ledger, records) is None
    assert ledger.partitions() == [("t", 0), ("t", 1)]


def test_a_verdict_tells_the_first_faults_and_how_many_there_are():
    found = told(ledger_of(count=20), [])
    assert found.startswith("20 faults; not lost: t-0 c 0 ")
    assert found.count("not lost") == 5


def test_who_reads_waits_for_what_nobody_was_asked_about():
    assert ledger_of().awaits("t", 0) == 0
    assert ledger_of(Promise(is_silent=True)).awaits("t", 0) == 3
    assert ledger_of(Promise(is_silent=True, keeps=False)).awaits("t", 0) == 0


def test_an_offset_that_no_broker_has_told_means_nothing():
    ledger = ledger_of(Promise(is_silent=True))
    assert told(ledger, [(5 + at, value) for at, value in log(0, 1, 2)]) is None


def test_a_record_in_a_wrong_place_is_told_before_what_is_lost():
    faults = [*ledger_of(count=20).audit("t", 0, []), *ledger_of().audit("t", 0, log(7, topic="u"))]
    assert verdict(faults).startswith(
        "24 faults; in its place: u-0 c 7 stands in t-0 at offset 0; "
    )
