import json

import click
import pytest
import yaml

from barnabas.cli.output import counted, emit, meaning, size, table


def test_columns_line_up_and_numbers_lean_right():
    text = click.unstyle(table(("NAME", "N", "LIST"), [("a", 5, [1, 2]), ("long", 1200, [])]))
    assert text.splitlines() == [
        "NAME     N  LIST",
        "a        5  1,2",
        "long  1200  -",
    ]


def test_none_and_truth_have_words():
    text = click.unstyle(table(("A", "B"), [(None, True), ("x", False)]))
    assert text.splitlines()[1:] == ["-  yes", "x  no"]


def test_what_would_rewrite_the_screen_is_shown_instead():
    rows = [("a\x1b[2Jb", ["c\n", "d"]), ("é …", "\x9b\u202eno\x00")]
    lines = click.unstyle(table(("A", "B"), rows)).splitlines()
    assert lines[1:] == [r"a\x1b[2Jb  c\n,d", r"é …        \x9b\u202eno\x00"]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_carry_the_same(output, capsys):
    data = [{"topic": "é", "n": 1, "none": None, "text": "123"}]
    emit(data, output)
    printed = capsys.readouterr().out
    assert (json.loads if output == "json" else yaml.safe_load)(printed) == data


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "3600000", "1 hour"),
        ("retention.ms", "604800000", "7 days"),
        ("retention.ms", "-1", "no limit"),
        ("segment.ms", "90000", "1.5 minutes"),
        ("segment.ms", "100000", "about 1.7 minutes"),
        ("linger.ms", "5", None),
        ("flush.ms", "9223372036854775807", None),
        ("segment.bytes", "1073741824", "1 GiB"),
        ("retention.bytes", "-1", "no limit"),
        ("cleanup.policy", "delete", None),
        ("min.insync.replicas", "2000", None),
        ("retention.ms", None, None),
    ],
)
def test_settings_are_put_in_words(name, value, words):
    assert meaning(name, value) == words


def test_sizes():
    assert [size(count) for count in (0, 1, 1023, 1536, 5 << 20, (1 << 30) - 1)] == [
        "0 bytes", "1 byte", "1,023 bytes", "1.5 KiB", "5.0 MiB", "1.0 GiB",
    ]  # fmt: skip


def test_counting():
    assert [counted(n, "record") for n in (0, 1, 2000)] == [
        "0 records",
        "1 record",
        "2,000 records",
    ]


def test_one_endless_name_does_not_widen_the_table_for_all():
    endless = "x" * 30_000
    lines = click.unstyle(table(("ID", "N"), [("a", 1), (endless, 2)])).splitlines()
    assert len(lines[1]) < 300
    assert lines[2] == f"{endless}  2"
