"""A picture of what came out: the funnel, sessions by the hour, and the pages that are looked at most.

python plot.py DIR      # the project's folder; writes activity.png into it
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pyarrow.dataset as ds


def table(folder, name):
    """A table as pandas: the newest of that name, whichever runner wrote it."""
    found = [each for each in Path(folder, ".barnabas").rglob(name) if any(each.glob("*.parquet"))]
    if not found:
        raise SystemExit(f"no table {name} under {folder}: let the pipeline run for a while")
    newest = max(found, key=lambda each: each.stat().st_mtime)
    return ds.dataset(newest).to_table().to_pandas()


def draw(folder, path):
    """Draw it."""
    funnel = table(folder, "funnel").sort_values("place", ascending=False)
    sessions, top = table(folder, "sessions"), table(folder, "top_pages")
    figure, (steps, hours, pages) = plt.subplots(1, 3, figsize=(13, 4))
    steps.barh(funnel.name, funnel.sessions, color="#2a6f97")
    for place, count in enumerate(funnel.sessions):
        steps.text(count, place, f" {count / funnel.sessions.max():.0%}", va="center")
    steps.set_title(f"how far {len(sessions):,} sessions came")
    started = sessions.started.dt.floor("h").value_counts().sort_index()
    hours.plot(started.index, started.values, marker="o", color="#2a6f97")
    hours.set_ylim(0)
    hours.tick_params(axis="x", rotation=45)
    hours.set_title("sessions by the hour")
    hours.xaxis.set_major_formatter(mpl.dates.DateFormatter("%H:%M"))
    best = top.sort_values(["views", "page"], ascending=[False, True]).head(10)[::-1]
    pages.barh(best.page, best.views, color="#bc6c25")
    pages.set_title("top pages")
    for panel in (steps, hours, pages):
        panel.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    home = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw(home, home / "activity.png")
    print(home / "activity.png")
