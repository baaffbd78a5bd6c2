"""A picture of what the topic has: how each table grew, change by change, and where its columns changed.

python plot.py DIR --bootstrap 127.0.0.1:9092      # writes DIR/commitlog.png
"""

import json
from pathlib import Path

import click
import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from barnabas.pipelines.whole_topic import read_topic


def changes(bootstrap):
    """All changes in the order of their positions: position, table, kind, key."""
    found = []
    for record in read_topic(bootstrap, "changes"):
        try:
            table, *key = json.loads(record.key)
            if record.value is None:
                found.append((int(dict(record.headers)["position"]), table, "delete", tuple(key)))
            else:
                position = json.loads(record.value)["position"]
                is_schema = isinstance(key[0], dict)
                found.append((position, table, "schema" if is_schema else "row", str(key)))
        except (ValueError, TypeError, KeyError):
            continue
    return sorted(found, key=lambda each: each[0])


def draw(found, path):
    """Draw it."""
    figure, (growth, kinds) = plt.subplots(1, 2, figsize=(11, 3.8), width_ratios=[2, 1])
    tables = sorted({table for _, table, _, _ in found})
    counts = {"insert": [0] * len(tables), "update": [0] * len(tables), "delete": [0] * len(tables)}
    for place, (table, colour) in enumerate(
        zip(tables, ("#2a6f97", "#bc6c25", "#6a994e"), strict=False)
    ):
        keys, positions, sizes = set(), [], []
        for position, of, kind, key in found:
            if of != table:
                continue
            if kind == "schema":
                growth.axvline(position, color=colour, linewidth=0.9, linestyle=":")
                continue
            name = "delete" if kind == "delete" else "update" if str(key) in keys else "insert"
            counts[name][place] += 1
            keys.discard(str(list(key))) if kind == "delete" else keys.add(str(key))
            positions.append(position)
            sizes.append(len(keys))
        growth.plot(positions, sizes, color=colour, label=table)
    growth.set_title("rows of each table; dotted: its columns changed")
    growth.set_xlabel("position in the source's log")
    growth.legend(frameon=False)
    left = [0] * len(tables)
    for (name, each), colour in zip(counts.items(), ("#6a994e", "#a7c957", "#bc4749"), strict=True):
        kinds.barh(tables, each, left=left, color=colour, label=name)
        left = [a + b for a, b in zip(left, each, strict=True)]
    kinds.set_title("changes")
    kinds.legend(frameon=False)
    for panel in (growth, kinds):
        panel.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


@click.command(help=__doc__)
@click.argument("folder", default=".")
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True)
def main(folder, bootstrap):
    draw(changes(bootstrap), Path(folder) / "commitlog.png")
    print(Path(folder) / "commitlog.png")


if __name__ == "__main__":
    main()
