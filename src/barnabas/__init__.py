"""Barnabas: a durable, replicated commit log that speaks the Kafka wire protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.embed import Broker as Broker

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import the broker when it is first asked for: the command line and pytest start without it."""
    if name == "Broker":
        from barnabas.embed import Broker

        return Broker
    raise AttributeError(f"module 'barnabas' has no attribute {name!r}")
