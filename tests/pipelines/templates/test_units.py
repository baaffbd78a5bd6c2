"""The unit tests that every template brings, as its user runs them: but all with one Spark."""

import ast
import importlib.util
import inspect
from pathlib import Path

import pytest

import barnabas.pipelines
from barnabas.pipelines.project import Project
from barnabas.pipelines.surroundings import importing

# Spark, on a machine with much else to do.
pytestmark = pytest.mark.timeout(900)

FILES = sorted(Path(barnabas.pipelines.__file__).parent.glob("templates/*/test_functions.py"))


def names(file):
    return [
        each.name
        for each in ast.parse(file.read_text()).body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param(file, name, id=f"{file.parent.name}-{name}")
        for file in FILES
        for name in names(file)
    ],
)
def test_a_template(file, name, request):
    with importing(Project.open(file.parent)):
        spec = importlib.util.spec_from_file_location("test_functions", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        function = getattr(module, name)
        function(
            *[request.getfixturevalue(each) for each in inspect.signature(function).parameters]
        )
