"""Searching the index, also while it is written.

Job: a query in words to events, newest first. Must not know a terminal.

Invariants: marks are never found; a query that is wrong is one sentence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tantivy import FieldType, Index, Occur, Order, Query

from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.search.fields import BATCH, DETAILS, SEARCHED, TEXTS, TIME, Event, event_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLE: Final = 'level:error AND "time out"'
_VALUES: Final = f"name the values, such as {DETAILS}.status:(500 OR 503)"
#: What tantivy says of `name:*`, "has any value", for a field without a column of values.
_NOT_FAST: Final = re.compile(r"Field (.+) is not a fast field")
#: tantivy reads a query recursively: ten thousand brackets would end the process.
_QUERY_CHARS_MAX: Final = 1000
_SHOWN_CHARS: Final = 60
#: The range of a signed field of 64 bits.
_EARLIEST_MS: Final = -(2**63)
_LATEST_MS: Final = 2**63 - 1


class Found(NamedTuple):
    """The newest of the events that match, and how many match."""

    events: Sequence[Event]
    total: int


class LogIndex:
    """An index that is there."""

    def __init__(self, folder: str) -> None:
        """Open it; PipelineProblem if there is none."""
        try:
            self._index = Index.open(folder)
        except ValueError:
            raise PipelineProblem(
                f"there is no index in {folder}: the pipeline of the template 'logs' makes one when it runs"
            ) from None

    def search(
        self,
        words: str,
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        limit: int = 20,
    ) -> Found:
        """Find events: `until_ms` is not in."""
        query = _within(self._index, self._parsed(words), since_ms, until_ms)
        self._index.reload()
        searcher = self._index.searcher()
        try:
            found = searcher.search(query, limit, count=True, order_by_field=TIME, order=Order.Desc)
        except ValueError as problem:  # some of what can be written cannot be looked for
            raise PipelineProblem(_unanswered(words, str(problem))) from None
        events = [event_of(searcher.doc(address)) for _, address in found.hits]
        return Found(events, found.count or 0)  # type: ignore[attr-defined]

    def _parsed(self, words: str) -> Query:
        if len(words) > _QUERY_CHARS_MAX:
            raise PipelineProblem(
                f"a query has at most {_QUERY_CHARS_MAX:,} characters, this one {len(words):,}"
            )
        try:
            return self._index.parse_query(
                words.strip() or "*",
                list(SEARCHED),
                conjunction_by_default=True,
                allow_regexes=True,  # automata over words: no pattern takes for ever
            )
        except ValueError as problem:
            raise PipelineProblem(_wrong(words, str(problem))) from None


def _within(index: Index, wanted: Query, since_ms: int | None, until_ms: int | None) -> Query:
    events = [(Occur.Must, wanted), (Occur.MustNot, Query.exists_query(BATCH))]
    if since_ms is None and until_ms is None:
        return Query.boolean_query(events)
    lower = _EARLIEST_MS if since_ms is None else _bounded(since_ms)
    upper = _LATEST_MS if until_ms is None else _bounded(until_ms)
    times = Query.range_query(
        index.schema, TIME, FieldType.Integer, lower, upper, include_upper=False
    )
    return Query.boolean_query([*events, (Occur.Must, times)])


def _bounded(time_ms: int) -> int:
    return min(max(time_ms, _EARLIEST_MS), _LATEST_MS)


def _unanswered(words: str, problem: str) -> str:
    if "RangeQuery on JSON" in problem:
        return f"details are texts, which have no ranges: {_VALUES}"
    field = _NOT_FAST.search(problem)
    if field:
        can = f"write {field[1]}:/.+/" if field[1] in TEXTS else _VALUES
        return f"'{field[1]}:*' cannot be asked: {can}"
    return f"the query {_shown(words)!r} cannot be answered ({' '.join(problem.split())})"


def _shown(words: str) -> str:
    return words if len(words) <= _SHOWN_CHARS else f"{words[:_SHOWN_CHARS]}…"


def _wrong(words: str, problem: str) -> str:
    shown = _shown(words)
    if problem.startswith("Field does not exist"):
        name = problem.partition("'")[2].rstrip("'")
        return f"events have no field '{name}'; fields are {', '.join(TEXTS)} and details.NAME"
    if "Only excluding terms" in problem:
        return f"the query {shown!r} only leaves out: say also what to find, such as '* {shown}'"
    reason = "" if problem.startswith("Syntax Error") else f" ({' '.join(problem.split())})"
    return f"the query {shown!r} cannot be read{reason}; an example: {_EXAMPLE}"
