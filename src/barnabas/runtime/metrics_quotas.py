"""What clients with a quota use of it, and how long they are throttled: figures under Kafka's names.

Runs on the loop's thread and only reads. There are as many as `Quotas` remembers clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.quotas import Counted, Permits
from barnabas.core.quota_table import FETCH, MUTATION, PRODUCE, REQUEST
from barnabas.runtime.metrics_text import labelled, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.node import Node
    from barnabas.runtime.metrics_text import Family

_RATES: Final = {
    PRODUCE: ("produce", "byte_rate", "Bytes per second of Produce requests."),
    FETCH: ("fetch", "byte_rate", "Bytes per second of records sent."),
    REQUEST: ("request", "request_time", "Percent of a thread that requests took."),
    MUTATION: ("controllermutation", "mutation_rate", "Partitions created or deleted per second."),
}


def render(node: Node) -> str:
    """Tell of everybody who has a quota and has come lately; nothing when there is nobody."""
    return write(_families(node)) if any(node.quotas.counted()) else ""


def _families(node: Node) -> Iterator[Family]:
    now_ms = node.world.clock.monotonic_ms()
    for key, (kind, what, about) in _RATES.items():
        name = f"kafka_server_{kind}"
        yield _family(
            node, key, f"{name}_{what}", about, lambda counted: counted.rate.per_second(now_ms)
        )
        yield _family(
            node, key, f"{name}_throttle_time",
            "Milliseconds for which those who were throttled had to wait, on average.",
            lambda counted: counted.delay_ms(now_ms),
        )  # fmt: skip
    yield _family(
        node, MUTATION, "kafka_server_controllermutation_tokens", "Permits that are left.",
        lambda counted: counted.bucket.tokens(now_ms) if isinstance(counted, Permits) else 0,
    )  # fmt: skip


def _family(
    node: Node, key: str, name: str, about: str, value: Callable[[Counted], float]
) -> Family:
    samples = [
        (labelled(user=user or "", client_id=client_id or ""), value(counted))
        for this_key, user, client_id, counted in node.quotas.counted()
        if this_key == key
    ]
    return name, "gauge", about, samples
