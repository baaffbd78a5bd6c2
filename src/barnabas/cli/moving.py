"""Moving replicas: the cost shown first, then some partitions at a time, with progress, until all are where they should be.

One job: from moves (`spread.py`) to words and requests. Shared by `barnabas broker drain`, `rebalance` and `topic alter`.
Whoever is cut short leaves a whole cluster: what is under way goes on, the rest was not begun, and the same command goes on from there.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.cluster_admin import PREFERRED, ClusterAdmin
from barnabas.cli.failure import Failure
from barnabas.cli.interrupt import Interrupt
from barnabas.cli.offline import progress
from barnabas.cli.output import counted, emit, size, table
from barnabas.cli.spread import Impossible, Layout
from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.cli.cluster_admin import Place, Replicas, Storage
    from barnabas.cli.connection import Connection
    from barnabas.cli.spread import Move

#: Copying many partitions at once is slower for each of them, and for everybody else.
AT_A_TIME: Final = 20
_LOOK_S: Final = 0.2

AT_A_TIME_OPTION = click.option(
    "--at-a-time", type=click.IntRange(min=1), default=AT_A_TIME, show_default=True,
    help="How many partitions to move at once.",
)  # fmt: skip
YES_OPTION = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
DRY_RUN_OPTION = click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")


class Plan:
    """Moves, and what they cost."""

    def __init__(self, admin: ClusterAdmin, wish: Callable[[Layout], None]) -> None:
        """Look at the cluster and ask for a layout; Failure if there is none."""
        self._admin = admin
        self.state = admin.state()
        self._under_way = admin.reassignments()
        self._replicas = {
            place: self._under_way[place].target if place in self._under_way else each.replicas
            for place, each in self.state.partitions.items()
        }
        layout = Layout({b.broker: b.rack for b in self.state.brokers.values()}, self._replicas)
        try:
            wish(layout)
        except Impossible as problem:
            raise Failure(str(problem), "start more brokers, or ask for fewer replicas") from None
        self.moves: Sequence[Move] = layout.moves()
        sizes = _sizes(admin.storage(self.state.brokers)) if self.moves else {}
        self.size_bytes = {m.place: len(m.adding) * sizes.get(m.place, 0) for m in self.moves}

    @property
    def copies(self) -> int:
        """How many replicas are to be copied."""
        return sum(len(move.adding) for move in self.moves)

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of a plan in JSON."""
        return {
            "moves": [
                {
                    "topic": move.place[0],
                    "partition": move.place[1],
                    "before": list(move.before),
                    "after": list(move.after),
                    "size_bytes": self.size_bytes[move.place],
                }
                for move in self.moves
            ],
            "copies": self.copies,
            "size_bytes": sum(self.size_bytes.values()),
            "brokers": [
                dict(zip(_BROKER_KEYS, row, strict=True)) for row in self._broker_rows()
            ],
        }  # fmt: skip

    def show(self) -> None:
        """Print the plan for people."""
        rows = [
            (
                f"{move.place[0]}-{move.place[1]}",
                move.before,
                move.after,
                size(self.size_bytes[move.place]) if move.adding else "nothing",
            )
            for move in self.moves
        ]
        click.echo(table(("PARTITION", "REPLICAS", "WILL BE", "COPIES"), rows))
        click.echo()
        headings = ("BROKER", "REPLICAS", "WILL BE", "PREFERRED LEADER", "WILL BE")
        click.echo(table(headings, list(self._broker_rows())))
        click.echo()
        click.echo(self.summary())

    def summary(self) -> str:
        """One line on the cost."""
        total = size(sum(self.size_bytes.values()))
        return (
            f"{counted(len(self.moves), 'partition')} to change: {counted(self.copies, 'replica')}"
            f" to copy, {total} in all"
        )

    def _broker_rows(self) -> list[tuple[int, int, int, int, int]]:
        after = {**self._replicas, **{move.place: move.after for move in self.moves}}
        counts = [_counts(self._replicas.values()), _counts(after.values())]
        (had, led), (will_have, will_lead) = counts
        brokers = sorted({*self.state.brokers, *had, *will_have})
        return [(b, had[b], will_have[b], led[b], will_lead[b]) for b in brokers]

    def carry_out(self, at_a_time: int) -> None:
        """Move, some at a time; Failure if the cluster refuses one, or if Ctrl-C cuts it short."""
        waiting = list(reversed(self.moves))
        ours = {move.place for move in self.moves}
        done = 0
        with Interrupt() as interrupt, progress(len(self.moves), "moving") as advance:
            while True:
                under_way = ours & self._admin.reassignments().keys()
                left = len(waiting) + len(under_way)
                advance(len(self.moves) - left - done)
                done = len(self.moves) - left
                if not left:
                    break
                if interrupt.pressed:
                    raise _cut_short(done, len(under_way), len(waiting))
                room = max(0, at_a_time - len(under_way))
                begun = [waiting.pop() for _ in range(min(room, len(waiting)))]
                if begun:
                    self._begin(begun)
                    continue
                self._check_ends(under_way)
                time.sleep(_LOOK_S)
        self._lead_home()

    def _begin(self, moves: Sequence[Move]) -> None:
        refused = self._admin.reassign({move.place: move.after for move in moves})
        for (topic, index), why in refused.items():
            raise Failure(
                f"{topic}-{index}: {why}",
                "what was begun goes on; `barnabas rebalance cancel` takes it back",
            )

    def _check_ends(self, under_way: set[Place]) -> None:
        """Failure if all that is on the move waits for brokers that are not there."""
        there = self._admin.brokers()
        targets = [move.after for move in self.moves if move.place in under_way]
        lacking = [[r for r in target if r not in there] for target in targets]
        if all(lacking):
            brokers = ", ".join(str(r) for r in sorted({r for each in lacking for r in each}))
            raise Failure(
                f"{counted(len(lacking), 'partition')} on the move must wait for brokers that are away: {brokers}",
                "start them, and the moves end by themselves; `barnabas rebalance cancel` takes them back",
            )

    def _lead_home(self) -> None:
        """Let the first replicas lead. One that is not in sync yet may do so later, by itself or by `cluster elect-leaders`."""
        # The controller knows who leads now. Metadata of any other broker may tell of the time before the moves.
        self._admin.elect(PREFERRED, [move.place for move in self.moves])


