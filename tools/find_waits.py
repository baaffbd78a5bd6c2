"""Finds every place in the source that waits, and compares them with the list in docs/waits.md.

A place waits if something else happens before it goes on: other requests, changes of role, the end of a connection. Two forms count:

- a `yield` or `yield from` in a function that returns a Task, or a Generator like one;
- a function that is given to somebody: a lambda, a `partial`, a method or a function that is an argument of a call, is kept in an
  attribute, or is returned. Callbacks and jobs for the background have this form.

A function that is called before the call returns (the key of `sorted`) is no wait: `AT_ONCE` names such callees. The other way round, an
object that is told later has no form of its own: `TOLD_LATER` names the calls that take one.

python tools/find_waits.py                     what the page lacks, as rows to be filled in, and what it has too much
python tools/find_waits.py broker.api.fetch    every wait of a module
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "barnabas"
PAGE: Final = ROOT / "docs" / "waits.md"
PACKAGES: Final = ("broker", "runtime", "storage", "core")

#: Modules of `runtime/` that no broker runs: commands and clients, which have no roles to lose.
OUTSIDE_BROKERS: Final = frozenset({
    "runtime.blocking_client", "runtime.client_io", "runtime.client_tls", "runtime.local_cluster", "runtime.offline_store",
    "runtime.zookeeper_server",
})  # fmt: skip

#: What calls the functions that it is given before it returns.
AT_ONCE: Final = frozenset({
    "ConsumerHeartbeatRequest", "EndRequest", "Offsets", "_as_guest", "_family", "_usable", "all", "any", "bisect_left",
    "bisect_right", "cache", "changed", "field", "filter", "fromkeys", "getattr", "groupby", "len", "map", "max", "min", "narrow",
    "receive", "sort", "sorted", "steadily", "sub", "sum", "tuple",
})  # fmt: skip

#: What keeps an object and tells it later: the last two names of what is called.
TOLD_LATER: Final = frozenset({"coordination.on_session", "peers.connect", "waiting.add"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Names(ast.NodeVisitor):
    """The methods of all classes by name. A name that is a value somewhere else, too, counts as a method."""

    def __init__(self) -> None:
        self.methods: set[str] = set()
        self._values: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                (self._values if _is_property(item) else self.methods).add(item.name)
            elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                self._values.add(item.target.id)
        self.generic_visit(node)

    def finish(self) -> set[str]:
        return self.methods - self._values


class _Module(ast.NodeVisitor):
    """One module: counts the waits of each function by its qualified name."""

    def __init__(self, module: str, methods: set[str], tree: ast.Module) -> None:
        self.places: dict[str, list[ast.AST]] = {}
        self._module = module
        self._methods = methods
        self._path: list[str] = []
        self._functions = [_functions_of(tree.body)]
        self._is_task = [False]
        #: Names that hold values in the class at hand.
        self._values: list[set[str]] = [set()]
        self.visit(tree)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._path.append(node.name)
        self._values.append(_slots_of(node) - _functions_of(node.body))
        for item in node.body:
            self.visit(item)
        self._values.pop()
        self._path.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        returns = node.returns.value if isinstance(node.returns, ast.Subscript) else None
        self._path.append(node.name)
        inner = {one.name for one in ast.walk(node) if isinstance(one, Function)} - {node.name}
        inner |= _callable_variables_of(node)
        self._functions.append((self._functions[-1] | inner) - (_variables_of(node) - inner))
        self._is_task.append(returns is not None and _name_of(returns) in ("Task", "Generator"))
        for item in node.body:
            self.visit(item)
        self._is_task.pop()
        self._functions.pop()
        self._path.pop()

    def visit_Yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        if self._is_task[-1]:
            self._count(node)
        else:
            self.generic_visit(node)

    visit_YieldFrom = visit_Yield

    def visit_Call(self, node: ast.Call) -> None:
        name = _name_of(node.func)
        arguments = [*node.args, *(word.value for word in node.keywords)]
        if name == "partial":
            arguments = arguments[1:]
        is_given = name not in AT_ONCE and any(self._is_function(one) for one in arguments)
        if is_given or f"{_owner_of(node.func)}.{name}" in TOLD_LATER:
            self._count(node)
        else:
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        is_kept = any(isinstance(target, ast.Attribute) for target in node.targets)
        if is_kept and self._is_function(node.value):
            self._count(node)
        else:
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self._is_function(node.value):
            self._count(node)
        else:
            self.generic_visit(node)

    def _count(self, node: ast.AST) -> None:
        name = ".".join([self._module, *self._path])
        self.places.setdefault(name, []).append(node)

    def _is_function(self, node: ast.AST) -> bool:
        if _makes_function(node):
            return True
        if isinstance(node, ast.Name):
            return node.id in self._functions[-1]
        if isinstance(node, ast.Attribute):
            is_value = _name_of(node.value) == "self" and node.attr in self._values[-1]
            return node.attr in self._methods and not is_value
        if isinstance(node, ast.IfExp):
            return self._is_function(node.body) or self._is_function(node.orelse)
        return False


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _makes_function(node: ast.AST) -> bool:
    is_partial = isinstance(node, ast.Call) and _name_of(node.func) == "partial"
    return is_partial or isinstance(node, ast.Lambda)


def _callable_variables_of(node: ast.FunctionDef) -> set[str]:
    """The local variables that are given a function that is made there."""
    return {
        target.id
        for one in ast.walk(node)
        if isinstance(one, ast.Assign) and _makes_function(one.value)
        for target in one.targets
        if isinstance(target, ast.Name)
    }


def _owner_of(node: ast.AST) -> str:
    return _name_of(node.value) if isinstance(node, ast.Attribute) else ""


def _is_property(function: ast.FunctionDef) -> bool:
    return any(_name_of(one) in ("property", "cached_property") for one in function.decorator_list)


def _functions_of(body: list[ast.stmt]) -> set[str]:
    return {one.name for one in body if isinstance(one, Function) and not _is_property(one)}  # type: ignore[arg-type]


def _slots_of(node: ast.ClassDef) -> set[str]:
    """The attributes that the class declares or assigns."""
    declared = {
        name.value
        for item in node.body
        if isinstance(item, ast.Assign) and _name_of(item.targets[0]) == "__slots__"
        for name in ast.walk(item.value)
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
    }
    assigned = {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    }
    return declared | assigned


def _variables_of(node: ast.FunctionDef) -> set[str]:
    """The parameters and local variables of a function."""
    arguments = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    assigned = {
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    return arguments | assigned


def find(source: Path = SOURCE) -> dict[str, list[ast.AST]]:
    """Find the waits of each function, by `package.module.qualified_name`."""
    names, trees = _Names(), {}
    for package in PACKAGES:
        for path in sorted((source / package).rglob("*.py")):
            module = ".".join(path.relative_to(source).with_suffix("").parts)
            if module not in OUTSIDE_BROKERS:
                trees[module] = ast.parse(path.read_bytes())
                names.visit(trees[module])
    methods = names.finish()
    places: dict[str, list[ast.AST]] = {}
    for module, tree in trees.items():
        places |= _Module(module, methods, tree).places
    return places


def listed(page: str) -> dict[str, list[str]]:
    """Read the page: the cells of each place, by its name."""
    places: dict[str, list[str]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`") and cells[1].isdigit():
            name = cells[0].strip("`")
            assert name not in places, f"{name} is listed twice"
            places[name] = cells[1:]
    return places


def compare(found: Mapping[str, Sized], page: str) -> tuple[list[str], list[str]]:
    """Give the rows that the page lacks, and what is wrong with those that it has."""
    places = listed(page)
    missing = [
        f"| `{name}` | {len(waits)} | | | |" for name, waits in found.items() if name not in places
    ]
    wrong = []
    for name, (count, *verdict) in places.items():
        if name not in found:
            wrong.append(f"{name} is listed and waits no more")
        elif int(count) != len(found[name]):
            wrong.append(f"{name} waits {len(found[name])} times; {count} are listed")
        elif not all(verdict):
            wrong.append(f"{name} is listed without a verdict")
    return missing, wrong


if __name__ == "__main__":
    found_ = find()
    if sys.argv[1:]:
        for name_, waits_ in found_.items():
            for wait in waits_ if name_.startswith(sys.argv[1]) else ():
                print(f"{name_}: {ast.unparse(wait)}")
    else:
        missing_, wrong_ = compare(found_, PAGE.read_text())
        print("\n".join([*missing_, *wrong_]))
        sys.exit(bool(missing_ or wrong_))
