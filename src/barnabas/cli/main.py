"""The root of the command line: names of commands, global options, and how the process ends.

One job: find the command, run it, and turn what comes back into an exit code (0 done, 1 failed,
2 wrong command line, 130 interrupted). Commands are imported only when they run, so `--help` and
`barnabas up` do not pay for the Kafka client. No exception that a person can cause shows as a
traceback.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, cast

import click

from barnabas import __version__
from barnabas.cli.options import ClientOptions, add_options, remember

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INTERRUPTED = 130
# name: (module:attribute, help for the list of commands)
COMMANDS = {
    "up": ("barnabas.cli.up:up", "Start a broker in the foreground."),
    "cluster": (
        "barnabas.cli.cluster:cluster",
        "Start a cluster for trying; look at one, and at its health.",
    ),
    "broker": ("barnabas.cli.broker:broker", "Take a broker out of a cluster."),
    "rebalance": (
        "barnabas.cli.rebalance:rebalance",
        "Spread replicas and leaders evenly over brokers.",
    ),
    "topic": ("barnabas.cli.topic:topic", "Create, list, describe, alter and delete topics."),
    "group": ("barnabas.cli.group:group", "Consumer groups: lag, members, moving offsets."),
    "txn": ("barnabas.cli.txn:txn", "Transactions: which are open, which hang, aborting them."),
    "produce": ("barnabas.cli.produce:produce", "Send lines, files or JSON as records to a topic."),
    "consume": ("barnabas.cli.consume:consume", "Read records of a topic."),
    "config": ("barnabas.cli.config:config", "Get and set settings of topics and brokers."),
    "quota": (
        "barnabas.cli.quota:quota",
        "Limit how much users, client ids and addresses may do.",
    ),
    "acl": ("barnabas.cli.acl:acl", "Say who may do what, and ask who may."),
    "user": ("barnabas.cli.user:user", "Say who can log in by SCRAM."),
    "log": ("barnabas.cli.log:log", "Look into a data directory, check it, repair it."),
    "import-kafka": (
        "barnabas.cli.import_kafka:import_kafka",
        "Bring the data directory of an Apache Kafka in.",
    ),
    "zookeeper": (
        "barnabas.cli.zookeeper:zookeeper",
        "Run ZooKeeper, which brokers need to form a cluster.",
    ),
    "spark": (
        "barnabas.cli.spark:spark",
        "Keep a Spark running for programs; follow streaming queries.",
    ),
    "logs": ("barnabas.cli.logs:logs", "Search logs that a pipeline has indexed."),
    "pipeline": (
        "barnabas.cli.pipeline:pipeline",
        "Data pipelines on Spark: start, check, run, watch.",
    ),
    "dlq": ("barnabas.cli.dlq:dlq", "Dead letters: which, why, sending them back."),
    "completion": ("barnabas.cli.completion:completion", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported at first use."""

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:  # noqa: ANN401
        """`table` maps a name to (module:attribute, help)."""
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(self._table)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import the command called `name`."""
        if name not in self._table:
            return None
        module, _, attribute = self._table[name][0].partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - the command's own result
        """Run the command. A reader of stdout that has gone (`| head`) is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return 0

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names of commands and options, again without importing."""
        from click.shell_completion import CompletionItem

        names = [n for n in self._table if n.startswith(incomplete)]
        items = [CompletionItem(name, help=self._table[name][1]) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@add_options
@click.version_option(__version__, prog_name="barnabas", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - click's own values
    """A commit log broker that speaks Kafka, and a tool for any Kafka.

    Options of the connection may stand here or after the command.
    """
    remember(ctx, ClientOptions(**options))


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `barnabas` script."""
    _open_closed_streams()
    try:
        code = cli.main(arguments, prog_name="barnabas", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        code = INTERRUPTED
    except OSError as error:
        code = _report(error)
    sys.exit(_finish(code if isinstance(code, int) else 0))


def _open_closed_streams() -> None:
    """Put /dev/null where stdin, stdout or stderr were closed (`>&-`): no file of ours may get their number."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115


def _report(error: OSError) -> int:
    where = f"{error.filename}: " if error.filename else ""
    click.echo(f"error: {where}{error.strerror or error}", err=True)
    return 1


def _finish(code: int) -> int:
    """Flush stdout here, where a reader that went away (`| head`) can be forgiven."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered has nowhere to go; the interpreter must not try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    gc.freeze()  # what is left goes with the process: looking through it twice took 7 ms of a command's 65
    return code


if __name__ == "__main__":
    main()
