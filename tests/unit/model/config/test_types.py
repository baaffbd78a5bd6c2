"""Reading and writing single values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.config.types import (
    NOT_EMPTY,
    THROTTLED_REPLICAS,
    ZOOKEEPER_CONNECT,
    Allowed,
    ConfigProblem,
    Kind,
    Setting,
    at_least,
    between,
    each_of,
    one_of,
    one_of_any_case,
    only_empty,
    parse,
    render,
    settings,
)


def setting(kind, allowed=None):
    extra = {} if allowed is None else {"allowed": allowed}
    return Setting("some.setting", kind, None, "for tests", **extra)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, "true", True),
        (Kind.BOOLEAN, " FALSE ", False),
        (Kind.INT, "+5", 5),
        (Kind.INT, "-2147483648", -(2**31)),
        (Kind.SHORT, "32767", 32767),
        (Kind.LONG, " 9223372036854775807\n", 2**63 - 1),
        (Kind.DOUBLE, "1e3", 1000.0),
        (Kind.DOUBLE, ".5", 0.5),
        (Kind.DOUBLE, "-2.", -2.0),
        (Kind.STRING, "  a b ", "a b"),
        (Kind.CLASS, "some.Class", "some.Class"),
        (Kind.PASSWORD, "secret", "secret"),
        (Kind.LIST, "", ()),
        (Kind.LIST, " a , b,c ", ("a", "b", "c")),
        (Kind.LIST, "a,b,a", ("a", "b")),
        (Kind.LIST, "a,,b", ("a", "", "b")),
    ],
)
def test_values_are_read_as_kafka_reads_them(kind, text, value):
    read = parse(setting(kind), text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.BOOLEAN, "yes"),
        (Kind.BOOLEAN, ""),
        (Kind.INT, ""),
        (Kind.INT, "1e3"),
        (Kind.INT, "1_000"),
        (Kind.INT, "\u0661"),
        (Kind.INT, "0x10"),
        (Kind.INT, "2147483648"),
        (Kind.SHORT, "32768"),
        (Kind.SHORT, "-32769"),
        (Kind.LONG, "9223372036854775808"),
        (Kind.LONG, "9" * 5000),
        (Kind.DOUBLE, "nan"),
        (Kind.DOUBLE, "inf"),
        (Kind.DOUBLE, "1e999"),
        (Kind.DOUBLE, "1_0"),
        (Kind.DOUBLE, "."),
    ],
)
def test_what_is_no_value_is_refused_by_name(kind, text):
    with pytest.raises(ConfigProblem, match=r"not a value for some\.setting; allowed is") as caught:
        parse(setting(kind), text)
    assert caught.value.name == "some.setting"
    assert caught.value.message == str(caught.value)


@pytest.mark.parametrize(
    ("kind", "allowed", "good", "bad"),
    [
        (Kind.INT, at_least(3), ["3", "4"], ["2", "-9"]),
        (Kind.INT, between(1, 9, also=-1), ["1", "9", "-1"], ["0", "10", "-2"]),
        (Kind.DOUBLE, between(0, 1), ["0", "1", "0.5"], ["1.01", "-0.01"]),
        (Kind.STRING, one_of("a", "b"), ["a", " b "], ["A", "", "c"]),
        (Kind.STRING, one_of_any_case("on", "off"), ["ON", "off"], ["onn", ""]),
        (Kind.LIST, each_of("a", "b"), ["", "a", "b,a", "a,a"], ["a,c", "A", "a,"]),
        (Kind.LIST, each_of("a", empty=False), ["a"], ["", "b"]),
        (Kind.LIST, THROTTLED_REPLICAS, ["", "*", "0:1", "0:1,1:2"], ["x", "*,0:1", "0:", "0:1:2"]),
        (Kind.STRING, only_empty("not there"), ["", "  "], ["x"]),
        (
            Kind.STRING,
            ZOOKEEPER_CONNECT,
            ["zk", "zk:2181", "a:1,b:2/root", "[::1]:2181/a/b/", "a:65535"],
            [
                "",
                "/root",
                "a:1/root,b:2/root",
                "a:1,,b:2",
                "a:port",
                "a:0",
                "a:65536",
                "a:1/x y",
                "a:1//",
            ],
        ),
        (Kind.STRING, NOT_EMPTY, ["x"], ["", " "]),
    ],
)
def test_bounds(kind, allowed, good, bad):
    bounded = setting(kind, allowed)
    for text in good:
        parse(bounded, text)
    for text in bad:
        with pytest.raises(ConfigProblem) as caught:
            parse(bounded, text)
        assert allowed.text in caught.value.message
        assert f"'{text}'" in caught.value.message


def test_a_refused_password_is_not_repeated():
    never = Allowed("nothing", lambda _value: False)
    with pytest.raises(ConfigProblem) as caught:
        parse(setting(Kind.PASSWORD, never), "hunter2")
    assert "hunter2" not in str(caught.value)
    assert setting(Kind.PASSWORD).sensitive
    assert not setting(Kind.STRING).sensitive


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        ("text", "text"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.0, "0.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-2.5e-9, "-2.5E-9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_values_are_written_as_java_writes_them(value, text):
    assert render(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_reads_as_itself(number):
    assert parse(setting(Kind.DOUBLE), render(number)) == number


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_written_whole_number_reads_as_itself(number):
    assert parse(setting(Kind.LONG), render(number)) == number


def test_a_table_refuses_a_name_twice():
    line = setting(Kind.INT)
    assert settings(line) == {"some.setting": line}
    with pytest.raises(AssertionError):
        settings(line, line)
