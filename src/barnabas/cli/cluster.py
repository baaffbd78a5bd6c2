"""`barnabas cluster`: a cluster to try, and looking at one as a whole.

One job: the names of the commands.
"""

from __future__ import annotations

import click

from barnabas.cli.cluster_up import up


@click.group()
def cluster() -> None:
    """Start a cluster for trying; look at a cluster as a whole."""


cluster.add_command(up)
