"""How a command reaches a broker: which address, with which settings, and what if nobody answers.

One job: from the options, the environment and the profiles file to confluent-kafka clients that
keep quiet on stderr. Must not know any command.

Address, first that is given: --bootstrap, --profile, -X bootstrap.servers, BARNABAS_BOOTSTRAP,
BARNABAS_PROFILE, the file's `default` profile, 127.0.0.1:9092. Client settings: those of the
profile, then -X, later ones winning. Options count in both places, before the noun and after the
verb; after the verb wins.
"""

from __future__ import annotations

import functools
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli.failure import Failure, failure, nearest, reason
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_S,
    ClientOptions,
    add_options,
    before_the_noun,
)
from barnabas.cli.output import duration

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

    from barnabas.cli.options import Command

DEFAULT_PORT = 9092
CLIENT_ID = "barnabas-cli"
_BOOTSTRAP_SETTINGS = ("bootstrap.servers", "metadata.broker.list")

Result = TypeVar("Result")


def connected(command: Command) -> Command:
    """Decorate a command: it gets the connection options, and a Connection as first argument."""

    @add_options
    @click.pass_context
    @functools.wraps(command)
    def run(ctx: click.Context, /, **values: Any) -> Any:  # noqa: ANN401 - click's own values
        options = ClientOptions(**{name: values.pop(name) for name in ClientOptions._fields})
        connection = connect(options.over(before_the_noun(ctx)), os.environ)
        require_confluent_kafka()
        return command(connection, **values)

    return run


# -- where and how ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """One table of the profiles file."""

    bootstrap: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def profiles_path(environ: Mapping[str, str]) -> Path:
    """Where the profiles file lives, following XDG."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "barnabas" / "profiles.toml"


def read_profiles(path: Path) -> dict[str, Any]:
    """The profiles file as a dict; empty when there is no file."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Failure(f"cannot read the profiles in {path}: {error}") from None


def choose_profile(name: str | None, path: Path) -> Profile:
    """The profile of this name, or the file's default; an empty one when neither is there."""
    file = read_profiles(path)
    chosen = name or file.get("default")
    if chosen is None:
        return Profile()
    found = file.get(chosen)
    if not isinstance(found, dict):
        known = [key for key, value in file.items() if isinstance(value, dict)]
        hint = nearest(chosen, known) or (
            f"known profiles: {', '.join(known)}" if known else f"write [{chosen}] in that file"
        )
        raise click.UsageError(f"no profile {chosen!r} in {path}; {hint}")
    settings = {key: _toml_setting(value) for key, value in found.get("client", {}).items()}
    return Profile(found.get("bootstrap"), settings)


