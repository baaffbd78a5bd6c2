"""The results as files: one JSON file per run, and one line per whole run in bench/history.jsonl, which is committed.

A run is compared with the last line of the same scale and machine, so that a slower commit is seen.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import barnabas
from barnabas.wire import batch
from bench import measure
from bench.brokers import KAFKA_VERSION
from bench.build import LIBRDKAFKA
from bench.figures import BARNABAS, KAFKA, SLOWER, worse_by

if TYPE_CHECKING:
    from bench.figures import Result
    from bench.plan import Outcome

HERE = Path(__file__).parent
RESULTS = HERE / "results"
HISTORY = HERE / "history.jsonl"


class Circumstances(NamedTuple):
    """When, what and where."""

    date: str
    commit: str
    version: str
    kafka: str
    librdkafka: str
    machine: str
    scale: str


def circumstances(scale: str) -> Circumstances:
    """Describe this run."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Circumstances(
        now,
        commit(),
        barnabas.__version__ + ("" if is_compiled() else ", not compiled"),
        KAFKA_VERSION,
        LIBRDKAFKA,
        measure.machine_name(),
        scale,
    )


def is_compiled() -> bool:
    """Whether what runs is what `make compiled` made, as brokers are started, and not the source."""
    return not str(batch.__file__).endswith(".py")


def commit() -> str:
    """The commit that is measured, with a plus if the broker's source was changed since."""
    name = _git("rev-parse", "--short", "HEAD")
    return f"{name}+" if name and _git("status", "--porcelain", "--", "src") else name or "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True)
    return done.stdout.strip()


def write_results(outcome: Outcome, about: Circumstances) -> Path:
    """Write every sample of a run."""
    RESULTS.mkdir(exist_ok=True)
    day = about.date.replace(" UTC", "").replace(" ", "T").replace(":", "")
    path = RESULTS / f"{day}-{about.commit}.json"
    figures = {
        key: {
            "label": result.figure.label,
            "unit": result.figure.unit,
            "samples": result.samples,
            "ratio": result.ratio,
            "target": result.figure.shown_target(),
            "met": result.met,
        }
        for key, result in outcome.results.items()
    }
    noise = {
        name: [shares._asdict() for shares in runs] for name, runs in outcome.noise.items() if runs
    }
    found = {
        **about._asdict(),
        "seconds": outcome.seconds,
        "figures": figures,
        "noise": noise,
        "failures": outcome.failures,
        "skipped": outcome.skipped,
    }
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return path


def line(outcome: Outcome, about: Circumstances) -> dict[str, Any]:
    """Give what the history keeps: medians of both brokers and the ratios."""
    return {
        **about._asdict(),
        "ratios": _numbers({key: result.ratio for key, result in outcome.results.items()}),
        **{
            broker: _numbers({key: r.median(broker) for key, r in outcome.results.items()})
            for broker in (BARNABAS, KAFKA)
        },
    }


def _numbers(values: dict[str, float | None]) -> dict[str, float]:
    return {key: float(f"{value:.4g}") for key, value in values.items() if value is not None}


def last_like(about: Circumstances, path: Path = HISTORY) -> dict[str, Any] | None:
    """Find the newest line of the same scale and machine."""
    if not path.exists():
        return None
    lines = [json.loads(text) for text in path.read_text().splitlines() if text.strip()]
    alike = [
        each for each in lines if (each["scale"], each["machine"]) == (about.scale, about.machine)
    ]
    return alike[-1] if alike else None


def append(found: dict[str, Any], path: Path = HISTORY) -> None:
    """Add a line."""
    with path.open("a") as file:
        file.write(json.dumps(found, ensure_ascii=False) + "\n")


def changes(results: dict[str, Result], before: dict[str, Any] | None) -> list[str]:
    """Name the figures with a target whose ratio got worse, or better, since an earlier run."""
    said = []
    for key, result in results.items():
        old, new = (before or {}).get("ratios", {}).get(key), result.ratio
        if result.figure.target is None or old is None or new is None:
            continue
        factor = worse_by(result.figure, old, new)
        if factor > SLOWER or factor < 1 / SLOWER:
            word = "WORSE" if factor > 1 else "better"
            said.append(f"{word}: {key}  {old:.2f}x → {new:.2f}x")
    return sorted(said)
