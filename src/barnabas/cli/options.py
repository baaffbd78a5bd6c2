"""The options of a connection, as they are typed before the noun or after the verb.

One job: what click reads of them, and which of two places wins. Must not know how a broker is reached. Every command imports this, also those
that reach no broker and are to answer at once: it stays light (no dataclass, which is compiled at every start; see docs/pipelines-logs.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from barnabas.cli.output import FORMATS

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 10.0
_OBJ_KEY = "client_options"

Command = Callable[..., Any]


def setting(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Click callback: `name=value` options as a dict."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{text}' is not name=value")
        pairs[name] = value
    return pairs


_OPTIONS = (
    click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"Broker to ask first; several with commas. [env BARNABAS_BOOTSTRAP; default {DEFAULT_BOOTSTRAP}]",
    ),
    click.option("--profile", metavar="NAME", help="Profile of ~/.config/barnabas/profiles.toml."),
    click.option(
        "-X",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=setting,
        help="Client setting of librdkafka, as in kcat. Repeat.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0.01),
        metavar="SECONDS",
        help=f"How long to wait for an answer. [default {DEFAULT_TIMEOUT_S:g}]",
    ),
    click.option("-o", "--output", type=click.Choice(FORMATS), help="Output. [default table]"),
)


class ClientOptions(NamedTuple):
    """The options as typed in one place of the command line; None is `not typed`."""

    bootstrap: str | None = None
    profile: str | None = None
    settings: Mapping[str, str] = MappingProxyType({})
    timeout: float | None = None
    output: str | None = None

    def over(self, outer: ClientOptions) -> ClientOptions:
        """These options, and those of `outer` where these say nothing.

        An address chosen here, by --bootstrap or --profile, hides the outer profile or address.
        """
        chosen = self.bootstrap or self.profile
        return ClientOptions(
            self.bootstrap or (None if chosen else outer.bootstrap),
            self.profile or outer.profile,
            {**outer.settings, **self.settings},
            self.timeout or outer.timeout,
            self.output or outer.output,
        )


def add_options(command: Command) -> Command:
    """Give a command or group the connection options."""
    return functools.reduce(lambda inner, option: option(inner), reversed(_OPTIONS), command)


def remember(ctx: click.Context, options: ClientOptions) -> None:
    """Keep the options typed before the noun for the command that follows."""
    ctx.ensure_object(dict)[_OBJ_KEY] = options


def before_the_noun(ctx: click.Context) -> ClientOptions:
    """The options typed before the noun."""
    options: ClientOptions = ctx.ensure_object(dict).get(_OBJ_KEY, ClientOptions())
    return options


def typed_output(ctx: click.Context) -> str | None:
    """The -o typed before the noun, for commands without a connection."""
    return before_the_noun(ctx).output
