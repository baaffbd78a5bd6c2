"""What visitors do: events of three topics in one form, by hour, and as sessions.

The rules (`split`, `summary`) are plain Python and know no Spark. A session ends when its visitor does nothing for GAP_MS. Events may come late, and in any order: a visitor's
events are kept until the watermark says that no earlier one can come, so sessions do not depend on the order.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from barnabas.pipelines import poison

#: Topics, and what an event of each is called.
KINDS = {"page-views": "view", "clicks": "click", "searches": "search"}
EVENT = "visitor STRING, at TIMESTAMP, page STRING, target STRING, query STRING, results INT"
SESSION = (
    "visitor STRING, started TIMESTAMP, ended TIMESTAMP, seconds DOUBLE, views INT, clicks INT, searches INT, "
    "pages ARRAY<STRING>, depth INT"
)
#: As objects: Spark's own runner would have to ask what a text means, which definitions may not.
SEEN = (
    StructType()
    .add("visitor", StringType())
    .add("at", TimestampType())
    .add("at_ms", LongType())
    .add("kind", StringType())
    .add("page", StringType())
)
SAID = StructType().add("said", StringType())
GAP_MS = 30 * 60_000
#: How late events may come and still count.
LATENESS = "10 minutes"
#: How far an event may be ahead of when it was received. One from later still would end everybody's sessions: it is refused.
FUTURE = "30 seconds"
#: Who does more in one session is a machine: what there is becomes a session at once, as all state has a bound.
EVENTS_MAX = 5_000
#: Steps of the funnel, by the beginning of a page's path; reaching one is reaching those before it.
STEPS = ("/product", "/cart", "/checkout", "/thanks")


class Event(NamedTuple):
    """What is remembered of an event."""

    at_ms: int
    kind: str
    page: str


# -- rules ------------------------------------------------------------------------------------


def split(events: list[Event], gap_ms: int = GAP_MS) -> list[list[Event]]:
    """Cut a visitor's events into sessions."""
    found: list[list[Event]] = []
    for event in sorted(events):
        if found and event.at_ms - found[-1][-1].at_ms < gap_ms:
            found[-1].append(event)
        else:
            found.append([event])
    return found


def summary(visitor: str, session: list[Event]) -> dict[str, Any]:
    """Say what happened in a session; times in milliseconds."""
    kinds = [event.kind for event in session]
    pages = [event.page for event in session if event.kind == "view"]
    started, ended = session[0].at_ms, session[-1].at_ms
    return {
        "visitor": visitor,
        "started": started,
        "ended": ended,
        "seconds": (ended - started) / 1000,
        "views": kinds.count("view"),
        "clicks": kinds.count("click"),
        "searches": kinds.count("search"),
        "pages": pages,
        "depth": max((depth_of(page) for page in pages), default=0),
    }


def depth_of(page: str) -> int:
    """Say which step of the funnel a page is; 0 if it is none."""
    return next((place for place, step in enumerate(STEPS, 1) if page.startswith(step)), 0)


# -- the step ---------------------------------------------------------------------------------


class Sessions(StatefulProcessor):
    """Keeps each visitor's events until their session is over."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._events = handle.getValueState("events", "events STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Take what one batch has of a visitor."""
        new = [Event(row.at_ms, row.kind, row.page) for row in rows]
        events = self._kept() + new
        if len(events) >= EVENTS_MAX:
            yield from self._told(key[0], split(events))
            events = []
        elif new:
            self._handle.registerTimer(max(event.at_ms for event in new) + GAP_MS)
        self._keep(events)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Tell of the sessions that are over: nothing can come any more that belongs to them."""
        over, open_still = [], []
        for session in split(self._kept()):
            is_over = session[-1].at_ms + GAP_MS <= timerValues.getCurrentWatermarkInMs()
            (over if is_over else open_still).append(session)
        self._keep([event for session in open_still for event in session])
        yield from self._told(key[0], over)

    def close(self) -> None:
        """Nothing is open."""

    def _told(self, visitor: str, sessions: list[list[Event]]) -> Iterator[Row]:
        for session in sessions:
            yield Row(said=json.dumps(summary(visitor, session)))

    def _kept(self) -> list[Event]:
        return (
            [Event(*each) for each in json.loads(self._events.get()[0])]
            if self._events.exists()
            else []
        )

    def _keep(self, events: list[Event]) -> None:
        if events:
            self._events.update((json.dumps(events),))
        else:
            self._events.clear()


# -- frames -----------------------------------------------------------------------------------


def checked(records: DataFrame) -> DataFrame:
    """Add to `_error` what JSON alone does not say: who and when must be there, and no event is from the future."""
    missing = F.coalesce(F.col("value.visitor"), F.lit("")) == ""
    reason = (
        F.when(F.col("value").isNull(), "it has no value")
        .when(missing, "'visitor' is missing")
        .when(F.col("value.at").isNull(), "'at' is missing")
        .when(
            F.col("value.at") > F.col("timestamp") + F.expr(f"INTERVAL {FUTURE}"),
            "'at' is in the future",
        )
    )
    return poison.checked(records, reason)


def typed(records: DataFrame) -> DataFrame:
    """Give the events of all topics one form."""
    return records.select(
        F.col("value.visitor").alias("visitor"),
        F.col("value.at").alias("at"),
        _kind().alias("kind"),
        F.coalesce("value.page", F.lit("")).alias("page"),
        F.coalesce("value.target", "value.query").alias("detail"),
        F.col("value.results").alias("results"),
    )


def by_hour(events: DataFrame) -> DataFrame:
    """Add the hour; the rows of one are in one task, so a batch writes one file for each hour."""
    hour = F.date_format("at", "yyyy-MM-dd-HH").alias("hour")
    return events.select("*", hour).repartition("hour")


def sessions(events: DataFrame) -> DataFrame:
    """Make sessions of events (columns of `typed`)."""
    said = F.from_json("said", SESSION.replace("TIMESTAMP", "BIGINT")).alias("s")
    found = (
        events.select("visitor", "at", F.unix_millis("at").alias("at_ms"), "kind", "page")
        .withWatermark("at", LATENESS)
        .to(SEEN)
        .groupBy("visitor")
        .transformWithState(Sessions(), SAID, "append", "eventTime")
        .select(said)
    )
    times = [F.timestamp_millis(f"s.{name}").alias(name) for name in ("started", "ended")]
    return found.select("s.visitor", *times, F.expr("s.* EXCEPT (visitor, started, ended)"))


def _kind() -> Column:
    kinds = F.create_map(*(F.lit(each) for pair in KINDS.items() for each in pair))
    return kinds[F.col("topic")]
