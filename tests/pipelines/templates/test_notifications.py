"""Notifications, whole: requests on a real broker, a real Spark, and every request with exactly one outcome."""

import json
from collections import Counter

import pytest
from cluster_kit import wait_until
from template_kit import template
from topic_kit import consume_all, make_topic

from barnabas.pipelines import feeding
from barnabas.pipelines.continuous import Pipeline

CHANNELS = ("email", "sms", "push")
USERS = 12


@pytest.fixture
def project(tmp_path):
    """The template as a user gets it."""
    with template("notifications", tmp_path) as opened:
        yield opened


@pytest.fixture
def here(shared_broker):
    """Where the topics of the template are."""
    bootstrap = shared_broker.bootstrap
    for name in ("requests", "requests.dlq", "preferences.dlq", "outcomes"):
        make_topic(bootstrap, f"notification-{name}", partitions=2)
    make_topic(bootstrap, "notification-preferences", 2, **{"cleanup.policy": "compact"})
    for name in CHANNELS:
        make_topic(bootstrap, f"notifications-{name}")
    return bootstrap


def expected(functions, requests, preferences):
    """What must become of each request, by its id: the channels it goes to, or None if it is refused."""
    found = {}
    for each in requests:
        try:
            read = functions.read_request(each.value.encode())
        except ValueError:
            continue
        wants = preferences.get(each.key, functions.read_preferences(None))
        found[read["id"]] = set(functions.wanted_channels(read["app"], wants))
    return found


@pytest.mark.timeout(900)  # Spark, on a machine with much else to do
def test_every_request_has_one_outcome(project, here, spark):
    import functions
    import generate

    preferences = generate.preferences(3, USERS)
    wanted = [
        feeding.Event(generate.PREFERENCES, user, json.dumps(each))
        for user, each in preferences.items()
    ]
    requests = list(generate.requests(3, 400, USERS))
    model = expected(functions, requests, preferences)
    settings = {"barnabas.bootstrap.servers": here, "spark.sql.shuffle.partitions": "2"}
    feeding.feed(
        [*wanted, feeding.Event(generate.PREFERENCES, "user-1", "{"), *requests[:250]], here
    )
    Pipeline(project, spark, settings | {"notifications.window.seconds": "3600"}).run_available()
    assert len(outcomes(here)) < 250
    # What waited is not forgotten; and in a pipeline that goes on, what waits is sent though nothing more comes.
    feeding.feed([*requests[250:], *closing(generate)], here)
    pipeline = Pipeline(project, spark, settings | {"notifications.window.seconds": "1"})
    pipeline.start()
    try:
        wait_until(
            lambda: (
                len(outcomes(here)) >= len(model) + USERS
                and len(dead(here)) >= len(refused(functions, requests))
            ),
            "every request has an outcome",
            patience_s=300,
        )
    finally:
        pipeline.stop()

    found = {each["id"]: each for each in outcomes(here) if not each["id"].startswith("closing")}
    assert found.keys() == model.keys()
    sent = Counter()
    for channel in CHANNELS:
        for each in consume_all(here, f"notifications-{channel}"):
            said = json.loads(each.value())
            sent.update((name, channel, said["id"]) for name in said["requests"] if name in model)
    assert set(sent.values()) == {1}
    for name, channels in model.items():
        notified = {(channel, into) for of, channel, into in sent if of == name}
        assert {channel for channel, _ in notified} == channels
        assert {into for _, into in notified} == set(found[name]["into"])
    kinds = Counter(each["outcome"] for each in found.values())
    assert kinds.keys() == {"sent", "grouped", "suppressed"}
    assert kinds["suppressed"] == sum(not each for each in model.values())
    check_refused(here, functions, requests)


def closing(generate):
    """One more request for each user who may have some waiting."""
    for user in range(USERS):
        name, values = f"closing-{user}", {"order": "1", "day": "Friday"}
        said = {
            "id": name,
            "app": "shop",
            "user": f"user-{user}",
            "message": "order-shipped",
            "values": values,
        }
        yield feeding.Event(generate.REQUESTS, f"user-{user}", json.dumps(said))


def outcomes(here):
    found = [json.loads(each.value()) for each in consume_all(here, "notification-outcomes")]
    assert len({each["id"] for each in found}) == len(found)
    return found


def dead(here):
    found = consume_all(here, "notification-requests.dlq")
    return [
        (each.value().decode(), dict(each.headers())["barnabas.reason"].decode()) for each in found
    ]


def refused(functions, requests):
    """Records that are no requests, with the reason."""
    found = []
    for each in requests:
        try:
            functions.read_request(each.value.encode())
        except ValueError as problem:
            found.append((each.value, f"ValueError: {problem}"))
    return found


def check_refused(here, functions, requests):
    """What is not in the outcomes is a dead letter with the reason: each record once."""
    assert Counter(dead(here)) == Counter(refused(functions, requests))
    assert len(set(dead(here))) > 3
    (bad,) = consume_all(here, "notification-preferences.dlq")
    assert (bad.key(), bad.value()) == (b"user-1", b"{")
