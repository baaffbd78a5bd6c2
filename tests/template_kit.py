"""Templates of pipelines in tests: a copy as a user gets it, with its own modules importable as long as it is used."""

import contextlib
import shutil
import sys
from pathlib import Path

import barnabas.pipelines
from barnabas.pipelines.project import Project

TEMPLATES = Path(barnabas.pipelines.__file__).parent / "templates"


@contextlib.contextmanager
def template(name, folder):
    """Copy a template into a folder, and open it."""
    home = folder / name
    shutil.copytree(
        TEMPLATES / name, home, ignore=shutil.ignore_patterns("__pycache__", ".barnabas")
    )
    modules = {each.stem for each in home.glob("*.py")}
    _forget(modules)
    sys.path.insert(0, str(home))
    try:
        yield Project.open(home)
    finally:
        sys.path.remove(str(home))
        _forget(modules)


def _forget(modules):
    """Every template has a module `functions`: one must not be taken for another."""
    for each in modules:
        sys.modules.pop(each, None)
