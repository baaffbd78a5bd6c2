"""`barnabas up`: one broker in the foreground."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from barnabas.cli.stop_signals import on_stop
from barnabas.model.config.listeners import DEFAULT_PROTOCOL_MAP, PORT_MAX
from barnabas.runtime import logs
from barnabas.runtime.collector import Collector

if TYPE_CHECKING:
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.runtime.assembly import RunningBroker

DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_DATA_DIR = "data"


@click.command()
@click.option(
    "--data-dir",
    metavar="DIR",
    help=f"Where the logs live (log.dirs). [default: ./{DEFAULT_DATA_DIR}]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    multiple=True,
    help=f"Address to listen on; repeat for several, port 0 takes a free one. [default: {DEFAULT_LISTEN}]",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A broker setting, by Kafka's name.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="A server.properties file.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics there.")
@click.option(
    "--adopt",
    is_flag=True,
    help="Make a broker of its own of what a member of a cluster left.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of the log on stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def up(**options: Any) -> None:  # noqa: ANN401
    """Start a broker: one node, its own store, no Java, no other process.

    Prints one line starting with "ready" and the address when clients can connect. Ctrl-C or SIGTERM
    stops it cleanly.
    """
    # Imported here: `--help` does without.
    from barnabas.cli.member_directory import objection

    logs.configure(options["log_format"], options["log_level"])
    config = _read_config(options)
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    if config.get("zookeeper.connect") is None and not options["adopt"]:
        problem = objection(config.log_dirs)
        if problem is not None:
            _refuse(problem)
    _serve(config, options["metrics"])


def _read_config(options: dict[str, Any]) -> BrokerConfig:
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.model.config.properties import parse_properties
    from barnabas.model.config.types import ConfigProblem

    settings: dict[str, str] = {}
    try:
        if options["config_file"]:
            settings.update(parse_properties(Path(options["config_file"]).read_text()))
        for text in options["settings"]:
            name, equals, value = text.partition("=")
            if not equals:
                _refuse(f"--set {text}: write NAME=VALUE")
            settings[name.strip()] = value.strip()
        if options["data_dir"] == "":
            _refuse("--data-dir: name a folder")
        if options["data_dir"]:
            settings.pop("log.dir", None)
            settings["log.dirs"] = _absolute(options["data_dir"])
        elif not settings.keys() & {"log.dirs", "log.dir"}:
            settings["log.dirs"] = _absolute(DEFAULT_DATA_DIR)
        if options["listen"]:
            settings.update(_listeners(options["listen"], settings))
        settings.setdefault("listeners", f"PLAINTEXT://{DEFAULT_LISTEN}")
        return BrokerConfig(settings)
    except ConfigProblem as problem:
        _refuse(str(problem))
    except (OSError, UnicodeDecodeError) as problem:
        _refuse(f"cannot read {options['config_file']}: {problem}")


def _absolute(directories: str) -> str:
    """Name directories so that who asks the broker for them finds them from anywhere on the machine."""
    return ",".join(str(Path(path.strip()).absolute()) for path in directories.split(","))


def _listeners(addresses: tuple[str, ...], settings: dict[str, str]) -> dict[str, str]:
    """Name plain addresses as Kafka's listeners; a full NAME://HOST:PORT is taken as it is."""
    named, more = [], []
    for number, address in enumerate(addresses, 1):
        if "://" in address:
            named.append(address)
        elif ":" not in address:
            _refuse(f"--listen {address}: write HOST:PORT")
        elif number == 1:
            named.append(f"PLAINTEXT://{address}")
        else:
            named.append(f"PLAINTEXT{number}://{address}")
            more.append(f"PLAINTEXT{number}:PLAINTEXT")
    listeners = {"listeners": ",".join(named)}
    if more:
        known = ",".join(f"{name}:{protocol}" for name, protocol in DEFAULT_PROTOCOL_MAP.items())
        known = settings.get("listener.security.protocol.map", known)
        listeners["listener.security.protocol.map"] = ",".join([known, *more])
    return listeners


def _serve(config: BrokerConfig, metrics: str | None) -> None:
    from barnabas.runtime.assembly import RunningBroker

    _raise_file_limit()
    try:
        broker = RunningBroker(config, _metrics_address(metrics))
    except OSError as problem:
        _fail(str(problem))
    on_stop(broker.stop)
    try:
        broker.run(lambda: _on_ready(broker))
    except Exception as problem:  # noqa: BLE001  (an edge: whatever keeps a broker from running is told)
        _fail(str(problem))


def _on_ready(broker: RunningBroker) -> None:
    _announce(broker)
    # Python's thresholds stay: looking less often, at more objects at a time, took the p99 of a produced record from 1 to 8 ms.
    Collector(broker.loop.post).start()


def _raise_file_limit() -> None:
    """Use all the descriptors that the system allows: each connection and each active log takes some."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _metrics_address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > PORT_MAX:
        _refuse(f"--metrics {text}: write HOST:PORT, with a port from 0 to {PORT_MAX}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _announce(broker: RunningBroker) -> None:
    if broker.metrics_server is not None:
        host, port = broker.metrics_server.address
        shown_host = f"[{host}]" if ":" in host else host
        click.echo(f"metrics at http://{shown_host}:{port}/metrics", err=True)
    shown = [
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for _, host, port in broker.addresses
    ]
    click.echo(f"ready {','.join(shown)}")


def _refuse(message: str) -> NoReturn:
    click.echo(f"barnabas up: {message}", err=True)
    sys.exit(2)


def _fail(message: str) -> NoReturn:
    click.echo(f"barnabas up: {message}", err=True)
    sys.exit(1)
