"""The results as text: a table on the terminal, and the generated part of docs/benchmarks.md. Pure but for `write_docs`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.figures import BARNABAS, KAFKA, Result, short
from bench.workloads import TITLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.history import Circumstances
    from bench.measure import Noise
    from bench.plan import Outcome

DOCS = Path(__file__).parents[1] / "docs/benchmarks.md"
BEGIN = "<!-- results: written by `make bench`, do not edit -->"
END = "<!-- end of results -->"
REASONS = "## What is missed, and why"
PARTS = ("scaling", "groups", "compaction", "w13", "w14", "templates")
"""Workloads that have a place of their own on the page, written when they are run alone."""
PARTS_OF_FULL = ("scaling", "groups")
"""Those that a full run measures as whole as when they are run alone."""
SOURCE, OF_SOURCE = "source", {"w4"}
"""The part for the source as it is, where brokers run what is compiled, and the workloads that compiling is worth the most to."""
COLUMNS = ("", "Barnabas", "Apache Kafka", "unit", "ratio", "target", "")


def cells(result: Result) -> tuple[str, ...]:
    """One row: label, both medians with their ranges, unit, ratio, target, verdict."""
    figure = result.figure
    ratio = "" if figure.own or result.ratio is None else f"{result.ratio:.2f}x"
    verdict = {True: "met", False: "MISSED", None: ""}[result.met]
    return (
        figure.label,
        ranged(result, BARNABAS),
        ranged(result, KAFKA),
        figure.unit,
        ratio,
        figure.shown_target(),
        verdict,
    )


def ranged(result: Result, broker: str) -> str:
    """A median, and the range if there is one."""
    spread = result.spread(broker)
    text = short(result.median(broker))
    if spread is None or spread[0] == spread[1]:
        return text
    return f"{text} ({short(spread[0])}..{short(spread[1])})"


def by_workload(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group results by the first part of their keys, in the order of the titles."""
    groups: dict[str, list[Result]] = {name: [] for name in TITLES}
    for result in results:
        groups[result.figure.key.partition(".")[0]].append(result)
    return {name: group for name, group in groups.items() if group}


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side: the first one to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        first, *others = (
            cell.ljust(width) if i in (0, 3, 6) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    return lines


def table(results: Iterable[Result], *, details: bool) -> str:
    """The table for a terminal."""
    groups = by_workload(r for r in results if details or not r.figure.detail)
    rows = [COLUMNS, *(cells(r) for group in groups.values() for r in group)]
    lines = iter(aligned(rows))
    out = [next(lines)]
    for name, group in groups.items():
        out += ["", f"{name.upper()}  {TITLES[name]}"]
        out += [next(lines) for _ in group]
    return "\n".join(out)


def markdown(results: Iterable[Result]) -> str:
    """The whole table for the documentation."""
    out = []
    for name, group in by_workload(results).items():
        out += [f"\n### {name.upper()}: {TITLES[name]}\n"]
        out += ["| figure | Barnabas | Apache Kafka | unit | ratio | target | |"]
        out += ["|---|---:|---:|---|---:|---|---|"]
        out += [f"| {' | '.join(cells(result))} |" for result in group]
    return "\n".join(out) + "\n"


def verdicts(results: Iterable[Result]) -> str:
    """How many targets are met, and which are not."""
    judged = [result for result in results if result.met is not None]
    missed = [result.figure.key for result in judged if not result.met]
    text = f"{len(judged) - len(missed)} of {len(judged)} targets met"
    return text + (f"; missed: {', '.join(missed)}" if missed else "")


def unexplained(page: str, results: Iterable[Result]) -> list[str]:
    """Name the missed targets for which the page gives no reason, and the reasons for what is met by now."""
    reasons = explained(page)
    judged = {result.figure.key: result.met for result in results if result.met is not None}
    missing = [key for key, met in judged.items() if not met and key not in reasons]
    outdated = [key for key in sorted(reasons) if judged.get(key)]
    return [
        *(f"missed, and no reason is given: {key}" for key in missing),
        *(f"met, but a reason is given for missing it: {key}" for key in outdated),
    ]


def explained(page: str) -> set[str]:
    """The figures named in the part of the page that is written by hand: a list, each item begins with their keys."""
    part = page.partition(REASONS)[2].partition("\n## ")[0]
    heads = [line.partition(":")[0] for line in part.splitlines() if line.startswith("- `")]
    return {word for head in heads for word in head.split("`")[1::2]}


def noise_text(outcome: Outcome) -> str:
    """What else went on: the share of the machine that neither broker nor client used, and what the host took."""
    runs = [share for shares in outcome.noise.values() for share in shares]
    if not runs:
        return "no noise was measured"
    others, stolen = ([getattr(run, part) for run in runs] for part in ("others", "stolen"))
    return (
        f"of the machine's time, others used {median(others):.1%} (at most {max(others):.1%}), "
        f"the host took {median(stolen):.1%} (at most {max(stolen):.1%})"
        f"{f'; {outcome.again} runs in which it took more were taken again' if outcome.again else ''}"
    )


def noise_rows(noise: dict[str, list[Noise]]) -> list[str]:
    """The same for each workload, as rows of a table."""
    return [
        f"| {name.upper()} | {median(n.others for n in runs):.1%} | {max(n.others for n in runs):.1%} "
        f"| {max(n.stolen for n in runs):.1%} |"
        for name, runs in noise.items()
        if runs
    ]


def part_of(names: set[str], *, compiled: bool) -> str:
    """Name the part of the page that a run of these workloads alone fills; none if it has no place there."""
    if not compiled:
        return SOURCE if names == OF_SOURCE else ""
    return next((part for part in PARTS if names == {part}), "")


def marks(part: str = "") -> tuple[str, str]:
    """Where the results of a whole run stand in the page, or those of a workload that was run alone."""
    if not part:
        return BEGIN, END
    only = f"{','.join(sorted(OF_SOURCE))} COMPILED=0" if part == SOURCE else part
    command = f"make bench ONLY={only}"
    return f"<!-- {part}: written by `{command}`, do not edit -->", f"<!-- end of {part} -->"


def generated(
    outcome: Outcome, about: Circumstances, plots: Sequence[tuple[str, str]], part: str = ""
) -> str:
    """What stands between the marks."""
    results = list(outcome.results.values())
    begin, end = marks(part)
    out = [
        begin,
        f"Barnabas {about.version} (commit {about.commit}) and Apache Kafka {about.kafka}, {about.date}, "
        f"`{about.scale}` run of {outcome.seconds / 60:.0f} minutes, librdkafka {about.librdkafka}.",
        f"Machine: {about.machine}.",
        "",
        f"**{verdicts(results)}.** Noise: {noise_text(outcome)}.",
        "",
        *(f"![{title}]({path})" for title, path in plots),
        markdown(results),
        "### Noise",
        "",
        "| workload | others, median | others, at most | taken by the host, at most |",
        "|---|---:|---:|---:|",
        *noise_rows(outcome.noise),
        "",
        *(f"- not run: {text}" for text in outcome.skipped),
        *(f"- failed: {text.splitlines()[0]}" for text in outcome.failures),
        end,
    ]
    return "\n".join(out)


def by_part(outcome: Outcome, parts: Sequence[str]) -> dict[str, Outcome]:
    """Split what a run has found into these parts of the page and, under "", the rest."""

    def belongs(workload: str, part: str) -> bool:
        return workload == part if part else workload not in parts

    return {
        part: replace(
            outcome,
            results={k: r for k, r in outcome.results.items() if belongs(k.split(".")[0], part)},
            noise={name: runs for name, runs in outcome.noise.items() if belongs(name, part)},
        )
        for part in ("", *parts)
    }


def replaced(page: str, text: str, part: str = "") -> str:
    """Put the generated text into the page between its marks."""
    begin, end = marks(part)
    before, found, rest = page.partition(begin)
    _old, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page needs the marks {begin} and {end}")
    return before + text + after


def write_docs(
    outcome: Outcome, about: Circumstances, plots: Sequence[tuple[str, str]], part: str = ""
) -> None:
    """Write docs/benchmarks.md anew between its marks."""
    text = generated(outcome, about, plots, part)
    DOCS.write_text(replaced(DOCS.read_text(), text, part))
