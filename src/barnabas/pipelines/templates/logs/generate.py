"""Logs of a small shop: web servers, hosts and services, in five formats, some of it broken.

    python generate.py --rate 500 --seconds 60

`stories` is what happens, with what a pipeline should make of it; `events` is the same as records, lines of many sources mixed as they would be.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from barnabas.pipelines.feeding import Event, main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC = "logs"
PATHS = (
    "/",
    "/search?q=boots",
    "/product/17",
    "/cart",
    "/checkout",
    "/static/app.js",
    "/api/stock",
)
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "shop-app/3.1 (Android 15)")
MODULES = ("shop.cart", "shop.payment", "shop.search")
TRACEBACKS = (
    ("KeyError: 'sku'", ['  File "/srv/shop/cart.py", line 41, in add', "    item = stock[sku]", "           ~~~~~^^^^^"]),
    ("TimeoutError: time out after 3 s", ['  File "/srv/shop/payment.py", line 88, in charge', "    bank.call(order)"]),
    ("ValueError: bad total\nexpected 12.00\ngot -3.00", ['  File "/srv/shop/cart.py", line 77, in total', "    check(total)"]),
)  # fmt: skip


@dataclass
class Story:
    """What happened at a source: its lines, and the event they are (None: they are no event)."""

    source: str
    lines: list[str | bytes]
    level: str | None = None
    message: str = ""
    time_ms: int = 0
    more: dict[str, str | None] = field(default_factory=dict)


def stories(seed: int, now_ms: Callable[[], int]) -> Iterator[Story]:
    """What happens, for ever; `now_ms` is asked for the time of each."""
    chance = random.Random(seed)
    weighted = {nginx: 50, nginx_failure: 2, syslog: 12, old_syslog: 8, service: 18, python: 7, failure: 2, broken: 1}  # fmt: skip
    kinds, weights = list(weighted), list(weighted.values())
    while True:
        (kind,) = chance.choices(kinds, weights)
        yield kind(chance, now_ms())


def events(seed: int, count: int, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> Iterator[Event]:  # fmt: skip
    """Records of `count` stories: the lines of one source in order, those of different sources mixed."""
    for source, line, _story in mixed(seed, count, now_ms):
        yield Event(TOPIC, source, line)


def mixed(seed: int, count: int, now_ms: Callable[[], int]) -> Iterator[tuple[str, str | bytes, Story]]:  # fmt: skip
    """Lines with the story that they tell."""
    chance = random.Random(seed + 1)
    waiting: dict[str, list[tuple[str | bytes, Story]]] = {}
    endless = stories(seed, now_ms)
    for _ in range(count):
        story = next(endless)
        waiting.setdefault(story.source, []).extend((line, story) for line in story.lines)
        while waiting and chance.random() < 0.9:
            yield _one(chance, waiting)
    while waiting:
        yield _one(chance, waiting)


def _one(chance: random.Random, waiting: dict[str, list[tuple[str | bytes, Story]]]) -> tuple[str, str | bytes, Story]:  # fmt: skip
    source = chance.choice(list(waiting))
    line, story = waiting[source].pop(0)
    if not waiting[source]:
        del waiting[source]
    return source, line, story


# -- what happens -----------------------------------------------------------------------------


def nginx(chance: random.Random, now_ms: int) -> Story:
    """A request."""
    (status,) = chance.choices((200, 304, 404, 503), (90, 5, 4, 1))
    client, path = f"10.0.{chance.randrange(4)}.{chance.randrange(1, 255)}", chance.choice(PATHS)
    second = now_ms // 1000
    line = (
        f'{client} - - [{_utc(second):%d/%b/%Y:%H:%M:%S} +0000] "GET {path} HTTP/1.1" {status} {chance.randrange(200, 20_000)} '
        f'"-" "{chance.choice(AGENTS)}" {chance.random() * 2:.3f}'
    )
    level = {404: "warning", 503: "error"}.get(status, "info")
    source = f"web-{chance.randrange(1, 4)}/access"
    return Story(source, [line], level, f"GET {path} HTTP/1.1 {status}", second * 1000)


def nginx_failure(chance: random.Random, now_ms: int) -> Story:
    """A line of the error log."""
    second = now_ms // 1000
    message = f"upstream timed out (110: Connection time out) while reading response, client: 10.0.0.{chance.randrange(255)}"  # fmt: skip
    line = f"{_utc(second):%Y/%m/%d %H:%M:%S} [error] 31#31: *{chance.randrange(10**6)} {message}"
    return Story(f"web-{chance.randrange(1, 4)}/error", [line], "error", message, second * 1000)


def syslog(chance: random.Random, now_ms: int) -> Story:
    """A daemon, in the newer form."""
    host, severity = f"db-{chance.randrange(1, 3)}", chance.choice((4, 6, 6, 6))
    message = f"checkpoint complete: wrote {chance.randrange(9000)} buffers"
    moment = f"{_utc(now_ms // 1000):%Y-%m-%dT%H:%M:%S}.{now_ms % 1000:03}Z"
    line = f'<{16 * 8 + severity}>1 {moment} {host} postgres {chance.randrange(9000)} - [origin ip="10.1.0.7"] {message}'  # fmt: skip
    level = "warning" if severity == 4 else "info"
    return Story(
        f"{host}/syslog", [line], level, message, now_ms, {"host": host, "app": "postgres"}
    )


def old_syslog(chance: random.Random, now_ms: int) -> Story:
    """A daemon, in the old form."""
    host, second = f"db-{chance.randrange(1, 3)}", now_ms // 1000
    message = f"Accepted publickey for deploy from 10.2.0.{chance.randrange(255)} port 4711"
    moment = _utc(second)
    line = f"<38>{moment:%b} {moment.day:2} {moment:%H:%M:%S} {host} sshd[{chance.randrange(9000)}]: {message}"
    return Story(f"{host}/auth", [line], "info", message, second * 1000, {"host": host, "app": "sshd"})  # fmt: skip


def service(chance: random.Random, now_ms: int) -> Story:
    """A service that logs JSON."""
    name, level = chance.choice(("stock", "mail")), chance.choice(("INFO", "INFO", "DEBUG", "WARN"))
    message, pod = f"order {chance.randrange(10**6)} handled", f"{name}-{chance.randrange(3)}"
    fields = {"ts": now_ms, "level": level, "msg": message, "service": name, "hostname": pod, "ms": chance.randrange(300)}  # fmt: skip
    known = {"INFO": "info", "DEBUG": "debug", "WARN": "warning"}[level]
    return Story(pod, [json.dumps(fields)], known, message, now_ms, {"host": pod, "app": name})


def python(chance: random.Random, now_ms: int) -> Story:
    """A line of Python's logging."""
    module = chance.choice(MODULES)
    message = f"cart of customer {chance.randrange(10**5)} has {chance.randrange(9)} items"
    source = f"shop-{chance.randrange(3)}"
    return Story(source, [_python(now_ms, "INFO", module, message)], "info", message, now_ms, {"app": module})  # fmt: skip


