"""A picture of what came out: events by level over time, and who has the errors.

python plot.py DIR      # the project's folder; writes logs.png into it
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pyarrow.dataset as ds

LEVELS = {"debug": "#b8c4ce", "info": "#5b8db8", "warning": "#e0a33e", "error": "#c8553d", "critical": "#6d213c"}  # fmt: skip


def events(folder):
    """The table as pandas: the newest, whichever runner wrote it."""
    found = [each for each in Path(folder, ".barnabas").rglob("events") if any(each.rglob("*.parquet"))]  # fmt: skip
    if not found:
        raise SystemExit(f"there are no events under {folder} yet: run the pipeline first")
    newest = ds.dataset(max(found, key=lambda each: each.stat().st_mtime), partitioning="hive")
    columns = ["time", "level", "source", "format"]
    return newest.to_table(columns=columns).to_pandas().dropna(subset="time")


def draw(frame, path):
    """Draw it."""
    figure, (over_time, by_source) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(2, 1))
    seconds = (frame.time - frame.time.min()).dt.total_seconds()
    width = max(1, round(seconds.max() / 60))
    counts = frame.groupby([(seconds // width * width), "level"]).size().unstack(fill_value=0)
    below = 0
    for level, colour in LEVELS.items():
        if level in counts:
            over_time.bar(counts.index, counts[level], width * 0.9, bottom=below, color=colour, label=level, align="edge")  # fmt: skip
            below = below + counts[level]
    over_time.set(ylabel=f"events in {width} s", title="Events by level, over seconds")
    over_time.legend(
        frameon=False, ncols=len(LEVELS), loc="upper center", bbox_to_anchor=(0.5, -0.13)
    )
    bad = frame[frame.level.isin(["error", "critical"])].groupby("source").size().nlargest(8)
    by_source.barh(bad.index[::-1], bad.to_numpy()[::-1], color=LEVELS["error"])
    by_source.set(xlabel="errors", title="Who has the errors")
    for each in (over_time, by_source):
        each.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(folder):
    draw(events(folder), Path(folder) / "logs.png")
    print(Path(folder) / "logs.png")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
