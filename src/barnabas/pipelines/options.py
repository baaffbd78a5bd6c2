"""The options of `format("barnabas")`: those of Spark's `kafka` format by their names, and ours.

Job: from texts to checked values, a sentence for everything that cannot be. Must not know a cluster, nor pyspark.

Invariants: every name that is accepted is in `NAMES`; a name is accepted on both sides, for a table in SQL has one set of options
for reading and writing, but what only one of batch and stream can do is refused for the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from barnabas.client.settings import READ_COMMITTED, READ_UNCOMMITTED, ClientSettings, SettingError
from barnabas.pipelines import catalog_tables
from barnabas.pipelines.offsets import (
    FROM_EARLIEST,
    FROM_LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Limit,
    parse_offsets,
    parse_partitions,
    parse_times,
)
from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.model.ids import TopicPartition

OUR_FORMAT: Final = "barnabas"
_KAFKA: Final = "kafka."
_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_SOURCE: Final = (
    *_SUBSCRIPTIONS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "isolation",
    "groupId",
)
_SINK: Final = ("topic", "delivery", "sinkId", "epoch", "deadLetterTopic")
#: What the `kafka` format takes and what has no use here: fetching has time-outs of its own (kafka.request.timeout.ms), and a
#: group is named as a whole.
_WITHOUT_EFFECT: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
#: What Spark itself puts among the options.
_SPARKS_OWN: Final = (
    "path",
    "checkpointLocation",
    "queryName",
    "outputMode",
    "provider",
    "header",
    "serialization.format",
    *catalog_tables.PROPERTIES,
)
NAMES: Final = (*_SOURCE, *_SINK, *_WITHOUT_EFFECT)
#: Client settings that would fight with what Spark keeps.
_REFUSED_SETTINGS: Final = {
    "auto.offset.reset": "set the option startingOffsets to say where a new query starts",
    "enable.auto.commit": "set the option groupId to have the offsets of finished batches committed",
    "key.deserializer": "keys come as bytes: cast the column",
    "value.deserializer": "values come as bytes: cast the column",
    "key.serializer": "keys are written as bytes: cast the column",
    "value.serializer": "values are written as bytes: cast the column",
    "interceptor.classes": "work on the DataFrame instead",
    "partitioner.class": "give the partition in a column named partition",
    "transactional.id": "it is made from the query's id",
}
#: A transaction may take as long as a task; brokers allow 15 minutes unless they are told otherwise (transaction.max.timeout.ms).
_TRANSACTION_TIMEOUT_MS: Final = "900000"
#: How long whoever starts something waits for a first answer: longer than a broker takes to restart, shorter than a person's patience.
_FIRST_ANSWER_MS: Final = 10_000
_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions are read: exactly one of the three."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader was told."""

    settings: ClientSettings
    subscription: Subscription
    starting: Limit
    ending: Limit
    latest_when_no_match: bool
    offsets_max: int | None
    offsets_min: int | None
    bytes_max: int | None
    trigger_delay_ms_max: int
    partitions_min: int | None
    records_max: int | None
    fails_on_data_loss: bool
    headers: bool
    group: str

    @property
    def isolation(self) -> str:
        """Are records of open and aborted transactions read?"""
        return self.settings.isolation_level


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a writer was told."""

    settings: ClientSettings
    topic: str
    exactly_once: bool
    sink_id: str
    epoch: int | None
    dead_letter_topic: str


class OptionTexts:
    """Options as texts, by names in any case."""

    def __init__(self, texts: Mapping[str, str], more_names: tuple[str, ...] = ()) -> None:
        """Take them; PipelineProblem for a name that nobody knows. `more_names` are those of formats."""
        self._texts = {name.lower(): value for name, value in texts.items()}
        self._names = (*NAMES, *more_names)
        known = {name.lower() for name in (*self._names, *_SPARKS_OWN)}
        for name in self._texts:
            if name not in known and not name.startswith((_KAFKA, catalog_tables.PREFIX)):
                raise PipelineProblem(_unknown(name, self._names))

    def __contains__(self, name: str) -> bool:
        """Was it given?"""
        return name.lower() in self._texts

    def text(self, name: str, default: str = "") -> str:
        """Return a value without the blanks around it."""
        return self._texts.get(name.lower(), default).strip()

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """Return one of several words."""
        value = self.text(name, default).lower()
        if value not in allowed:
            raise PipelineProblem(f"{name}={value!r}: allowed are {' and '.join(allowed)}")
        return value

    def truth(self, name: str, *, default: bool) -> bool:
        """Return a yes or no."""
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, lowest: int = 1) -> int | None:
        """Return a number, or None if it was not given."""
        if name not in self:
            return None
        text = self.text(name)
        if not text.isdecimal() or int(text) < lowest:
            raise PipelineProblem(f"{name}={text!r}: a whole number from {lowest} on is expected")
        return int(text)

    def duration_ms(self, name: str, default: str) -> int:
        """Return a time with a unit, as Spark reads it: 15m, 30s, 500ms."""
        text = self.text(name, default).lower()
        match = _DURATION.fullmatch(text)
        if match is None or (match[2] or "ms") not in _UNITS_MS:
            raise PipelineProblem(f"{name}={text!r}: a time is expected, such as 30s or 15m")
        return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])

    def settings(self, **defaults: str) -> ClientSettings:
        """Return the client's settings, which are given as kafka.*."""
        given = {
            name.removeprefix(_KAFKA): value
            for name, value in self._texts.items()
            if name.startswith(_KAFKA)
        }
        if not given and not self._texts.keys() - {name.lower() for name in _SPARKS_OWN}:
            raise PipelineProblem(catalog_tables.WITHOUT_OPTIONS)
        if not given.get("bootstrap.servers", "").strip():
            raise PipelineProblem(
                "the option kafka.bootstrap.servers is missing: give HOST:PORT of one or more brokers"
            )
        for name, advice in _REFUSED_SETTINGS.items():
            if name in given:
                raise PipelineProblem(f"kafka.{name} cannot be set here: {advice}")
        try:
            return ClientSettings.parse({**defaults, **given})
        except SettingError as problem:
            raise PipelineProblem(f"in the options kafka.*: {problem}") from None


