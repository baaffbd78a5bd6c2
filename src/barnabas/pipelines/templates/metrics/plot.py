"""A picture of what came out: minutes of each service, with the alerts that they raised.

python plot.py DIR      # the project's folder; writes metrics.png into it
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import functions
import matplotlib.pyplot as plt
import pyarrow.dataset as ds

SHOWN = (
    ("requests", "total", "requests a minute"),
    ("errors", "total", "errors a minute"),
    ("cpu", "mean", "CPU, %"),
)


def table(folder, name):
    """A table as pandas: the newest of that name, whichever runner wrote it; None if it has no rows yet."""
    found = [each for each in Path(folder, ".barnabas").rglob(name) if any(each.rglob("*.parquet"))]
    if not found:
        return None
    newest = max(found, key=lambda each: each.stat().st_mtime)
    return ds.dataset(newest).to_table().to_pandas()


def draw(minutes, late_count, path):
    """Draw it."""
    limits = {name: limit for name, _, comparison, limit, _ in functions.RULES if comparison == ">"}
    figure, panels = plt.subplots(1, len(SHOWN), figsize=(12, 3.8))
    for panel, (name, aggregate, title) in zip(panels, SHOWN, strict=True):
        for service, rows in minutes[minutes.name == name].groupby("service"):
            rows = rows.sort_values("minute")
            panel.plot(rows.minute, rows[aggregate], marker=".", label=service)
            if name in limits:
                bad = rows[rows[aggregate] > limits[name]]
                panel.scatter(bad.minute, bad[aggregate], color="#c8553d", zorder=3, s=45)
        if name in limits:
            panel.axhline(limits[name], color="#c8553d", linewidth=0.8, linestyle="--")
        panel.set_title(title)
        panel.tick_params(axis="x", rotation=45)
        panel.xaxis.set_major_formatter(mpl.dates.DateFormatter("%H:%M"))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"{minutes.readings.sum():,.0f} readings in time, {late_count:,} late; alerts in red"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(folder):
    minutes, late = table(folder, "per_minute"), table(folder, "late")
    if minutes is None:
        raise SystemExit(
            f"no minute is closed yet under {folder}: let the pipeline run for a while"
        )
    draw(minutes, 0 if late is None else len(late), Path(folder) / "metrics.png")
    print(Path(folder) / "metrics.png")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
