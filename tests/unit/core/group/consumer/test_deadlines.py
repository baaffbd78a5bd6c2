"""Deadlines that are moved by a look-up."""

from barnabas.core.group.consumer.deadlines import ConsumerDeadlines, Watch

ANNA = (Watch.SESSION, "g", "anna")
BOB = (Watch.SESSION, "g", "bob")


def due(deadlines, now_ms):
    return list(iter(lambda: deadlines.pop_due(now_ms), None))


def test_what_is_due_comes_in_order_and_once():
    deadlines = ConsumerDeadlines()
    assert deadlines.next_ms() is None
    deadlines.expect(BOB, 20)
    deadlines.expect(ANNA, 10)
    assert deadlines.next_ms() == 10
    assert due(deadlines, 9) == []
    assert due(deadlines, 20) == [ANNA, BOB]
    assert due(deadlines, 99) == []
    assert deadlines.next_ms() is None


def test_a_deadline_moved_later_adds_nothing_to_the_heap():
    deadlines = ConsumerDeadlines()
    for moment in range(1000):
        deadlines.expect(ANNA, moment)
    assert len(deadlines._heap) == 1
    assert due(deadlines, 998) == []
    assert deadlines.next_ms() == 999
    assert due(deadlines, 999) == [ANNA]


def test_a_deadline_moved_earlier_counts_from_then():
    deadlines = ConsumerDeadlines()
    deadlines.expect(ANNA, 50)
    deadlines.expect(ANNA, 10)
    assert due(deadlines, 10) == [ANNA]
    assert due(deadlines, 50) == []


def test_what_is_forgotten_does_not_come():
    deadlines = ConsumerDeadlines()
    deadlines.expect(ANNA, 10)
    deadlines.expect((Watch.SYNC, "g", "anna"), 10)
    deadlines.expect((Watch.REGEX, "g", ""), 10)
    assert ANNA in deadlines
    deadlines.forget_member("g", "anna")
    deadlines.forget((Watch.REGEX, "g", ""))
    deadlines.forget((Watch.REGEX, "g", ""))
    assert ANNA not in deadlines
    assert due(deadlines, 10) == []


def test_what_was_forgotten_can_be_expected_again():
    deadlines = ConsumerDeadlines()
    deadlines.expect(ANNA, 10)
    deadlines.forget(ANNA)
    deadlines.expect(ANNA, 30)
    assert due(deadlines, 20) == []
    assert due(deadlines, 30) == [ANNA]
