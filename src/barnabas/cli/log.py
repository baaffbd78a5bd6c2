"""`barnabas log`: verify, dump and repair a data directory that no broker runs on.

One job: the names of the three commands; each is a module of its own. They work on Apache Kafka's directories, too.
"""

from __future__ import annotations

import click

from barnabas.cli.log_dump import dump
from barnabas.cli.log_repair import repair
from barnabas.cli.log_verify import verify


@click.group()
def log() -> None:
    """Look into a data directory, check it, repair it. Works on Apache Kafka's, too."""


log.add_command(verify)
log.add_command(dump)
log.add_command(repair)
