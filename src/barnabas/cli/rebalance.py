"""`barnabas rebalance`: replicas and leaders evenly over the brokers, and taking moves back.

One job: the command line. What goes where is in `spread`, how it gets there in `moving`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.cluster_looking import administering
from barnabas.cli.failure import Failure
from barnabas.cli.moving import AT_A_TIME_OPTION, YES_OPTION, Plan, perform
from barnabas.cli.output import counted, emit
from barnabas.cli.spread import Layout
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.cli.cluster_admin import ClusterAdmin
    from barnabas.cli.connection import Connection

_EVEN = "replicas and leaders are spread evenly: there is nothing to move"


@click.group()
def rebalance() -> None:
    """Spread replicas and leaders evenly over the brokers."""


@rebalance.command("plan")
@administering
def plan_(connection: Connection, admin: ClusterAdmin) -> int:
    """Show what would be moved, and what it costs. Changes nothing."""
    plan = Plan(admin, Layout.spread)
    return perform(connection, plan, nothing=_EVEN, dry_run=True, yes=True, at_a_time=1)


@rebalance.command()
@AT_A_TIME_OPTION
@YES_OPTION
@administering
def apply(connection: Connection, admin: ClusterAdmin, at_a_time: int, yes: bool) -> int:
    """Show what is to be moved, ask, and move it: as few replicas as possible, over racks if brokers have them."""
    plan = Plan(admin, Layout.spread)
    return perform(connection, plan, nothing=_EVEN, dry_run=False, yes=yes, at_a_time=at_a_time)


@rebalance.command()
@administering
def cancel(connection: Connection, admin: ClusterAdmin) -> int:
    """Take back all moves that are under way, whoever began them: replicas stay where they were."""
    under_way = admin.reassignments()
    refused = admin.reassign(dict.fromkeys(under_way)) if under_way else {}
    # One that ended in between needs no cancelling.
    ended = str(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message)
    for (topic, index), why in refused.items():
        if why != ended and topic in {name for name, _ in admin.reassignments()}:
            raise Failure(f"{topic}-{index}: {why}")
    cancelled = [place for place in under_way if place not in refused]
    if connection.wants_table:
        click.echo(f"took back {counted(len(cancelled), 'move')}")
    else:
        emit([{"topic": name, "partition": index} for name, index in cancelled], connection.output)
    return 0
