"""Plots as small SVG files, written by hand so that the benchmark needs no plotting library. Pure but for `write_all`."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.figures import BARNABAS, KAFKA, Result, short

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parents[1] / "docs/benchmarks"
COLOURS = {BARNABAS: "#2563a8", KAFKA: "#b4571f"}
NAMES = {BARNABAS: "Barnabas", KAFKA: "Apache Kafka"}
MET, MISSED, PLAIN = "#2e8b57", "#c0392b", "#7f8c8d"
ROW, LEFT, RIGHT, BAR = 20, 330, 190, 300
SPAN = 8.0
"""Ratios are drawn from 1/8 to 8."""


def svg(width: float, height: float, parts: Sequence[str]) -> str:
    """Wrap shapes into a document; readable on light and dark pages."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def text(x: float, y: float, content: str, anchor: str = "start", colour: str = "#222222") -> str:
    """Place words."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(content)}</text>'


def line(start: tuple[float, float], end: tuple[float, float], colour: str = "#cccccc") -> str:
    """Draw a line."""
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def advantage(result: Result) -> float:
    """How many times better Barnabas is, within the span that is drawn."""
    ratio = result.ratio or 1.0
    better = ratio if result.figure.higher else 1 / ratio
    return min(SPAN, max(1 / SPAN, better))


def ratios(results: Sequence[Result]) -> str:
    """One bar for every figure with a target: to the right where Barnabas is better."""
    rows = [r for r in results if r.figure.target is not None and not r.figure.own and r.ratio]
    if not rows:
        return ""
    height = ROW * len(rows) + 50
    middle = LEFT + BAR / 2
    parts = [text(middle, 16, "worse  ←  1x  →  better than Apache Kafka", "middle")]
    parts.append(line((middle, 26), (middle, height - 10), "#222222"))
    for number, result in enumerate(rows):
        y = 30 + ROW * number
        reach = math.log(advantage(result)) / math.log(SPAN) * BAR / 2
        colour = MET if result.met else MISSED
        x = middle + min(0.0, reach)
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{abs(reach):.1f}" height="{ROW - 6}" fill="{colour}"/>'
        )
        parts.append(text(LEFT - 8, y + 11, result.figure.label.replace("… ", ""), "end"))
        shown = f"{result.ratio:.2f}x (target {result.figure.shown_target()})"
        parts.append(text(LEFT + BAR + 8, y + 11, shown))
    return svg(LEFT + BAR + RIGHT, height, parts)


class Axes(NamedTuple):
    """A square of the page and the values that it shows, both axes logarithmic."""

    xs: tuple[float, float]
    ys: tuple[float, float]
    left: float = 70
    top: float = 30
    width: float = 480
    height: float = 240

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Find the point for two values."""
        return (
            self.left + self.width * _share(x, self.xs),
            self.top + self.height * (1 - _share(y, self.ys)),
        )


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = (math.log10(bound) for bound in bounds)
    return (math.log10(value) - low) / (high - low or 1)


def decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


Series = dict[str, list[tuple[float, float]]]


def curves(title: str, unit: str, series: Series) -> str:
    """Both brokers' values over a count, on logarithmic axes."""
    points = [point for values in series.values() for point in values if point[1] > 0]
    if not points:
        return ""
    axes = Axes(decades([x for x, _ in points]), decades([y for _, y in points]))
    parts = [text(axes.left, 18, f"{title} ({unit})"), *grid(axes)]
    for number, (broker, values) in enumerate(series.items()):
        colour = COLOURS[broker]
        placed = [axes.place(x, y) for x, y in values if y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(text(axes.left + 380, 40 + 16 * number, NAMES[broker], "start", colour))
    return svg(axes.left + axes.width + 30, axes.top + axes.height + 40, parts)


def grid(axes: Axes) -> list[str]:
    """Lines and numbers at the powers of ten."""
    parts = []
    for value in powers(axes.xs):
        x, bottom = axes.place(value, axes.ys[0])
        parts += [line((x, axes.top), (x, bottom)), text(x, bottom + 16, f"{value:,.0f}", "middle")]
    for value in powers(axes.ys):
        left, y = axes.place(axes.xs[0], value)
        parts += [
            line((left, y), (left + axes.width, y)),
            text(left - 6, y + 4, short(value), "end"),
        ]
    return parts


def powers(bounds: tuple[float, float]) -> list[float]:
    """The powers of ten from one bound to the other."""
    low, high = (round(math.log10(bound)) for bound in bounds)
    return [10.0**power for power in range(low, high + 1)]


def scaling_series(results: dict[str, Result], kind: str, part: str) -> Series:
    """Collect a series such as scaling.partitions.N.cpu."""
    series: Series = {BARNABAS: [], KAFKA: []}
    for key, result in results.items():
        names = key.split(".")
        if len(names) == 4 and names[0] == "scaling" and (names[1], names[3]) == (kind, part):
            for broker, points in series.items():
                value = result.median(broker)
                if value is not None:
                    points.append((float(names[2]), value))
    return {broker: sorted(points) for broker, points in series.items()}


def latency_series(results: dict[str, Result], key: str) -> Series:
    """Collect the quantiles of a latency, over 1 / (1 - quantile)."""
    quantiles = {"p50": 2, "p99": 100, "p999": 1000}
    series: Series = {}
    for broker in (BARNABAS, KAFKA):
        found = ((x, results[f"{key}.{name}"].median(broker)) for name, x in quantiles.items())
        series[broker] = [(float(x), value) for x, value in found if value is not None]
    return series


def all_plots(results: dict[str, Result]) -> dict[str, tuple[str, str]]:
    """Give every plot that there are values for: file name to title and document."""
    plots = {"ratios": ("Ratios to Apache Kafka", ratios(list(results.values())))}
    if "w3.linger.p50" in results:
        title = "W3: latency by one record in so many (2: median, 100: p99, 1,000: p99.9)"
        plots["latency"] = (title, curves(title, "µs", latency_series(results, "w3.linger")))
    for kind in ("partitions", "connections"):
        for part, what, unit in (
            ("cpu", "CPU per million requests", "s"),
            ("memory", f"memory per {kind[:-1]}", "KB"),
        ):
            title = f"{what[0].upper()}{what[1:]} by number of {kind}"
            document = curves(title, unit, scaling_series(results, kind, part))
            plots[f"{kind}-{part}"] = (title, document)
    return {name: plot for name, plot in plots.items() if plot[1]}


def write_all(
    results: dict[str, Result], folder: Path = FOLDER, of_part: str = ""
) -> list[tuple[str, str]]:
    """Write the plots; give titles and paths as the page in docs/ names them.

    A part of the page, run alone, must not take the place of the plot of all ratios.
    """
    folder.mkdir(exist_ok=True)
    made = []
    for name, (title, document) in all_plots(results).items():
        if of_part and name == "ratios":
            continue
        (folder / f"{name}.svg").write_text(document)
        made.append((title, f"{folder.name}/{name}.svg"))
    return made
