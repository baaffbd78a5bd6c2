"""Data pipelines on Spark: topics as tables. The only package that uses pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.pipelines.spark_session import session
    from barnabas.pipelines.watching import watch

__all__ = ["session", "watch"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import what only drivers need when it is asked for: workers start often, and import this package."""
    if name == "session":
        from barnabas.pipelines.spark_session import session

        return session
    if name == "watch":
        from barnabas.pipelines.watching import watch

        return watch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
