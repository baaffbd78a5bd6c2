"""What lines become. Run with: pytest test_functions.py."""

import json
from datetime import UTC, datetime

import functions
import pytest
from lines import Malformed, parse
from tracebacks import CHARS_MAX, LINES_MAX, TRACEBACK, Joiner, packed, unpacked

NOW = datetime(2026, 11, 16, 15, 26, 12, tzinfo=UTC)


def at(*parts):
    return datetime(*parts, tzinfo=UTC)


# -- lines ------------------------------------------------------------------------------------


def test_nginx_access():
    event = parse(
        '10.0.0.9 - ann [16/Nov/2026:16:26:12 +0100] "GET /cart HTTP/1.1" 503 612 "-" "curl" 0.120',
        NOW,
    )
    assert (event.time, event.level, event.app) == (NOW, "error", "nginx")
    assert event.message == "GET /cart HTTP/1.1 503"
    assert event.details == {
        "client": "10.0.0.9",
        "user": "ann",
        "status": "503",
        "bytes": "612",
        "agent": "curl",
        "seconds": "0.120",
    }


def test_nginx_error():
    event = parse("2026/11/16 15:26:12 [crit] 7#8: *91 upstream timed out", NOW)
    assert (event.time, event.level, event.message) == (NOW, "critical", "upstream timed out")
    assert event.details == {"pid": "7", "connection": "91"}


def test_syslog_of_both_kinds():
    event = parse(
        '<165>1 2026-11-16T15:26:12.003Z db-1 postgres 77 ID [a b="c\\]"][d] \ufeffit works', NOW
    )
    assert (event.time, event.level, event.host) == (NOW.replace(microsecond=3000), "info", "db-1")
    assert (event.app, event.message) == ("postgres", "it works")
    assert event.details == {
        "pid": "77",
        "id": "ID",
        "structured": '[a b="c\\]"][d]',
        "facility": "20",
    }
    event = parse("<34>Nov  6 15:26:12 db-1 sshd[7]: no: key", NOW)
    assert (event.time, event.level, event.host) == (
        at(2026, 11, 6, 15, 26, 12),
        "critical",
        "db-1",
    )
    assert (event.app, event.message, event.details["pid"]) == ("sshd", "no: key", "7")


def test_syslog_without_a_year_takes_the_nearest():
    assert parse("<34>Dec 31 23:59:59 h a: m", at(2027, 1, 1)).time.year == 2026
    assert parse("<34>Jan  1 00:00:01 h a: m", at(2026, 12, 31)).time.year == 2027
    assert parse("<34>Feb 29 01:00:00 h a: m", at(2028, 3, 1)).time.year == 2028


def test_json_by_any_name():
    line = {
        "ts": NOW.timestamp() * 1000,
        "severity": "FATAL",
        "msg": "gone",
        "logger": "cart",
        "n": {"a": [1]},
        "none": None,
    }
    event = parse(json.dumps(line), NOW)
    assert (event.time, event.level, event.message, event.app) == (NOW, "critical", "gone", "cart")
    assert event.details == {"n": '{"a": [1]}'}
    assert parse('{"message": 7}', NOW).time == NOW
    assert parse('{"message": "m", "time": "2026-11-16T15:26:12Z"}', at(2000, 1, 1)).time == NOW
    event = parse('{"message": "m", "level": "loud"}', NOW)
    assert (event.level, event.details) == ("info", {"level": "loud"})


def test_python():
    event = parse("2026-11-16 15:26:12,003 WARNING shop.cart: slow", NOW)
    assert (event.time, event.level) == (NOW.replace(microsecond=3000), "warning")
    assert (event.app, event.message) == ("shop.cart", "slow")


BAD = [
    "", "hello", '10.0.0.1 - - [16/Nov/2026:10:00:00 +0000] "GET', '1 2 3 [16/Foo/2026:10:00:00 +0000] "" 200 1',
    '1 2 3 [31/Feb/2026:10:00:00 +0000] "" 200 1', "2026/11/16 soon", "2026/13/16 15:26:12 [error] 7#8: x", "<192>1 - - - - - -", "<34>",
    "<34>1 soon h a p i - m", "<34>Foo 16 15:26:12 h a: m", "<34>Feb 30 15:26:12 h a: m", "{", "{}", '{"message": "m", "time": "soon"}',
    '{"message": "m", "time": 1e300}', '{"message": "m", "time": NaN}', '{"a": ' * 100_000, '{"message": ' + "9" * 10_000 + "}",
    "2026-11-16 15:26", "2026-99-16 15:26:12,003 INFO a: b", "<34>1 2026-11-16T15:26:12Z h a p i " + "[" * 10_000,
]  # fmt: skip


def test_what_cannot_be_read_is_malformed():
    for line in BAD:
        with pytest.raises(Malformed) as told:
            parse(line, NOW)
        assert len(str(told.value)) < 200


