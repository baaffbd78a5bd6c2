"""Names in certificates: their text as Java writes it, and the rules that make a user's name of it.

Job: RFC 2253's text of a certificate's subject; `ssl.principal.mapping.rules`. Must not know: certificates as such.
Invariants: the same subject has the same text as in Kafka, so that its rules and ACLs keep their meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What RFC 2253 has short names for.
_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
#: Others are written by number, their value as the bytes of the certificate: here those with one way to write them.
_NUMBERS: Final = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "serialNumber": ("2.5.4.5", 0x13),
    "dnQualifier": ("2.5.4.46", 0x13),
    "givenName": ("2.5.4.42", 0x0C),
    "surname": ("2.5.4.4", 0x0C),
    "title": ("2.5.4.12", 0x0C),
    "pseudonym": ("2.5.4.65", 0x0C),
}
_SPECIAL = re.compile(r'[,+"\\<>;]|^[ #]| $')
_SHORT_LENGTH_MAX: Final = 0x7F

Subject = tuple[tuple[tuple[str, str], ...], ...]


def subject_text(subject: Subject) -> str:
    """Write a subject as Java's X500Principal does: the last part first."""
    return ",".join(
        "+".join(_attribute(name, value) for name, value in part) for part in reversed(subject)
    )


def _attribute(name: str, value: str) -> str:
    short = _SHORT.get(name)
    if short is not None:
        return f"{short}={_SPECIAL.sub(lambda found: chr(92) + found[0], value)}"
    number, tag = _NUMBERS.get(name, (name, 0x0C))
    return f"{number}=#{_encoded(tag, value.encode()).hex()}"


def _encoded(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size <= _SHORT_LENGTH_MAX:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


class _Rule(NamedTuple):
    #: None takes the name as it is.
    pattern: re.Pattern[str] | None
    replacement: str = ""
    change: Callable[[str], str] = str


_RULE = re.compile(
    r"\s*(?:DEFAULT|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)


class MappingRules:
    """`ssl.principal.mapping.rules`: the first rule that fits a name makes the user's name of it."""

    def __init__(self, text: str) -> None:
        """Read the rules; ValueError if they are none."""
        self._rules = list(_read(text))

    def apply(self, name: str) -> str:
        """Make the user's name; ValueError if no rule fits."""
        for pattern, replacement, change in self._rules:
            if pattern is None:
                return name
            found = pattern.fullmatch(name)
            if found is not None:
                return change(found.expand(replacement).strip())
        raise ValueError(f"no rule of ssl.principal.mapping.rules fits {name}")


def _read(text: str) -> Sequence[_Rule]:
    rules, position = [], 0
    while position < len(text.strip()):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(
                f"'{text[position:]}' is no rule; expected are DEFAULT and RULE:PATTERN/REPLACEMENT/[LU], with commas"
            )
        rules.append(_rule(found))
        position = found.end()
    return rules or [_Rule(None)]


def _rule(found: re.Match[str]) -> _Rule:
    if found["pattern"] is None:
        return _Rule(None)
    # Java writes $1 where Python has \1, and names groups (?<name>).
    pattern = re.sub(r"\(\?<(?![=!])", "(?P<", found["pattern"])
    replacement = re.sub(r"\$(\d)", r"\\g<\1>", found["replacement"].replace("\\/", "/"))
    try:
        compiled = re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"'{found['pattern']}' is no pattern: {problem}") from None
    change: Callable[[str], str] = {"L": str.lower, "U": str.upper}.get(found["case"], str)
    return _Rule(compiled, replacement, change)
