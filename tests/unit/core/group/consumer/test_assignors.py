"""The server-side assignors: complete, balanced, sticky, and the same in every process."""

import itertools
import random

import pytest

from barnabas.core.group.consumer.assignors import MemberSpec, assign
from barnabas.core.group.topic_view import TopicInfo


def topics(**counts):
    return {
        name.encode(): TopicInfo(name.encode(), name, count, ()) for name, count in counts.items()
    }


def ids(names):
    return tuple(name.encode() for name in names)


def members(**subscriptions):
    return {name: MemberSpec(ids(read)) for name, read in subscriptions.items()}


def again(specs, target, **changes):
    """The same members with what they were given, then changed."""
    kept = {
        name: MemberSpec(spec.topics, target.get(name, {}), spec.instance_id, spec.rack_id)
        for name, spec in specs.items()
    }
    kept.update(changes)
    return {name: spec for name, spec in kept.items() if spec is not None}


def load(assignment):
    return sum(map(len, assignment.values()))


def check_complete(specs, known, target):
    owners = {}
    for member_id, assignment in target.items():
        for topic_id, partitions in assignment.items():
            assert topic_id in specs[member_id].topics
            assert list(partitions) == sorted(set(partitions))
            assert partitions
            for partition in partitions:
                assert owners.setdefault((topic_id, partition), member_id) == member_id
    read = {topic_id for spec in specs.values() for topic_id in spec.topics}
    assert set(owners) == {(one, n) for one in read for n in range(known[one].partition_count)}
    assert set(target) == set(specs)


def moved(before, after):
    def pairs(target):
        return {
            (topic, partition): member
            for member, assignment in target.items()
            for topic, partitions in assignment.items()
            for partition in partitions
        }

    old, new = pairs(before), pairs(after)
    return [one for one in old if one in new and new[one] != old[one]]


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_nobody_gets_nothing(name):
    assert assign(name, {}, {}) == {}
    assert assign(name, members(a=[]), {}) == {"a": {}}


# Range


def test_range_gives_runs_and_the_first_members_one_more():
    target = assign("range", members(b="t", a="t", c="t"), topics(t=8))
    assert target == {"a": {b"t": (0, 1, 2)}, "b": {b"t": (3, 4, 5)}, "c": {b"t": (6, 7)}}


def test_range_gives_the_same_numbers_of_topics_of_one_size():
    target = assign("range", members(a="tu", b="tu"), topics(t=4, u=4))
    assert target["a"] == {b"t": (0, 1), b"u": (0, 1)}
    assert target["b"] == {b"t": (2, 3), b"u": (2, 3)}


def test_range_leaves_members_idle_when_there_are_more_than_partitions():
    target = assign("range", members(a="t", b="t", c="t"), topics(t=2))
    assert target == {"a": {b"t": (0,)}, "b": {b"t": (1,)}, "c": {}}


def test_range_puts_static_members_first_by_instance_id():
    specs = {
        "z": MemberSpec(ids("t"), instance_id="1"),
        "a": MemberSpec(ids("t")),
        "y": MemberSpec(ids("t"), instance_id="2"),
    }
    target = assign("range", specs, topics(t=3))
    assert [target[one][b"t"] for one in "zya"] == [(0,), (1,), (2,)]


def test_range_shares_each_topic_among_its_own_subscribers():
    target = assign("range", members(a="t", b="tu", c="u"), topics(t=3, u=2))
    assert target == {"a": {b"t": (0, 1)}, "b": {b"t": (2,), b"u": (0,)}, "c": {b"u": (1,)}}


RACKS = (("north",), ("south",), ("north",), ("south",))


def in_racks(**racks):
    return {name: MemberSpec(ids("t"), rack_id=rack) for name, rack in racks.items()}


def test_range_takes_partitions_of_the_members_rack():
    known = {b"t": TopicInfo(b"t", "t", 4, RACKS)}
    target = assign("range", in_racks(a="south", b="north"), known)
    assert target == {"a": {b"t": (1, 3)}, "b": {b"t": (0, 2)}}


