"""What becomes of requests: the rules, and the one stateful step that applies them to a stream.

The rules (`read_request`, `wanted_channels`, `settle`) are plain Python and know no Spark. A request is a JSON object with `id`, `app`, `user`, `message` (which
of MESSAGES), `values` for it, and `urgent` if it must not wait. Others of one user wait for each other for a time, and become one notification for each channel.

Each request has one outcome, a record of OUTCOMES or a dead letter: `sent` alone, `grouped` with others, `suppressed` by preference, or refused with the reason.
A request that is sent again (the same id within a day) is the same request.
"""

import json
from collections.abc import Iterable, Iterator
from string import Template
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

#: What applications may say: a subject and a text, with $names for values. Nothing in a value is ever run or filled in again.
MESSAGES = {
    "order-shipped": (
        "Your order is on its way",
        "Order $order leaves us today and arrives on $day.",
    ),
    "price-drop": ("$product costs less now", "$product, which you looked at, is $price now."),
    "login-code": ("Your code", "$code is your code. It is valid for $minutes minutes."),
    "comment": ("$author commented", "$author wrote: $text"),
}
CHANNELS = ("email", "sms", "push")
TOPICS = {channel: f"notifications-{channel}" for channel in CHANNELS}
OUTCOMES = "notification-outcomes"
DEFAULT_CHANNELS = ["email"]
SMS_CHARACTERS = 160
#: Longer texts are cut and longer names refused: a notification of GROUP_MAX requests fits into a record, whatever its letters are.
TEXT_CHARACTERS = 2_000
SUBJECT_CHARACTERS = 200
NAME_CHARACTERS = 200
#: A group that has as many is sent at once: all state has a bound.
GROUP_MAX = 50
#: For how long the id of a request is remembered.
SEEN_MS = 24 * 3_600_000

REQUEST = "id STRING, app STRING, user STRING, urgent BOOLEAN, subject STRING, text STRING"
#: As objects: Spark's own runner would have to ask what a text means, which definitions may not.
ASKED = (
    StructType()
    .add("user", StringType())
    .add("is_request", BooleanType())
    .add("said", StringType())
    .add("offset", LongType())
)
RECORD = StructType([StructField(each, StringType()) for each in ("topic", "key", "value")])
PREFERENCES = "channels MAP<STRING, ARRAY<STRING>>, muted ARRAY<STRING>"


# -- rules ------------------------------------------------------------------------------------


def read_request(value: bytes | None) -> dict[str, Any]:
    """Read and format a request; ValueError says why it is refused."""
    said = _object(value)
    for name in ("id", "app", "user", "message"):
        if not isinstance(said.get(name), str) or not said[name]:
            raise ValueError(f"{name!r} is missing")
        if len(said[name]) > NAME_CHARACTERS:
            raise ValueError(f"{name!r} has more than {NAME_CHARACTERS} characters")
    if said["message"] not in MESSAGES:
        raise ValueError(f"there is no message {said['message']!r}")
    subject, text = (_filled(each, said.get("values")) for each in MESSAGES[said["message"]])
    return {
        **{name: said[name] for name in ("id", "app", "user")},
        "urgent": said.get("urgent") is True,
        "subject": _shortened(subject, SUBJECT_CHARACTERS),
        "text": _shortened(text, TEXT_CHARACTERS),
    }


def read_preferences(value: bytes | None) -> dict[str, Any]:
    """Read what a user wants; null (a tombstone) is what everybody has who said nothing."""
    said = {} if value is None else _object(value)
    channels, muted = said.get("channels", {}), said.get("muted", [])
    if not isinstance(channels, dict) or not all(_are_channels(each) for each in channels.values()):
        raise ValueError(
            f"'channels' must map applications, or \"*\", to some of {', '.join(CHANNELS)}"
        )
    if not isinstance(muted, list) or not all(isinstance(each, str) for each in muted):
        raise ValueError("'muted' must be a list of applications")
    return {"channels": channels, "muted": muted}


def wanted_channels(app: str, preferences: dict[str, Any]) -> list[str]:
    """Say how a user wants to hear from an application: not at all, if there is none."""
    if app in preferences["muted"]:
        return []
    channels = preferences["channels"]
    chosen = channels.get(app, channels.get("*", DEFAULT_CHANNELS))
    return [each for each in CHANNELS if each in chosen]


