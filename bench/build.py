"""The clients, fetched from the package registries and compiled on the spot into a cache, never into the tree.

librdkafka comes with its benchmark program inside the crate rdkafka-sys, so `cargo` fetches it; the load generator is
compiled from bench/loadgen, and what uses librdkafka from bench/rdload; py-spy gets a virtual environment of its own. A thing is complete when its stamp is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CACHE = Path(os.environ.get("BENCH_CACHE") or Path.home() / ".cache/barnabas-bench")
LOADGEN_SOURCES = Path(__file__).parent / "loadgen"
RDLOAD_SOURCES = Path(__file__).parent / "rdload"
CRATE = "4.10.0+2.12.1"
LIBRDKAFKA = CRATE.partition("+")[2]
ARCHIVE = "librdkafka.a"
"""Copied last: with it a build is complete."""
PY_SPY = "0.4.3"
LIMIT_S = 900
CARGO_TOML = f"""[package]
name = "fetch-librdkafka"
version = "0.0.0"
edition = "2021"
[lib]
path = "lib.rs"
[dependencies]
rdkafka-sys = "={CRATE}"
"""


class Tools(NamedTuple):
    """Where the programs are."""

    loadgen: Path
    rdkafka_performance: Path
    rdload: Path


class CannotBuild(Exception):
    """A client could not be had; says why and what would help."""


def tools(tell: Callable[[str], None]) -> Tools:
    """Give the client programs, building what is not there yet."""
    library = librdkafka(tell)
    return Tools(loadgen(), library / "rdkafka_performance", rdload(library))


def loadgen() -> Path:
    """Compile the load generator."""
    return compiled("loadgen", LOADGEN_SOURCES)


def rdload(library: Path) -> Path:
    """Compile the producers that are made with librdkafka."""
    linked = [f"-I{library}", str(library / ARCHIVE), "-lm", "-ldl", "-lpthread", "-lrt"]
    return compiled("rdload", RDLOAD_SOURCES, linked)


def compiled(name: str, folder: Path, options: Sequence[str] = ()) -> Path:
    """Compile one of our programs; its name carries a sum of its sources and of the histogram that they share."""
    sources = sorted({*folder.glob("*.[ch]"), *LOADGEN_SOURCES.glob("*.h")})
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    target = CACHE / f"{name}-{digest}"
    if not target.exists():
        needed("cc")
        CACHE.mkdir(parents=True, exist_ok=True)
        files = [str(path) for path in sources if path.suffix == ".c"]
        run(["cc", "-O2", "-Wall", "-Wextra", "-o", f"{target}.new", *files, *options], CACHE)
        Path(f"{target}.new").rename(target)
    return target


def librdkafka(tell: Callable[[str], None]) -> Path:
    """Fetch librdkafka's source with cargo, compile it and its benchmark program; give the folder with both and the header."""
    home = CACHE / f"librdkafka-{LIBRDKAFKA}"
    if (home / ARCHIVE).exists():
        return home
    for command in ("cargo", "cc", "make", "bash"):
        needed(command)
    tell(f"fetching librdkafka {LIBRDKAFKA} ...")
    source = home / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(_crate(home) / "librdkafka", source)
    tell(f"compiling librdkafka {LIBRDKAFKA}, about a minute ...")
    without = ["ssl", "gssapi", "curl", "zstd", "zlib"]
    run(["bash", "configure", *(f"--disable-{name}" for name in without)], source)
    run(["make", f"-j{os.cpu_count()}", "-C", "src", ARCHIVE], source)
    run(["make", "-C", "examples", "rdkafka_performance"], source)
    (home / "librdkafka").mkdir(exist_ok=True)
    shutil.copy(source / "src/rdkafka.h", home / "librdkafka")
    shutil.copy(source / "examples/rdkafka_performance", home)
    shutil.copy(source / "src" / ARCHIVE, home)
    for folder in (source, home / "cargo", home / "project"):
        shutil.rmtree(folder)
    return home


def _crate(home: Path) -> Path:
    """Fetch the crate into a registry of our own and give its unpacked source."""
    project, registry = home / "project", home / "cargo"
    project.mkdir(parents=True, exist_ok=True)
    (project / "Cargo.toml").write_text(CARGO_TOML)
    (project / "lib.rs").touch()
    run(["cargo", "vendor", "--quiet", "--versioned-dirs", str(registry)], project)
    return registry / f"rdkafka-sys-{CRATE}"


def py_spy() -> Path:
    """Give the profiler, from an environment of its own: the project does not depend on it."""
    home = CACHE / f"py-spy-{PY_SPY}"
    target = home / "bin/py-spy"
    if not target.exists():
        venv.create(home, with_pip=True, clear=True)
        run([str(home / "bin/pip"), "install", "--quiet", f"py-spy=={PY_SPY}"], home)
    return target


def needed(command: str) -> None:
    """Stop with a sentence if a command is not installed."""
    if shutil.which(command) is None:
        raise CannotBuild(
            f"the benchmark needs `{command}` to build its clients; install it and try again"
        )


def run(command: list[str], folder: Path) -> None:
    """Run one step of a build."""
    environment = {**os.environ, "CFLAGS": "-O2"} if command[0] == "bash" else None
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise CannotBuild(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")


if __name__ == "__main__":
    print(*tools(lambda line: print(line, file=sys.stderr)), sep="\n")
