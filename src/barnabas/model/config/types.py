"""What a setting is: its type, its bounds, and how its text is read and written.

Job: turn the text of one value into a checked Python value and back into the text Kafka shows.
Must not know: which settings exist (the tables say), where values come from, what they do.
Invariants: `parse` gives a value of the setting's kind within its bounds or raises a
`ConfigProblem` that names the setting, the value and what is allowed; `render(parse(x))` parses
to the same value again; nobody sees the value of a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value = bool | int | float | str | tuple[str, ...] | None

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308


class Kind(IntEnum):
    """The type of a setting; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    """How often people need to look at a setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Update(Enum):
    """When a setting of the broker may change."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Feature(Enum):
    """The part of Barnabas that reads a setting, for the parts that are not there yet."""

    CLUSTER = "clusters"
    SECURITY = "security"
    TIERED = "tiered storage"


class ConfigProblem(Exception):
    """A setting that cannot be accepted; the message says which, why, and what would be."""

    def __init__(self, name: str, message: str) -> None:
        """Keep the name apart, for callers that point at the line it came from."""
        self.name = name
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Allowed:
    """A bound on values: the words for a person, and the test itself."""

    text: str
    admits: Callable[[Value], bool]


def _admit_all(_value: Value) -> bool:
    return True


ANYTHING: Final = Allowed("", _admit_all)


def at_least(minimum: float) -> Allowed:
    """Bound a number from below."""
    return Allowed(f"at least {minimum}", lambda value: _number(value) >= minimum)


def between(minimum: float, maximum: float, *, also: int | None = None) -> Allowed:
    """Bound a number on both sides, ends included; `also` is one more value that is fine."""
    text = f"{minimum} to {maximum}" + ("" if also is None else f", or {also}")
    return Allowed(text, lambda value: minimum <= _number(value) <= maximum or value == also)


def one_of(*values: str) -> Allowed:
    """Allow these strings only, spelled exactly so."""
    return Allowed("one of " + ", ".join(values), lambda value: value in values)


def one_of_any_case(*values: str) -> Allowed:
    """Allow these strings only, in capitals or not."""
    lowered = tuple(value.lower() for value in values)
    return Allowed("one of " + ", ".join(values), lambda value: str(value).lower() in lowered)


def each_of(*values: str, empty: bool = True) -> Allowed:
    """Allow a list of these strings."""
    text = "a list of " + ", ".join(values)
    return Allowed(
        text if empty else f"{text}; not empty",
        lambda value: all(part in values for part in _parts(value)) and (empty or bool(value)),
    )


def only_empty(reason: str) -> Allowed:
    """Allow no value but the empty one, and say why."""
    return Allowed(f"nothing but the empty value: {reason}", lambda value: not value)


_REPLICA = re.compile(r"[0-9]+:[0-9]+")

THROTTLED_REPLICAS: Final = Allowed(
    "'*', or a list of partition:broker pairs such as 0:1,1:2",
    lambda value: value == ("*",) or all(_REPLICA.fullmatch(part) for part in _parts(value)),
)

_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_SERVER = rf"(\[[0-9A-Fa-f:.]+\]|[^\s,/:\[\]]+)(:({_PORT}))?"
_CONNECT = re.compile(rf"{_SERVER}(,{_SERVER})*(/[^\s,/]+)*/?")

ZOOKEEPER_CONNECT: Final = Allowed(
    "HOST:PORT, several with commas, and one path at the end: zk1:2181,zk2:2181/messages",
    lambda value: _CONNECT.fullmatch(str(value)) is not None,
)

NOT_EMPTY: Final = Allowed("a value that is not empty", bool)


def _number(value: Value) -> float:
    assert isinstance(value, int | float)
    return value


def _parts(value: Value) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of a table. `default` None means: not set unless somebody sets it."""

    name: str
    kind: Kind
    default: Value
    documentation: str
    allowed: Allowed = ANYTHING
    importance: Importance = Importance.MEDIUM
    update: Update = Update.READ_ONLY
    feature: Feature | None = None
    internal: bool = False  # shown only where somebody set it

    @property
    def sensitive(self) -> bool:
        """Whether the value is kept from everybody who asks."""
        return self.kind is Kind.PASSWORD


def settings(*lines: Setting) -> Mapping[str, Setting]:
    """Make a table of its lines, by name."""
    table = {line.name: line for line in lines}
    assert len(table) == len(lines)
    return MappingProxyType(table)


def parse(setting: Setting, text: str) -> Value:
    """Read the text of a value; raise `ConfigProblem` when it is not one."""
    trimmed = text.strip()
    try:
        value = _READERS[setting.kind](trimmed)
    except ValueError as error:
        raise _problem(setting, text, str(error)) from None
    if not setting.allowed.admits(value):
        raise _problem(setting, text, setting.allowed.text)
    return value


def _problem(setting: Setting, text: str, allowed: str) -> ConfigProblem:
    shown = "the given value" if setting.sensitive else f"'{text}'"
    return ConfigProblem(
        setting.name, f"{shown} is not a value for {setting.name}; allowed is {allowed}"
    )


def _read_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false")
    return lowered == "true"


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def _whole_number_reader(bits: int) -> Callable[[str], int]:
    limit = 2 ** (bits - 1)

    def read(text: str) -> int:
        # Python reads more spellings than Java (1_000, other scripts' digits); refuse those.
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else limit
        if not -limit <= number < limit:
            raise ValueError(f"a whole number of {bits} bits")
        return number

    return read


def _read_double(text: str) -> float:
    number = float(text) if _DECIMAL.fullmatch(text) else float("inf")
    if not isfinite(number):
        raise ValueError("a number such as 0.5")
    return number


def _read_list(text: str) -> tuple[str, ...]:
    """Split at commas. A repeated part counts once, as since KIP-1161."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()


_READERS: Final[dict[Kind, Callable[[str], Value]]] = {
    Kind.BOOLEAN: _read_boolean,
    Kind.STRING: str,
    Kind.INT: _whole_number_reader(32),
    Kind.SHORT: _whole_number_reader(16),
    Kind.LONG: _whole_number_reader(64),
    Kind.DOUBLE: _read_double,
    Kind.LIST: _read_list,
    Kind.CLASS: str,
    Kind.PASSWORD: str,
}


def render(value: Value) -> str | None:
    """Write a value as Kafka shows it; a value that is not set stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _render_double(value)
    return str(value)


def _render_double(number: float) -> str:
    # Java changes to an exponent at other sizes than Python, and writes it without a plus.
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"
