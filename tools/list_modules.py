"""Say what every module is for: its name and the first sentence of its docstring, layer by layer, from what is in the tree now.

python tools/list_modules.py              all of them, but for the generated messages
python tools/list_modules.py broker core  some layers
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[1] / "src/barnabas"
GENERATED = PACKAGE / "wire/messages"


def modules(layers: list[str]) -> Iterator[tuple[str, str]]:
    """Give path and job of every module of these layers, or of all."""
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: (path.parent, path)):
        name = path.relative_to(PACKAGE)
        if path.is_relative_to(GENERATED) or (layers and name.parts[0] not in layers):
            continue
        yield str(name), job(path.read_text())


def job(source: str) -> str:
    """Give the first sentence of a module's docstring; empty if it has none."""
    text = ast.get_docstring(ast.parse(source)) or ""
    first, *_ = re.split(r"(?<=\.)\s|\n\n", text, maxsplit=1)
    return " ".join(first.split())


def main() -> None:
    """Print them."""
    with contextlib.suppress(BrokenPipeError):  # whoever reads has seen enough
        for name, what in modules(sys.argv[1:]):
            print(f"{name:44} {what}", flush=True)


if __name__ == "__main__":
    main()
