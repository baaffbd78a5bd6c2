"""`python -m bench`: the command line of the benchmark, as `make bench` calls it."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

import click

from bench import build, history, machine, plots, report, sizing
from bench.admin import BrokerFailed
from bench.brokers import class_path
from bench.figures import BARNABAS, KAFKA
from bench.plan import FULL, SHORT, TINY, Bench, Outcome, Scale, Step, run_all
from bench.profiling import Profiler
from bench.progress import Progress, clock
from bench.workloads import TITLES, all_steps, chosen


@click.command()
@click.option("--full", is_flag=True, help="As long as it takes, with the series and variants.")
@click.option(
    "--tiny", is_flag=True, help="Seconds, to see that everything runs: no figure means anything."
)
@click.option(
    "--quiet",
    type=click.FloatRange(min=0),
    default=0,
    metavar="MINUTES",
    help="Wait for a quiet host and take again what it disturbed, for so long at most.",
)
@click.option("--only", default="", metavar="W4,W3", help="Only these workloads.")
@click.option("--profile", is_flag=True, help="Flame graphs of Barnabas instead of figures.")
@click.option("--native", is_flag=True, help="With --profile: show C frames too.")
def main(*, full: bool, tiny: bool, quiet: float, only: str, profile: bool, native: bool) -> None:
    """Measure Barnabas against Apache Kafka with the same clients, and print the ratios."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    machine.allow_open_files()
    scale = FULL if full else TINY if tiny else SHORT
    names = wanted(only)
    if quiet:
        scale = scale._replace(patience_s=60 * quiet, limit_s=scale.limit_s + 60 * quiet)
    if names:  # who asks for some of them wants these whole, however long they take
        scale = scale._replace(limit_s=FULL.limit_s)
    steps = chosen(all_steps(scale.seconds, full=full, only=names), names)
    try:
        if profile:
            run_profile(scale, steps, native=native)
        else:
            run_comparison(scale, steps, names)
    except (build.CannotBuild, BrokerFailed) as problem:
        stop(str(problem))
    except KeyboardInterrupt:
        stop("interrupted; everything that was started is stopped")


def wanted(only: str) -> set[str]:
    """Read the list of workloads; unknown ones are refused with what there is."""
    names = {name.strip().lower() for name in only.replace(",", " ").split()}
    if unknown := names - TITLES.keys():
        known = ", ".join(name for name in TITLES if name != "memory")
        stop(f"there is no workload {', '.join(sorted(unknown))}; there are {known}")
    return names


def stop(reason: str) -> NoReturn:
    """End with a sentence."""
    click.echo(f"\nbench: {reason}", err=True)
    sys.exit(1)


def tell(line: str) -> None:
    """Say what the preparation does."""
    click.echo(line, err=True)


def measured(
    scale: Scale, steps: list[Step], brokers: list[str], profiler: Profiler | None
) -> Outcome:
    """Run the steps on the brokers."""
    if machine.free_gb() < scale.disk_gb:
        where = f"{scale.disk_gb:.0f} GB on disk; set TMPDIR to a folder with room"
        stop(f"a {scale.name} run needs up to {where}")
    tools = build.tools(tell)
    total = sum(step.seconds * (step.runs or scale.runs) * len(brokers) for step in steps)
    tell(f"{len(steps)} measurements, about {clock(total)} minutes")
    progress = Progress(total)
    try:
        with Bench(tools, scale, profiler) as bench:
            return run_all(bench, steps, brokers, progress)
    finally:
        progress.finish()


def run_comparison(scale: Scale, steps: list[Step], names: set[str]) -> None:
    """Measure both brokers and tell."""
    class_path()
    about = history.circumstances(scale.name)
    outcome = measured(scale, steps, [BARNABAS, KAFKA], None)
    if history.commit() != about.commit:
        outcome.failures.append(
            "the source changed during the run: its figures belong to no commit"
        )
    click.echo(report.table(outcome.results.values(), details=bool(names)))
    click.echo(f"\n{report.verdicts(outcome.results.values())}")
    click.echo(f"noise: {report.noise_text(outcome)}")
    click.echo(f"took {clock(outcome.seconds)} minutes on {about.machine}")
    for text in outcome.skipped:
        click.echo(f"not run: {text}")
    for text in outcome.failures:
        click.echo(f"FAILED: {text}")
    keep(outcome, about, names if scale is not TINY else {"tiny"})
    sys.exit(1 if outcome.failures else 0)


def keep(outcome: Outcome, about: history.Circumstances, names: set[str]) -> None:
    """Compare with the run before; write the results, and what a whole run or one of a part of the page keeps."""
    before = history.last_like(about)
    if before:
        click.echo(f"\nagainst {before['commit']} of {before['date']}:")
        for text in history.changes(outcome.results, before) or ["nothing with a target changed"]:
            click.echo(f"  {text}")
    click.echo(f"\nevery sample: {history.write_results(outcome, about)}")
    part = report.part_of(names, compiled=history.is_compiled())
    is_whole = not names and history.is_compiled()
    if outcome.failures or not (part or is_whole):
        plots.write_all(outcome.results, history.RESULTS / "plots")
        click.echo(f"plots: {history.RESULTS / 'plots'}")
        return
    if is_whole:
        history.append(history.line(outcome, about))
    is_full = is_whole and about.scale == FULL.name
    pieces = report.by_part(outcome, report.PARTS_OF_FULL) if is_full else {part: outcome}
    for name, piece in pieces.items():
        report.write_docs(piece, about, plots.write_all(piece.results, of_part=name), name)
    sizing.write_page()
    click.echo(f"written: {report.DOCS}{'' if part else f', {history.HISTORY}'}")
    for text in report.unexplained(report.DOCS.read_text(), outcome.results.values()):
        click.echo(f"to be written into {report.DOCS.name}: {text}")


def run_profile(scale: Scale, steps: list[Step], *, native: bool) -> None:
    """Record flame graphs of Barnabas; a profiled run is slower, so no figure is kept."""
    once = scale._replace(runs=1, seconds=max(scale.seconds, 3))
    folder = history.RESULTS / "profiles"
    profiler = Profiler(build.py_spy(), folder, history.commit(), native=native)
    outcome = measured(once, steps, [BARNABAS], profiler)
    for path in profiler.written:
        click.echo(path)
    for text in outcome.failures:
        click.echo(f"FAILED: {text}")
    if not profiler.written:
        stop(
            "py-spy wrote no flame graph; it needs the right to trace processes (root, or ptrace_scope 0)"
        )


if __name__ == "__main__":
    main()
