"""The groups of a run: drawn from the seed, let loose, and looked at once everything is healed.

Job: which groups there are, who is in them and what befalls them; whether they have settled. Must not know how members talk to their
coordinator.

A group has settled when its members are in one generation, own every partition between them, and have read and committed all
there is. From the longest session time-out on after that, nothing may call them to another generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from barnabas.sim.client import Client
from barnabas.sim.consumer_member import ConsumerMember
from barnabas.sim.group_checkers import Kind
from barnabas.sim.group_client import (
    GroupClient,
    GroupSpec,
    MemberStyle,
    offset_fetch,
    read_offsets,
)
from barnabas.sim.group_member import GroupMember
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS

if TYPE_CHECKING:
    import random

    from barnabas.sim.checkers import Key
    from barnabas.sim.group_checkers import GroupHistory
    from barnabas.sim.network import Network
    from barnabas.sim.world import Scheduler

#: How many runs have groups: they cost twice as much as others.
LIKELIHOOD: Final = 0.3
SESSIONS_US: Final = (300 * MS, 600 * MS, 900 * MS)
#: Some are shorter than sessions: then static members stay in a group that went on without them.
REBALANCES_US: Final = (200 * MS, 600 * MS, 900 * MS)
FIRST_STARTS_US: Final = (0, 200 * MS, 4000 * MS)
_MEMBERS: Final[dict[Kind, tuple[type[GroupClient], ...]]] = {
    Kind.CLASSIC: (GroupMember,),
    Kind.CONSUMER: (ConsumerMember,),
    Kind.MIXED: (GroupMember, ConsumerMember),
}
_FETCH_VERSIONS: Final = (1, 5, 7, 8, 9)


#: Of a class, by name, for a group, with a style.
Maker = Callable[[type[GroupClient], str, GroupSpec, MemberStyle], GroupClient]


@dataclass(slots=True)
class GroupPlan:
    """What has to be known of groups before there is a broker."""

    has_groups: bool
    partition_count: int = 0
    flushed: bool = False
    #: The session time-out of members that do not name one.
    session_us: int = 0
    broker_settings: dict[str, str] = field(default_factory=dict)


def draw_plan(chance: random.Random) -> GroupPlan:
    """Draw whether there are groups, and how the broker keeps them."""
    if chance.random() >= LIKELIHOOD:
        return GroupPlan(has_groups=False)
    return draw_settings(chance)


def draw_settings(chance: random.Random) -> GroupPlan:
    """Draw how brokers keep groups."""
    count, flushed = chance.randint(1, 3), chance.random() < 0.4
    settings = {
        "offsets.topic.num.partitions": str(count),
        "offsets.load.buffer.size": str(chance.choice((100, 2000, 5_000_000))),
        "offsets.topic.compression.codec": str(chance.choice((0, 0, 1))),
        "group.initial.rebalance.delay.ms": str(chance.choice((0, 50, 300))),
        "group.min.session.timeout.ms": "100",
        "group.consumer.assignment.interval.ms": str(chance.choice((0, 0, 100, 1000))),
    }
    session_us = chance.choice(SESSIONS_US)
    for name in ("", "min.", "max."):
        settings[f"group.consumer.{name}session.timeout.ms"] = str(session_us // MS)
        settings[f"group.consumer.{name}heartbeat.interval.ms"] = str(session_us // MS // 3)
    if flushed:
        settings["log.flush.interval.messages"] = "1"
    return GroupPlan(True, count, flushed, session_us, settings)


@dataclass(slots=True)
class Group:
    """A group and everybody who is ever in it."""

    group_id: str
    keys: list[Key]
    members: list[GroupClient]

    def problem(self, since_us: int) -> str | None:
        """Say what keeps the group from having settled after this time."""
        living = [member for member in self.members if not member.is_finished]
        for member in self.members:
            if member.is_finished and member.style.returns:
                return f"{member.identity} is still to come back"
        for member in living:
            if not member.has_caught_up(since_us):
                return f"{member.identity} is at {_told(member)}"
        owned = [key for member in living for key in member.positions]
        if sorted(owned) != sorted(self.keys):
            return f"{owned} of {self.keys} are owned"
        if len({member.generation for member in living}) > 1:
            return f"generations {[member.generation for member in living]}"
        return None

    @property
    def generations(self) -> list[int]:
        """The generations its members are in."""
        return [member.generation for member in self.members if not member.is_finished]


def _told(member: GroupClient) -> str:
    return f"{member.positions}, committed {member.committed}, in generation {member.generation}"


class Groups:
    """All groups of a run; `make` builds a member that talks to whoever serves them."""

    def __init__(
        self,
        chance: random.Random,
        plan: GroupPlan,
        history: GroupHistory,
        keys: list[Key],
        make: Maker,
        scheduler: Scheduler,
    ) -> None:
        """Draw groups and members; nothing happens yet."""
        self._chance = chance
        self._make = make
        self._scheduler = scheduler
        self.history = history
        self._plan = plan
        self._keys = keys
        self.groups = [self._draw_group(f"g{number}") for number in range(chance.choice((1, 1, 2)))]
        self._generations: dict[str, list[int]] = {}

    def _draw_group(self, group_id: str) -> Group:
        chance = self._chance
        first = self._keys[0][0]
        keys = self._keys if chance.random() < 0.7 else [k for k in self._keys if k[0] == first]
        kind = chance.choice((Kind.CLASSIC, Kind.CLASSIC, Kind.CONSUMER, Kind.CONSUMER, Kind.MIXED))
        self.history.add_group(group_id, keys, kind)
        spec = GroupSpec(group_id, keys, self.history)
        rebalance_us = chance.choice(REBALANCES_US)
        members = [
            self._draw_member(spec, number, chance.choice(_MEMBERS[kind]), rebalance_us)
            for number in range(chance.choice((1, 2, 3, 3)))
        ]
        style = members[0].style
        if style.instance_id is not None and chance.random() < 0.5:
            # Somebody starts the same instance twice: one of the two must be kept out.
            members[0].style = style = style._replace(has_twin=True)
            twin = style._replace(returns=False, is_twin=True)
            first_class = ConsumerMember if isinstance(members[0], ConsumerMember) else GroupMember
            members.append(self._make(first_class, f"{group_id}twin", spec, twin))
        return Group(group_id, keys, members)

    def _draw_member(
        self, spec: GroupSpec, number: int, member_class: type[GroupClient], rebalance_us: int
    ) -> GroupClient:
        style = self._draw_style(spec.group_id, number, rebalance_us)
        if member_class is ConsumerMember:
            style = style._replace(session_us=self._plan.session_us)
        return self._make(member_class, f"{spec.group_id}m{number}", spec, style)

    def _draw_style(self, group_id: str, number: int, rebalance_us: int) -> MemberStyle:
        chance = self._chance
        session_us = chance.choice(SESSIONS_US)
        return MemberStyle(
            session_us=session_us,
            rebalance_us=rebalance_us,
            heartbeat_us=session_us // 3,
            instance_id=f"{group_id}i{number}" if chance.random() < 0.4 else None,
            crashes=chance.choice((0, 0.01, 0.03)),
            pauses=chance.choice((0, 0.02, 0.05)),
            loses_replies=chance.choice((0, 0, 0.02)),
            leaves=chance.choice((0, 0.04, 0.08)),
            returns=number == 0 or chance.random() < 0.8,
        )

    # The run

    def start(self) -> None:
        """Let members come, some of them late."""
        for group in self.groups:
            for member in group.members:
                delay_us = self._chance.randint(0, self._chance.choice(FIRST_STARTS_US))
                self._scheduler.after(delay_us, f"{member.name} comes", member.start)

    def calm(self) -> None:
        """Let nothing befall members any more."""
        for group in self.groups:
            for member in group.members:
                member.calm()

    def have_settled(self, since_us: int) -> bool:
        """Tell whether every group has settled after this time."""
        return all(group.problem(since_us) is None for group in self.groups)

    def problems(self, since_us: int) -> list[str]:
        """Say what keeps groups from settling."""
        told = ((group.group_id, group.problem(since_us)) for group in self.groups)
        return [f"{group_id}: {problem}" for group_id, problem in told if problem is not None]

    def note_generations(self) -> None:
        """Remember where groups are: from here on nothing moves them."""
        self._generations = {group.group_id: group.generations for group in self.groups}

    def check_rest(self, since_us: int) -> None:
        """See that they are where they were."""
        for group in self.groups:
            before, now = self._generations[group.group_id], group.generations
            if before != now:
                raise Violation(
                    "groups converge", f"{group.group_id} went from generations {before} to {now}"
                )
        problems = self.problems(since_us)
        if problems:
            raise Violation("groups converge", "; ".join(problems))

    def stop(self) -> None:
        """End all members without a word."""
        for group in self.groups:
            for member in group.members:
                member.is_calm = True
                member.stop()


class OffsetWatcher(Client):
    """Asks for the committed offsets of every group now and then, as tools that show the lag do."""

    def __init__(self, name: str, network: Network, groups: Groups) -> None:
        """Have asked nothing yet."""
        super().__init__(name, network)
        self._groups = groups
        self._left = list(groups.groups)
        self._pausing = False

    def step(self) -> None:
        """Ask for the next group."""
        if self.requests_in_flight or self._pausing:
            return
        if not self._left:
            self.on_all_seen()
            return
        group, version = self._left[0], self.chance.choice(_FETCH_VERSIONS)
        sent_us = self.scheduler.now_us

        def answered(response: Any) -> None:  # noqa: ANN401
            if response is not None:
                self._take(group, *read_offsets(response, version), sent_us)

        self.ask(offset_fetch(group.group_id, group.keys, version), version, answered)

    def on_all_seen(self) -> None:
        """Begin anew after a while."""
        self._left = list(self._groups.groups)
        self._pause(self.chance.randint(50 * MS, 300 * MS))

    def _take(
        self, group: Group, code: int, found: dict[Key, tuple[int, int]], sent_us: int
    ) -> None:
        if code:
            self._pause(50 * MS)
            return
        self._left.pop(0)
        for key in group.keys:
            offset, _code = found[key]
            self._groups.history.on_offset(group.group_id, key, self.name, offset, sent_us)

    def _pause(self, duration_us: int) -> None:
        self._pausing = True

        def go_on() -> None:
            self._pausing = False
            self.wake()

        self.scheduler.after(duration_us, f"{self.name} goes on", go_on)


class OffsetAuditor(OffsetWatcher):
    """Asks for the committed offsets of every group once, then is finished."""

    def on_all_seen(self) -> None:
        """Be finished."""
        self.is_finished = True
        self.hang_up()
