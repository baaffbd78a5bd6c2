"""Compile the modules that a small request goes through, with mypyc, into build/compiled: a copy of the package.

python tools/compile.py            (make compiled; make up, test and bench do it by themselves)
PYTHONPATH=build/compiled ...      runs the copy

Does nothing if the copy is that of the source as it is, and compiles only if something changed that compiled code may have taken into itself. The
source is not touched. Without a C compiler and Python's headers there is no copy, and that is told. docs/adr/0010 has what it brings and what a
compiled module must not do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "barnabas"
TARGET = ROOT / "build" / "compiled"
#: Whose source the copy is, and whose its compiled modules are.
MARK = TARGET / ".source"
#: Two libraries, so that two compilers can run side by side; calls within one are the cheapest.
GROUPS = {
    "serving": (
        "broker/metrics",
        "broker/produce_lane",
        "broker/repeats",
        "broker/replicas",
        "runtime/connection",
        "runtime/disk",
        "runtime/loop",
        "runtime/server",
        "runtime/tls_connection",
    ),
    "storing": (
        "core/epochs",
        "core/open_transactions",
        "core/partition",
        "core/producer_state",
        "core/waiting",
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
    ),
}
#: Where compiled modules import from, as the layers are: mypyc takes constants and the layout of classes from there.
BELOW = ("broker", "core", "model", "ports.py", "runtime", "storage", "wire")


def main() -> None:
    """Bring the copy up to date."""
    marks = [digest(SOURCE.rglob("*.py")), digest(_taken_in())]
    before = MARK.read_text().split() if MARK.exists() else ["", ""]
    if before == marks:
        return
    missing = what_is_missing()
    if missing:
        shutil.rmtree(TARGET, ignore_errors=True)
        print(f"not compiled, so small requests take up to twice the time: there is no {missing}")
        return
    # Apart, and then exchanged: a broker that runs from it finds its modules until then, and nobody a half of it.
    fresh = TARGET.with_name(f"compiled.{os.getpid()}")
    try:
        shutil.copytree(SOURCE, fresh / "barnabas")
        if before[1] == marks[1]:
            take_over(fresh)
        else:
            compile_in(fresh)
        (fresh / MARK.name).write_text("\n".join(marks))
        shutil.rmtree(TARGET, ignore_errors=True)
        fresh.rename(TARGET)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _taken_in() -> Iterable[Path]:
    """Name the files that compiled code may depend on, the compiler's version and this file among them."""
    for name in BELOW:
        yield from [SOURCE / name] if name.endswith(".py") else (SOURCE / name).rglob("*.py")
    yield from (Path(__file__), ROOT / "requirements.lock")


def digest(paths: Iterable[Path]) -> str:
    """Sum up what stands in these files, for this Python."""
    total = hashlib.sha256(sys.version.encode())
    for path in sorted(paths):
        total.update(f"\0{path.relative_to(ROOT)}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def what_is_missing() -> str:
    """Name what this machine lacks, nothing if it has all."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"C compiler ({compiler})"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return "" if header.exists() else f"{header} (a package like python3-dev has it)"


def take_over(fresh: Path) -> None:
    """Use what was compiled before."""
    for library in TARGET.rglob("*.so"):
        shutil.copy2(library, fresh / library.relative_to(TARGET))


def compile_in(fresh: Path) -> None:
    """Compile in the copy; exits with what the compiler says if it cannot."""
    count = sum(len(modules) for modules in GROUPS.values())
    print(
        f"compiling {count} modules, once: half a minute (COMPILED=0 does without) ...", flush=True
    )
    command = [sys.executable, __file__, "--here"]
    # The copy is what mypy is to look at, not what is installed.
    environment = {**os.environ, "MYPYPATH": str(fresh)}
    done = subprocess.run(
        command, cwd=fresh, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(TARGET, ignore_errors=True)  # what is there is of another source
        words = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
        sys.exit(f"{words}\nnot compiled: the source runs as it is")
    for left in ("build", ".mypy_cache"):
        shutil.rmtree(fresh / left, ignore_errors=True)


def compile_here() -> None:
    """Do it in this folder, in a process of its own: the compilers print and exit as they like."""
    from mypyc.build import mypycify
    from setuptools import setup

    groups = [
        ([f"barnabas/{module}.py" for module in modules], name) for name, modules in GROUPS.items()
    ]
    extensions = mypycify(
        [
            "--config-file",
            str(ROOT / "pyproject.toml"),
            *(path for group, _ in groups for path in group),
        ],
        opt_level="1",  # a higher one takes twice as long and brings nothing: the time goes to Python's own library
        debug_level="0",
        separate=groups,
        target_dir="build",
    )
    arguments = ["--quiet", "build_ext", "--inplace", "--parallel", str(len(groups))]
    setup(name="barnabas", packages=[], ext_modules=extensions, script_args=arguments)


if __name__ == "__main__":
    compile_here() if "--here" in sys.argv else main()
