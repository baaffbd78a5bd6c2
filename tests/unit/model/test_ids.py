"""Topic names, topic ids and the partition key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.ids import (
    METADATA_TOPIC_ID,
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
    folded,
    topic_id_from_text,
    topic_id_text,
    topic_name_problem,
)


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "__consumer_offsets", "x" * 249])
def test_legal_topic_names(name):
    assert topic_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("", "empty"),
        (".", "'.'"),
        ("..", "'..'"),
        ("x" * 250, "249"),
        ("a b", "not allowed"),
        ("a/b", "not allowed"),
        ("a\n", "not allowed"),
        ("caf\u00e9", "not allowed"),
        ("\u0661", "not allowed"),
    ],
)
def test_illegal_topic_names_say_why(name, part):
    problem = topic_name_problem(name)
    assert problem is not None
    assert part in problem


def test_names_that_differ_only_in_dot_and_underscore_collide():
    assert folded("a.b_c") == folded("a_b.c")
    assert folded("a.b") != folded("a-b")


@given(st.binary(min_size=16, max_size=16))
def test_topic_id_round_trip(raw):
    text = topic_id_text(TopicId(raw))
    assert len(text) == 22
    assert topic_id_from_text(text) == raw


def test_topic_id_text_is_kafkas():
    assert topic_id_text(ZERO_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert topic_id_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topic_id_text(TopicId(b"\xff" * 16)) == "_____________________w"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAA==",
        "AAAAAAAAAAAAAAAAAAAAAB",  # bits beyond the 128th
        "+AAAAAAAAAAAAAAAAAAAAA",
        "/AAAAAAAAAAAAAAAAAAAAA",
        " AAAAAAAAAAAAAAAAAAAAA",
        "\u00e9AAAAAAAAAAAAAAAAAAAAA",
    ],
)
def test_topic_id_text_is_read_strictly(text):
    with pytest.raises(ValueError, match="not a topic id"):
        topic_id_from_text(text)


def test_topic_partition_is_a_key_and_prints_as_its_directory():
    partition = TopicPartition("orders", 3)
    assert {partition: 1}["orders", 3] == 1
    assert str(partition) == "orders-3"
