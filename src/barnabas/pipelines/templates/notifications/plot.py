"""A picture of what became of requests, and how many notifications they were.

python plot.py DIR --bootstrap 127.0.0.1:9092      # writes DIR/notifications.png
"""

import json
from collections import Counter
from pathlib import Path

import click
import functions
import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from barnabas.pipelines.whole_topic import read_topic

OUTCOMES = {"sent": "#2a6f97", "grouped": "#61a5c2", "suppressed": "#adb5bd", "refused": "#bc4749"}


def read(bootstrap):
    """Count outcomes by application, and requests and notifications by channel."""
    outcomes, channels = Counter(), {}
    for record in read_topic(bootstrap, functions.OUTCOMES):
        said = json.loads(record.value)
        outcomes[said["app"], said["outcome"]] += 1
    for record in read_topic(bootstrap, "notification-requests.dlq"):
        try:
            app = str(json.loads(record.value)["app"])
        except (ValueError, TypeError, KeyError):
            app = "unreadable"
        outcomes[app, "refused"] += 1
    for channel, topic in functions.TOPICS.items():
        sizes = [len(json.loads(each.value)["requests"]) for each in read_topic(bootstrap, topic)]
        channels[channel] = (sum(sizes), len(sizes))
    return outcomes, channels


def draw(outcomes, channels, path):
    """Draw it."""
    figure, (by_app, by_channel) = plt.subplots(1, 2, figsize=(11, 3.8))
    apps = sorted({app for app, _ in outcomes})
    left = [0] * len(apps)
    for outcome, colour in OUTCOMES.items():
        each = [outcomes[app, outcome] for app in apps]
        by_app.barh(apps, each, left=left, color=colour, label=outcome)
        left = [a + b for a, b in zip(left, each, strict=True)]
    by_app.set_title(f"what became of {sum(outcomes.values()):,} requests")
    by_app.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4)
    places = range(len(channels))
    requests, sent = zip(*channels.values(), strict=True)
    by_channel.bar(
        [each - 0.2 for each in places], requests, 0.4, color="#adb5bd", label="requests"
    )
    by_channel.bar(
        [each + 0.2 for each in places], sent, 0.4, color="#2a6f97", label="notifications"
    )
    by_channel.set_xticks(list(places), list(channels))
    by_channel.set_title("grouped into fewer notifications")
    by_channel.legend(frameon=False)
    for panel in (by_app, by_channel):
        panel.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


@click.command(help=__doc__)
@click.argument("folder", default=".")
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True)
def main(folder, bootstrap):
    draw(*read(bootstrap), Path(folder) / "notifications.png")
    print(Path(folder) / "notifications.png")


if __name__ == "__main__":
    main()
