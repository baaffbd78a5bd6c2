"""Run with `pytest` in this folder."""

import json

import functions
import generate
import pytest
from pyspark.sql import Row

NOTHING_SAID = functions.read_preferences(None)


def request(number=1, app="shop", **more):
    return {
        "id": f"r{number}",
        "app": app,
        "user": "ann",
        "subject": f"s{number}",
        "text": f"t{number}",
        **more,
    }


def settled(requests, preferences=NOTHING_SAID):
    sent, outcomes = [], {}
    for topic, key, value in functions.settle(requests, preferences):
        said = json.loads(value)
        if topic == functions.OUTCOMES:
            assert key not in outcomes
            outcomes[key] = said
        else:
            assert key == said["user"]
            sent.append((topic, said))
    return sent, outcomes


def test_a_request_is_formatted_and_values_are_only_values():
    said = {
        "id": "1",
        "app": "forum",
        "user": "ann",
        "message": "comment",
        "values": {"author": "$text", "text": "{0.x}"},
    }
    read = functions.read_request(json.dumps(said).encode())
    assert (read["subject"], read["text"]) == ("$text commented", "$text wrote: {0.x}")
    assert read["urgent"] is False


REFUSED = [
    (None, "no JSON"),
    (b"{", "no JSON"),
    (b"\xff", "no JSON"),
    (b"[1]", "no JSON object"),
    (b'{"id": 7, "app": "a", "user": "u", "message": "m"}', "'id' is missing"),
    (b'{"id": "7", "app": "a", "user": "", "message": "m"}', "'user' is missing"),
    (
        json.dumps({"id": "7", "app": "a", "user": "u", "message": "m" * 201}).encode(),
        "'message' has more than 200 characters",
    ),
    (b'{"id": "7", "app": "a", "user": "u", "message": "m"}', "no message 'm'"),
    (
        b'{"id": "7", "app": "a", "user": "u", "message": "comment", "values": 3}',
        "a value for 'author'",
    ),
]


def test_a_request_is_refused_with_the_reason():
    for value, reason in REFUSED:
        with pytest.raises(ValueError, match=reason):
            functions.read_request(value)


def test_preferences_that_nobody_can_follow():
    for value in (
        b'{"channels": {"shop": ["pigeon"]}}',
        b'{"channels": 3}',
        b'{"muted": [3]}',
        b"7",
    ):
        with pytest.raises(ValueError, match=r"must|JSON"):
            functions.read_preferences(value)


def test_users_are_told_as_they_want():
    wants = functions.read_preferences(
        b'{"channels": {"*": ["push"], "shop": ["sms", "email"]}, "muted": ["deals"]}'
    )
    assert functions.wanted_channels("shop", wants) == ["email", "sms"]
    assert functions.wanted_channels("forum", wants) == ["push"]
    assert functions.wanted_channels("deals", wants) == []
    assert functions.wanted_channels("shop", NOTHING_SAID) == ["email"]


def test_one_request_is_sent_as_it_is():
    ((topic, said),), outcomes = settled([request()])
    assert (topic, said["subject"], said["text"]) == ("notifications-email", "s1", "t1")
    assert outcomes["r1"]["outcome"] == "sent"
    assert outcomes["r1"]["into"] == [said["id"]]


def test_several_become_one_for_each_channel():
    wants = {"channels": {"forum": ["email", "push"]}, "muted": ["deals"]}
    sent, outcomes = settled([request(1), request(2, "forum"), request(3, "deals")], wants)
    assert [(topic, each["requests"]) for topic, each in sent] == [
        ("notifications-email", ["r1", "r2"]),
        ("notifications-push", ["r2"]),
    ]
    assert sent[0][1]["text"] == "t1\nt2"
    assert [outcomes[each]["outcome"] for each in ("r1", "r2", "r3")] == [
        "grouped",
        "grouped",
        "suppressed",
    ]
    assert outcomes["r2"]["into"] == ["r1-email", "r2-push"]
    assert outcomes["r3"]["reason"] == "the user wants nothing from deals"


def test_a_text_message_is_short():
    ((_, said),), _ = settled([request(text="x" * 500)], {"channels": {"*": ["sms"]}, "muted": []})
    assert len(said["text"]) == functions.SMS_CHARACTERS


def test_letters_are_written_as_they_are_and_halves_of_them_are_none():
    (_, _, value), _ = functions.settle([request(text="Привет \ud800")], NOTHING_SAID)
    assert '"text": "Привет ?"' in value


def test_a_full_group_fits_into_a_record_whatever_is_asked_for():
    def read(number):
        said = {
            "id": str(number).rjust(functions.NAME_CHARACTERS, "\1"),
            "app": "forum",
            "user": "ann",
            "message": "comment",
            "values": {"author": "\1" * 500_000, "text": "\1" * 500_000},
        }
        return functions.read_request(json.dumps(said).encode())

    group = [read(number) for number in range(functions.GROUP_MAX)]
    assert group[0]["text"].endswith("…")
    sizes = [len((key + value).encode()) for _, key, value in functions.settle(group, NOTHING_SAID)]
    assert max(sizes) < 1_000_000


class Kept:
    """State as Spark keeps it for one user, in memory."""

    def __init__(self):
        self.value, self.seen = None, set()

    def exists(self):
        return self.value is not None

    def get(self):
        return self.value

    def update(self, value):
        self.value = value

    def clear(self):
        self.value = None

    def containsKey(self, key):
        return key in self.seen

    def updateValue(self, key, _value):
        self.seen.add(key)


class Handle:
    """What Spark gives a step, and the time."""

    def __init__(self):
        self.states, self.timers, self.now_ms = {}, [], 0

    def getValueState(self, name, _schema):
        return self.states.setdefault(name, Kept())

    def getMapState(self, name, *_schemas):
        return self.states.setdefault(name, Kept())

    def registerTimer(self, at_ms):
        self.timers.append(at_ms)

    def getCurrentProcessingTimeInMs(self):
        return self.now_ms


def test_many_requests_at_once_are_several_groups():
    handle = Handle()
    step = functions.Deliver(window_ms=1000)
    step.init(handle)

    def outcomes(count, start=0):
        rows = [
            Row(is_request=True, said=json.dumps(request(number, urgent=False)), offset=number)
            for number in range(start, start + count)
        ]
        sent = list(step.handleInputRows(("ann",), iter(rows), handle))
        mails = [json.loads(each.value) for each in sent if each.topic != functions.OUTCOMES]
        return [len(each["requests"]) for each in mails]

    most = functions.GROUP_MAX
    assert outcomes(2 * most + 3) == [most, most]
    assert handle.timers == [1000]
    assert outcomes(most - 4, start=500) == []
    assert outcomes(1, start=700) == [most]
    assert not handle.states["waiting"].exists()
    handle.now_ms = 5
    assert outcomes(1, start=800) == []
    handle.now_ms = 1005
    assert outcomes(1, start=900) == [2]
    assert handle.timers == [1000, 1005]


def test_generated_requests_are_the_same_for_the_same_seed():
    made = list(generate.events(1, 500))
    assert made == list(generate.events(1, 500))
    assert len([each for each in made if each.topic == generate.REQUESTS]) == 500
