"""Sends orders, one in fifty of them broken."""

import json
import random
from collections.abc import Iterator

from barnabas.pipelines import feeding

CUSTOMERS = ("ann", "bob", "cem", "dora")


def events(seed: int, count: int) -> Iterator[feeding.Event]:
    """Make orders; the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(count):
        customer = rng.choice(CUSTOMERS)
        order = {"customer": customer, "amount": round(rng.lognormvariate(3.5, 1), 2)}
        value = json.dumps(order) if rng.random() >= 0.02 else "no order at all"
        yield feeding.Event("orders", customer.encode(), value.encode())


if __name__ == "__main__":
    feeding.main(events, __doc__)
