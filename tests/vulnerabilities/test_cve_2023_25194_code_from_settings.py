"""CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: settings that named classes became code that ran. No text of a setting, a request or a file becomes code here:
nothing is unpickled, evaluated or imported by a name that came from outside."""

import ast
from pathlib import Path

import barnabas

SOURCE = Path(barnabas.__file__).parent
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
#: Where a module is imported by a name from a table of our own.
TABLES = {"cli/main.py"}
#: Written by the generator from Kafka's schemas, and PySpark's own serialisation of what a driver sends its workers.
LEFT_OUT = ("wire/messages/", "pipelines/")


def test_nothing_becomes_code():
    paths = sorted(SOURCE.rglob("*.py"))
    assert len(paths) > 100
    for path in paths:
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(LEFT_OUT):
            for node in ast.walk(ast.parse(path.read_text())):
                problem = problem_with(node, path, name)
                assert problem is None, f"{name} line {node.lineno}: {problem}"


def problem_with(node, path, name):
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            modules.append(node.module or "")
        return next((m for m in modules if m.split(".")[0] in FORBIDDEN_MODULES), None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in FORBIDDEN_CALLS else None
    if isinstance(node, ast.Attribute) and node.attr in (
        "import_module",
        "unsafe_load",
        "full_load",
    ):
        return None if name in TABLES or _is_constant(path, node.lineno) else node.attr
    return None


def _is_constant(path, line):
    """Tell whether what is imported there is written there."""
    return any(
        isinstance(node, ast.Call)
        and node.lineno == line
        and all(isinstance(argument, ast.Constant) for argument in node.args)
        for node in ast.walk(ast.parse(path.read_text()))
    )