def impatient(settings: ClientSettings) -> ClientSettings:
    """Return settings for a first look, at the start of something: a wrong address should be told soon."""
    return settings.replace(api_timeout_ms=min(settings.api_timeout_ms, _FIRST_ANSWER_MS))


def source_options(
    texts: Mapping[str, str], *, streaming: bool, more_names: tuple[str, ...] = ()
) -> SourceOptions:
    """Read the options of a source."""
    options = OptionTexts(texts, more_names)
    offsets_min = options.number("minOffsetsPerTrigger")
    offsets_max = options.number("maxOffsetsPerTrigger")
    if offsets_min and offsets_max and offsets_min > offsets_max:
        raise PipelineProblem(
            f"minOffsetsPerTrigger={offsets_min} is more than maxOffsetsPerTrigger={offsets_max}"
        )
    starting = _limit(options, "starting", FROM_LATEST if streaming else FROM_EARLIEST)
    ending = _limit(options, "ending", FROM_LATEST)
    if streaming:
        _refuse_ending(options)
    else:
        _check_batch_limits(starting, ending)
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    return SourceOptions(
        settings=_reader_settings(options),
        subscription=_subscription(options),
        starting=starting,
        ending=ending,
        latest_when_no_match=strategy == "latest",
        offsets_max=offsets_max,
        offsets_min=offsets_min,
        bytes_max=options.number("maxBytesPerTrigger"),
        trigger_delay_ms_max=options.duration_ms("maxTriggerDelay", "15m"),
        partitions_min=options.number("minPartitions"),
        records_max=options.number("maxRecordsPerPartition"),
        fails_on_data_loss=options.truth("failOnDataLoss", default=True),
        headers=options.truth("includeHeaders", default=False),
        group=options.text("groupId") or options.text("kafka.group.id"),
    )