def _toml_setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def connect(options: ClientOptions, environ: Mapping[str, str]) -> Connection:
    """Decide the address and settings. Opens nothing yet."""
    by_environment = environ.get("BARNABAS_BOOTSTRAP")
    by_setting = next(
        (options.settings[n] for n in _BOOTSTRAP_SETTINGS if n in options.settings), None
    )
    named = options.profile
    if not (named or options.bootstrap or by_setting or by_environment):
        named = environ.get("BARNABAS_PROFILE") or None
    unaddressed = not (options.bootstrap or by_setting or by_environment)
    profile = choose_profile(named, profiles_path(environ)) if named or unaddressed else Profile()
    bootstrap = (
        options.bootstrap
        or (profile.bootstrap if options.profile else None)
        or by_setting
        or by_environment
        or profile.bootstrap
        or DEFAULT_BOOTSTRAP
    )
    settings = {**profile.settings, **options.settings}
    for name in _BOOTSTRAP_SETTINGS:
        settings.pop(name, None)
    return Connection(
        bootstrap, settings, options.timeout or DEFAULT_TIMEOUT_S, options.output or "table"
    )


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`host:port,host` as addresses; an optional `PROTOCOL://` is dropped as librdkafka does."""
    addresses = []
    for item in text.split(","):
        host, colon, port = item.strip().rpartition("://")[2].rpartition(":")
        if not colon or port.endswith("]"):
            host, port = (f"{host}:{port}" if colon else port), str(DEFAULT_PORT)
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise click.UsageError(
                f"--bootstrap {text!r}: '{item.strip()}' is not HOST:PORT; for example {DEFAULT_BOOTSTRAP}"
            )
        addresses.append((host.strip("[]"), int(port)))
    return addresses


# -- clients ---------------------------------------------------------------------------------


class Connection:
    """The address and settings of one command, and the clients opened with them."""

    def __init__(
        self, bootstrap: str, settings: Mapping[str, str], timeout_s: float, output: str
    ) -> None:
        """Only checks that the address can be read; the first client connects."""
        self.bootstrap = bootstrap
        self.settings = dict(settings)
        self.timeout_s = timeout_s
        self.output = output
        self.last_error: KafkaError | None = None
        self._down = False
        self._told_down = False
        self._addresses = parse_bootstrap(bootstrap)
        self._reached = False
        self._admin: AdminClient | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where to ask first: host and port of each."""
        return self._addresses

    @property
    def wants_table(self) -> bool:
        """Is the output for a person?"""
        return self.output == "table"

    def admin(self) -> AdminClient:
        """The admin client, opened at the first call."""
        if self._admin is None:
            self._admin = self._open(admin_api().AdminClient, {})
        return self._admin

    def producer(self, settings: Mapping[str, object]) -> Producer:
        """A producer with `settings`; what the user gave by -X wins."""
        from confluent_kafka import Producer

        return self._open(Producer, settings)

    def consumer(self, settings: Mapping[str, object]) -> Consumer:
        """A consumer with `settings`; what the user gave by -X wins."""
        from confluent_kafka import Consumer

        return self._open(Consumer, settings)

    def _open(
        self, client: Callable[[dict[str, Any]], Result], settings: Mapping[str, object]
    ) -> Result:
        from confluent_kafka import KafkaException

        self._reach()
        own: dict[str, Any] = {
            "client.id": CLIENT_ID,
            "bootstrap.servers": self.bootstrap,
        }
        given = {**own, **settings, **self.settings}
        given["error_cb"] = self._on_error
        if "debug" not in self.settings:  # who asks for librdkafka's log gets it on stderr
            given["logger"] = _silence()
        try:
            return client(given)
        except KafkaException as error:
            raise click.UsageError(f"-X: {reason(error.args[0])}") from None

    def _on_error(self, error: KafkaError) -> None:
        self.last_error = error
        self._down = self._down or error.name() == "_ALL_BROKERS_DOWN"

    def on_life(self) -> None:
        """A broker answered."""
        self.last_error = None
        self._down = self._told_down = False

    def note_if_down(self) -> None:
        """While waiting: say, once, when no broker is left. librdkafka keeps trying."""
        if self._down and not self._told_down:
            click.echo(
                f"note: no broker can be reached at {self.bootstrap}; trying again", err=True
            )
            self._told_down = True

    def _reach(self) -> None:
        """Fail at once, with the reason, when no address accepts a connection.

        librdkafka would retry until its timeout and then only say that there was one.
        """
        if self._reached:
            return
        import socket

        reasons = []
        deadline = time.monotonic() + self.timeout_s
        for host, port in self._addresses:
            try:
                left = max(deadline - time.monotonic(), 0.05)
                socket.create_connection((host, port), left).close()
            except OSError as error:
                why = (
                    "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)
                )
                reasons.append(
                    why.lower() if len(self._addresses) == 1 else f"{host}:{port} {why.lower()}"
                )
            else:
                self._reached = True
                return
        raise Failure(
            f"no broker answered at {self.bootstrap} ({', '.join(reasons)})", self._advice()
        )

    def _advice(self) -> str:
        if all(host in {"127.0.0.1", "localhost", "::1"} for host, _ in self._addresses):
            return "start one with `barnabas up`, or name another with --bootstrap HOST:PORT"
        return "check the address and that the broker runs; --bootstrap HOST:PORT names another"

    # -- answers ---------------------------------------------------------------------------------

    def result(self, future: Future[Result], subject: str) -> Result:
        """The answer to an admin request, or a Failure about `subject`."""
        _, error = self.outcome(future)
        if error is not None:
            raise failure(subject, error)
        return future.result()

    def outcome(self, future: Future[Result]) -> tuple[Result | None, KafkaError | None]:
        """The answer or the error of an admin request; Failure when no broker answers at all."""
        from confluent_kafka import KafkaException

        try:
            return future.result(), None
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            self.check_alive(error)
            return None, error

    def check_alive(self, error: KafkaError) -> None:
        """Raise a Failure if `error` means that nobody speaks Kafka at the address."""
        if error.name() not in {"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN"}:
            return
        if self._admin is not None:
            self._admin.poll(0)  # lets librdkafka deliver what it has to say to _on_error
        why = f" ({reason(self.last_error)})" if self.last_error else ""
        raise Failure(
            f"{self.bootstrap} takes connections but gave no answer within {duration(self.timeout_s)}{why}",
            "is it a Kafka broker? --timeout waits longer; "
            "-X security.protocol=SSL or SASL_SSL if it wants TLS",
        )


def admin_api() -> Any:  # noqa: ANN401 - the module does not export its names to type checkers
    """The module confluent_kafka.admin, imported when a command needs it."""
    from confluent_kafka import admin

    return admin


def require_confluent_kafka() -> None:
    """Say what to install when the client library is missing."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise Failure(
            "this command needs confluent-kafka, which is not installed",
            "pip install 'barnabas[cli]'",
        ) from None


def _silence() -> logging.Logger:
    """A log that goes nowhere: what matters of librdkafka's chatter comes through error_cb."""
    import logging

    logger = logging.getLogger("barnabas.librdkafka")
    logger.propagate = False
    logger.setLevel(logging.CRITICAL + 1)
    return logger


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Look at `condition` until it holds or the time is over; does it hold?"""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
