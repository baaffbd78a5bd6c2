"""Visits of a shop: customers with tastes, products that are more or less popular, sessions of some minutes.

python generate.py --bootstrap 127.0.0.1:9092 --rate 200 --seconds 60
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas.pipelines import feeding

TOPIC = "shop-visits"
CATEGORIES = 12
PRODUCTS_PER_CATEGORY = 40
#: How often somebody looks at something else than usual.
CURIOSITY = 0.2
START = datetime(2026, 1, 1, tzinfo=UTC)


def visits(
    seed: int, count: int, customers: int = 500, start: datetime = START
) -> Iterator[dict[str, Any]]:
    """Make visits in the order of their times; the same for the same seed."""
    rng = random.Random(seed)
    # Zipf's law: the first category, and the first product of each, are looked at most.
    fashion = [1 / (rank + 1) for rank in range(CATEGORIES)]
    popularity = [1 / (rank + 2) for rank in range(PRODUCTS_PER_CATEGORY)]
    tastes = [rng.choices(range(CATEGORIES), fashion, k=2) for _ in range(customers)]
    at = start
    made = 0
    while made < count:
        customer = rng.randrange(customers)
        is_curious = rng.random() < CURIOSITY
        category = (
            rng.choices(range(CATEGORIES), fashion)[0]
            if is_curious
            else rng.choice(tastes[customer])
        )
        at += timedelta(seconds=rng.expovariate(1 / 30))
        moment = at
        for product in rng.choices(range(PRODUCTS_PER_CATEGORY), popularity, k=rng.randint(2, 6)):
            seconds = round(rng.expovariate(1 / 25), 1)
            moment += timedelta(seconds=seconds + 1)
            made += 1
            yield {
                "customer": f"customer-{customer}",
                "product": f"product-{category}-{product}",
                "action": "cart" if rng.random() < min(seconds / 200, 0.3) else "view",
                "seconds": seconds,
                "at": moment.isoformat(),
            }
            if made == count:
                return


def events(seed: int, count: int) -> Iterator[feeding.Event]:
    """Make the visits as records, keyed by customer: those of one are in one partition, in order."""
    for visit in visits(seed, count):
        yield feeding.Event(TOPIC, visit["customer"], json.dumps(visit))


if __name__ == "__main__":
    feeding.main(events, __doc__)
