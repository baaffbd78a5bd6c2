"""What a million events a second would need, worked out from the figures that stand in docs/benchmarks.md. Pure but for `write_page`.

The table in docs/pipelines-sizing.md is written by whoever writes the figures, and a test sees whether it still follows from them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from bench import report
from bench.workloads.templates import TEMPLATES

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = report.DOCS.parent / "pipelines-sizing.md"
BEGIN: Final = "<!-- sizing: written by `make bench ONLY=templates`, do not edit -->"
END: Final = "<!-- end of sizing -->"
EVENTS_PER_S: Final = 1_000_000
HEADROOM: Final = 0.7
"""Of a core's time, what is planned to be used: the rest is for spikes, and for catching up."""
REPLICAS: Final = 3
NUMBER: Final = re.compile(r"[\d,.]*\d")

PER_CPU, BYTES = "… for each second of Spark's CPU", "… bytes of key and value"
WRITE_COST = ("produce 1 KB, 16 partitions, acks all", "… CPU of the cluster")
READ_COST = "broker CPU, consume 1 KB, 16 partitions"


class Measured(NamedTuple):
    """The figures that are needed: of each template, and of brokers in CPU seconds for each GB."""

    per_core: dict[str, float]
    bytes_per_event: dict[str, float]
    write_s_per_gb: float
    """Of a cluster of three, replication 3, acks all."""
    read_s_per_gb: float


class Need(NamedTuple):
    """What a template would need at EVENTS_PER_S."""

    template: str
    per_core: float
    spark_cores: int
    mb_s: float
    broker_cores: int
    network_gbit_s: float
    disk_tb_day: float


def rows(page: str, part: str) -> list[tuple[str, float]]:
    """Give label and Barnabas's median of every figure between two marks of the page."""
    begin, end = report.marks(part)
    text = page.partition(begin)[2].partition(end)[0]
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) > 2 and (number := NUMBER.match(cells[1])):
            found.append((cells[0], float(number[0].replace(",", ""))))
    return found


def read(page: str) -> Measured | None:
    """Read the figures; None if some were not measured yet."""
    templates, w13, whole = rows(page, "templates"), rows(page, "w13"), rows(page, "")
    per_core, sizes = after(templates, PER_CPU), after(templates, BYTES)
    write = after(w13, WRITE_COST[1]).get(WRITE_COST[0])
    consume = dict(whole).get(READ_COST)
    if write is None or consume is None or not TEMPLATES.keys() <= per_core.keys():
        return None
    return Measured(per_core, sizes, write, consume)


def after(figures: list[tuple[str, float]], label: str) -> dict[str, float]:
    """Give the figures of this label, by the label of the figure that they say more about."""
    found, head = {}, ""
    for name, value in figures:
        if name == label:
            found[head] = value
        elif not name.startswith("…"):
            head = name
    return found


def needs(measured: Measured) -> list[Need]:
    """Work it out for every template."""
    return [need(template, measured) for template in TEMPLATES]


def need(template: str, measured: Measured) -> Need:
    """Work it out for one."""
    readers, per_core = TEMPLATES[template].readers, measured.per_core[template]
    gb_s = EVENTS_PER_S * measured.bytes_per_event[template] / 1e9
    broker_cores = gb_s * (measured.write_s_per_gb + readers * measured.read_s_per_gb)
    return Need(
        template,
        per_core,
        math.ceil(EVENTS_PER_S / per_core / HEADROOM),
        gb_s * 1000,
        math.ceil(broker_cores / HEADROOM),
        gb_s * 8 * (1 + (REPLICAS - 1) + readers),
        gb_s * 86_400 * REPLICAS / 1000,
    )


def table(measured: Measured | None) -> str:
    """Write what stands between the marks."""
    if measured is None:
        lines = ["Not measured yet: `make bench ONLY=templates` writes what follows from its figures."]  # fmt: skip
    else:
        lines = [
            f"Brokers: {measured.write_s_per_gb:.1f} CPU seconds for each GB written, {measured.read_s_per_gb:.2f} for each GB read.",
            "",
            "| template | events/s of one core | Spark's cores | bytes of an event | MB/s | readers | brokers' cores | network, Gbit/s | disk, TB a day |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
            *(_line(each, measured) for each in needs(measured)),
        ]
    return "\n".join([BEGIN, *lines, END])


def _line(need: Need, measured: Measured) -> str:
    size = measured.bytes_per_event[need.template]
    cells = [
        f"[{need.template}](pipelines-{need.template}.md)", f"{need.per_core:,.0f}", f"{need.spark_cores:,}", f"{size:,.0f}", f"{need.mb_s:,.0f}",
        str(TEMPLATES[need.template].readers), f"{need.broker_cores:,}", f"{need.network_gbit_s:.1f}", f"{need.disk_tb_day:.0f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def replaced(page: str, text: str) -> str:
    """Put the table into the page between its marks."""
    before, found, rest = page.partition(BEGIN)
    _old, ended, behind = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the page needs the marks {BEGIN} and {END}")
    return before + text + behind


def write_page(figures: Path = report.DOCS, page: Path = PAGE) -> None:
    """Write the table anew from the figures that the other page has by now."""
    page.write_text(replaced(page.read_text(), table(read(figures.read_text()))))


if __name__ == "__main__":
    write_page()
