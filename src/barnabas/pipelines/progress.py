"""What running queries have done: rows a second, batch times, how far behind. Pure.

Job: keep the last batches of each query, from Spark's progress reports, and show them as text or HTML. Must not know where reports come from
or who measures lag. Bounded: BATCHES_MAX batches of each query, QUERIES_MAX queries.
"""

from __future__ import annotations

import html
import json
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

BATCHES_MAX: Final = 60
QUERIES_MAX: Final = 100
_BARS: Final = "▁▂▃▄▅▆▇█"
_BARS_SHOWN: Final = 20
HEADINGS: Final = ("QUERY", "STATE", "BATCH", "ROWS", "ROWS/S", "BATCH TIME", "LAG", "LAG TIME", "LAST BATCHES")  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """One finished micro-batch."""

    number: int
    rows: int
    rows_per_second: float
    duration_ms: int
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Topic to partition to the offset after the last one read, of all sources whose offsets look like Kafka's."""
    latest: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The same for the end of the log when the batch was planned."""

    @property
    def lag(self) -> int | None:
        """Records that were there and not read, if the source tells the ends."""
        if not self.latest:
            return None
        return sum(
            max(0, offset - self.end.get(topic, {}).get(partition, 0))
            for topic, partitions in self.latest.items()
            for partition, offset in partitions.items()
        )


@dataclass(frozen=True)
class Lag:
    """How far behind a query is, both figures of one moment; None is not known."""

    records: int | None = None
    seconds: float | None = None
    answered: bool = True
    """False if no broker said anything: the rest is not known then."""


def read_batch(progress: Mapping[str, Any]) -> Batch:
    """Read one of Spark's progress reports, as its JSON has it."""
    sources: Sequence[Mapping[str, Any]] = progress.get("sources") or ()
    phases = {name: int(ms) for name, ms in (progress.get("durationMs") or {}).items()}
    return Batch(
        number=int(progress["batchId"]),
        rows=int(progress.get("numInputRows") or 0),
        rows_per_second=_number(progress.get("processedRowsPerSecond")),
        duration_ms=int(progress.get("batchDuration") or phases.get("triggerExecution", 0)),
        phases_ms=phases,
        end=_offsets(source.get("endOffset") for source in sources),
        latest=_offsets(source.get("latestOffset") for source in sources),
    )


def may_have_written(progress: Mapping[str, Any]) -> bool:
    """Tell whether the batch of a report can have had something to write: it read rows, or time ended something that was kept (a window was closed, a timer expired)."""
    operators: Sequence[Mapping[str, Any]] = progress.get("stateOperators") or ()
    moved = (
        _number(each.get("numRowsUpdated"))
        + _number(each.get("numRowsRemoved"))
        + _number((each.get("customMetrics") or {}).get("numExpiredTimers"))
        for each in operators
    )
    return bool(progress.get("numInputRows")) or any(moved)


def _number(value: object) -> float:
    """Spark writes NaN and Infinity for batches that took no time."""
    number = float(value) if isinstance(value, int | float | str) else 0.0
    return number if 0 <= number < float("inf") else 0.0


def _offsets(texts: Any) -> dict[str, dict[str, int]]:  # noqa: ANN401 - JSON or text, as Spark has it
    """Join offsets of sources; what is no map of topics to partitions to numbers belongs to another kind of source."""
    found: dict[str, dict[str, int]] = {}
    for text in texts:
        try:
            value = json.loads(text) if isinstance(text, str) else text
        except ValueError:
            continue
        if isinstance(value, dict) and value and all(map(_is_partitions, value.values())):
            for topic, partitions in value.items():
                found.setdefault(topic, {}).update(partitions)
    return found


def _is_partitions(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(offset, int) for offset in value.values())