_BROKER_KEYS: Final = (
    "broker", "replicas_before", "replicas_after", "preferred_before", "preferred_after",
)  # fmt: skip


def perform(
    connection: Connection,
    plan: Plan,
    *,
    nothing: str,
    dry_run: bool,
    yes: bool,
    at_a_time: int,
) -> int:
    """Show the plan, ask, carry it out; the exit code."""
    if not connection.wants_table:
        if plan.moves and not dry_run:
            plan.carry_out(at_a_time)
        emit({**plan.as_dict(), "applied": not dry_run}, connection.output)
        return 0
    if not plan.moves:
        click.echo(nothing)
        return 0
    plan.show()
    if dry_run:
        click.echo("nothing was changed (dry run)", err=True)
        return 0
    if not yes and sys.stdin.isatty() and not click.confirm("Move them?", err=True):
        raise Failure("nothing was changed")
    plan.carry_out(at_a_time)
    click.echo(f"moved {counted(len(plan.moves), 'partition')}")
    return 0


def resize(connection: Connection, topic: str, count: int, *, dry_run: bool) -> int:
    """Give each partition of a topic so many replicas; the exit code."""
    try:
        with ClusterAdmin(connection) as admin:
            plan = Plan(admin, lambda layout: layout.resize(topic, count))
            return perform(
                connection, plan, nothing=f"{topic} has {counted(count, 'replica')} already",
                dry_run=dry_run, yes=True, at_a_time=AT_A_TIME,
            )  # fmt: skip
    except ClientError as problem:
        raise Failure(str(problem)) from None


class CutShort(Failure):
    """Ctrl-C ended the work before its end."""

    exit_code = 130


def _cut_short(done: int, under_way: int, left: int) -> Failure:
    return CutShort(
        f"cut short: {done} done, {under_way} on the move, {left} not begun",
        "those on the move go on; the same command does the rest, `barnabas rebalance cancel` takes them back",
    )


def _sizes(storage: dict[int, Storage]) -> dict[Place, int]:
    sizes: dict[Place, int] = {}
    for each in storage.values():
        for place, size_bytes in each.partition_bytes.items():
            sizes[place] = max(sizes.get(place, 0), size_bytes)
    return sizes


def _counts(layouts: Any) -> tuple[Counter[int], Counter[int]]:  # noqa: ANN401  (values of a dict)
    """Replicas of each broker, and how many of them are the first."""
    having: Counter[int] = Counter()
    first: Counter[int] = Counter()
    replicas: Replicas
    for replicas in layouts:
        having.update(replicas)
        first.update(replicas[:1])
    return having, first
