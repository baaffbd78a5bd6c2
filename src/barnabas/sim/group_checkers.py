"""What must hold for consumer groups, told by what members asked, were told and read.

Job: keep who was told to own what and when, every commit with its outcome, and every record that a group has processed;
compare what is seen with it. Must not know how groups are served; of the node's insides only the end of the offsets log
is looked at, to know what a power loss may take.

| checker                    | promise                                                                                  |
|----------------------------|------------------------------------------------------------------------------------------|
| one owner                  | a partition has one owner in a generation, and one at a time among members in good standing |
| commits are kept           | a group reads back its last commit, or one whose outcome nobody knows and that may be later |
| fenced members are refused | a member whose partition went to a later generation commits nothing any more              |
| nothing is skipped         | with commits after processing, a group processes every record                             |
| groups converge            | once faults stop, every partition has an owner, and the generation stays                   |

A member is in good standing for its session time-out after the last request of it that was answered well was sent: until then no
coordinator may have given it up. An identity is a process, or for static members the instance id, which goes from process to process.

A commit has landed, if it ever does, when it is answered, when a later generation is known, or when the life of the node that it was sent
to is over: whatever is committed after that wins over it.

After a power loss the offsets log may end earlier than before. What was told when the log ended later than that counts no more, unless it flushes
each batch before it answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.broker.coordinators import TOPIC
from barnabas.broker.java_hash import java_hash
from barnabas.sim.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.sim.checkers import History, Key
    from barnabas.sim.machine import Machine
    from barnabas.sim.world import Scheduler

_EVERYTHING: Final = 1 << 62
#: The coordinator counts in whole milliseconds.
_ROUNDING_US: Final = 2000
NO_OFFSET: Final = -1


class Kind(Enum):
    """Which protocol the members of a group speak."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    #: Both. Generations start anew when the group was empty and the other kind comes. When the last member that speaks the newer
    #: protocol leaves, the others get what they should have, not what they have: Kafka promises less here.
    MIXED = "mixed"


class Moment(NamedTuple):
    """When a client was told something, by which life of the node, and how far the offsets log went then."""

    now_us: int
    life: int
    end_offset: int


class Who(NamedTuple):
    """A member: of a static one, the place it holds and the id under which it holds it, which no other process gets."""

    identity: str
    member_id: str


class Standing(NamedTuple):
    """A request of a member that was answered well: when it was sent, to which life of the node, and what that is worth."""

    sent_us: int
    life: int
    timeout_us: int
    speaks_classic: bool = True

    @property
    def until_us(self) -> int:
        """No coordinator may have given the member up before this time."""
        return self.sent_us + self.timeout_us - _ROUNDING_US


@dataclass(slots=True, eq=False)
class Commit:
    """One partition's part of an OffsetCommit."""

    who: Who
    generation: int
    offset: int
    sent_us: int
    life: int
    #: When it was last told that it owns the partition.
    owned_since_us: int = -1
    acknowledged: Moment | None = None
    is_refused: bool = False


class Told(NamedTuple):
    """A member was told that it owns partitions in a generation, or epoch."""

    who: Who
    generation: int
    keys: tuple[Key, ...]
    moment: Moment
    #: When it asked.
    sent_us: int


@dataclass(slots=True)
class Claim:
    """A member believes that it owns a partition."""

    moment: Moment
    #: No coordinator may think otherwise before this time.
    until_us: int


@dataclass(slots=True)
class Processed:
    """A record that a group has processed."""

    value: bytes
    life: int


class GroupLedger:
    """What is known of one group."""

    def __init__(self, group_id: str, keys: Sequence[Key], kind: Kind) -> None:
        """Know nothing."""
        self.group_id = group_id
        self.keys = tuple(keys)
        self.kind = kind
        self.told: list[Told] = []
        self.claims: dict[Key, dict[str, Claim]] = {key: {} for key in keys}
        nothing = Commit(Who("nobody", ""), -1, NO_OFFSET, -1, -1, -1, Moment(-1, -1, 0))
        self.commits: dict[Key, list[Commit]] = {key: [nothing] for key in keys}
        self.processed: dict[Key, dict[int, list[Processed]]] = {key: {} for key in keys}


class Records(Protocol):
    """What is known of the records that groups read."""

    #: Whether requests may fail for reasons that no client knows.
    failures_explained: bool

    def on_read(
        self,
        key: Key,
        reader: str,
        life: int,
        fetch_offset: int,
        records: Sequence[tuple[int, bytes]],
        high_watermark: int,
    ) -> None:
        """See records read."""

    def may_be_deleted(self, key: Key, offset: int) -> bool:
        """Tell whether a reader may find that the log starts after this offset."""

    def may_be_gone(self, key: Key, offset: int) -> bool:
        """Tell whether a reader may be told that an offset it was given is out of range."""


