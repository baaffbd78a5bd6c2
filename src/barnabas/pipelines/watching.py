"""Listens to the queries of a session, and leaves what it hears where other processes can read it.

Job: Spark's reports into a Board; the Board into a file of this process, whole at any moment; boards of all processes out of their files. Must not
know how it is shown. A file of a process that is gone is removed by whoever looks next. Watching never disturbs a query: what cannot be
written is not written.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from barnabas.pipelines.java import cache_folder
from barnabas.pipelines.progress import Board, Query, queries_of, read_batch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from barnabas.pipelines.lag import LagMeter


class _Listener(StreamingQueryListener):
    """Writes into a board what Spark reports; events come one at a time, on a thread of pyspark."""

    def __init__(self, board: Board, file: Path | None, meter: LagMeter | None = None) -> None:
        self._board = board
        self._file = file
        self._meter = meter

    def onQueryStarted(self, event: Any) -> None:  # noqa: ANN401, N802, RUF100 - pyspark's name and types
        """A query runs."""
        self._board.on_started(str(event.id), event.name)
        self._write()

    def onQueryProgress(self, event: Any) -> None:  # noqa: ANN401, N802, RUF100
        """A batch is done, or nothing came for a while."""
        report = json.loads(event.progress.json)
        batch = read_batch(report)
        measured = self._meter.measure(batch.end) if self._meter else None
        self._board.on_batch(report["id"], report.get("name"), batch, measured)
        self._write()

    def onQueryIdle(self, event: Any) -> None:  # noqa: ANN401, N802, RUF100
        """Nothing came."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: ANN401, N802, RUF100
        """A query has ended."""
        self._board.on_ended(str(event.id), event.exception)
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            new = self._file.with_suffix(f".{threading.get_ident()}")
            new.write_text(self._board.to_json())
            new.replace(self._file)


def watch(
    spark: SparkSession, bootstrap: str | None = None, settings: Mapping[str, str] | None = None
) -> Board:
    """Give a board of the queries that this session starts from now on; it fills itself while they run.

    With an address (and client settings, if the cluster asks who comes) it tells the lag in seconds, too.
    """
    from barnabas.pipelines.lag import (
        LagMeter,  # brings a client, which sessions that only record do not need
    )

    board = Board()
    meter = LagMeter({"bootstrap.servers": bootstrap, **(settings or {})}) if bootstrap else None
    _add(spark, _Listener(board, None, meter))
    return board


def record(spark: SparkSession) -> None:
    """Leave what this session's queries do where `recorded` finds it, once for each session."""
    if getattr(spark, "_barnabas_recorded", False):
        return
    spark._barnabas_recorded = True  # type: ignore[attr-defined]
    _add(spark, _Listener(Board(), _folder() / f"{os.getpid()}.json"))


def _add(spark: SparkSession, listener: _Listener) -> None:
    """Have the session call the listener.

    A Connect session listens on a thread that would keep the program from ending. A thread is a daemon if the one that starts it is.
    """
    # When the session stops or the program ends, that thread cannot go on, and pyspark would warn of it.
    for text in ("StreamingQueryListenerBus Handler thread", "Failed to remove the listener"):
        warnings.filterwarnings("ignore", text)
    thread = threading.Thread(target=spark.streams.addListener, args=(listener,), daemon=True)
    thread.start()
    thread.join()


def recorded() -> list[Query]:
    """Read what the sessions of all running processes of this user left."""
    found = []
    for file in sorted(_folder().glob("*.json")):
        if not _runs(int(file.stem)):
            file.unlink(missing_ok=True)
            continue
        with contextlib.suppress(OSError):
            found += queries_of(file.read_text())
    return found


def _folder() -> Path:
    return cache_folder() / "queries"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
