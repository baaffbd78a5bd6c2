"""Reading `sasl.jaas.config`: Java's way to write down a login module and its options.

Job: text in, module and options out. Must not know: what modules do. No class is loaded by its name (CVE-2023-25194): a
module is only a word here. Invariants: what a problem says never holds the text, which has passwords in it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_MODULE = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)\s*", re.ASCII)
_OPTION = re.compile(
    r"(?P<name>[^\s=;\"]+)\s*=\s*(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<bare>[^\s;\"]+))\s*"
)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER: Final = "user_"


class Jaas(NamedTuple):
    """A login module with its options."""

    module: str
    options: dict[str, str]

    @property
    def users(self) -> dict[str, str]:
        """Give the passwords of `user_NAME="PASSWORD"` by name."""
        found = {name: text for name, text in self.options.items() if name.startswith(_USER)}
        return {name.removeprefix(_USER): text for name, text in found.items()}


def parse_jaas(text: str) -> Jaas:
    """Read one login module; ValueError if it is none."""
    head = _MODULE.match(text)
    if head is None or head["flag"].lower() not in _FLAGS:
        raise ValueError('expected is: MODULE required NAME="VALUE" ...;')
    options: dict[str, str] = {}
    position = head.end()
    while position < len(text) and text[position] != ";":
        option = _OPTION.match(text, position)
        if option is None:
            raise ValueError(f'at character {position} NAME="VALUE" or the final ; is expected')
        quoted = option["quoted"]
        value = option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        options[option["name"]] = value
        position = option.end()
    if text[position:].strip() != ";":
        raise ValueError("one login module is expected, with ; at its end")
    return Jaas(head["module"], options)