def settle(
    requests: list[dict[str, Any]], preferences: dict[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Say what is sent for requests of one user, and what became of each: records as (topic, key, value)."""
    into: dict[str, list[str]] = {each["id"]: [] for each in requests}
    grouped = set()
    for channel in CHANNELS:
        group = [each for each in requests if channel in wanted_channels(each["app"], preferences)]
        if not group:
            continue
        notification = _notification(channel, group)
        for each in group:
            into[each["id"]].append(notification["id"])
        if len(group) > 1:
            grouped.update(each["id"] for each in group)
        yield TOPICS[channel], group[0]["user"], _json(notification)
    for each in requests:
        outcome = {
            "id": each["id"],
            "app": each["app"],
            "user": each["user"],
            "into": into[each["id"]],
        }
        if not outcome["into"]:
            told = {"outcome": "suppressed", "reason": f"the user wants nothing from {each['app']}"}
        else:
            told = {"outcome": "grouped" if each["id"] in grouped else "sent"}
        yield OUTCOMES, each["id"], _json(outcome | told)


def _notification(channel: str, group: list[dict[str, Any]]) -> dict[str, Any]:
    first = group[0]
    subject, text = first["subject"], first["text"]
    if len(group) > 1:
        subject = f"{len(group)} messages for you"
        text = "\n".join(each["text"] for each in group)
    if channel == "sms":
        text = _shortened(text, SMS_CHARACTERS)
    return {
        "id": f"{first['id']}-{channel}",
        "user": first["user"],
        "subject": subject,
        "text": text,
        "requests": [each["id"] for each in group],
    }


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _json(value: dict[str, Any]) -> str:
    """Write letters as they are: escaped, most would take three times the room. Halves of characters, which JSON can name, are no letters."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()


def _object(value: bytes | None) -> dict[str, Any]:
    try:
        said = json.loads(bytes(value or b""))
    except (ValueError, RecursionError):
        raise ValueError("this is no JSON") from None
    if not isinstance(said, dict):
        raise ValueError("this is no JSON object")
    return said


def _filled(text: str, values: Any) -> str:
    try:
        return Template(text).substitute(values if isinstance(values, dict) else {})
    except KeyError as missing:
        raise ValueError(f"the message needs a value for {missing}") from None


def _are_channels(chosen: Any) -> bool:
    return isinstance(chosen, list) and all(each in CHANNELS for each in chosen)


# -- the step ---------------------------------------------------------------------------------


class Deliver(StatefulProcessor):
    """Has, for each user, what the user wants, which requests wait, and which were seen."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._wants = handle.getValueState("wants", "preferences STRING")
        self._waiting = handle.getValueState("waiting", "since_ms LONG, requests STRING")
        self._seen = handle.getMapState("seen", "id STRING", "is BOOLEAN", SEEN_MS)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Take what one batch has of a user: what the user wants counts before what others want of the user."""
        told = sorted(rows, key=lambda each: (each.is_request, each.offset))
        for row in (each for each in told if not each.is_request):
            self._wants.update((row.said,))
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        since_ms, waiting = self._held() or (now_ms, [])
        is_new = not waiting
        for request in self._new(told):
            if request["urgent"]:
                yield from self._settled([request])
            else:
                waiting.append(request)
            if len(waiting) >= GROUP_MAX:
                yield from self._settled(waiting)
                waiting = []
        if now_ms >= since_ms + self._window_ms:
            yield from self._settled(waiting)
            waiting = []
        if waiting:
            self._waiting.update((since_ms, json.dumps(waiting)))
            if is_new:
                self._handle.registerTimer(since_ms + self._window_ms)
        elif not is_new:
            self._waiting.clear()

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Send what has waited long enough."""
        held = self._held()
        if held:
            self._waiting.clear()
            yield from self._settled(held[1])

    def close(self) -> None:
        """Nothing is open."""

    def _new(self, told: Iterable[Row]) -> Iterator[dict[str, Any]]:
        for row in told:
            if row.is_request:
                request = json.loads(row.said)
                if not self._seen.containsKey((request["id"],)):
                    self._seen.updateValue((request["id"],), (True,))
                    yield request

    def _settled(self, requests: list[dict[str, Any]]) -> Iterator[Row]:
        wants = json.loads(self._wants.get()[0]) if self._wants.exists() else read_preferences(None)
        for topic, key, value in settle(requests, wants):
            yield Row(topic=topic, key=key, value=value)

    def _held(self) -> tuple[int, list[dict[str, Any]]] | None:
        """Give what waits, and since when."""
        if not self._waiting.exists():
            return None
        since_ms, requests = self._waiting.get()
        return since_ms, json.loads(requests)


def notifications(requests: DataFrame, preferences: DataFrame, window_ms: int) -> DataFrame:
    """Join requests (`value` as REQUEST) with what users want (`value` as PREFERENCES, by key): records with topic, key and value."""
    asked = requests.select(
        F.col("value.user").alias("user"),
        F.lit(True).alias("is_request"),
        F.to_json("value").alias("said"),
        "offset",
    )
    wanted = preferences.select(
        F.col("key").cast("string").alias("user"),
        F.lit(False).alias("is_request"),
        F.to_json("value").alias("said"),
        "offset",
    ).where("user IS NOT NULL")
    return (
        asked.unionByName(wanted)
        .to(ASKED)
        .groupBy("user")
        .transformWithState(Deliver(window_ms), RECORD, "append", "processingTime")
    )
