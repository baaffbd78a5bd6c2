"""Every message and version, with random content: what is encoded is read back, and damage raises only WireError."""

import importlib
import pkgutil
import re
import types
import typing
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire import messages
from barnabas.wire.primitives import Buffer, Message, Struct, WireError

SEEDS = st.integers(0, 2**32 - 1)
INT_EDGES = (0, 1, -1, 7, 127, -128)


def _all_messages() -> list[type[Message]]:
    found = {}
    for module in pkgutil.walk_packages(messages.__path__, messages.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Message) and value.__slots__:
                found[f"{module.name}.{value.__name__}"] = value
    return [found[name] for name in sorted(found)]


MESSAGES = _all_messages()
VERSIONS = [
    (kind, version)
    for kind in MESSAGES
    for version in range(kind.MIN_VERSION, kind.MAX_VERSION + 1)
]
_HINTS: dict[type[Struct], dict[str, Any]] = {}


def _hints(kind: type[Struct]) -> dict[str, Any]:
    if kind not in _HINTS:
        hints = typing.get_type_hints(kind)
        _HINTS[kind] = {
            name: hints[name] for name in kind.__slots__ if name != "unknown_tagged_fields"
        }
    return _HINTS[kind]


def random_struct(kind: type[Struct], rng: Random, leave: frozenset[str]) -> Any:
    """Fill an instance, but leave the named fields (those the version cannot carry) at their defaults."""
    chosen = {
        name: _random_value(hint, rng, leave)
        for name, hint in _hints(kind).items()
        if name not in leave
    }
    return kind(**chosen)


def _random_value(hint: Any, rng: Random, leave: frozenset[str]) -> Any:
    if hint is Any:
        return rng.randbytes(rng.choice((0, 1, 130)))
    if hint == Buffer:
        return rng.randbytes(rng.choice((0, 1, 200)))
    if isinstance(hint, types.UnionType):
        options = [each for each in typing.get_args(hint) if each is not type(None)]
        return _random_value(Buffer if len(options) > 1 else options[0], rng, leave)
    if typing.get_origin(hint) is list:
        (element,) = typing.get_args(hint)
        return [_random_value(element, rng, leave) for _ in range(rng.choice((0, 1, 2)))]
    if issubclass(hint, Struct):
        return random_struct(hint, rng, leave)
    return _random_primitive(hint, rng)


def _random_primitive(hint: type, rng: Random) -> Any:
    if hint is int:
        return rng.choice((0, 1, 7, 127))
    if hint is bool:
        return rng.random() < 0.5
    if hint is float:
        return rng.uniform(-1e9, 1e9)
    if hint is bytes:
        return rng.randbytes(16)
    assert hint is str
    return "".join(rng.choices("aZ0-é漢🙂", k=rng.choice((0, 3, 60))))


def random_message(kind: type[Message], version: int, seed: int) -> tuple[Any, bytes]:
    """Make a message that the version can carry, and its bytes."""
    leave: frozenset[str] = frozenset()
    while True:
        message = random_struct(kind, Random(seed), leave)
        try:
            return message, b"".join(message.encode(version))
        except WireError as error:
            refused = re.match(r"(\w+) has a value, but version", str(error))
            if refused is None:
                raise
            leave |= {refused[1]}


def test_the_package_holds_every_message():
    assert len(MESSAGES) == 281
    assert sum(kind.API_KEY >= 0 and kind.__name__.endswith("Request") for kind in MESSAGES) == 96


@given(seed=SEEDS)
@settings(max_examples=8)
def test_round_trip(seed: int):
    for kind, version in VERSIONS:
        _, encoded = random_message(kind, version, seed)
        decoded = kind.decode(encoded, version)
        assert b"".join(decoded.encode(version)) == encoded, (kind, version)
        assert kind.decode(memoryview(encoded), version) == decoded, (kind, version)


@given(seed=SEEDS)
@settings(max_examples=8)
def test_damage_is_refused_or_read_never_worse(seed: int):
    rng = Random(seed)
    for kind, version in VERSIONS:
        _, encoded = random_message(kind, version, rng.randrange(1000))
        for damaged in _damaged(encoded, rng):
            try:
                decoded = kind.decode(damaged, version)
            except WireError:
                continue
            assert isinstance(decoded, kind)


def _damaged(encoded: bytes, rng: Random) -> Sequence[bytes]:
    if not encoded:
        return [b"\xff" * rng.randrange(1, 9)]
    flipped = bytearray(encoded)
    for _ in range(rng.choice((1, 2, 8))):
        flipped[rng.randrange(len(flipped))] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return [
        bytes(flipped),
        encoded[: rng.randrange(len(encoded))],
        encoded + rng.randbytes(rng.randrange(1, 9)),
    ]


@pytest.mark.parametrize("extra", [b"\x00", b"\x00" * 5])
def test_bytes_left_over_are_refused(extra: bytes):
    for kind, version in VERSIONS:
        _, encoded = random_message(kind, version, 1)
        with pytest.raises(WireError, match="left over"):
            kind.decode(encoded + extra, version)


def test_every_truncation_is_refused():
    for kind, version in VERSIONS:
        _, encoded = random_message(kind, version, 2)
        for size in range(len(encoded)):
            with pytest.raises(WireError):
                kind.decode(encoded[:size], version)
