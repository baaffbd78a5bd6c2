"""How good the suggestions are: each customer's last new product is held back, and looked for among ten suggestions.

python evaluate.py [--count 20000] [--plot hits.png]

Compared: what is most popular, what is similar to the last things looked at (the stream's rule), and what the night's work learns.
"""

from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

import click
import functions as f
import generate
from pyspark.sql import SparkSession

SUGGESTED = 10
#: Of a customer's last visits, how many the stream's suggestions are asked for.
LOOKED_AT = 5


def held_back(visits: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Split off each customer's last product that was not looked at before: what is left, and what is to be found."""
    first_seen: dict[str, dict[str, int]] = defaultdict(dict)
    for number, visit in enumerate(visits):
        first_seen[visit["customer"]].setdefault(visit["product"], number)
    wanted, cut = {}, {}
    for customer, products in first_seen.items():
        product, number = max(products.items(), key=lambda each: each[1])
        if len(products) > 1:
            wanted[customer], cut[customer] = product, number
    left = [v for number, v in enumerate(visits) if number < cut.get(v["customer"], len(visits))]
    return left, wanted


def popular(visits: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Suggest what most look at, to everyone who has not."""
    ranking = [product for product, _ in Counter(v["product"] for v in visits).most_common()]
    return {
        customer: [each for each in ranking if each not in seen][:SUGGESTED]
        for customer, seen in _seen(visits).items()
    }


def similar(visits: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Suggest what is similar to each customer's last products, as the stream finds it."""
    neighbours = neighbours_of(visits)
    suggestions = {}
    for customer, seen in _seen(visits).items():
        scores: Counter[str] = Counter()
        for product in list(seen)[-LOOKED_AT:]:
            for other, score in neighbours.get(product, {}).items():
                if other not in seen:
                    scores[other] += score
        suggestions[customer] = [each for each, _ in scores.most_common(SUGGESTED)]
    return suggestions


def neighbours_of(visits: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Count pairs as the stream does: the scores of each product's neighbours."""
    recent: dict[str, list[f.Visit]] = defaultdict(list)
    neighbours: dict[str, dict[str, float]] = defaultdict(dict)
    at_ms: dict[str, int] = defaultdict(int)
    for each in visits:
        at = f.milliseconds(datetime.fromisoformat(each["at"]))
        visit = f.Visit(each["product"], at, f.weight(each["action"], each["seconds"]))
        mine = recent[each["customer"]]
        for pair in f.pairs_with(visit, mine):
            product = pair.product
            at_ms[product] = f.add_pair(neighbours[product], at_ms[product], pair)
        mine.append(visit)
        del mine[: -f.VISITS_MAX]
    return neighbours


def learned(spark: SparkSession, visits: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Suggest what the night's work does."""
    import overnight

    rows = [{**each, "at": datetime.fromisoformat(each["at"])} for each in visits]
    found = overnight.recommend(spark.createDataFrame(rows, f.VISIT), SUGGESTED)
    suggestions: dict[str, list[str]] = defaultdict(list)
    for row in found.orderBy("customer", "place").collect():
        suggestions[row.customer].append(row.product)
    return suggestions


def hit_rate(suggestions: dict[str, list[str]], wanted: dict[str, str]) -> float:
    """Tell of how many customers the product held back was suggested."""
    return sum(product in suggestions.get(who, ()) for who, product in wanted.items()) / len(wanted)


def compare(spark: SparkSession, visits: list[dict[str, Any]]) -> dict[str, float]:
    """Measure all three."""
    left, wanted = held_back(visits)
    return {
        "most popular": hit_rate(popular(left), wanted),
        "similar (stream)": hit_rate(similar(left), wanted),
        "learned (overnight)": hit_rate(learned(spark, left), wanted),
    }


def plot(rates: dict[str, float], path: str) -> None:
    """Draw the hit rates."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
    bars = axes.barh(list(rates), list(rates.values()), color=["#999999", "#4477aa", "#228833"])
    axes.bar_label(bars, [f"{each:.1%}" for each in rates.values()], padding=4)
    axes.set(
        xlabel=f"the product held back is among {SUGGESTED} suggestions",
        xlim=(0, max(rates.values()) * 1.15),
    )
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _seen(visits: list[dict[str, Any]]) -> dict[str, dict[str, None]]:
    """List each customer's products, the latest last."""
    seen: dict[str, dict[str, None]] = defaultdict(dict)
    for each in visits:
        mine = seen[each["customer"]]
        mine.pop(each["product"], None)
        mine[each["product"]] = None
    return seen


@click.command(help=__doc__)
@click.option(
    "--count", type=click.IntRange(100), default=20_000, show_default=True, help="Visits to make."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--plot", "path", type=click.Path(dir_okay=False), help="A picture of it, as PNG.")
def main(count: int, seed: int, path: str | None) -> None:
    """Measure and tell."""
    from barnabas.pipelines import session

    rates = compare(session("suggestions evaluate", quick=True), list(generate.visits(seed, count)))
    for name, rate in rates.items():
        click.echo(f"{name:20} {rate:6.1%}")
    if path:
        plot(rates, path)


if __name__ == "__main__":
    main()
