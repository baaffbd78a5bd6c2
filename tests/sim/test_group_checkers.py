"""Each checker of groups finds what it is for: a broken promise planted in the coordinator, or told to the history directly."""

import pytest

from barnabas.broker import shard_loading
from barnabas.broker.coordinators import TOPIC
from barnabas.broker.node import Node
from barnabas.broker.replicas import Replica
from barnabas.core.group.classic.group import ClassicGroup
from barnabas.core.group.classic.rebalance import Rebalances
from barnabas.core.group.classic.sync import Syncs
from barnabas.core.group.consumer import reconcile
from barnabas.core.group.consumer.deadlines import ConsumerDeadlines, Watch
from barnabas.core.group.consumer.group import ConsumerGroup
from barnabas.core.group.offsets import Offsets
from barnabas.core.group.records import OffsetCommitted
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.errors import ErrorCode
from barnabas.sim.checkers import Cut, History
from barnabas.sim.group_checkers import (
    NO_OFFSET,
    GroupHistory,
    Kind,
    LoneGroupHistory,
    Standing,
    Who,
)
from barnabas.sim.groups import draw_plan
from barnabas.sim.machine import Machine
from barnabas.sim.run import run_seed
from barnabas.sim.violation import Violation
from barnabas.sim.world import Scheduler

SEEDS = 400


def first_violation(*checkers, follows=(), flushed=False, start=0):
    """The first seed with groups that breaks one of these promises; no other may break, but for those that follow from it.

    `start` saves the time for seeds that are known to miss it.
    """
    for seed in range(start, start + SEEDS):
        plan = draw_plan(Scheduler(seed).chance("groups"))
        if plan.has_groups and (plan.flushed or not flushed):
            violation = run_seed(seed).violation
            if violation is not None and violation.checker not in follows:
                assert violation.checker in checkers, violation
                return violation
    raise AssertionError(f"{SEEDS} seeds did not find it")


# Planted in the coordinator


def test_a_coordinator_that_gives_everybody_the_same_is_found(monkeypatch):
    assign = Syncs._assign

    def generous(self, turn, group, assignments):
        most = max(assignments.values(), key=len, default=b"")
        assign(self, turn, group, dict.fromkeys(assignments, most))

    monkeypatch.setattr(Syncs, "_assign", generous)
    first_violation("one owner")


def test_a_coordinator_that_does_not_wait_for_what_is_given_up_is_found(monkeypatch):
    monkeypatch.setattr(reconcile, "_owns_any", lambda owned, partitions: False)
    first_violation("one owner", "fenced members are refused", start=640)


def test_a_coordinator_that_expels_too_early_is_found(monkeypatch):
    keep = Rebalances.keep_session
    monkeypatch.setattr(
        Rebalances, "keep_session", lambda self, group, member, now_ms: keep(self, group, member, now_ms - 250)
    )  # fmt: skip
    found = first_violation("one owner", follows=("groups converge", "work gets done"))
    assert "good standing" in found.what


def test_a_classic_group_that_lets_anybody_commit_is_found(monkeypatch):
    monkeypatch.setattr(ClassicGroup, "validate_offset_commit", lambda self, *asked: ErrorCode.NONE)
    first_violation("fenced members are refused")


def test_a_classic_group_that_looks_at_no_generation_is_found(monkeypatch):
    monkeypatch.setattr(
        ClassicGroup,
        "check_generation",
        lambda self, member_id, instance_id, _generation: self.check_member(member_id, instance_id),
    )
    first_violation("fenced members are refused", "one owner", start=300)


def test_a_consumer_group_that_lets_anybody_commit_is_found(monkeypatch):
    monkeypatch.setattr(
        ConsumerGroup, "validate_offset_commit", lambda self, *asked: ErrorCode.NONE
    )
    monkeypatch.setattr(
        ConsumerGroup, "validate_partition_commit", lambda self, *asked: ErrorCode.NONE
    )
    first_violation("fenced members are refused")


