"""Memory that is lent to the node for the time of one call, as receive memory is in the real world."""

from __future__ import annotations

from barnabas.sim.violation import Violation


def take_back(memory: bytearray) -> None:
    """End the run if somebody can still read what was lent: it would be overwritten, or mistaken for what comes there next."""
    try:
        memory.clear()
    except BufferError:
        raise Violation(
            "lent memory", f"{len(memory)} bytes are still held although they were only lent"
        ) from None
