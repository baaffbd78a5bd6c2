"""Applications that want to tell users something, and users who want to hear only some of it.

python generate.py --bootstrap 127.0.0.1:9092 --rate 100 --seconds 60
"""

import json
import random
from collections.abc import Iterator
from typing import Any

from barnabas.pipelines import feeding

REQUESTS = "notification-requests"
PREFERENCES = "notification-preferences"
APPS = {
    "shop": "order-shipped",
    "deals": "price-drop",
    "forum": "comment",
    "accounts": "login-code",
}
USERS = 200
#: Of a hundred requests: sent twice by an application that got no answer; with a value missing; nothing that one could read.
REPEATED, INCOMPLETE, BROKEN = 2, 2, 1


def preferences(seed: int, users: int = USERS) -> dict[str, dict[str, Any]]:
    """Say what users want; a third says nothing, and gets e-mail."""
    rng = random.Random(seed)
    wants: dict[str, dict[str, Any]] = {}
    for user in range(users):
        choice = rng.random()
        if choice < 0.33:
            continue
        channels = {"*": rng.choice([["email"], ["push"], ["email", "push"]]), "accounts": ["sms"]}
        muted = ["deals"] if choice > 0.7 else []
        wants[f"user-{user}"] = {"channels": channels, "muted": muted}
    return wants


def requests(seed: int, count: int, users: int = USERS) -> Iterator[feeding.Event]:
    """Make requests; some users are written to more often than others."""
    rng = random.Random(seed)
    place = 0
    while place < count:
        user = f"user-{min(int(rng.expovariate(5 / users)), users - 1)}"
        app = rng.choice(list(APPS))
        said = {
            "id": f"{app}-{seed}-{place}",
            "app": app,
            "user": user,
            "message": APPS[app],
            "values": _values(rng),
        }
        if app == "accounts":
            said["urgent"] = True
        chance = rng.randrange(100)
        if chance < INCOMPLETE:
            said["values"] = {}
        text = json.dumps(said)
        if INCOMPLETE <= chance < INCOMPLETE + BROKEN:
            text = text[: len(text) // 2]
        times = 2 if INCOMPLETE + BROKEN <= chance < INCOMPLETE + BROKEN + REPEATED else 1
        for _ in range(min(times, count - place)):
            place += 1
            yield feeding.Event(REQUESTS, user, text)


def events(seed: int, count: int) -> Iterator[feeding.Event]:
    """Make what users want, then requests; the same for the same seed."""
    for user, wants in preferences(seed).items():
        yield feeding.Event(PREFERENCES, user, json.dumps(wants))
    yield from requests(seed, count)


def _values(rng: random.Random) -> dict[str, str]:
    return {
        "order": str(rng.randrange(10_000, 99_999)),
        "day": rng.choice(["Monday", "Wednesday", "Friday"]),
        "product": rng.choice(["the red lamp", "a desk for two", "$1 cups ${x}"]),
        "price": f"{rng.randint(5, 200)}.90 €",
        "code": f"{rng.randrange(1_000_000):06}",
        "minutes": "10",
        "author": rng.choice(["Ann", "Bo", "Chloé"]),
        "text": rng.choice(
            ["Looks good!", "Where did you buy it?", "👍", "I have the same at home, " * 8]
        ),
    }


if __name__ == "__main__":
    feeding.main(events, __doc__)
