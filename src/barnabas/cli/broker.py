"""`barnabas broker`: taking a broker out of a cluster.

One job: the command line. What goes where is in `spread`, how it gets there in `moving`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.cluster_admin import broker_or_fail
from barnabas.cli.cluster_looking import administering
from barnabas.cli.moving import AT_A_TIME_OPTION, DRY_RUN_OPTION, YES_OPTION, Plan, perform

if TYPE_CHECKING:
    from barnabas.cli.cluster_admin import ClusterAdmin
    from barnabas.cli.connection import Connection


@click.group()
def broker() -> None:
    """Take a broker out of a cluster."""


@broker.command()
@click.argument("broker_id", metavar="N", type=click.IntRange(min=0))
@AT_A_TIME_OPTION
@YES_OPTION
@DRY_RUN_OPTION
@administering
def drain(
    connection: Connection, admin: ClusterAdmin, broker_id: int, at_a_time: int, yes: bool, dry_run: bool
) -> int:  # fmt: skip
    """Move every replica off broker N, so that it can be stopped for good.

    Shows the plan and its cost first. A broker that is gone already can be drained, too: its replicas are made anew elsewhere
    from those that are left. New topics may still be placed on a broker that runs: stop it when this is done.
    """
    broker_or_fail(admin.state(), broker_id)
    plan = Plan(admin, lambda layout: layout.drain(broker_id))
    return perform(
        connection, plan, nothing=f"broker {broker_id} has no replicas",
        dry_run=dry_run, yes=yes, at_a_time=at_a_time,
    )  # fmt: skip
