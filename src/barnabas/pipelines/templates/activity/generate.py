"""Visitors of a shop: they come, look around, search, click, and some of them buy.

python generate.py --bootstrap 127.0.0.1:9092 --rate 500 --seconds 60
"""

import heapq
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas.pipelines import feeding

START = datetime(2026, 1, 1, tzinfo=UTC)
PRODUCTS = 60
#: The way of a session: from each page, where visitors go next, and how likely; "" is away.
WAYS = {
    "/": {"/product": 0.5, "/search": 0.3, "": 0.2},
    "/search": {"/product": 0.7, "/search": 0.1, "": 0.2},
    "/product": {"/product": 0.35, "/cart": 0.25, "/": 0.1, "": 0.3},
    "/cart": {"/checkout": 0.55, "/product": 0.2, "": 0.25},
    "/checkout": {"/thanks": 0.7, "": 0.3},
    "/thanks": {"": 1.0},
}
#: Events come up to this much later than others that happened after them.
JITTER_S = 20.0


def session(
    rng: random.Random, visitor: str, at: datetime
) -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """Make one session: when, topic, event."""
    place = rng.choice(["/", "/", "/product"])
    while place:
        page = (
            f"/product/{min(int(rng.expovariate(0.08)), PRODUCTS - 1)}"
            if place == "/product"
            else place
        )
        yield at, "page-views", {"visitor": visitor, "at": at.isoformat(), "page": page}
        moment = at + timedelta(seconds=rng.uniform(1, 10))
        if place == "/search":
            said = {"query": rng.choice(["lamp", "desk", "red lamp"]), "results": rng.randrange(40)}
            yield moment, "searches", {"visitor": visitor, "at": moment.isoformat(), **said}
        elif rng.random() < 0.6:
            said = {"page": page, "target": rng.choice(["photo", "buy", "menu"])}
            yield moment, "clicks", {"visitor": visitor, "at": moment.isoformat(), **said}
        ways = WAYS[place]
        place = rng.choices(list(ways), list(ways.values()))[0]
        at += timedelta(seconds=rng.uniform(5, 180))


def visits(seed: int, count: int, visitors: int = 300) -> Iterator[tuple[str, dict[str, Any]]]:
    """Make topic and event in about the order of their times; the same for the same seed."""
    rng = random.Random(seed)
    waiting: list[tuple[float, int, str, dict[str, Any]]] = []
    made, arrival, place = 0, START, 0
    while made < count:
        arrival += timedelta(seconds=rng.expovariate(1 / 20))
        while waiting and waiting[0][0] < arrival.timestamp() and made < count:
            made += 1
            yield heapq.heappop(waiting)[2:]
        for at, topic, event in session(rng, f"visitor-{rng.randrange(visitors)}", arrival):
            place += 1
            heapq.heappush(
                waiting, (at.timestamp() + rng.uniform(0, JITTER_S), place, topic, event)
            )


def events(seed: int, count: int) -> Iterator[feeding.Event]:
    """Make records, keyed by visitor."""
    for topic, event in visits(seed, count):
        yield feeding.Event(topic, event["visitor"], json.dumps(event))


if __name__ == "__main__":
    feeding.main(events, __doc__)
