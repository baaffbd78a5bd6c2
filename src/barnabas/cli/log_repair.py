"""`barnabas log repair`: make a damaged data directory whole again.

One job: the command around storage/repair.py: lock, look, show the plan, ask, do it. What is damaged goes to quarantine;
nothing is thrown away.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.failure import Failure
from barnabas.cli.log_verify import Target, Verification, run, summary
from barnabas.cli.offline import output_option, progress, take_lock
from barnabas.cli.output import counted, emit
from barnabas.runtime.disk import RealDisk
from barnabas.runtime.read_only_disk import ReadOnlyDisk
from barnabas.storage.directory import parse_folder
from barnabas.storage.rebuild import remove_temporary
from barnabas.storage.repair import Step, plan_directory

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@output_option()
def repair(directory: str, output: str, *, dry_run: bool, yes: bool) -> None:
    """Rebuild indexes, cut torn ends, move damaged bytes to quarantine.

    DIRECTORY is a data directory that no broker runs on. Offsets never change: where records were lost, readers pass over
    them. Damaged bytes are kept in the folder `quarantine` of their partition.
    """
    if output != "table" and not (dry_run or yes):
        raise click.UsageError(f"-o {output} cannot ask: add --yes or --dry-run")
    directory = os.path.abspath(directory)
    if parse_folder(os.path.basename(directory)) is not None:
        raise Failure(
            f"{directory} is one partition's folder", "repair takes the whole data directory"
        )
    lock = take_lock(directory)
    try:
        found = run(ReadOnlyDisk(), Target(directory))
        steps = plan_directory(found.view, found.reports)
        if output == "table":
            _show(found, steps)
        if steps and not dry_run:
            if not yes:
                click.confirm("go on?", abort=True, err=True)
            _do(found, steps)
        if output != "table":
            emit(_as_json(directory, steps, done=not dry_run), output)
    finally:
        lock.release()


def _show(found: Verification, steps: Sequence[Step]) -> None:
    click.echo(summary(found), err=True)
    for step in steps:
        click.echo(step.describe().replace(found.view.path + "/", ""))
    if not steps:
        click.echo("nothing to repair", err=True)


def _do(found: Verification, steps: Sequence[Step]) -> None:
    disk = RealDisk()
    try:
        for key in found.reports:
            remove_temporary(disk, f"{found.view.path}/{key}")
        with progress(len(steps), "repairing") as advance:
            for step in steps:
                step.run(disk)
                advance(1)
    finally:
        disk.close()
    click.echo(f"done: {counted(len(steps), 'step')}", err=True)


def _as_json(directory: str, steps: Sequence[Step], *, done: bool) -> dict[str, Any]:
    return {
        "path": directory,
        "done": done,
        "steps": [
            {"action": type(step).__name__, "description": step.describe()} for step in steps
        ],
    }
