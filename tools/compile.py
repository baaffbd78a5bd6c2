"""Compile the modules that a small request goes through, with mypyc, into build/compiled: a copy of the package.

python tools/compile.py            (make compiled)
PYTHONPATH=build/compiled ...      (make up COMPILED=1, also unit, test, bench) runs the copy

The source is not touched, and is what everything runs unless told otherwise. Needs a C compiler. docs/adr/0010 has what it
brings and what a compiled module must not do.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "barnabas"
TARGET = ROOT / "build" / "compiled"
MODULES = (
    "broker/metrics",
    "broker/produce_lane",
    "broker/repeats",
    "broker/replicas",
    "core/epochs",
    "core/open_transactions",
    "core/partition",
    "core/producer_state",
    "core/waiting",
    "runtime/connection",
    "runtime/disk",
    "runtime/loop",
    "runtime/server",
    "runtime/tls_connection",
    "storage/index",
    "storage/log",
    "storage/log_reader",
    "storage/log_writer",
    "storage/rolling_log",
    "storage/segment",
    "storage/stored_log",
    "wire/batch",
    "wire/record_columns",
    "wire/record_survey",
)


def main() -> None:
    """Copy the package, compile in the copy, leave nothing else there."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(SOURCE, TARGET / "barnabas", ignore=shutil.ignore_patterns("__pycache__"))
    print(f"compiling {len(MODULES)} modules into {TARGET.relative_to(ROOT)} ...", flush=True)
    paths = [f"barnabas/{module}.py" for module in MODULES]
    command = [sys.executable, "-m", "mypyc", "--config-file", str(ROOT / "pyproject.toml"), *paths]
    done = subprocess.run(
        command, cwd=TARGET, env=_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(TARGET)
        sys.exit(f"{done.stdout[-4000:]}{done.stderr[-4000:]}\nnot compiled")
    shutil.rmtree(TARGET / "build")
    compileall.compile_dir(TARGET, quiet=1)


def _environment() -> dict[str, str]:
    """Ours, but the copy is what mypy looks at."""
    return {**os.environ, "MYPYPATH": str(TARGET)}


if __name__ == "__main__":
    main()
