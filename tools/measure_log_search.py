"""How fast logs are indexed and searched: `python tools/measure_log_search.py [LINES]` (1,000,000).

Lines are those of the template's generator, parsed as the pipeline parses them, in batches as it would commit them. Every query is asked five times; the median
counts. Nothing is judged: figures are for docs/pipelines-logs.md.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src/barnabas/pipelines/templates/logs"))
BATCH = 10_000
DAY_MS = 86_400_000
QUERIES = (
    ('level:error AND "time out"', 1),
    ('level:error AND "time out"', None),
    ("details.status:503", None),
    ("source:web-2 checkout", None),
    ("message:/check.*/ -level:info", None),
    ("*", None),
)


def events(count: int, begin_ms: int) -> Iterator[dict[str, Any]]:
    """Rows for the index, spread over a day."""
    import generate
    from lines import parse

    clock = iter(range(begin_ms, begin_ms + DAY_MS * 2, max(1, DAY_MS // count)))
    received = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=begin_ms)
    whole = (each for each in generate.stories(1, lambda: next(clock)) if each.level)
    for offset, story in zip(range(count), whole, strict=False):
        event = parse(str(story.lines[0]), received)
        stack = "\n".join(map(str, story.lines[1:]))
        yield {
            "time_ms": story.time_ms,
            **{name: getattr(event, name) for name in ("level", "host", "app", "format", "message")},
            "source": story.source,
            "stack": stack,
            "details": event.details,
            "place": f"logs-0@{offset}",
        }  # fmt: skip


def main() -> None:
    """Measure and print."""
    from barnabas.pipelines.search.finding import LogIndex
    from barnabas.pipelines.search.writing import write_batch

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    now_ms = time.time_ns() // 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        rows, took_s = events(count, now_ms - DAY_MS), 0.0
        for batch in range(-(-count // BATCH)):
            held = list(itertools.islice(rows, BATCH))
            began = time.process_time()
            write_batch(folder, "measure", batch, held)
            took_s += time.process_time() - began
        size = sum(each.stat().st_size for each in Path(folder).rglob("*"))
        print(f"{count:,} events indexed, {count / took_s:,.0f} a CPU second; {size / 1e6:,.0f} MB")
        index = LogIndex(folder)
        for query, hours in QUERIES:
            since_ms = now_ms - hours * 3_600_000 if hours else None
            times = []
            for _ in range(5):
                began = time.perf_counter()
                found = index.search(query, since_ms=since_ms)
                times.append((time.perf_counter() - began) * 1000)
            shown = f"{query}{f' --since {hours}h' if hours else ''}"
            print(f"  {statistics.median(times):7.1f} ms  {found.total:9,} found  {shown}")
        barnabas = str(Path(sys.executable).with_name("barnabas"))
        command = [barnabas, "logs", "search", QUERIES[0][0], "--since", "1h", "--index", folder]  # fmt: skip
        for shown, started in (
            ("the whole command", command),
            ("Python with click alone", [sys.executable, "-c", "import click"]),
        ):
            print(f"  {statistics.median(_starts(started)):7.1f} ms  {shown}")


def _starts(command: list[str]) -> list[float]:
    """Milliseconds of each of several starts."""
    times = []
    for _ in range(21):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append((time.perf_counter() - began) * 1000)
    return times


if __name__ == "__main__":
    main()
