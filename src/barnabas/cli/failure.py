"""What a person is told when a command cannot do its work.

One job: turn an error into a sentence that says what was wrong, with which value, and what to do
next. Must not know any command. Exit codes: 1 when the work failed, 2 when the command line was
wrong (click's UsageError), 0 otherwise.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click

from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError


class Failure(click.ClickException):
    """The work failed: a message, and a hint at the next step if there is one."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        """`message` is one clause without a full stop; `hint` says what to do next."""
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the message to stderr, the hint on a line of its own."""
        click.echo(f"error: {printable(self.message)}", err=True, file=file)
        if self.hint:
            click.echo(f"       {printable(self.hint)}", err=True, file=file)


# What to do next, by librdkafka's name of the error. {subject} is what the command was about.
_HINTS = {
    "UNKNOWN_TOPIC_OR_PART": "`barnabas topic list` shows the topics there are",
    "_UNKNOWN_TOPIC": "`barnabas topic list` shows the topics there are",
    "_UNKNOWN_PARTITION": "`barnabas topic describe` shows the partitions there are",
    "TOPIC_ALREADY_EXISTS": "add --if-not-exists if that is fine",
    "TOPIC_AUTHORIZATION_FAILED": "ask for the right on this topic, or use another user (-X sasl.username=...)",
    "CLUSTER_AUTHORIZATION_FAILED": "this needs a right on the cluster; use another user (-X sasl.username=...)",
    "_AUTHENTICATION": "check -X sasl.mechanism, sasl.username, sasl.password and security.protocol",
    "SASL_AUTHENTICATION_FAILED": "check -X sasl.mechanism, sasl.username, sasl.password",
    "_SSL": "check -X security.protocol and ssl.ca.location",
    "MSG_SIZE_TOO_LARGE": "the topic's max.message.bytes is the limit; `barnabas config get topic NAME max.message.bytes` shows it",
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than min.insync.replicas asks for; `barnabas topic describe` shows them",
    "_MSG_TIMED_OUT": "the broker did not acknowledge in time; -X message.timeout.ms=... waits longer",
    "_TIMED_OUT": "--timeout waits longer",
    "_UNSUPPORTED_FEATURE": "the broker does not offer what this command needs",
}
_REASONS = {
    "UNKNOWN_TOPIC_OR_PART": "it does not exist",
    "_MSG_TIMED_OUT": "not acknowledged in time",
    "_TIMED_OUT": "no answer in time",
    "_TRANSPORT": "the connection to the broker broke",
    "_ALL_BROKERS_DOWN": "no broker can be reached",
}


def reason(error: KafkaError) -> str:
    """The error in one clause, without librdkafka's prefixes."""
    known = _REASONS.get(error.name())
    if known:
        return known
    text = error.str().removeprefix("Broker: ").removeprefix("Local: ").strip()
    if text.endswith(
        ":"
    ):  # librdkafka names the request and quotes a message that the broker left empty
        text += f" {error.name()}"
    return text.rstrip(".") or error.name()


def hint_for(error: KafkaError) -> str | None:
    """What to do next about this error, if there is anything to say."""
    return _HINTS.get(error.name())


def failure(subject: str, error: KafkaError) -> Failure:
    """A Failure that says what went wrong with `subject`."""
    return Failure(f"{subject}: {reason(error)}", hint_for(error))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint at the known name that looks most like `name`."""
    import difflib

    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else None
