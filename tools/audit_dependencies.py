"""Check that what is installed is what the locks say, hash for hash, and that none of it is known to be bad.

Without a network: the locks pin every package to one version with hashes (which `pip install --require-hashes` checks when it
installs), what is installed of them has that version, and `advisories.toml` names versions that are not to be used. Where pip-audit is installed
and its service answers, its findings are shown as well; they fail nothing, since the service is not there everywhere.

    python tools/audit_dependencies.py requirements.lock [MORE.lock...]
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ADVISORIES = Path(__file__).with_name("advisories.toml")
PIP_AUDIT_S = 60


@dataclass(frozen=True)
class Pin:
    """A package as a lock has it."""

    name: str
    version: str
    has_hashes: bool


@dataclass(frozen=True)
class Advisory:
    """Versions of a package that are not to be used."""

    package: str
    id: str
    affected: tuple[SpecifierSet, ...]
    why: str

    def concerns(self, name: str, version: str) -> bool:
        """Tell whether this version is among them."""
        return name == self.package and any(
            specifier.contains(version, prereleases=True) for specifier in self.affected
        )


def read_lock(text: str) -> Iterator[Pin]:
    """Read what a lock pins; ValueError if a line pins nothing."""
    for line in text.replace("\\\n", " ").splitlines():
        content = line.split(" #")[0].strip()
        if not content or content.startswith(("#", "-")):
            continue
        words, *hashes = content.split("--hash=")
        requirement = Requirement(words.strip())
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        versions = list(requirement.specifier)
        if len(versions) != 1 or versions[0].operator != "==":
            raise ValueError(f"{requirement} is not pinned to one version")
        yield Pin(canonicalize_name(requirement.name), versions[0].version, bool(hashes))


def read_advisories(text: str) -> list[Advisory]:
    """Read the list of what is not to be used."""
    return [
        Advisory(
            canonicalize_name(one["package"]),
            one["id"],
            tuple(SpecifierSet(text) for text in one["affected"]),
            one["why"],
        )
        for one in tomllib.loads(text)["advisory"]
    ]


def problems(
    pins: Iterable[Pin], installed: Mapping[str, str], advisories: Iterable[Advisory]
) -> Iterator[str]:
    """Say what is not as it should be: of what is pinned, and of what is installed."""
    pinned = {pin.name: pin for pin in pins}
    for pin in pinned.values():
        if not pin.has_hashes:
            yield f"{pin.name} {pin.version} is pinned without a hash"
        if installed.get(pin.name, pin.version) != pin.version:
            yield f"{pin.name} {installed[pin.name]} is installed, the lock says {pin.version}"
    known = {(pin.name, pin.version) for pin in pinned.values()} | set(installed.items())
    for advisory in advisories:
        for name, version in sorted(known):
            if advisory.concerns(name, version):
                yield f"{name} {version} is not to be used ({advisory.id}): {advisory.why}"


def installed_packages() -> dict[str, str]:
    """Return the version of everything that this Python has."""
    return {
        canonicalize_name(one.metadata["Name"]): one.version
        for one in importlib.metadata.distributions()
    }


def show_pip_audit() -> None:
    """Ask pip-audit, if it is there; whatever comes of it is shown and no more."""
    if importlib.util.find_spec("pip_audit") is None:
        return
    command = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_AUDIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        print("pip-audit: its service did not answer")
        return
    print("pip-audit:", (done.stdout or done.stderr).strip().splitlines()[-1:] or "nothing")


def main(locks: list[str]) -> int:
    """Check; 1 if something is wrong."""
    pins = [pin for lock in locks for pin in read_lock(Path(lock).read_text())]
    found = list(problems(pins, installed_packages(), read_advisories(ADVISORIES.read_text())))
    for problem in found:
        print(problem, file=sys.stderr)
    show_pip_audit()
    if not found:
        print(f"{len({pin.name for pin in pins})} packages are as locked, none is known to be bad")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["requirements.lock"]))