def sink_options(
    texts: Mapping[str, str], *, streaming: bool, more_names: tuple[str, ...] = ()
) -> SinkOptions:
    """Read the options of a sink."""
    options = OptionTexts(texts, more_names)
    delivery = options.choice("delivery", ("exactly-once", "at-least-once"), "exactly-once")
    sink_id, epoch = options.text("sinkId"), options.number("epoch", lowest=0)
    if streaming and (sink_id or epoch is not None):
        raise PipelineProblem(
            "sinkId and epoch are for batch writes: a streaming query is known by its checkpoint"
        )
    if bool(sink_id) != (epoch is not None):
        raise PipelineProblem(
            "sinkId and epoch belong together: who writes, and which of its batches this is"
        )
    return SinkOptions(
        settings=options.settings(**{"transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}),
        topic=options.text("topic"),
        exactly_once=delivery == "exactly-once",
        sink_id=sink_id,
        epoch=epoch,
        dead_letter_topic=options.text("deadLetterTopic"),
    )


def _unknown(name: str, names: tuple[str, ...]) -> str:
    by_lower = {each.lower(): each for each in names}
    near = get_close_matches(name, [*by_lower, "kafka.bootstrap.servers"], n=1, cutoff=0.6)
    if f"{_KAFKA}{name}" == "kafka.bootstrap.servers":
        near = ["kafka.bootstrap.servers"]
    hint = f"did you mean '{by_lower.get(near[0], near[0])}'?" if near else "see docs/spark.md"
    return f"there is no option '{name}' of the format barnabas; {hint}"


def _reader_settings(options: OptionTexts) -> ClientSettings:
    settings = options.settings()
    if "isolation" not in options:
        return settings
    isolation = options.choice(
        "isolation", (READ_UNCOMMITTED, READ_COMMITTED), settings.isolation_level
    )
    return settings.replace(isolation_level=isolation)


def _subscription(options: OptionTexts) -> Subscription:
    given = [name for name in _SUBSCRIPTIONS if name in options]
    if len(given) != 1:
        what = "one of" if not given else "only one of"
        raise PipelineProblem(f"give {what} the options {', '.join(_SUBSCRIPTIONS)}")
    text = options.text(given[0])
    if given[0] == "assign":
        return Subscription(assigned=parse_partitions("assign", text))
    topics = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not topics:
        raise PipelineProblem(
            f"the option {given[0]} is empty: name topics, such as 'clicks,views'"
        )
    if given[0] == "subscribe":
        return Subscription(topics=topics)
    return Subscription(pattern=_pattern(text))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise PipelineProblem(
            f"subscribePattern={text!r} is no regular expression: {problem}"
        ) from None
    return text


def _limit(options: OptionTexts, side: str, default: Limit) -> Limit:
    """Read where reading starts or ends; a time for all goes before times, and those before offsets."""
    time_ms = options.number(f"{side}Timestamp", lowest=0)
    if time_ms is not None:
        return AtTime(time_ms)
    by_time = f"{side}OffsetsByTimestamp"
    if by_time in options:
        return AtTimes(parse_times(by_time, options.text(by_time)))
    name = f"{side}Offsets"
    text = options.text(name)
    words: dict[str, Limit] = {"": default, "earliest": FROM_EARLIEST, "latest": FROM_LATEST}
    return words.get(text.lower()) or AtOffsets(parse_offsets(name, text))


def _refuse_ending(options: OptionTexts) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name in options:
            raise PipelineProblem(
                f"{name} is for batch reads: a stream has no end; use trigger(availableNow=True)"
            )


def _check_batch_limits(starting: Limit, ending: Limit) -> None:
    if starting == FROM_LATEST:
        raise PipelineProblem("startingOffsets=latest is for streams: a batch would read nothing")
    if ending == FROM_EARLIEST:
        raise PipelineProblem("endingOffsets=earliest cannot be: a batch would read nothing")
    if isinstance(starting, AtOffsets):
        for partition, offset in starting.offsets.items():
            if offset == FROM_LATEST.edge:
                raise PipelineProblem(
                    f"startingOffsets has -1 (latest) for {partition}: that is for streams"
                )
    if isinstance(ending, AtOffsets):
        for partition, offset in ending.offsets.items():
            if offset == FROM_EARLIEST.edge:
                raise PipelineProblem(
                    f"endingOffsets has -2 (earliest) for {partition}, where nothing would be read"
                )