class GroupHistory:
    """All groups of a run, whose offsets log keeps what was told."""

    def __init__(self, records: Records, scheduler: Scheduler) -> None:
        """Know no group."""
        self.records = records
        self._scheduler = scheduler
        self._ledgers: dict[str, GroupLedger] = {}
        #: When each life of the node was first heard of, where there is one node.
        self._lives: dict[int, int] = {}

    def add_group(self, group_id: str, keys: Sequence[Key], kind: Kind) -> None:
        """Watch a group."""
        self._ledgers[group_id] = GroupLedger(group_id, keys, kind)

    # Time, and what a power loss takes: for subclasses

    def _moment(self, _ledger: GroupLedger, life: int) -> Moment:
        """Note that something was told just now, by a life of the node that may be over."""
        return Moment(self._scheduler.now_us, life, _EVERYTHING)

    def _may_be_lost(self, _ledger: GroupLedger, _moment: Moment) -> bool:
        """Tell whether what was told then may count no more."""
        return False

    def _was_loaded(self, _claim: Claim, _standing: Standing) -> bool:
        """Tell whether who answered knew since the claim who is a member."""
        return False

    def _passed_before_cuts(self, _ledger: GroupLedger, _key: Key) -> list[tuple[int, int]]:
        """Find the offsets that are used again and that the group had passed before they were: both ends included."""
        return []

    # Ownership

    def on_assigned(
        self,
        group_id: str,
        who: Who,
        generation: int,
        keys: Iterable[Key],
        standing: Standing,
    ) -> None:
        """See a member told which partitions it owns, all of them."""
        ledger = self._ledgers[group_id]
        moment = self._moment(ledger, standing.life)
        told = Told(who, generation, tuple(keys), moment, standing.sent_us)
        if self._may_be_lost(ledger, moment):
            return
        for other in ledger.told if ledger.kind is not Kind.MIXED else ():
            if other.generation == generation and other.who.identity != who.identity:
                self._compare(ledger, told, other)
        self.on_released(group_id, who.identity)
        for key in told.keys:
            if standing.until_us > moment.now_us:
                self._check_free(ledger, key, told)
            if _is_binding(ledger, standing):
                ledger.claims[key][who.identity] = Claim(moment, standing.until_us)
        ledger.told.append(told)

    def _compare(self, ledger: GroupLedger, told: Told, other: Told) -> None:
        shared = [key for key in told.keys if key in other.keys]
        if shared and not self._may_be_lost(ledger, other.moment):
            raise Violation(
                "one owner",
                f"{_name(shared[0])} belongs to {told.who.identity} and to {other.who.identity} in generation"
                f" {told.generation} of {ledger.group_id}",
            )

    def _check_free(self, ledger: GroupLedger, key: Key, told: Told) -> None:
        for identity, claim in ledger.claims[key].items():
            if claim.until_us > told.moment.now_us and not self._may_be_lost(ledger, claim.moment):
                raise Violation(
                    "one owner",
                    f"{_name(key)} was given to {told.who.identity} of {ledger.group_id} while {identity} has it"
                    f" and is in good standing",
                )

    def on_standing(self, group_id: str, identity: str, standing: Standing) -> None:
        """See a heartbeat answered well: the member keeps what it has.

        A coordinator that is loading says so to everybody, as Kafka's does: then it counts only for members that could not be
        given up before.
        """
        for claims in self._ledgers[group_id].claims.values():
            claim = claims.get(identity)
            if claim is None:
                continue
            if self._was_loaded(claim, standing) or standing.sent_us < claim.until_us:
                claim.until_us = max(claim.until_us, standing.until_us)

    def on_released(self, group_id: str, identity: str, keys: Iterable[Key] | None = None) -> None:
        """See a member give up partitions, or all it has."""
        claims = self._ledgers[group_id].claims
        for key in claims if keys is None else keys:
            claims[key].pop(identity, None)

    # Commits

    def on_committing(
        self, group_id: str, key: Key, who: Who, generation: int, offset: int, life: int
    ) -> Commit:
        """See a commit sent."""
        ledger, now_us = self._ledgers[group_id], self._scheduler.now_us
        since_us = max(
            (told.moment.now_us for told in ledger.told if told.who == who and key in told.keys),
            default=now_us,
        )
        commit = Commit(who, generation, offset, now_us, life, since_us)
        ledger.commits[key].append(commit)
        return commit

    def on_committed(self, group_id: str, key: Key, commit: Commit) -> None:
        """See it acknowledged."""
        ledger = self._ledgers[group_id]
        commit.acknowledged = self._moment(ledger, commit.life)
        for told in self._later_owners(ledger, key, commit):
            if told.moment.now_us < commit.sent_us:
                raise Violation(
                    "fenced members are refused",
                    f"{commit.who.identity} of {group_id} committed {commit.offset} for {_name(key)} in generation"
                    f" {commit.generation}, but {told.who.identity} is in {told.generation}",
                )

    def _later_owners(self, ledger: GroupLedger, key: Key, commit: Commit) -> Iterable[Told]:
        """Find those who were told something that ends the right to this commit."""
        for told in ledger.told:
            is_later = (
                told.sent_us > commit.owned_since_us
                and told.who.member_id != commit.who.member_id
                and (key in told.keys or told.who.identity == commit.who.identity)
            )
            if ledger.kind is Kind.CLASSIC:
                is_later |= told.generation > commit.generation
            if is_later and not self._may_be_lost(ledger, told.moment):
                yield told

    def on_offset(self, group_id: str, key: Key, reader: str, offset: int, sent_us: int) -> None:
        """See a committed offset told, to a question that was sent then."""
        ledger = self._ledgers[group_id]
        commits = ledger.commits[key]
        if not any(
            commit.offset == offset and self._may_stand(ledger, key, commit, sent_us)
            for commit in reversed(commits)
        ):
            last = max(
                (commit for commit in commits if commit.acknowledged is not None),
                key=lambda commit: commit.sent_us,
            )
            raise Violation(
                "commits are kept",
                f"{reader} was told that {group_id} is at {offset} of {_name(key)}; {last.who.identity} committed {last.offset}"
                f" in generation {last.generation}",
            )

    def _may_stand(self, ledger: GroupLedger, key: Key, commit: Commit, sent_us: int) -> bool:
        """Tell whether this may be the last commit, for a question that was sent then."""
        if commit.is_refused:
            return False
        landed_us = self._landed_us(ledger, key, commit)
        for other in ledger.commits[key]:
            acknowledged = other.acknowledged
            if (
                acknowledged is not None
                and other.sent_us > landed_us
                and acknowledged.now_us < sent_us
                and not self._may_be_lost(ledger, acknowledged)
            ):
                return False
        return True

    def _landed_us(self, ledger: GroupLedger, key: Key, commit: Commit) -> int:
        """Give the time after which a commit cannot take effect any more."""
        if commit.acknowledged is not None:
            return commit.acknowledged.now_us
        ends = [told.moment.now_us for told in self._later_owners(ledger, key, commit)]
        ends += [first_us for life, first_us in self._lives.items() if life > commit.life]
        return min(ends, default=_EVERYTHING)

    # Records

    def on_processed(
        self, group_id: str, key: Key, records: Iterable[tuple[int, bytes]], life: int
    ) -> None:
        """See records processed that a life of the node gave out."""
        processed = self._ledgers[group_id].processed[key]
        for offset, value in records:
            processed.setdefault(offset, []).append(Processed(value, life))

    def judge(self, key: Key, records: Sequence[tuple[int, bytes]]) -> None:
        """Compare a partition, read whole, with what each group has processed.

        Offsets that a power loss took are given out again: a group that had been there does not see the new records, in Kafka
        neither.
        """
        for ledger in self._ledgers.values():
            if key not in ledger.keys:
                continue
            processed = ledger.processed[key]
            passed = self._passed_before_cuts(ledger, key)
            for offset, value in records:
                if any(one.value == value for one in processed.get(offset, ())):
                    continue
                if not any(start <= offset <= end for start, end in passed):
                    raise Violation(
                        "nothing is skipped",
                        f"{ledger.group_id} never processed offset {offset} of {_name(key)}",
                    )


