"""Compile the modules that a small request goes through, with mypyc, in a copy of the package below build/.

python tools/compile.py            prints where the copy of the source as it is stands, and makes it if it is not there
PYTHONPATH=THAT_PLACE ...          runs it: make up, test, bench and others do so by themselves (make compiled only makes it)

A copy never changes, since brokers may run from it: another source has another one. Those of older sources go when no process uses them. It is compiled
only if something changed that compiled code may have taken into itself. The source is not touched. Without a C compiler and Python's headers there is no copy:
that is told, and nothing printed. docs/adr/0010 has what it brings and what a compiled module must not do.
"""

from __future__ import annotations

import contextlib
import fcntl
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
BUILD = ROOT / "build"
#: In a copy: of what its compiled modules were made.
MARK = ".compiled-of"
#: Of a digest, so many characters name a copy.
NAME_SIZE = 16
#: Two libraries, so that two compilers can run side by side; calls within one are the cheapest.
GROUPS = {
    "serving": (
        "broker/client_link",
        "broker/inbox",
        "broker/metrics",
        "broker/pace",
        "broker/produce_lane",
        "broker/receive_memory",
        "broker/repeats",
        "broker/replicas",
        "broker/tenure",
        "broker/tls_link",
        "broker/turn",
        "runtime/disk",
        "runtime/loop",
        "runtime/server",
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
    """Print where the copy is, made anew if need be."""
    name = f"compiled-{digest(_sources())[:NAME_SIZE]}"
    if not (BUILD / name).exists():
        missing = what_is_missing()
        if missing:
            tell(f"not compiled, so small requests are slower: there is no {missing}")
            return
        BUILD.mkdir(exist_ok=True)
        with (BUILD / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tell("another make is compiling; waiting for it ...")
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not (BUILD / name).exists():  # somebody else made it meanwhile
                make(BUILD / name)
    print(BUILD / name)


def tell(text: str) -> None:
    """Say something to who waits; what is printed is for the caller."""
    print(text, file=sys.stderr, flush=True)


def make(copy: Path) -> None:
    """Make a copy, whole or not at all, and let go of old ones. Whoever calls has the lock."""
    taken_in = digest(_taken_in())
    fresh = BUILD / "compiling"
    shutil.rmtree(fresh, ignore_errors=True)  # of one that was killed
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    try:
        shutil.copytree(SOURCE, fresh / "barnabas", ignore=ignored)
        for before in BUILD.glob("compiled-*"):
            if (before / MARK).read_text() == taken_in:
                take_over(before, fresh)
                break
        else:
            compile_in(fresh)
        (fresh / MARK).write_text(taken_in)
        fresh.rename(copy)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    for old in BUILD.glob("compiled-*"):
        if old != copy and not is_used(old):
            shutil.rmtree(old)


def _sources(*below: str) -> Iterable[Path]:
    """Name the modules, all or those of some packages; editors put files beside them whose names begin with a dot."""
    for path in SOURCE.rglob("*.py"):
        is_wanted = not below or path.relative_to(SOURCE).parts[0] in below
        if is_wanted and not path.name.startswith("."):
            yield path


def _taken_in() -> Iterable[Path]:
    """Name the files that compiled code may depend on, the compiler's version and this file among them."""
    return (*_sources(*BELOW), Path(__file__), ROOT / "requirements.lock")


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


def is_used(copy: Path) -> bool:
    """Tell whether a process that we may look at has a library of this copy."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if f"{copy}/" in maps.read_text():
                return True
    return False


def take_over(before: Path, fresh: Path) -> None:
    """Use what was compiled before."""
    for library in before.rglob("*.so"):
        shutil.copy2(library, fresh / library.relative_to(before))


def compile_in(fresh: Path) -> None:
    """Compile in the copy; exits with what the compiler says if it cannot."""
    count = sum(len(modules) for modules in GROUPS.values())
    tell(f"compiling {count} modules, once: half a minute (COMPILED=0 does without) ...")
    command = [sys.executable, __file__, "--here"]
    # The copy is what mypy is to look at, not what is installed.
    environment = {**os.environ, "MYPYPATH": str(fresh)}
    done = subprocess.run(
        command, cwd=fresh, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(
            f"{done.stdout[-4000:]}{done.stderr[-4000:]}\nnot compiled (COMPILED=0 does without)"
        )
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
