"""How a pipeline tells a person what went wrong: one sentence, and no stack of frames.

Job: the error of this package, and the edge where errors of a client become one. Must not know what was being done.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.client.errors import ClientError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator


class PipelineProblem(ValueError):
    """Something that a person has to change; the sentence says what."""


@contextmanager
def one_sentence() -> Iterator[None]:
    """Let what the caller of Spark is to read be one sentence.

    Spark sends the text of an exception from a Python worker to the driver, with the traceback unless it is told otherwise. A worker
    that raised ends (pyspark.worker, pyspark.sql.worker.utils), so what is told here concerns this error only.
    """
    try:
        yield
    except (ClientError, PipelineProblem) as problem:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise PipelineProblem(_advised(problem)) from None


def _advised(problem: Exception) -> str:
    if isinstance(problem, Unreachable):
        return f"no broker answers ({problem}): check kafka.bootstrap.servers, and that brokers run there"
    return str(problem)


def silence_traces() -> None:
    """Keep pyspark from writing every error of a query to stderr, as JSON with a Java stack, beside raising it: who catches it tells it in a sentence."""
    import logging

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
