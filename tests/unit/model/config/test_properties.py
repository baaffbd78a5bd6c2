"""Configuration files in Java's format. The expected values are what java.util.Properties gives."""

import pytest

from barnabas.model.config import ConfigProblem, parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("\n \t\n# comment\n  ! comment = 1\n", {}),
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a = 1\n\tb\t:\t2\nc\f=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a==1", {"a": "=1"}),
        ("a = = 1", {"a": "= 1"}),
        ("a  b = 1", {"a": "b = 1"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=trailing blanks  ", {"a": "trailing blanks  "}),
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("\\\n# comment\na=1", {"a": "1"}),
        ("a=1\n\\\n", {"a": "1"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
        ("a=\\ 1\\t\\n\\r\\f\\q\\\\", {"a": " 1\t\n\r\fq\\"}),
        ("a=\\u0041\\u00e9", {"a": "A\u00e9"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_files(text, values):
    assert parse_properties(text) == values


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u", "\\uxyzw=1"])
def test_a_broken_escape_is_named(text):
    with pytest.raises(ConfigProblem, match="four hexadecimal digits"):
        parse_properties(text)