def failure(chance: random.Random, now_ms: int) -> Story:
    """The same, with a traceback."""
    module, (exception, frames) = chance.choice(MODULES), chance.choice(TRACEBACKS)
    stack = ["Traceback (most recent call last):", *frames, *exception.split("\n")]
    if chance.random() < 0.3:
        stack += ["", "During handling of the above exception, another exception occurred:", "", *stack]  # fmt: skip
    head = _python(now_ms, "ERROR", module, "request failed")
    more = {"app": module, "stack": "\n".join(stack)}
    return Story(f"shop-{chance.randrange(3)}", [head, *stack], "error", "request failed", now_ms, more)  # fmt: skip


def broken(chance: random.Random, now_ms: int) -> Story:
    """What goes wrong on the way: cut lines, bytes that are no text."""
    cut = json.dumps({"ts": now_ms, "msg": "half"})[:-3]
    lines = (
        '10.0.0.1 - - [16/Nov/2026:10:00:00 +0000] "GET',
        cut,
        "<999>1 no priority",
        b"{\xff\xfe\x00",
    )
    return Story("broken", [chance.choice(lines)])


def _python(now_ms: int, level: str, module: str, message: str) -> str:
    return (
        f"{_utc(now_ms // 1000):%Y-%m-%d %H:%M:%S},{now_ms % 1000:03} {level} {module}: {message}"
    )


def _utc(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


if __name__ == "__main__":
    main(events, __doc__)
