"""Rows of a task on their way to their topics, with those that cannot be written told or put aside.

Job: pass batches on, count rows, decide about poison. Must not know transactions or epochs.

Invariants: every row is written, in the dead-letter topic, or named in an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipelines.columns import RowWriter
from barnabas.pipelines.dead_letters import dead_letters
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.sink_columns import pick_columns

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from barnabas.pipelines.columns import PoisonRow
    from barnabas.pipelines.options import SinkOptions
    from barnabas.runtime.blocking_client import BlockingClient, ProducerSession

_KEY_SHOWN: Final = 60


def place_of_epochs(batch: RecordBatch, options: SinkOptions) -> str:
    """Name a topic that is there if the rows of a batch could be written."""
    if options.topic or options.dead_letter_topic:
        return options.topic or options.dead_letter_topic
    names = batch.column("topic").drop_null()
    if not len(names):
        raise PipelineProblem(
            "the first rows have no topic: give the option topic, or fill the column topic"
        )
    return str(names[0].as_py())


class RowSender:
    """Sends the rows of one task."""

    def __init__(
        self, client: BlockingClient, session: ProducerSession, options: SinkOptions, task: str
    ) -> None:
        """Send in a session; `task` names who writes, in errors. UnknownTopic if a topic is not there that was named as an option."""
        named = [each for each in (options.topic, options.dead_letter_topic) if each]
        client.partitions(named)
        self._client = client
        self._session = session
        self._options = options
        self._task = task
        self._writer = RowWriter(client, session, topic=options.topic or None)
        self._letters: RowWriter | None = None
        self._count = 0

    def send(self, batch: RecordBatch) -> int:
        """Send the rows of a batch; return how many."""
        rows = pick_columns(batch, self._options.topic)
        poison = self._writer.write(rows)
        if poison:
            self._put_aside(rows, poison)
        self._count += batch.num_rows
        return int(batch.num_rows)

    def flush(self) -> None:
        """Wait until all is acknowledged."""
        self._writer.flush()
        if self._letters is not None:
            self._letters.flush()

    def _put_aside(self, rows: RecordBatch, poison: list[PoisonRow]) -> None:
        if not self._options.dead_letter_topic:
            raise self._problem(rows, poison[0])
        if self._letters is None:
            self._letters = RowWriter(
                self._client, self._session, topic=self._options.dead_letter_topic
            )
        refused = self._letters.write(dead_letters(rows, poison))
        if refused:
            again = [poison[each.row] for each in refused]
            refused = self._letters.write(dead_letters(rows, again, cut=True))
            if refused:
                raise self._problem(rows, again[refused[0].row])

    def _problem(self, rows: RecordBatch, poison: PoisonRow) -> PipelineProblem:
        key = rows.column("key")[poison.row].as_py() if "key" in rows.schema.names else None
        named = f" (key {key!r:.{_KEY_SHOWN}})" if key is not None else ""
        advice = (
            ""
            if self._options.dead_letter_topic
            else "; set deadLetterTopic to put such rows aside"
        )
        return PipelineProblem(
            f"row {self._count + poison.row + 1}{named} of {self._task} cannot be written to "
            f"{poison.topic or 'no topic'}: {poison.reason}{advice}"
        )
