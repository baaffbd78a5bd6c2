"""Which products are looked at together: the rules, and the two stateful steps that apply them to a stream.

The rules (`weight`, `pairs_with`, `decayed`, `strongest`) are plain Python and know no Spark. A visit pairs its product with what the same customer looked at
within `WINDOW_MS`; a pair counts as much as the weaker of its two visits, and half as much after each `HALF_LIFE_MS`. That sum does not depend on the order in
which visits arrive.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from barnabas.pipelines import poison

VISIT = "customer STRING, product STRING, action STRING, seconds DOUBLE, at TIMESTAMP"
PAIR = "product STRING, other STRING, weight DOUBLE, at_ms LONG"
#: As objects: Spark's own runner would have to ask what a text means, which definitions may not.
WEIGHED = (
    StructType()
    .add("customer", StringType())
    .add("product", StringType())
    .add("weight", DoubleType())
    .add("at_ms", LongType())
)
PAIRED = (
    StructType()
    .add("product", StringType())
    .add("other", StringType())
    .add("weight", DoubleType())
    .add("at_ms", LongType())
)
RECORD = StructType().add("key", StringType()).add("value", StringType())

CART_WEIGHT = 3.0
#: Longer than this nobody looks: the phone was put down.
SECONDS_MAX = 120.0
WINDOW_MS = 30 * 60_000
HALF_LIFE_MS = 7 * 24 * 3_600_000
#: Visits of a customer, neighbours of a product, and suggestions that are kept: all state has a bound.
VISITS_MAX = 20
NEIGHBOURS_MAX = 200
SUGGESTIONS_MAX = 10
#: How far a visit may be ahead of when it was received. Beside one from later still, all others would count for nothing: it is refused.
FUTURE = "30 seconds"
#: State of customers who never come back goes away.
CUSTOMER_TTL_MS = 24 * 3_600_000


class Visit(NamedTuple):
    """What is remembered of a visit."""

    product: str
    at_ms: int
    weight: float


class Pair(NamedTuple):
    """Two products that were looked at together."""

    product: str
    other: str
    weight: float
    at_ms: int


# -- rules ------------------------------------------------------------------------------------


def weight(action: str, seconds: float) -> float:
    """Tell how much a visit says about taste: a cart more than a look, a long look more than a glance."""
    return (CART_WEIGHT if action == "cart" else 1.0) + min(max(seconds, 0.0), SECONDS_MAX) / 60


def pairs_with(visit: Visit, recent: list[Visit]) -> list[Pair]:
    """Pair a visit with those around it, both ways."""
    found = []
    for other in recent:
        if other.product != visit.product and abs(other.at_ms - visit.at_ms) <= WINDOW_MS:
            worth, at_ms = min(visit.weight, other.weight), max(visit.at_ms, other.at_ms)
            found.append(Pair(visit.product, other.product, worth, at_ms))
            found.append(Pair(other.product, visit.product, worth, at_ms))
    return found


def decayed(score: float, from_ms: int, to_ms: int) -> float:
    """Tell what a score of one time is worth at another."""
    return score * 2.0 ** ((from_ms - to_ms) / HALF_LIFE_MS)


def add_pair(neighbours: dict[str, float], at_ms: int, pair: Pair | Row) -> int:
    """Count a pair in; scores are as of `at_ms`. Return what they are as of now."""
    newest_ms = max(at_ms, pair.at_ms)
    if newest_ms > at_ms:
        for name in neighbours:
            neighbours[name] = decayed(neighbours[name], at_ms, newest_ms)
    worth = decayed(pair.weight, pair.at_ms, newest_ms)
    neighbours[pair.other] = neighbours.get(pair.other, 0.0) + worth
    return newest_ms


def strongest(neighbours: dict[str, float], count: int) -> dict[str, float]:
    """Keep the best, best first; equals by name, so that the answer is one."""
    ordered = sorted(neighbours.items(), key=lambda each: (-each[1], each[0]))
    return dict(ordered[:count])


# -- steps ------------------------------------------------------------------------------------


class PairVisits(StatefulProcessor):
    """Remembers each customer's last visits, and pairs new ones with them."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._recent = handle.getValueState("recent", "visits STRING", CUSTOMER_TTL_MS)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Take a customer's visits of one batch, in the order of their times."""
        recent = (
            [Visit(*each) for each in json.loads(self._recent.get()[0])]
            if self._recent.exists()
            else []
        )
        visits = [Visit(row.product, row.at_ms, row.weight) for row in rows]
        for visit in sorted(visits, key=lambda each: each.at_ms):
            for pair in pairs_with(visit, recent):
                yield Row(**pair._asdict())
            recent.append(visit)
            recent = recent[-VISITS_MAX:]
        self._recent.update((json.dumps(recent),))

    def close(self) -> None:
        """Nothing is open."""


class CountNeighbours(StatefulProcessor):
    """Keeps each product's neighbours with their scores, and says who is nearest when that changes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._counts = handle.getValueState("neighbours", "scores STRING, at_ms LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Count a product's pairs of one batch; one row comes out."""
        scores, at_ms = self._counts.get() if self._counts.exists() else ("{}", 0)
        neighbours = json.loads(scores)
        for row in rows:
            at_ms = add_pair(neighbours, at_ms, row)
        neighbours = strongest(neighbours, NEIGHBOURS_MAX)
        self._counts.update((json.dumps(neighbours), at_ms))
        yield Row(key=key[0], value=as_suggestions(neighbours))

    def close(self) -> None:
        """Nothing is open."""


def as_suggestions(neighbours: dict[str, float]) -> str:
    """Write a product's neighbours as the value of its record: JSON, best first."""
    best = strongest(neighbours, SUGGESTIONS_MAX)
    return json.dumps(
        {"similar": [{"product": each, "score": round(score, 6)} for each, score in best.items()]}
    )