def test_ten_megabytes_are_read_or_refused():
    huge = "x" * 10_000_000
    access = '1 2 3 [16/Nov/2026:10:00:00 +0000] "'
    for begin in ('{"message": "', "<34>1 2026-11-16T15:26:12Z h a - - [", access):
        with pytest.raises(Malformed):
            parse(begin + huge, NOW)
    for begin in ("<34>Nov 16 15:26:12 h a: ", "2026-11-16 15:26:12,003 INFO a: "):
        assert parse(begin + huge, NOW).message == huge


def test_rows_are_made_of_any_line():
    record = {"key": b"\xff", "topic": "logs", "partition": 1, "offset": 7, "timestamp": 5}
    row = functions.parsed_row(
        {**record, "value": b'{"message": "\\ud800", "time": 1, "\\udfff": "a"}'}
    )
    assert (row["message"], row["time"], row["source"]) == ("?", 1_000_000, "\ufffd")
    assert (row["details"], row["_error"], row["value"]) == ({"?": "a"}, None, None)
    for value, reason in ((None, "a record without a line"), (b"{\xff", "no UTF-8 at byte 1")):
        row = functions.parsed_row({**record, "value": value})
        assert (row["_error"]["reason"], row["value"], row["offset"]) == (reason, value, 7)


# -- lines that belong together ---------------------------------------------------------------

HEAD = "2026-11-16 15:26:12,003 ERROR shop.cart: request failed"
STACK = [TRACEBACK, '  File "cart.py", line 7, in add', "    stock[sku]", "KeyError: 'sku'"]


def join(*lines):
    """All events, the last one ended by silence; state goes through text after each line."""
    joiner, ended = Joiner(), []
    for offset, line in enumerate(lines):
        done = joiner.take(line, NOW, offset)
        ended += [done] if done else []
        if joiner.current:
            joiner = Joiner(unpacked(packed(joiner.current)))
    return [each.closed() for each in [*ended, *([joiner.current] if joiner.current else [])]]


def test_a_traceback_is_part_of_the_line_before_it():
    first, second = join(HEAD, *STACK, "2026-11-16 15:26:13,000 INFO a: well")
    assert (first.level, first.message, first.stack) == (
        "error",
        "request failed",
        "\n".join(STACK),
    )
    assert (second.message, second.stack) == ("well", None)


def test_tracebacks_that_belong_together():
    chain = [
        *STACK,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *STACK,
    ]
    (event,) = join(HEAD, *chain)
    assert event.stack == "\n".join(chain)


def test_messages_of_exceptions_have_several_lines():
    (event,) = join(*STACK[:-1], "ValueError: bad", "expected: 1", "", "got: 2")
    assert event.message == "ValueError: bad"
    assert event.stack.endswith("got: 2")


def test_tracebacks_alone_are_events():
    events = join(*STACK, *STACK)
    assert [(each.level, each.message, each.time) for each in events] == [
        ("error", "KeyError: 'sku'", NOW)
    ] * 2


def test_a_line_that_belongs_nowhere_is_malformed_and_changes_nothing():
    joiner = Joiner()
    for line in ("what", "  what"):
        with pytest.raises(Malformed, match="belongs to no event"):
            joiner.take(line, NOW, 0)
    joiner.take(HEAD, NOW, 1)
    with pytest.raises(Malformed):
        joiner.take("what", NOW, 2)
    assert joiner.take("", NOW, 3) is None
    assert joiner.current.closed().message == "request failed"


def test_an_event_that_goes_on_and_on_is_bounded():
    for line, count in ((" x", LINES_MAX), (" " + "x" * CHARS_MAX, 0)):
        joiner = Joiner()
        for each in [HEAD, *[line] * count]:
            joiner.take(each, NOW, 0)
        with pytest.raises(Malformed):
            joiner.take(line, NOW, 1)
        assert len(joiner.current.more) == count


def test_a_message_may_be_empty():
    first, second = join(
        "2026-11-16 15:26:12,003 INFO a: ", "  more", "2026-11-16 15:26:13,000 INFO a: "
    )
    assert (first.message, first.stack) == ("", "  more")
    assert (second.message, second.stack) == ("", None)


def test_an_event_that_cannot_be_ended_is_refused_with_what_its_lines_said():
    joiner = Joiner()
    for line in (HEAD, *STACK):
        joiner.take(line, NOW, 7)
    place = ("logs", 1, b"shop-1")
    row = functions.ended_row(joiner.current, place)
    assert (row["message"], row["_error"]) == ("request failed", None)
    joiner.current.event.time = None
    row = functions.ended_row(joiner.current, place)
    assert row["_error"]["reason"].startswith("TypeError: ")
    assert row["value"].decode().splitlines() == ["request failed", *STACK]
    assert (row["topic"], row["partition"], row["offset"], row["source"]) == (
        "logs",
        1,
        7,
        "shop-1",
    )