def test_range_keeps_its_sizes_when_racks_do_not_fit():
    known = {b"t": TopicInfo(b"t", "t", 4, RACKS)}
    target = assign("range", in_racks(a="south", b="south", c=None), known)
    assert target == {"a": {b"t": (1, 3)}, "b": {b"t": (0,)}, "c": {b"t": (2,)}}


def test_range_keeps_the_same_numbers_of_topics_of_one_size_within_racks():
    known = {
        b"t": TopicInfo(b"t", "t", 4, (("north", "south"),) * 4),
        b"u": TopicInfo(b"u", "u", 4, RACKS),
    }
    specs = {
        name: MemberSpec(ids("tu"), rack_id=rack) for name, rack in [("a", "south"), ("b", "north")]
    }
    target = assign("range", specs, known)
    assert target["a"] == {b"t": (1, 3), b"u": (1, 3)}


@pytest.mark.parametrize(
    ("racks", "rack_ids"),
    [
        (RACKS, {"a": None, "b": None}),  # members say nothing
        ((("north", "south"),) * 4, {"a": "south", "b": "north"}),  # every partition is everywhere
        ((), {"a": "south", "b": "north"}),  # brokers say nothing
        (RACKS, {"a": "east", "b": "west"}),  # nobody is near
    ],
)
def test_range_is_plain_where_racks_make_no_difference(racks, rack_ids):
    known = {b"t": TopicInfo(b"t", "t", 4, racks)}
    assert assign("range", in_racks(**rack_ids), known) == {
        "a": {b"t": (0, 1)},
        "b": {b"t": (2, 3)},
    }


def test_a_partition_in_two_racks_is_given_once():
    known = {b"t": TopicInfo(b"t", "t", 3, (("north", "south"), ("north",), ("south",)))}
    target = assign("range", in_racks(a="north", b="south", c="south"), known)
    assert target == {"a": {b"t": (0,)}, "b": {b"t": (2,)}, "c": {b"t": (1,)}}


# Uniform, one subscription


def test_uniform_shares_evenly_across_topics():
    known = topics(t=3, u=2)
    specs = members(a="tu", b="tu")
    target = assign("uniform", specs, known)
    check_complete(specs, known, target)
    assert sorted(load(one) for one in target.values()) == [2, 3]


def test_uniform_moves_only_what_a_new_member_needs():
    known = topics(t=6)
    specs = members(a="t", b="t")
    first = assign("uniform", specs, known)
    more = again(specs, first, c=MemberSpec(ids("t")))
    second = assign("uniform", more, known)
    check_complete(more, known, second)
    assert [load(second[one]) for one in "abc"] == [2, 2, 2]
    assert len(moved(first, second)) == 2


def test_uniform_gives_what_a_gone_member_had_to_the_others():
    known = topics(t=6)
    specs = members(a="t", b="t", c="t")
    first = assign("uniform", specs, known)
    fewer = again(specs, first, c=None)
    second = assign("uniform", fewer, known)
    check_complete(fewer, known, second)
    assert moved({one: first[one] for one in "ab"}, second) == []


def test_uniform_lets_a_member_keep_the_one_more_it_has():
    known = topics(t=3)
    specs = members(a="t", b="t")
    had = {"a": {b"t": (0,)}, "b": {b"t": (1, 2)}}
    assert assign("uniform", again(specs, had), known) == had


def test_uniform_drops_topics_that_nobody_reads_any_more():
    known = topics(t=2, u=2)
    specs = members(a="t", b="t")
    had = {"a": {b"u": (0, 1), b"t": (0,)}, "b": {b"t": (1,)}}
    assert assign("uniform", again(specs, had), known) == {"a": {b"t": (0,)}, "b": {b"t": (1,)}}


def test_uniform_does_not_keep_what_is_not_there_or_somebody_elses():
    known = topics(t=2)
    specs = members(a="t", b="t")
    had = {"a": {b"t": (1, 7)}, "b": {b"t": (1,)}}
    assert assign("uniform", again(specs, had), known) == {"a": {b"t": (1,)}, "b": {b"t": (0,)}}


def test_uniform_gives_up_whole_topics_when_there_is_no_room():
    known = topics(t=1, u=1)
    specs = members(a="tu", b="tu")
    had = {"a": {b"t": (0,), b"u": (0,)}}
    assert assign("uniform", again(specs, had), known) == {"a": {b"t": (0,)}, "b": {b"u": (0,)}}


