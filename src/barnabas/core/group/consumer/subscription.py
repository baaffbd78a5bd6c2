"""What a consumer group reads: names, regular expressions and the topics behind them.

Job: count who subscribes to what, resolve regular expressions (RE2 semantics: linear time, no back-references), and put
the subscribed topics' shape into one number that changes when the shape does.
Must not know: epochs, assignments, who asks.

Invariants: a count in a table is never 0; a pattern that compiles here compiles again; matching a name takes time linear
in the name, whatever the pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import re2  # type: ignore[import-untyped]

from barnabas.core.group.consumer.requests import RefusedError
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.core.group.topic_view import TopicInfo, TopicView

#: Steps of one compiled pattern; keeps `(x{1000}){1000}` and the like from being stored and tried on each topic.
PATTERN_STEPS_MAX: Final = 16_384
#: What one may take while names are matched. With less, RE2 leaves its fast way sooner: 200 long names took seconds.
PATTERN_MEMORY_BYTES_MAX: Final = 4 << 20
#: Text that is quoted whole, or one escape. Java's RE2 has no `\C`, which would match half a character.
_ESCAPES: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\(.)", re.DOTALL)


def compile_pattern(regex: str) -> Any:  # noqa: ANN401 - the binding has no types
    """Compile a regular expression, or refuse it."""
    if any(found[1] == "C" for found in _ESCAPES.finditer(regex)):
        raise _refused(regex, r"invalid escape sequence: \C")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.never_capture = (
        True  # nobody asks what a group matched, and to keep track of 900 takes 20 ms per name
    )
    try:
        pattern = re2.compile(regex, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else "it cannot be compiled"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise _refused(regex, reason) from None
    if pattern.programsize > PATTERN_STEPS_MAX:
        raise _refused(regex, "pattern too large")
    return pattern


def _refused(regex: str, reason: str) -> RefusedError:
    return RefusedError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
    )


def resolve_patterns(
    regexes: Iterable[str], names: Iterable[str], may_describe: Callable[[str], bool] | None
) -> dict[str, tuple[str, ...]]:
    """Find the topics whose whole name each expression matches and the asker may see; sorted."""
    known = sorted(names)
    resolved: dict[str, tuple[str, ...]] = {}
    for regex in regexes:
        matches = compile_pattern(regex).fullmatch
        resolved[regex] = tuple(
            name for name in known if matches(name) and (may_describe is None or may_describe(name))
        )
    re2.purge()  # it remembers the last 128 with all that they took
    return resolved


@dataclass(slots=True)
class Subscriptions:
    """How many members subscribe to what. Names and expressions are counted apart."""

    by_name: dict[str, int] = field(default_factory=dict)
    #: Resolved expressions that match a topic.
    by_regex: dict[str, int] = field(default_factory=dict)
    #: Members per expression, resolved or not.
    regexes: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Subscriptions:
        """Give the same counts, to try a change on."""
        return Subscriptions(dict(self.by_name), dict(self.by_regex), dict(self.regexes))

    def add_member(self, names: Iterable[str], regex: str | None, by: int = 1) -> None:
        """Count a member in, or out with `by=-1`."""
        for name in names:
            _count(self.by_name, name, by)
        if regex:
            _count(self.regexes, regex, by)

    def add_matches(self, topics: Iterable[str], by: int = 1) -> None:
        """Count the topics of a resolved expression in, or out."""
        for name in topics:
            _count(self.by_regex, name, by)

    def __contains__(self, topic: object) -> bool:
        """Tell whether anybody reads the topic."""
        return topic in self.by_name or topic in self.by_regex

    def topics(self) -> dict[str, int]:
        """Give every topic that is read."""
        return self.by_name if not self.by_regex else {**self.by_name, **self.by_regex}


def _count(table: dict[str, int], key: str, by: int) -> None:
    count = table.get(key, 0) + by
    assert count >= 0, "who is counted out was counted in"
    if count:
        table[key] = count
    else:
        table.pop(key, None)


class TopicHashes:
    """The shapes of topics as numbers, remembered until a topic changes."""

    __slots__ = ("_by_name", "_topics")

    def __init__(self, topics: TopicView) -> None:
        """Look topics up there."""
        self._topics = topics
        self._by_name: dict[str, bytes] = {}

    def forget(self, names: Iterable[str]) -> None:
        """Topics changed: look again."""
        for name in names:
            self._by_name.pop(name, None)

    def of_group(self, names: Iterable[str]) -> int:
        """Give one signed 64-bit number for the topics of these names that exist; 0 when none does.

        The number is written with the group's epoch. A coordinator that computes it in another way (Apache Kafka does)
        sees one change that is none, and the group goes through one epoch more.
        """
        shapes = []
        for name in sorted(names):
            shape = self._by_name.get(name)
            if shape is None:
                topic = self._topics.by_name(name)
                if topic is None:
                    continue
                shape = self._by_name[name] = _shape(topic)
            shapes.append(shape)
        if not shapes:
            return 0
        digest = blake2b(b"".join(shapes), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


def _shape(topic: TopicInfo) -> bytes:
    digest = blake2b(digest_size=8)
    digest.update(topic.topic_id)
    digest.update(repr((topic.name, topic.partition_count, topic.racks)).encode())
    return digest.digest()