def test_a_coordinator_that_forgets_a_commit_is_found(monkeypatch):
    replay, calls = Offsets.replay, [0]

    def forgetful(self, *record):
        calls[0] += 1
        if calls[0] % 20:
            replay(self, *record)

    monkeypatch.setattr(Offsets, "replay", forgetful)
    first_violation("commits are kept")


def test_a_coordinator_that_does_not_load_every_commit_is_found(monkeypatch):
    decode, calls = shard_loading._decode, [0]

    def forgetful(data, header, decode_one):
        for entry in decode(data, header, decode_one):
            calls[0] += isinstance(entry[2], OffsetCommitted)
            if not isinstance(entry[2], OffsetCommitted) or calls[0] % 10:
                yield entry

    monkeypatch.setattr(shard_loading, "_decode", forgetful)
    first_violation("commits are kept")


def test_a_commit_that_is_acknowledged_before_the_sync_is_found(monkeypatch):
    start = Replica._start_flush

    def pretend(self, **how):
        if self.key.topic != TOPIC:
            start(self, **how)
            return
        waiters, self._flush_waiters = self._flush_waiters, []
        for waiter in waiters:
            self._background.run(lambda: None, waiter)

    monkeypatch.setattr(Replica, "_start_flush", pretend)
    first_violation("commits are kept", follows=("one owner",), flushed=True, start=110)


def test_members_that_commit_before_they_process_are_found(monkeypatch):
    """Each batch is processed when the next one comes, if the member still has its partitions then."""
    process, release, held = GroupHistory.on_processed, GroupHistory.on_released, {}

    def late(self, group_id, key, records, life):
        before = held.get((group_id, key))
        held[group_id, key] = (records, life)
        if before is not None:
            process(self, group_id, key, *before)

    def forget(self, group_id, identity, keys=None):
        release(self, group_id, identity, keys)
        if keys is None:
            held.clear()

    monkeypatch.setattr(GroupHistory, "on_processed", late)
    monkeypatch.setattr(GroupHistory, "on_released", forget)
    first_violation("nothing is skipped")


def test_a_coordinator_that_misses_nobody_is_found(monkeypatch):
    monkeypatch.setattr(Rebalances, "on_session_end", lambda self, turn, group, member: None)
    expect = ConsumerDeadlines.expect

    def patient(self, key, deadline_ms):
        if key[0] is not Watch.SESSION:
            expect(self, key, deadline_ms)

    monkeypatch.setattr(ConsumerDeadlines, "expect", patient)
    found = first_violation("work gets done")
    assert "g0" in found.what or "g1" in found.what


def test_a_group_that_does_not_come_to_rest_is_found(monkeypatch):
    heartbeat, calls = Syncs.heartbeat, [0]

    def confused(self, group, request, now_ms):
        calls[0] += 1
        answer = heartbeat(self, group, request, now_ms)
        return answer if calls[0] % 25 else ErrorCode.UNKNOWN_MEMBER_ID

    monkeypatch.setattr(Syncs, "heartbeat", confused)
    first_violation("groups converge")


def test_a_refusal_that_no_member_deserves_is_found(monkeypatch):
    monkeypatch.setattr(
        Syncs, "heartbeat", lambda self, group, request, now_ms: ErrorCode.INVALID_REQUEST
    )
    first_violation("good group requests are taken")


# Told to the history

KEY, OTHER = ("t", 0), ("t", 1)
ANNA, BOB = Who("anna", "a1"), Who("bob", "b1")
TIMEOUT_US = 100_000


