"""Where Spark works, as people name it: `local[*]`, `spark://HOST:PORT`, `sc://HOST:PORT`, `yarn`, `k8s://URL`.

Job: which master is meant, whether that is this machine, and whether somebody is there. Spark itself would try for a minute and then speak of something else. Must not know sessions.
"""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from barnabas.pipelines.jvm import CannotStart

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE: Final = "BARNABAS_SPARK_MASTER"
_STANDALONE: Final = "spark://"
_FORMS: Final = re.compile(
    r"local|local\[(\*|\d+)(\s*,\s*\d+)?\]|local-cluster\[.+\]|yarn|k8s://.+|sc://.+"
)
_ANSWER_S: Final = 5.0


def default_master() -> str:
    """Where a session runs if its program does not say."""
    return os.environ.get(VARIABLE) or os.environ.get("SPARK_REMOTE") or "local[*]"


def is_local(master: str) -> bool:
    """Tell whether everything runs on this machine."""
    if not master.startswith(_STANDALONE):
        return master.startswith("local")
    return all(host in {"127.0.0.1", "localhost", "::1"} for host, _ in _addresses(master))


def check_master(master: str) -> None:
    """Raise CannotStart if this is no master, or a standalone one of which nobody answers."""
    if not master.startswith(_STANDALONE):
        if not _FORMS.fullmatch(master):
            raise CannotStart(f"'{master}' is no master of Spark: it can be local[*], local[N], spark://HOST:PORT, yarn or k8s://URL")  # fmt: skip
        return
    reasons = []
    for host, port in _addresses(master):
        if not host or port is None:
            raise CannotStart(f"'{master}' is no master of Spark: write it as spark://HOST:PORT")
        try:
            socket.create_connection((host, port), _ANSWER_S).close()
        except OSError as problem:
            reasons.append(f"{host}:{port}: {problem.strerror or problem}")
        else:
            return
    raise CannotStart(f"no Spark master answers at {master} ({'; '.join(reasons)})")


def _addresses(master: str) -> Iterator[tuple[str | None, int | None]]:
    for part in master[len(_STANDALONE) :].split(","):
        try:
            found = urlsplit(f"//{part}")
            yield found.hostname, found.port
        except ValueError:  # brackets that do not close, a port that is none
            yield None, None
