"""How a pipeline tells a person what went wrong: one sentence, and no stack of frames.

Job: the error of this package, the edge where errors of a client become one, and the way back out of Spark's words. Must not know what was being done.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


class PipelineProblem(ValueError):
    """Something that a person has to change; the sentence says what."""


#: How Spark tells of one that a Python worker has raised, after words of its own and before a code of SQL.
_FROM_WORKER: Final = re.compile(
    r"barnabas\.pipelines\.problem\.PipelineProblem: (.+?)(?:\s*SQLSTATE: \w+)?\s*$", re.M
)


def sentence_in(text: str) -> str:
    """Give the sentence of a PipelineProblem out of what Spark made of it; the text as it is if there is none in it."""
    found = _FROM_WORKER.search(text)
    return found[1] if found else text


@contextmanager
def one_sentence() -> Iterator[None]:
    """Let what the caller of Spark is to read be one sentence.

    Spark sends the text of an exception from a Python worker to the driver, with the traceback unless it is told otherwise. A worker
    that raised ends (pyspark.worker, pyspark.sql.worker.utils), so what is told here concerns this error only.
    """
    # Imported here: searching logs tells its problems by this module, too, and is to start without a client.
    from barnabas.client.errors import ClientError

    try:
        yield
    except (ClientError, PipelineProblem) as problem:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise PipelineProblem(_advised(problem)) from None


def _advised(problem: Exception) -> str:
    from barnabas.client.errors import Unreachable

    if isinstance(problem, Unreachable):
        return f"no broker answers ({problem}): check kafka.bootstrap.servers, and that brokers run there"
    return str(problem)


def silence_traces() -> None:
    """Keep pyspark from writing every error of a query to stderr, as JSON with a Java stack, beside raising it: who catches it tells it in a sentence."""
    import logging

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