class Story:
    """A group, and time that goes on with everything that is told."""

    def __init__(self, kind=Kind.CLASSIC, *, flushed=False):
        self.scheduler = Scheduler(0)
        config = BrokerConfig({"log.dirs": "/data", "broker.id": "1"})
        machine = Machine(self.scheduler, config, Node)
        self.history = History(failures_explained=False)
        self.history.add_partition(KEY, flushed=False)
        self.groups = LoneGroupHistory(self.history, machine, 1, flushed=flushed)
        self.groups.add_group("g", [KEY, OTHER], kind)
        self.life = 1

    @property
    def now_us(self):
        return self.scheduler.now_us

    def wait(self, duration_us=10):
        self.scheduler.run(lambda: False, self.now_us + duration_us)

    def assign(self, who, generation, *keys, classic=False):
        sent_us = self.now_us
        self.wait()
        standing = Standing(sent_us, self.life, TIMEOUT_US, classic)
        self.groups.on_assigned("g", who, generation, keys, standing)
        self.wait()

    def send(self, who, generation, offset):
        self.wait()
        return self.groups.on_committing("g", KEY, who, generation, offset, self.life)

    def acknowledge(self, commit):
        self.wait()
        self.groups.on_committed("g", KEY, commit)

    def commit(self, who, generation, offset):
        commit = self.send(who, generation, offset)
        self.acknowledge(commit)
        return commit

    def read(self, offset):
        self.wait()
        sent_us = self.now_us
        self.wait()
        self.groups.on_offset("g", KEY, "reader", offset, sent_us)

    def lose_power(self):
        self.history.ledgers[TOPIC, 0].cuts.append(Cut(self.life, 5))
        self.life += 1


def broken(checker):
    return pytest.raises(Violation, match=f"^{checker}: ")


def test_the_last_commit_is_read_back():
    story = Story()
    story.read(NO_OFFSET)
    story.commit(ANNA, 1, 5)
    story.commit(ANNA, 1, 8)
    story.read(8)
    with broken("commits are kept"):
        story.read(5)


@pytest.mark.parametrize("offset", [NO_OFFSET, 7])
def test_what_nobody_committed_is_not_read(offset):
    story = Story()
    story.commit(ANNA, 1, 5)
    with broken("commits are kept"):
        story.read(offset)


def test_a_commit_without_an_answer_may_count_at_any_time():
    story = Story()
    story.commit(ANNA, 1, 5)
    story.send(ANNA, 1, 8)
    story.read(5)
    story.read(8)
    story.commit(ANNA, 1, 9)
    story.read(8)
    story.read(9)


def test_a_commit_without_an_answer_does_not_outlive_its_generation():
    story = Story()
    story.send(ANNA, 1, 8)
    story.assign(BOB, 2, KEY)
    story.commit(BOB, 2, 3)
    with broken("commits are kept"):
        story.read(8)


def test_a_commit_without_an_answer_does_not_outlive_the_node():
    story = Story()
    story.send(ANNA, 1, 8)
    story.life += 1
    story.commit(ANNA, 1, 5)
    story.read(5)
    story.commit(ANNA, 1, 6)
    with broken("commits are kept"):
        story.read(8)


def test_a_refused_commit_does_not_count():
    story = Story()
    story.send(ANNA, 1, 8).is_refused = True
    story.read(NO_OFFSET)
    with broken("commits are kept"):
        story.read(8)


def test_a_power_loss_may_take_a_commit_unless_it_was_synced():
    story = Story()
    story.commit(ANNA, 1, 5)
    story.lose_power()
    story.read(NO_OFFSET)
    story = Story(flushed=True)
    story.commit(ANNA, 1, 5)
    story.lose_power()
    with broken("commits are kept"):
        story.read(NO_OFFSET)


def test_a_partition_has_one_owner_in_a_generation():
    story = Story()
    story.assign(ANNA, 1, KEY)
    story.assign(BOB, 1, OTHER)
    story.wait(TIMEOUT_US)
    with broken("one owner"):
        story.assign(BOB, 1, KEY)