class LoneGroupHistory(GroupHistory):
    """The same with one node, whose losses of power take what it told."""

    def __init__(
        self, history: History, machine: Machine, partition_count: int, *, flushed: bool
    ) -> None:
        """Watch the offsets topic, too; `flushed` if each of its batches is synced before it is answered."""
        super().__init__(history, machine.scheduler)
        self._history = history
        self._machine = machine
        self._partition_count = partition_count
        self._flushed = flushed
        for index in range(partition_count):
            history.add_partition((TOPIC, index), flushed=flushed)

    def _moment(self, ledger: GroupLedger, life: int) -> Moment:
        moment = super()._moment(ledger, life)
        self._lives.setdefault(life, moment.now_us)
        node = self._machine.node
        if node is not None and self._machine.life.number == life:
            replica = node.replicas.get(*self._place(ledger))
            if replica is not None:
                return moment._replace(end_offset=replica.log.log_end_offset)
        return moment

    def _place(self, ledger: GroupLedger) -> Key:
        return TOPIC, (java_hash(ledger.group_id) & 0x7FFFFFFF) % self._partition_count

    def _may_be_lost(self, ledger: GroupLedger, moment: Moment) -> bool:
        return not self._flushed and any(
            moment.life <= cut.life and moment.end_offset > cut.end_offset
            for cut in self._history.ledgers[self._place(ledger)].cuts
        )

    def _was_loaded(self, claim: Claim, standing: Standing) -> bool:
        return claim.moment.life == standing.life and not self.records.failures_explained

    def _passed_before_cuts(self, ledger: GroupLedger, key: Key) -> list[tuple[int, int]]:
        passed = []
        for cut in self._history.ledgers[key].cuts:
            reached = max(
                (
                    offset
                    for offset, found in ledger.processed[key].items()
                    if any(one.life <= cut.life for one in found)
                ),
                default=-1,
            )
            passed.append((cut.end_offset, reached))
        return passed


def _is_binding(ledger: GroupLedger, standing: Standing) -> bool:
    """Tell whether the coordinator must wait for the member before it gives its partitions to another."""
    return ledger.kind is not Kind.MIXED or not standing.speaks_classic


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
