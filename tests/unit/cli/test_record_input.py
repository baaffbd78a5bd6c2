import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.record import Draft
from barnabas.cli.record_input import (
    InputError,
    LineForm,
    draft_of_whole,
    drafts_from_json,
    drafts_from_lines,
    parse_header,
    split_stream,
)


class Trickle(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def read1(self, _size=-1, /):
        return super().read(3)


@pytest.mark.parametrize(
    ("data", "delimiter", "expected"),
    [
        (b"", b"\n", []),
        (b"a\nb\n", b"\n", [b"a", b"b"]),
        (b"a\nb", b"\n", [b"a", b"b"]),
        (b"a\n\n", b"\n", [b"a", b""]),
        (b"a\r\n", b"\n", [b"a\r"]),
        (b"one--two--", b"--", [b"one", b"two"]),
        (b"a\0b", b"\0", [b"a", b"b"]),
    ],
)
def test_a_stream_is_cut_at_the_delimiter(data, delimiter, expected):
    assert list(split_stream(io.BytesIO(data), delimiter)) == expected
    assert list(split_stream(Trickle(data), delimiter)) == expected


@given(st.lists(st.binary().filter(lambda piece: b"--" not in piece and not piece.endswith(b"-"))))
def test_no_chunking_changes_the_pieces(pieces):
    data = b"".join(piece + b"--" for piece in pieces)
    assert list(split_stream(Trickle(data), b"--")) == data.split(b"--")[:-1]


def test_progress_counts_the_bytes_read():
    seen = []
    list(split_stream(Trickle(b"a\nbb\nccc\n"), b"\n", seen.append))
    assert sum(seen) == 9


@pytest.mark.parametrize(
    ("form", "line", "expected"),
    [
        (LineForm(), b"a:b", Draft(None, b"a:b")),
        (LineForm(key_separator=b":"), b"a:b:c", Draft(b"a", b"b:c")),
        (LineForm(key_separator=b":"), b"abc", Draft(None, b"abc")),
        (LineForm(key_separator=b":"), b":abc", Draft(b"", b"abc")),
        (LineForm(key_separator=b":", key=b"K"), b"abc", Draft(b"K", b"abc")),
        (LineForm(key_separator=b":", key=b"K"), b"a:bc", Draft(b"a", b"bc")),
        (LineForm(key_separator=b"::"), b"a::b", Draft(b"a", b"b")),
        (LineForm(null_marker=b"NULL"), b"NULL", Draft(None, None)),
        (LineForm(null_marker=b"NULL"), b"NULLS", Draft(None, b"NULLS")),
        (LineForm(key_separator=b":", null_marker=b"-"), b"-:-", Draft(None, None)),
        (LineForm(headers=(("h", b"1"),)), b"v", Draft(None, b"v", (("h", b"1"),))),
        (
            LineForm(headers_separator=b"\t", key_separator=b":", headers=(("h", b"1"),)),
            b"a=x,b=\tk:v",
            Draft(b"k", b"v", (("h", b"1"), ("a", b"x"), ("b", b""))),
        ),
        (LineForm(headers_separator=b"|"), b"|v", Draft(None, b"v")),
    ],
)
def test_a_line_is_cut_into_headers_key_and_value(form, line, expected):
    assert form.draft(line) == expected


def test_a_bad_line_is_named_by_its_number_after_the_good_ones():
    drafts = drafts_from_lines(iter([b"a=1|x", b"b=2|y", b"z"]), LineForm(headers_separator=b"|"))
    assert [next(drafts)[0], next(drafts)[0]] == [1, 2]
    with pytest.raises(InputError, match="line 3: no headers separator"):
        next(drafts)


def test_blank_lines_between_json_are_skipped_but_counted():
    lines = [b'{"value": "a"}', b"", b'{"value": "b", "key": "k"}']
    form = LineForm(key=b"K", headers=(("h", b"1"),))
    assert list(drafts_from_json(iter(lines), form)) == [
        (1, Draft(b"K", b"a", (("h", b"1"),))),
        (3, Draft(b"k", b"b", (("h", b"1"),))),
    ]


def test_a_whole_file_is_one_record():
    form = LineForm(key=b"k")
    assert draft_of_whole(io.BytesIO(b"a\nb\n"), form) == Draft(b"k", b"a\nb\n")


@pytest.mark.parametrize("text", [b"", b"name", b"=v", b"\xff=v"])
def test_a_header_needs_a_name_and_a_value(text):
    with pytest.raises(ValueError, match="header"):
        parse_header(text)