def test_a_static_member_may_take_its_own_place():
    story = Story()
    story.assign(ANNA, 1, KEY)
    story.assign(Who("anna", "a2"), 1, KEY)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_partition_is_not_taken_from_a_member_in_good_standing(kind):
    story = Story(kind)
    story.assign(ANNA, 1, KEY)
    story.wait(TIMEOUT_US // 2)
    story.groups.on_standing("g", "anna", Standing(story.now_us, 1, TIMEOUT_US))
    story.wait(TIMEOUT_US * 3 // 4)
    with broken("one owner"):
        story.assign(BOB, 2, KEY)


def test_a_classic_member_of_a_mixed_group_may_lose_what_it_has():
    story = Story(Kind.MIXED)
    story.assign(ANNA, 1, KEY, classic=True)
    story.assign(BOB, 2, KEY)
    with broken("one owner"):
        story.assign(ANNA, 3, KEY, classic=True)


def test_a_partition_is_taken_from_one_who_was_silent():
    story = Story()
    story.assign(ANNA, 1, KEY)
    story.wait(TIMEOUT_US)
    story.assign(BOB, 2, KEY)


def test_a_member_is_not_in_good_standing_with_a_coordinator_that_loads():
    story = Story()
    story.assign(ANNA, 1, KEY)
    story.wait(TIMEOUT_US)
    story.groups.on_standing("g", "anna", Standing(story.now_us, 2, TIMEOUT_US))
    story.assign(BOB, 2, KEY)
    story.wait(TIMEOUT_US)
    story.groups.on_standing("g", "bob", Standing(story.now_us, 1, TIMEOUT_US))
    with broken("one owner"):
        story.assign(ANNA, 3, KEY)


def test_a_partition_that_was_given_up_is_free():
    story = Story(Kind.CONSUMER)
    story.assign(ANNA, 1, KEY, OTHER)
    story.groups.on_released("g", "anna", [KEY])
    story.assign(BOB, 2, KEY)
    with broken("one owner"):
        story.assign(BOB, 2, OTHER)


def test_an_assignment_that_a_power_loss_took_binds_nobody():
    story = Story()
    story.assign(ANNA, 1, KEY)
    story.lose_power()
    story.assign(BOB, 1, KEY)


def test_a_member_of_an_older_generation_commits_nothing():
    story = Story()
    story.assign(ANNA, 1, KEY)
    under_way = story.send(ANNA, 1, 3)
    story.wait(TIMEOUT_US)
    story.assign(BOB, 2, OTHER)
    story.acknowledge(under_way)
    with broken("fenced members are refused"):
        story.commit(ANNA, 1, 4)


@pytest.mark.parametrize("kind", [Kind.CONSUMER, Kind.MIXED])
def test_a_member_whose_partition_another_got_commits_nothing_for_it(kind):
    story = Story(kind)
    story.assign(ANNA, 1, KEY)
    story.wait(TIMEOUT_US)
    story.assign(BOB, 2, OTHER)
    story.commit(ANNA, 1, 4)
    story.assign(BOB, 3, OTHER, KEY)
    with broken("fenced members are refused"):
        story.commit(ANNA, 1, 5)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_static_member_whose_place_was_taken_commits_nothing(kind):
    story = Story(kind)
    story.assign(ANNA, 1, KEY)
    story.assign(Who("anna", "a2"), 1, KEY)
    story.commit(Who("anna", "a2"), 1, 3)
    with broken("fenced members are refused"):
        story.commit(ANNA, 1, 4)


def test_a_record_that_a_group_never_processed_is_named():
    story = Story()
    story.groups.on_processed("g", KEY, [(0, b"zero"), (2, b"two")], 1)
    story.groups.judge(KEY, [(0, b"zero"), (2, b"two")])
    story.groups.judge(("t9", 0), [(0, b"not for this group")])
    with broken("nothing is skipped") as found:
        story.groups.judge(KEY, [(0, b"zero"), (1, b"one"), (2, b"two")])
    assert "offset 1 of t-0" in str(found.value)


def test_offsets_that_are_used_again_after_a_power_loss_may_be_passed_over():
    story = Story()
    story.groups.on_processed("g", KEY, [(0, b"zero"), (1, b"one"), (2, b"two")], 1)
    story.history.ledgers[KEY].cuts.append(Cut(1, 1))
    story.groups.judge(KEY, [(0, b"zero"), (1, b"uno"), (2, b"due")])
    with broken("nothing is skipped"):
        story.groups.judge(KEY, [(0, b"zero"), (1, b"uno"), (2, b"due"), (3, b"tre")])
