"""Requests to another broker: sent in order, answered once, given up when nothing comes."""

import pytest

from barnabas.broker.channel import BACKOFF_MS, Channel, Unreachable
from barnabas.ports import World
from barnabas.wire import frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.primitives import WireError

TIMEOUT_MS = 1000
VERSION = 4


class PlantedFault(Exception):
    """Nobody foresaw it."""


class Hands:
    """Clock, timers and peers that the test moves by hand."""

    def __init__(self):
        self.now = 0
        self.booked = []
        self.peers = []
        self.faults = []

    def monotonic_ms(self):
        return self.now

    def call_at(self, deadline_ms, call):
        timer = Booked(deadline_ms, call)
        self.booked.append(timer)
        return timer

    def connect(self, host, port, events):
        peer = FakePeer((host, port), events)
        self.peers.append(peer)
        return peer

    def pass_time(self, milliseconds):
        self.now += milliseconds
        while due := [timer for timer in self.booked if timer.deadline_ms <= self.now]:
            self.booked = [timer for timer in self.booked if timer.deadline_ms > self.now]
            for timer in due:
                self.make(timer)

    def make(self, timer):
        """Make a booked call, as the loop does: a fault ends it alone."""
        try:
            if timer.call is not None:
                timer.call()
        except PlantedFault as fault:
            self.faults.append(fault)


class Booked:
    def __init__(self, deadline_ms, call):
        self.deadline_ms = deadline_ms
        self.call = call

    def cancel(self):
        self.call = None


class FakePeer:
    def __init__(self, address, events):
        self.address = address
        self.events = events
        self.sent = []
        self.is_closed = False

    def send(self, buffers):
        self.sent.append(b"".join(bytes(each) for each in buffers))

    def close(self):
        self.is_closed = True

    def answer(self, number, response, version=VERSION):
        head = frame.decode_request_header(memoryview(self.sent[number])[4:])
        header = frame.response_header(head.correlation_id, head.api_key, version)
        body = b"".join(bytes(part) for part in response.encode(version))
        self.events.on_frame(memoryview(header + body))


@pytest.fixture
def hands():
    return Hands()


@pytest.fixture
def channel(hands):
    world = World(hands, None, hands, None, None, None, hands)
    return Channel(world, 2, lambda: ("two", 9092), "broker-1", TIMEOUT_MS)


def ask(channel, group="g"):
    answers = []
    channel.ask(
        HeartbeatRequest(group_id=group, member_id="m"), VERSION,
        lambda response, error: answers.append(response if error is None else error),
    )  # fmt: skip
    return answers


def test_what_is_asked_before_the_connection_is_there_goes_out_in_order(hands, channel):
    first, second = ask(channel, "a"), ask(channel, "b")
    hands.pass_time(0)
    [peer] = hands.peers
    assert peer.address == ("two", 9092)
    assert peer.sent == []
    peer.events.on_connected()
    heads = [frame.decode_request_header(memoryview(sent)[4:]) for sent in peer.sent]
    assert [head.client_id for head in heads] == ["broker-1", "broker-1"]
    peer.answer(0, HeartbeatResponse(error_code=1))
    peer.answer(1, HeartbeatResponse(error_code=2))
    assert [first[0].error_code, second[0].error_code] == [1, 2]
    assert ask(channel) == []
    assert len(hands.peers) == 1


def test_a_lost_connection_fails_all_and_the_next_request_connects_after_a_pause(hands, channel):
    answers = ask(channel)
    hands.pass_time(0)
    hands.peers[0].events.on_connected()
    queued = ask(channel)
    hands.peers[0].events.on_closed("it closed the connection")
    assert answers + queued == []
    hands.pass_time(0)
    assert [type(each) for each in answers + queued] == [Unreachable, Unreachable]
    assert "broker 2: it closed" in str(answers[0])
    again = ask(channel)
    hands.pass_time(BACKOFF_MS - 1)
    assert len(hands.peers) == 1
    hands.pass_time(1)
    assert len(hands.peers) == 2
    hands.peers[1].events.on_connected()
    hands.peers[1].answer(0, HeartbeatResponse())
    assert again[0].error_code == 0


def test_no_answer_in_time_ends_the_connection(hands, channel):
    answers = ask(channel)
    hands.pass_time(0)
    hands.peers[0].events.on_connected()
    hands.pass_time(TIMEOUT_MS - 1)
    assert answers == []
    hands.pass_time(1)
    assert isinstance(answers[0], Unreachable)
    assert hands.peers[0].is_closed


