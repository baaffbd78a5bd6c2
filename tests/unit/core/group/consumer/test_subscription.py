"""Names, regular expressions and the shape of topics."""

import pytest
from consumer_kit import Topics

from barnabas.core.group.consumer.requests import RefusedError
from barnabas.core.group.consumer.subscription import (
    Subscriptions,
    TopicHashes,
    compile_pattern,
    resolve_patterns,
)
from barnabas.model.errors import ErrorCode


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        "[a",
        "a**",
        r"(a)\1",  # back-reference
        "(?=a)b",  # look-ahead
        "(?<!a)b",
        "a{1001}",
        "((a{100}){100}){100}",
        "\\",
        "\ud800",
        "(.{200}){5}" * 3,
        "(.{200}){5}" * 400,
    ],
)
def test_what_is_no_regular_expression_or_too_much_of_one_is_refused(regex, capfd):
    with pytest.raises(RefusedError) as refusal:
        compile_pattern(regex)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "is not a valid regular expression" in refusal.value.message
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("regex", [r"\C", r"a\\\C", r"\Qa\E\C"])
def test_no_pattern_matches_half_a_character(regex):
    with pytest.raises(RefusedError) as refusal:
        compile_pattern(regex)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("regex", "name"), [(r"\\C", r"\C"), (r"\Q\C\E", r"\C"), (r"\Q\C", r"\C"), ("C", "C")]
)
def test_the_letter_alone_is_fine(regex, name):
    assert compile_pattern(regex).fullmatch(name)


def test_a_pattern_that_blows_up_elsewhere_does_not_here():
    matches = compile_pattern("(a+)+b").fullmatch
    assert matches("a" * 240) is None


def test_nothing_is_captured_however_many_parentheses_there_are():
    """With 900 of them RE2 would take 20 ms for a name, and the broker would stand still for all its topics."""
    pattern = compile_pattern("(" * 900 + "a*)*" + ")" * 899)
    assert pattern.groups == 0
    assert pattern.fullmatch("a" * 240)
    assert pattern.programsize < 10


def test_the_whole_name_must_match():
    names = ["orders", "orders-eu", "my-orders", "payments"]
    found = resolve_patterns(["orders.*", "(?i)ORDERS|payments", "x"], names, None)
    assert found == {
        "orders.*": ("orders", "orders-eu"),
        "(?i)ORDERS|payments": ("orders", "payments"),
        "x": (),
    }


def test_topics_that_may_not_be_seen_do_not_match():
    found = resolve_patterns([".*"], ["b", "secret", "a"], lambda name: name != "secret")
    assert found == {".*": ("a", "b")}


def test_counts_come_and_go():
    counts = Subscriptions()
    counts.add_member(["a", "b"], "c.*")
    counts.add_member(["a"], None)
    counts.add_matches(["c1", "a"])
    tried = counts.copy()
    tried.add_member(["a", "b"], "c.*", -1)
    tried.add_matches(["c1", "a"], -1)
    assert (tried.by_name, tried.by_regex, tried.regexes) == ({"a": 1}, {}, {})
    assert sorted(tried.topics()) == ["a"]
    assert sorted(counts.topics()) == ["a", "b", "c1"]
    assert "c1" in counts
    assert "c1" not in tried


def test_the_hash_follows_the_shape_of_the_topics_that_exist():
    topics = Topics(a=1, b=2)
    hashes = TopicHashes(topics)
    assert hashes.of_group([]) == hashes.of_group(["nowhere"]) == 0
    both = hashes.of_group(["b", "a", "nowhere"])
    assert both == hashes.of_group(["a", "b"]) != hashes.of_group(["a"])
    assert -(2**63) <= both < 2**63
    topics.grow("a", 2)
    assert hashes.of_group(["a", "b"]) == both, "remembered until it is told"
    hashes.forget(["a", "nowhere"])
    grown = hashes.of_group(["a", "b"])
    assert grown != both
    topics.delete("a")
    topics.make("a", 2)
    hashes.forget(["a"])
    assert hashes.of_group(["a", "b"]) != grown, "another topic of the same name"
    again = TopicHashes(topics)
    assert again.of_group(["a", "b"]) == hashes.of_group(["a", "b"])
    topics.make("a", 2, (("north",), ("south",)))
    racked = TopicHashes(topics).of_group(["a"])
    topics.make("a", 2, (("south",), ("north",)))
    assert TopicHashes(topics).of_group(["a"]) != racked
