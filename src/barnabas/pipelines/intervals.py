"""How often a run looks at what is there: the settings `barnabas.trigger.interval` and `barnabas.refresh.seconds`.

Job: say what is wrong with them before something runs. Must not know a project, nor who waits.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIGGER_SETTING: Final = "barnabas.trigger.interval"
REFRESH_SETTING: Final = "barnabas.refresh.seconds"
_REFRESH_S: Final = "30"


def check_interval(spark: SparkSession, name: str, value: str) -> None:
    """PipelineProblem if this is one of the two, and its value no time. Spark knows how a trigger's is written."""
    if name == REFRESH_SETTING:
        refresh_seconds(value)
    if name == TRIGGER_SETTING and value:
        jvm: Any = spark._jvm
        try:
            jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(value)
        except (PySparkException, Py4JError):
            raise PipelineProblem(f"{name}={value!r}: a time is expected, such as 10 seconds") from None  # fmt: skip


def refresh_seconds(text: str | None) -> float:
    """Give the time between two looks at materialised views."""
    try:
        seconds = float(text or _REFRESH_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise PipelineProblem(
            f"{REFRESH_SETTING}={text!r}: a number of seconds is expected, such as {_REFRESH_S}"
        )
    return seconds
