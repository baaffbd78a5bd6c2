"""Shell completion: the script for each shell, and the names it offers.

One job. Completion runs while someone types, so it asks the broker briefly and, whatever goes
wrong, offers nothing instead of an error.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from barnabas.cli.connection import connect
from barnabas.cli.options import ClientOptions

_COMPLETION_TIMEOUT_S = 1.0
_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(barnabas completion bash)"      in ~/.bashrc
    zsh:   eval "$(barnabas completion zsh)"       in ~/.zshrc
    fish:  barnabas completion fish > ~/.config/fish/completions/barnabas.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "barnabas", "_BARNABAS_COMPLETE")
    click.echo(script.source_template % script.source_vars())


def topic_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of topics that begin with what was typed."""
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        return []
    try:
        admin = connect(_typed_options(ctx), os.environ).admin()
        topics = admin.list_topics(timeout=_COMPLETION_TIMEOUT_S).topics
    except (click.ClickException, KafkaException):
        return []
    return sorted(name for name in topics if name.startswith(incomplete))


def group_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of groups that begin with what was typed."""
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        return []
    try:
        admin = connect(_typed_options(ctx), os.environ).admin()
        listed = admin.list_consumer_groups(request_timeout=_COMPLETION_TIMEOUT_S).result()
    except (click.ClickException, KafkaException):
        return []
    names = [found.group_id for found in listed.valid or ()]
    return sorted(name for name in names if name.startswith(incomplete))


def _typed_options(ctx: click.Context) -> ClientOptions:
    """The connection options typed so far, in this command or before it."""
    options = ClientOptions(timeout=_COMPLETION_TIMEOUT_S)
    context: click.Context | None = ctx
    while context is not None:
        params = context.params
        options = options.over(
            ClientOptions(
                params.get("bootstrap"), params.get("profile"), params.get("settings") or {}
            )
        )
        context = context.parent
    return options
