"""What a broker and its cleaner process say to each other: one line of JSON each way, in turn.

| broker                                   | cleaner                                               |
|------------------------------------------|-------------------------------------------------------|
| {"order": …, "max_bytes_per_second": …}  | {"mapped": true}                                      |
| {"next": true}                           | {"segment": […]}, or {"stats": …} when none is left   |
|                                          | {"os_error": [errno, text, path]},                    |
|                                          | {"damaged": text, "base_offset": of a segment}        |

Both ends are of one version: the broker starts the process from its own files.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from barnabas.storage.batch_filter import LastBatch
from barnabas.storage.cleaned_segment import CleanedSegment
from barnabas.storage.cleaner import CleaningOrder, CleaningStats, Source
from barnabas.storage.segment import DamagedBatch
from barnabas.wire.batch import BatchError

NEXT = {"next": True}
MAPPED = {"mapped": True}


def encode(message: dict[str, Any]) -> bytes:
    """Write a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Read a line."""
    message = json.loads(line)
    assert isinstance(message, dict)
    return message


def order_message(order: CleaningOrder, max_bytes_per_second: float) -> dict[str, Any]:
    """Say what to clean."""
    fields = asdict(order)
    fields["producers"] = [[key, *last] for key, last in order.producers.items()]
    return {"order": fields, "max_bytes_per_second": max_bytes_per_second}


def read_order(message: dict[str, Any]) -> tuple[CleaningOrder, float]:
    """Understand what to clean, and how fast."""
    fields = dict(message["order"])
    fields["sources"] = tuple(Source(**source) for source in fields["sources"])
    fields["later_segments"] = tuple(fields["later_segments"])
    fields["producers"] = {
        key: LastBatch(offset, epoch) for key, offset, epoch in fields["producers"]
    }
    return CleaningOrder(**fields), float(message["max_bytes_per_second"])


def segment_message(cleaned: CleanedSegment) -> dict[str, Any]:
    """Say that a new segment is complete."""
    return {"segment": [cleaned.base_offset, cleaned.size_bytes, list(cleaned.sources)]}


def stats_message(stats: CleaningStats) -> dict[str, Any]:
    """Say that all is done."""
    return {"stats": asdict(stats)}


def problem_message(problem: OSError | BatchError) -> dict[str, Any]:
    """Say what went wrong."""
    if isinstance(problem, OSError):
        path = problem.filename if isinstance(problem.filename, str) else None
        return {"os_error": [problem.errno, problem.strerror or str(problem), path]}
    base_offset = problem.base_offset if isinstance(problem, DamagedBatch) else None
    return {"damaged": str(problem), "base_offset": base_offset}


def read_answer(message: dict[str, Any]) -> CleanedSegment | CleaningStats | None:
    """Understand an answer; raises what the cleaner says went wrong."""
    match message:
        case {"segment": [base_offset, size_bytes, sources]}:
            return CleanedSegment(base_offset, size_bytes, tuple(sources))
        case {"stats": fields}:
            return CleaningStats(**fields)
        case {"os_error": [number, text, path]}:
            raise OSError(number, text, path)
        case {"damaged": text, "base_offset": None}:
            raise BatchError(text)
        case {"damaged": text, "base_offset": base_offset}:
            raise DamagedBatch(text, base_offset)
        case _:
            assert message == MAPPED
            return None
