"""The drivers of the load that this machine can run."""

import compat.conftest as compat
import peers
import pytest
from oracle.clients import PYTHON

franz, java = compat.franz, compat.java
#: The clients of this release name topics by id.
RELEASE = "4.4.0"


@pytest.fixture(scope="session")
def commands(request):
    """The command of each driver, by library. What cannot be built here is left out, as its own tests are skipped."""
    found = dict(PYTHON)
    for library, make in (("franz", _franz), ("java", _java)):
        try:
            found[library] = make(request.getfixturevalue(library))
        except pytest.skip.Exception:
            continue
    return found


def _franz(program):
    return [str(program), "oracle"]


def _java(java):
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
    return [peers.java(), *quick, "-cp", java.class_path(RELEASE), "Oracle"]
