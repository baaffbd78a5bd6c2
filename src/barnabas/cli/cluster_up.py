"""`barnabas cluster up`: a whole cluster in the foreground, for trying.

One job: turn options into a `runtime/local_cluster.py`, say when it is ready, tell of what ends, and end all with the process.
"""

from __future__ import annotations

import shlex
import threading
from typing import TYPE_CHECKING

import click

from barnabas.cli.failure import Failure
from barnabas.cli.options import setting
from barnabas.cli.stop_signals import on_stop

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barnabas.runtime.local_cluster import LocalCluster

DEFAULT_DATA_DIR = "cluster-data"
BROKERS_MAX = 20
#: How often to look whether all of them still run.
_LOOK_S = 0.5


@click.command()
@click.option(
    "--brokers", "count", type=click.IntRange(1, BROKERS_MAX), default=3, show_default=True,
    help="How many.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535 - BROKERS_MAX), default=9092, show_default=True,
    help="Of the first broker; the others take the next ones. 0 takes free ones.",
)  # fmt: skip
@click.option(
    "--zookeeper-port", type=click.IntRange(0, 65535), default=2181, show_default=True,
    help="Of its ZooKeeper; 0 takes a free one.",
)  # fmt: skip
@click.option(
    "--data-dir", metavar="DIR", default=DEFAULT_DATA_DIR, show_default=True,
    help="Where the data and the logs of all of them live.",
)  # fmt: skip
@click.option(
    "--jars", metavar="DIR", envvar="BARNABAS_ZOOKEEPER_JARS", type=click.Path(exists=True, file_okay=False),
    help="A folder with ZooKeeper's jars (or BARNABAS_ZOOKEEPER_JARS). [default: those of the package pyspark]",
)  # fmt: skip
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, callback=setting,
    help="A setting of every broker, by Kafka's name. Repeat.",
)  # fmt: skip
def up(
    count: int, port: int, zookeeper_port: int, data_dir: str, jars: str | None,
    settings: dict[str, str],
) -> None:  # fmt: skip
    """Start a cluster for trying: its own ZooKeeper and some brokers, on this machine.

    Prints one line starting with "ready" and the addresses when clients can connect. Ctrl-C or SIGTERM stops all. Topics get
    three replicas (or as many as there are brokers) if nothing else is said. Needs Java, as `barnabas zookeeper up` does.
    """
    from barnabas.runtime.local_cluster import OWN_SETTINGS, LocalCluster
    from barnabas.runtime.zookeeper_server import CannotStart

    for name in settings.keys() & set(OWN_SETTINGS):
        raise click.UsageError(f"--set {name}: `cluster up` sets this for each broker itself")
    stopping = threading.Event()
    on_stop(stopping.set)
    try:
        cluster = LocalCluster(data_dir, count, (port, zookeeper_port), settings, jars)
        cluster.start()
    except CannotStart as problem:
        raise Failure(str(problem), _advice(str(problem))) from None
    try:
        click.echo(f"ready {cluster.bootstrap}")
        click.echo(f"ZooKeeper at {cluster.zookeeper.connect}; all data in {data_dir}", err=True)
        _serve(cluster, stopping)
    finally:
        cluster.stop()


def _advice(problem: str) -> str | None:
    if "cannot listen on" not in problem:
        return None
    return "--port and --zookeeper-port name other ports; 0 takes free ones"


def _serve(cluster: LocalCluster, stopping: threading.Event) -> None:
    """Wait for a signal. Who ends is told, and not started again: the end may be what is being tried."""
    running = list(cluster.brokers)
    is_zookeeper_told = False
    while not stopping.wait(_LOOK_S):
        for broker in running:
            if (code := broker.ended()) is not None:
                name = f"broker {broker.broker_id} at {broker.address}"
                _tell(name, code, broker.log_path, broker.command(cluster.settings))
        running = [broker for broker in running if broker.ended() is None]
        if not running:
            raise Failure("no broker is left")
        code = cluster.zookeeper_ended()
        if code is not None and not is_zookeeper_told:
            (server,) = cluster.zookeeper.servers
            name = f"ZooKeeper at {server.address}"
            _tell(name, code, server.log_path, cluster.zookeeper_command())
            is_zookeeper_told = True


def _tell(name: str, code: int, log_path: Path, words: Sequence[str]) -> None:
    click.echo(
        f"{name} ended with {code}: see {log_path}\n"
        f"  to start it again: {shlex.join(['barnabas', *words])}",
        err=True,
    )
