"""`sasl.jaas.config` as Java users write it: a login module, `required`, and name="value" pairs.

Job: read the pairs of the first login module. Must not know what they mean. No text of a value is ever in an error: it may be a password.
"""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = re.compile(
    r"""\s*(?: "((?:[^"\\]|\\.)*)" | '((?:[^'\\]|\\.)*)' | ([^\s"'=;]+) | ([=;]) )""", re.VERBOSE
)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPED: Final = re.compile(r"\\(.)")
_SHAPE: Final = (
    "sasl.jaas.config is not what Kafka expects: "
    '\'org.apache.kafka.common.security.plain.PlainLoginModule required username="NAME" password="PASSWORD";\''
)


class JaasError(ValueError):
    """A text that is no JAAS configuration."""


def read_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the class of the login module and its options."""
    words = _split(text)
    match words:
        case [(module, False), (flag, False), *rest, (";", True)] if flag in _FLAGS:
            return module, _pairs(rest)
    raise JaasError(_SHAPE)


def _split(text: str) -> list[tuple[str, bool]]:
    """Cut into words and signs; with each, whether it is a sign."""
    words, position, text = [], 0, text.strip()
    while position < len(text):
        found = _WORDS.match(text, position)
        if found is None:
            raise JaasError(_SHAPE)
        double, single, plain, sign = found.groups()
        if sign is not None:
            words.append((sign, True))
        elif plain is not None:
            words.append((plain, False))
        else:
            words.append((_ESCAPED.sub(r"\1", double if double is not None else single), False))
        position = found.end()
    return words


def _pairs(words: list[tuple[str, bool]]) -> dict[str, str]:
    if len(words) % 3:
        raise JaasError(_SHAPE)
    pairs = {}
    for (name, name_sign), equals, (value, value_sign) in zip(
        words[::3], words[1::3], words[2::3], strict=True
    ):
        if name_sign or value_sign or equals != ("=", True):
            raise JaasError(_SHAPE)
        pairs[name] = value
    return pairs