@dataclass
class Query:
    """One query: its last batches, oldest first, and how it ended."""

    id: str
    name: str
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_MAX))
    state: str = "running"
    measured: Lag | None = None
    """How far behind it is by the brokers, if somebody asks them."""

    @property
    def last(self) -> Batch | None:
        """The newest batch."""
        return self.batches[-1] if self.batches else None

    @property
    def lag(self) -> Lag:
        """How far behind it is. What the last batch left is as old as that batch, so it is told only where nobody asks the brokers: beside seconds that were measured later it would contradict them."""
        if self.measured is not None:
            return self.measured
        return Lag(self.last.lag if self.last else None)

    def cells(self) -> tuple[str, ...]:
        """What a table shows, in the order of HEADINGS."""
        last = self.last
        if last is None:
            return (self.name, self.state, "-", "-", "-", "-", "-", "-", "")
        return (
            self.name,
            self.state,
            str(last.number),
            f"{last.rows:,}",
            f"{last.rows_per_second:,.0f}",
            f"{last.duration_ms / 1000:.2f} s",
            "-" if self.lag.records is None else f"{self.lag.records:,}",
            "-" if self.lag.seconds is None else f"{self.lag.seconds:.1f} s",
            bars([batch.duration_ms for batch in self.batches]),
        )

    def summary(self) -> dict[str, object]:
        """What programs read, under names that stay."""
        last = self.last
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "batch": last and last.number,
            "rows": last and last.rows,
            "rows_per_second": last and last.rows_per_second,
            "batch_ms": last and last.duration_ms,
            "lag": self.lag.records,
            "lag_seconds": self.lag.seconds,
            "offsets": last and last.end,
        }


def bars(values: Sequence[int]) -> str:
    """Draw the newest values, the highest as a full bar."""
    shown = list(values)[-_BARS_SHOWN:]
    top = max(shown, default=0) or 1
    return "".join(_BARS[min(len(_BARS) - 1, value * len(_BARS) // (top + 1))] for value in shown)


class Board:
    """The queries that were heard of; in a notebook it shows itself as a table."""

    def __init__(self, queries: Iterable[Query] = ()) -> None:
        """Show these; more may be heard of."""
        self.queries = {query.id: query for query in queries}
        self.on_change: Callable[[Board], object] | None = None
        """Called after each change: give it a notebook's display handle's `update`."""

    def on_started(self, query_id: str, name: str | None) -> None:
        """A query runs, for the first time or again."""
        old = self.queries.pop(query_id, None)
        query = Query(query_id, name or query_id[:8])
        if old is not None:
            query.batches.extend(old.batches)
        self.queries[query_id] = query
        while len(self.queries) > QUERIES_MAX:
            del self.queries[next(iter(self.queries))]
        self._changed()

    def on_batch(
        self, query_id: str, name: str | None, batch: Batch, measured: Lag | None = None
    ) -> None:
        """A batch is finished; this far behind it is now."""
        if query_id not in self.queries:
            self.on_started(query_id, name)
        query = self.queries[query_id]
        query.batches.append(batch)
        query.measured = measured
        self._changed()

    def on_ended(self, query_id: str, error: str | None) -> None:
        """A query has ended, with an error or without."""
        if query_id in self.queries:
            self.queries[query_id].state = "failed" if error else "ended"
            self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change(self)

    def to_json(self) -> str:
        """Write everything, for another process to read."""
        return json.dumps([
            {"id": query.id, "name": query.name, "state": query.state, "batches": [asdict(batch) for batch in query.batches]}
            for query in self.queries.values()
        ])  # fmt: skip

    def __str__(self) -> str:
        """A table as text."""
        rows = [HEADINGS, *(query.cells() for query in self.queries.values())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        """A table as a notebook shows it."""
        head = "".join(f"<th>{html.escape(name.capitalize())}</th>" for name in HEADINGS)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in query.cells()) + "</tr>"
            for query in self.queries.values()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def queries_of(text: str) -> list[Query]:
    """Read what `to_json` wrote."""
    return [
        Query(
            one["id"],
            one["name"],
            deque((Batch(**batch) for batch in one["batches"]), maxlen=BATCHES_MAX),
            one["state"],
        )
        for one in json.loads(text)
    ]