# -- frames -----------------------------------------------------------------------------------


def checked_visits(records: DataFrame) -> DataFrame:
    """Add to `_error` what JSON alone does not say: who looked at what, and when, must be there, and no visit is from the future."""
    is_future = F.col("value.at") > F.col("timestamp") + F.expr(f"INTERVAL {FUTURE}")
    reason = _missing("customer", "product", "at")
    return poison.checked(records, reason.when(is_future, "'at' is in the future"))


def checked_pairs(records: DataFrame) -> DataFrame:
    """Add to `_error` what JSON alone does not say: a pair is whole, and its weight can be added to others."""
    weight = F.col("value.weight")
    is_no_weight = F.isnan(weight) | (F.abs(weight) == float("inf"))
    reason = _missing("product", "other", "weight", "at_ms")
    return poison.checked(records, reason.when(is_no_weight, "'weight' is no number"))


def _missing(*names: str) -> Column:
    """Say which field of a record is missing; null if none is."""
    reason = F.when(F.col("value").isNull(), "it has no value")
    for name in names:
        reason = reason.when(F.col(f"value.{name}").isNull(), f"'{name}' is missing")
    return reason


def weighed(visits: DataFrame) -> DataFrame:
    """Give every visit (columns of VISIT) its weight and its time in milliseconds."""
    worth = F.when(F.col("action") == "cart", CART_WEIGHT).otherwise(1.0) + (
        F.least(F.greatest(F.coalesce("seconds", F.lit(0.0)), F.lit(0.0)), F.lit(SECONDS_MAX)) / 60
    )
    return visits.select(
        "customer", "product", worth.alias("weight"), F.unix_millis("at").alias("at_ms")
    )


def pairs(visits: DataFrame) -> DataFrame:
    """Pair the visits of each customer: records of the topic of pairs, keyed by product."""
    paired = (
        weighed(visits)
        .to(WEIGHED)
        .groupBy("customer")
        .transformWithState(PairVisits(), PAIRED, "append", "processingTime")
    )
    return paired.select(F.col("product").alias("key"), F.to_json(F.struct("*")).alias("value"))


def similar(found: DataFrame) -> DataFrame:
    """Count pairs (columns of PAIR): the newest suggestions of every product that something happened to, as records."""
    return (
        found.to(PAIRED)
        .groupBy("product")
        .transformWithState(CountNeighbours(), RECORD, "append", "none")
    )


def milliseconds(at: datetime) -> int:
    """Count from 1970, as the stream does."""
    return round(at.timestamp() * 1000)