def test_the_time_of_each_request_counts_from_when_it_was_asked(hands, channel):
    early = ask(channel)
    hands.pass_time(0)
    hands.peers[0].events.on_connected()
    hands.pass_time(TIMEOUT_MS // 2)
    late = ask(channel)
    hands.peers[0].answer(0, HeartbeatResponse())
    hands.pass_time(TIMEOUT_MS // 2)
    assert early[0].error_code == 0
    assert late == []
    hands.pass_time(TIMEOUT_MS // 2)
    assert isinstance(late[0], Unreachable)


@pytest.mark.parametrize(
    "reply", [b"", b"\x00\x00\x00\x63\x00\x00", b"\x00\x00\x00\x01\x00\x00\x00"]
)
def test_a_reply_that_does_not_fit_ends_the_connection(hands, channel, reply):
    answers = ask(channel)
    hands.pass_time(0)
    hands.peers[0].events.on_connected()
    hands.peers[0].events.on_frame(memoryview(reply))
    hands.pass_time(0)
    assert isinstance(answers[0], Unreachable)
    assert hands.peers[0].is_closed


def test_a_reply_that_nobody_asked_for_ends_the_connection(hands, channel):
    ask(channel)
    hands.pass_time(0)
    peer = hands.peers[0]
    peer.events.on_connected()
    peer.answer(0, HeartbeatResponse())
    peer.events.on_frame(memoryview(b"\0\0\0\1"))
    assert peer.is_closed


def test_what_an_old_connection_still_tells_is_not_heard(hands, channel):
    ask(channel)
    hands.pass_time(0)
    old = hands.peers[0]
    old.events.on_connected()
    channel.drop("it has moved")
    answers = ask(channel)
    hands.pass_time(0)
    old.events.on_closed("late")
    old.events.on_connected()
    assert hands.peers[1].sent == []
    hands.peers[1].events.on_connected()
    assert answers == []
    assert len(hands.peers[1].sent) == 1


def test_a_closed_channel_answers_later_that_it_is_closed(hands, channel):
    answers = ask(channel)
    channel.close()
    assert answers == []
    hands.pass_time(0)
    assert isinstance(answers[0], Unreachable)
    late = ask(channel)
    assert late == []
    hands.pass_time(0)
    assert isinstance(late[0], Unreachable)
    assert hands.peers == []


def test_a_broker_whose_address_is_not_known_cannot_be_asked(hands):
    world = World(hands, None, hands, None, None, None, hands)
    channel = Channel(world, 2, lambda: None, "broker-1", TIMEOUT_MS)
    answers = ask(channel)
    hands.pass_time(0)
    assert isinstance(answers[0], Unreachable)


def test_one_may_ask_again_from_within_an_answer(hands, channel):
    asked = []

    def again(_response, error):
        asked.append(error)
        if len(asked) < 3:
            channel.ask(ApiVersionsRequest(), 0, again)

    channel.ask(ApiVersionsRequest(), 0, again)
    hands.pass_time(0)
    hands.peers[0].events.on_closed("refused")
    hands.pass_time(0)
    assert len(asked) == 1
    hands.pass_time(BACKOFF_MS)
    hands.peers[1].events.on_closed("refused")
    hands.pass_time(4 * BACKOFF_MS)
    hands.peers[2].events.on_closed("refused")
    hands.pass_time(0)
    assert len(asked) == 3


class FailingPeer(FakePeer):
    """A connection whose socket fails with the first byte."""

    def send(self, buffers):
        super().send(buffers)
        self.events.on_closed("broken pipe")


def test_who_asks_is_never_answered_before_the_call_returns(hands, channel, monkeypatch):
    monkeypatch.setitem(globals(), "FakePeer", FailingPeer)
    first = ask(channel)
    hands.pass_time(0)
    hands.peers[0].sent.clear()
    hands.peers[0].events.on_connected()
    assert first == []
    hands.pass_time(0)
    assert [type(each) for each in first] == [Unreachable]


def test_an_open_connection_that_breaks_with_what_is_asked_answers_later(hands, channel):
    ask(channel)
    hands.pass_time(0)
    [peer] = hands.peers
    peer.events.on_connected()
    peer.send = lambda _buffers: peer.events.on_closed("broken pipe")
    answers = ask(channel)
    assert answers == []
    hands.pass_time(0)
    assert [type(each) for each in answers] == [Unreachable]


def test_what_cannot_be_encoded_is_answered_later_and_harms_nobody_else(hands, channel):
    others = ask(channel)
    answers = ask(channel, group=None)
    assert answers == []
    hands.pass_time(0)
    assert [type(each) for each in answers] == [WireError]
    hands.peers[0].events.on_connected()
    hands.peers[0].answer(0, HeartbeatResponse())
    assert others[0].error_code == 0


def fail(_response, _error):
    raise PlantedFault


def test_who_cannot_use_an_answer_is_not_answered_again_and_others_hear_that_the_connection_is_gone(
    hands, channel
):
    channel.ask(ApiVersionsRequest(), 0, fail)
    others = ask(channel)
    hands.pass_time(0)
    [peer] = hands.peers
    peer.events.on_connected()
    with pytest.raises(PlantedFault):  # the edge is the connection's
        peer.answer(0, ApiVersionsResponse(), version=0)
    hands.pass_time(0)
    assert peer.is_closed
    assert [type(each) for each in others] == [Unreachable]
    assert hands.faults == []
    ask(channel)
    hands.pass_time(BACKOFF_MS)
    assert len(hands.peers) == 2


def test_each_who_asked_hears_of_a_lost_connection_though_one_before_it_fails(hands, channel):
    answers = [ask(channel)]
    channel.ask(ApiVersionsRequest(), 0, fail)
    answers.append(ask(channel))
    hands.pass_time(0)
    hands.peers[0].events.on_closed("refused")
    hands.pass_time(0)
    assert [type(one) for [one] in answers] == [Unreachable, Unreachable]
    assert len(hands.faults) == 1