# Uniform, subscriptions that differ


def test_uniform_balances_members_that_read_different_topics():
    known = topics(t=3, u=3)
    specs = members(a="t", b="tu", c="u")
    target = assign("uniform", specs, known)
    check_complete(specs, known, target)
    assert sorted(load(one) for one in target.values()) == [2, 2, 2]


def test_uniform_takes_from_the_full_when_subscriptions_differ():
    known = topics(t=4, u=4)
    specs = members(a="tu", b="tu", c="t")
    had = {"a": {b"t": (0, 1, 2, 3)}, "b": {b"u": (0, 1, 2, 3)}, "c": {b"u": (0,), b"t": (9,)}}
    more = again(specs, had)
    target = assign("uniform", more, known)
    check_complete(more, known, target)
    assert max(map(load, target.values())) - min(map(load, target.values())) <= 1


def test_uniform_leaves_a_topic_with_one_reader_alone():
    known = topics(t=5, u=1)
    specs = members(a="t", b="u")
    target = assign("uniform", specs, known)
    assert target == {"a": {b"t": (0, 1, 2, 3, 4)}, "b": {b"u": (0,)}}


def test_uniform_stops_when_no_move_helps():
    # a is the fullest and has nothing of u to give; the readers of u are even.
    known = topics(t=6, u=2)
    specs = members(a="tu", b="u", c="u")
    had = {"a": {b"t": (0, 1, 2, 3, 4, 5)}, "b": {b"u": (0,)}, "c": {b"u": (1,)}}
    assert assign("uniform", again(specs, had), known) == had


def test_uniform_takes_the_last_that_a_full_member_can_give():
    known = topics(t=5, u=1)
    specs = members(a="tu", b="u")
    had = {"a": {b"t": (0, 1, 2, 3, 4), b"u": (0,)}}
    target = assign("uniform", again(specs, had), known)
    assert target == {"a": {b"t": (0, 1, 2, 3, 4)}, "b": {b"u": (0,)}}


def test_uniform_gives_up_perfection_after_some_rounds():
    """Neighbours share one topic each, and the load must travel a long way: complete in any case."""
    names = [chr(ord("A") + n) for n in range(24)]
    known = topics(**{name: 3000 if name == "X" else 200 for name in names})
    specs = {
        f"m{n:02}": MemberSpec(ids(names[max(0, n - 1) : n + 1])) for n in range(len(names) + 1)
    }
    had = {
        f"m{n + 1:02}": {name.encode(): tuple(range(known[name.encode()].partition_count))}
        for n, name in enumerate(names)
    }
    more = again(specs, had)
    check_complete(more, known, assign("uniform", more, known))


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("seed", range(30))
def test_any_group_is_served_completely_and_a_second_time_the_same(name, seed):
    dice = random.Random(seed)
    known = topics(**{f"t{n}": dice.randint(1, 12) for n in range(dice.randint(1, 6))})
    kinds = [
        tuple(sorted(dice.sample(sorted(known), dice.randint(1, len(known))))) for _ in range(3)
    ]
    specs = {f"m{n}": MemberSpec(dice.choice(kinds)) for n in range(dice.randint(1, 12))}
    target = assign(name, specs, known)
    check_complete(specs, known, target)
    assert assign(name, again(specs, target), known) == target
    if name == "uniform":
        by_kind = {}
        for member_id, spec in specs.items():
            by_kind.setdefault(spec.topics, []).append(load(target[member_id]))
        assert all(max(loads) - min(loads) <= 1 for loads in by_kind.values())


def test_uniform_needs_no_more_steps_for_a_thousand_members_than_they_have_partitions():
    """A count of steps, not of time: each member and partition is looked at a bounded number of times."""
    looks = itertools.count()

    class Counting(dict):
        def __getitem__(self, key):
            next(looks)
            return super().__getitem__(key)

    known = Counting(topics(t=1000, u=1000))
    specs = {f"m{n}": MemberSpec(ids("tu") if n % 2 else ids("t")) for n in range(1000)}
    target = assign("uniform", specs, known)
    assert sum(map(load, target.values())) == 2000
    assert next(looks) < 100
