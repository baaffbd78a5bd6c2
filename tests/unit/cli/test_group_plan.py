"""Plans for a group's offsets: what is typed, where it leads, and the CSV."""

import pytest

from barnabas.cli.failure import Failure
from barnabas.cli.group_plan import (
    Current,
    Listed,
    Move,
    Scope,
    Shift,
    parse_scope,
    parse_time,
    plan_move,
    read_plan,
    write_plan,
)
from barnabas.cli.group_view import Bounds, Place
from barnabas.cli.position import At, Back, Beginning, End, Since

NOW_MS = 1_800_000_000_000
PLACE = Place("orders", 0)
BOUNDS = Bounds(10, 50)


def test_a_scope_is_a_topic_or_partitions_of_it():
    assert parse_scope("orders") == Scope("orders", None)
    assert parse_scope("orders:2,0") == Scope("orders", (0, 2))
    assert parse_scope("orders:0-2,5") == Scope("orders", (0, 1, 2, 5))


@pytest.mark.parametrize(
    "text", ["", ":0", "orders:", "orders:x", "orders:1-", "orders:3-1", "orders:0-99999999999"]
)
def test_a_bad_scope_is_refused(text):
    with pytest.raises(ValueError, match=r"orders|names no topic"):
        parse_scope(text)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1731700000000", 1_731_700_000_000),
        ("@1731700000000", 1_731_700_000_000),
        ("-1h", NOW_MS - 3_600_000),
        ("1h30m", NOW_MS - 5_400_000),
        ("2026-11-15T10:00Z", 1_794_736_800_000),
    ],
)
def test_a_time_is_absolute_or_ago(text, timestamp_ms):
    assert parse_time(text, NOW_MS) == Since(timestamp_ms)


@pytest.mark.parametrize("text", ["soon", "end", "beginning", "-5", ""])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="no time; allowed"):
        parse_time(text, NOW_MS)


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (Beginning(), 10),
        (End(), 50),
        (Back(5), 45),
        (At(30), 30),
        (Shift(4), 24),
        (Shift(-4), 16),
        (Current(), 20),
        (Listed({PLACE: 33}), 33),
    ],
)
def test_each_target_leads_to_an_offset(target, after):
    assert plan_move(target, PLACE, 20, BOUNDS, None) == Move(PLACE, 20, after, BOUNDS)


def test_a_time_is_what_the_broker_found_or_the_end():
    since = Since(NOW_MS)
    assert plan_move(since, PLACE, None, BOUNDS, 17).after == 17
    assert plan_move(since, PLACE, None, Bounds(0, 50), 0).after == 0
    late = plan_move(since, PLACE, None, BOUNDS, -1)
    assert (late.after, late.note) == (50, "no record is that late")


@pytest.mark.parametrize(
    ("target", "after", "note"),
    [
        (At(99), 50, "99 is beyond the log end 50"),
        (At(3), 10, "3 is before the log start 10"),
        (Shift(-100), 10, "-80 is before the log start 10"),
        (Back(100), 10, "-50 is before the log start 10"),
        (Listed({PLACE: 51}), 50, "51 is beyond the log end 50"),
    ],
)
def test_what_lies_outside_is_put_at_the_nearest_end(target, after, note):
    move = plan_move(target, PLACE, 20, BOUNDS, None)
    assert (move.after, move.note) == (after, note)


@pytest.mark.parametrize("target", [Shift(1), Current()])
def test_where_nothing_is_committed_there_is_nothing_to_shift(target):
    with pytest.raises(Failure, match="orders-0 has no committed offset"):
        plan_move(target, PLACE, None, BOUNDS, None)


def test_both_forms_of_csv_are_read():
    assert read_plan("orders,0,5\norders,1,6\n", "g") == (
        {Place("orders", 0): 5, Place("orders", 1): 6},
        0,
    )
    text = "g,orders,0,5\nother,orders,0,9\n"
    assert read_plan(text, "g") == ({Place("orders", 0): 5}, 1)
    assert read_plan(text, "other") == ({Place("orders", 0): 9}, 1)


def test_headings_blank_lines_quotes_and_spaces_are_fine():
    text = 'TOPIC,PARTITION,OFFSET\n\n# a note\n"orders", 0, 5\npayments 1 7\n'
    assert read_plan(text, "g")[0] == {Place("orders", 0): 5, Place("payments", 1): 7}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("orders,0", "line 1: 2 fields"),
        ("orders,0,5\norders,x,5", "line 2: partition 'x' is no number"),
        ("orders,0,-5", "line 1: offset '-5' is no number"),
        ("orders,0,5\norders,0,6", "line 2: orders-0 is there twice"),
    ],
)
def test_a_bad_line_is_named(text, problem):
    with pytest.raises(ValueError, match=problem):
        read_plan(text, "g")


def test_what_is_written_can_be_read():
    moves = [Move(Place("a,b", 0), 1, 5, BOUNDS), Move(PLACE, None, 6, BOUNDS)]
    assert read_plan(write_plan({"g": moves}), "g")[0] == {m.place: m.after for m in moves}
    both = write_plan({"g": moves[:1], "h": moves[1:]})
    assert both.splitlines()[1] == "h,orders,0,6"
    assert read_plan(both, "h") == ({PLACE: 6}, 1)
