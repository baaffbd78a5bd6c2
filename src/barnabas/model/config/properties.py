"""Reading configuration files in Java's properties format.

Job: text in, names and values out.
Must not know: which names mean something.
Invariants: what `java.util.Properties` reads from the same text is what comes out, but for a lone
backslash at the end (there a setting without a name, here nothing); a later line wins over an
earlier one of the same name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

from barnabas.model.config.types import ConfigProblem

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Read a whole file; a broken \\uXXXX escape is a `ConfigProblem`."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        values[_unescape(name, line)] = _unescape(value, line)
    return values


def _logical_lines(text: str) -> Iterator[str]:
    """Join continued lines; drop blank ones and comments."""
    joined = ""
    for physical in _LINE_END.split(text):
        line = physical.lstrip(_BLANK)
        if not joined and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        continued = slashes % 2 == 1
        joined += line[:-1] if continued else line
        if not continued and joined:
            yield joined
            joined = ""
    if joined:
        yield joined


def _split(line: str) -> tuple[str, str]:
    """Cut at the first '=', ':' or blank that no backslash stands before."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANK:
        position += 2 if line[position] == "\\" else 1
    name, rest = line[:position], line[position:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return name, rest


def _unescape(text: str, line: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code == "u":
            raise ConfigProblem(line, f"'{line}' has a \\u without four hexadecimal digits")
        return _ESCAPED.get(code, code)

    if "\\" not in text:
        return text
    # Java's escapes are UTF-16: two of them may make one character.
    unescaped = _ESCAPE.sub(replace, text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
