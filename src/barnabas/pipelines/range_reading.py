"""The records of one range as Arrow batches: what a task of the source does.

Job: read to the end of the range, decide what lost records mean, hand bad rows to the dead-letter topic. Must not know Spark, nor how
batches become columns.

Invariants: a range ends where it was planned to end, or the task fails, unless the query may go on without lost records.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.client.errors import OffsetOutOfRange, UnknownTopic
from barnabas.pipelines.columns import RowWriter, read_columns
from barnabas.pipelines.dead_letters import dead_letters
from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch

    from barnabas.pipelines.formats import Decoder
    from barnabas.pipelines.options import SourceOptions
    from barnabas.pipelines.planning import Range
    from barnabas.runtime.blocking_client import BlockingClient

_log = logging.getLogger(__name__)


def read_range(
    client: BlockingClient, options: SourceOptions, decoder: Decoder | None, piece: Range
) -> Iterator[RecordBatch]:
    """Read a range, typed if there is a decoder."""
    batches = _batches(client, options, piece)
    if decoder is None:
        yield from batches
        return
    aside: RowWriter | None = None
    for batch in batches:
        decoded = decoder.decode(batch)
        if decoded.rejected is not None:
            topic = decoder.formats.dead_letter_topic
            aside = aside or RowWriter(client, client.idempotent_producer(), topic=topic)
            _put_aside(aside, decoded.rejected)
        yield decoded.batch
    if aside is not None:
        aside.flush()


def _put_aside(writer: RowWriter, rejected: RecordBatch) -> None:
    refused = writer.write(rejected)
    if refused:
        refused = writer.write(dead_letters(rejected, refused, cut=True))
    for each in refused:
        raise PipelineProblem(
            f"a bad record cannot be put aside in {each.topic}: {each.reason}; set badRows=column to see it instead"
        )


def _batches(client: BlockingClient, options: SourceOptions, piece: Range) -> Iterator[RecordBatch]:
    start = piece.start
    while start < piece.end:
        try:
            yield from read_columns(
                client,
                piece.partition,
                start,
                piece.end,
                isolation=options.isolation,
                headers=options.headers,
            )
        except (OffsetOutOfRange, UnknownTopic) as problem:
            start = _go_on_after(problem, piece, fails=options.fails_on_data_loss)
        else:
            return


def _go_on_after(problem: OffsetOutOfRange | UnknownTopic, piece: Range, *, fails: bool) -> int:
    """Return where reading goes on when records are lost and that is no failure."""
    if fails:
        raise PipelineProblem(
            f"records may have been lost: {problem}; to go on with what is there, set failOnDataLoss=false"
        ) from None
    _log.warning("%s; going on, for failOnDataLoss=false", problem)
    if isinstance(problem, OffsetOutOfRange) and problem.is_loss:
        return problem.log_start_offset
    return piece.end
