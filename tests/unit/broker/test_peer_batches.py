"""Questions to other brokers: one request under way per broker, the next one carries all that came meanwhile."""

from types import SimpleNamespace

import pytest

from barnabas.broker.channel import Unreachable
from barnabas.broker.edge import Contained
from barnabas.broker.peer_batches import SIZE_MAX, PeerBatches, Question
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.ports import World
from barnabas.wire import frame
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from barnabas.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from barnabas.wire.primitives import WireError

VERSION = 5
VERSIONS = (VERSION, VERSION)


class Outside:
    """Clock, timers and the other brokers, moved by the test."""

    def __init__(self):
        self.booked = []
        self.connections = []

    def monotonic_ms(self):
        return 0

    def call_at(self, deadline_ms, call):
        timer = SimpleNamespace(deadline_ms=deadline_ms, call=call)
        timer.cancel = lambda: self.booked.remove(timer) if timer in self.booked else None
        self.booked.append(timer)
        return timer

    def connect(self, host, port, events):
        connection = Connection(port, events)
        self.connections.append(connection)
        return connection

    def run_due(self):
        for timer in [each for each in self.booked if each.deadline_ms <= 0]:
            self.booked.remove(timer)
            timer.call()
        for connection in self.connections:
            connection.open()


class Connection:
    def __init__(self, port, events):
        self.port = port
        self.events = events
        self.is_open = False
        self.requests = []
        #: (API key, version) of all that was asked.
        self.versions = []

    def open(self):
        if not self.is_open:
            self.is_open = True
            self.events.on_connected()

    def send(self, buffers):
        data = memoryview(b"".join(bytes(each) for each in buffers))[4:]
        head = frame.decode_request_header(data)
        self.versions.append((head.api_key, head.api_version))
        if head.api_key == ApiVersionsRequest.API_KEY:
            self.requests.append((head.correlation_id, None))
            return
        asked = DescribeGroupsRequest.decode(data, head.api_version, head.body_pos)
        self.requests.append((head.correlation_id, asked.groups))

    def close(self):
        self.is_open = True

    def tell_versions(self, lowest, highest):
        """Answer the question which versions of DescribeGroups there are."""
        number, _ = self.requests.pop(0)
        known = ApiVersion(
            api_key=DescribeGroupsRequest.API_KEY, min_version=lowest, max_version=highest
        )
        body = ApiVersionsResponse(api_keys=[known]).encode(0)
        header = frame.response_header(number, ApiVersionsRequest.API_KEY, 0)
        self.events.on_frame(memoryview(header + b"".join(bytes(part) for part in body)))

    def answer(self):
        """Answer the oldest request: each group with its own name."""
        number, groups = self.requests.pop(0)
        answers = [DescribedGroup(group_id=one, group_state=f"{one}!") for one in groups]
        body = DescribeGroupsResponse(groups=answers).encode(VERSION)
        header = frame.response_header(number, DescribeGroupsRequest.API_KEY, VERSION)
        self.events.on_frame(memoryview(header + b"".join(bytes(part) for part in body)))


@pytest.fixture
def outside():
    return Outside()


def make_batches(outside, versions):
    node = SimpleNamespace(
        world=World(outside, None, outside, None, None, None, outside),
        broker_id=1,
        config=BrokerConfig({"log.dirs": "/data", "node.id": "1"}),
        members=SimpleNamespace(endpoint_of=lambda broker_id: ("host", broker_id)),
    )
    return PeerBatches(
        node,
        versions,
        lambda names: DescribeGroupsRequest(groups=names),
        lambda names, response: [one.group_state for one in response.groups[: len(names)]],
    )


@pytest.fixture
def batches(outside):
    return make_batches(outside, VERSIONS)


def ask(batches, broker_id, name, key=None, size=1, is_wanted=True):
    answers = []
    question = Question(key or name, size, name, lambda: is_wanted)
    batches.ask(
        broker_id,
        question,
        lambda answer, error: answers.append(answer if error is None else error),
    )
    return answers


def groups(connection):
    return [asked for _number, asked in connection.requests]


def test_what_comes_while_a_request_is_under_way_goes_with_the_next(outside, batches):
    first, second, third = ask(batches, 2, "a"), ask(batches, 2, "b"), ask(batches, 2, "c")
    outside.run_due()
    [connection] = outside.connections
    assert groups(connection) == [["a"]]
    connection.answer()
    assert groups(connection) == [["b", "c"]]
    connection.answer()
    assert (first, second, third) == (["a!"], ["b!"], ["c!"])


def test_each_broker_has_its_own_line(outside, batches):
    to_two, to_three = ask(batches, 2, "a"), ask(batches, 3, "b")
    outside.run_due()
    two, three = outside.connections
    assert (two.port, three.port) == (2, 3)
    three.answer()
    assert (to_two, to_three) == ([], ["b!"])


def test_two_of_one_key_and_more_than_fits_wait_for_another_request(outside, batches):
    ask(batches, 2, "first")
    ask(batches, 2, "a", key="k")
    ask(batches, 2, "b", key="k")
    ask(batches, 2, "large", size=SIZE_MAX)
    ask(batches, 2, "larger", size=2 * SIZE_MAX)
    outside.run_due()
    [connection] = outside.connections
    sent = []
    while connection.requests:
        sent += groups(connection)
        connection.answer()
    assert sent == [["first"], ["a"], ["b"], ["large"], ["larger"]]


def test_what_nobody_wants_any_more_is_not_sent(outside, batches):
    ask(batches, 2, "first")
    unwanted, wanted = ask(batches, 2, "a", is_wanted=False), ask(batches, 2, "b")
    outside.run_due()
    [connection] = outside.connections
    connection.answer()
    assert groups(connection) == [["b"]]
    connection.answer()
    outside.run_due()
    assert wanted == ["b!"]
    assert isinstance(unwanted[0], Unreachable)


def test_a_broker_that_is_gone_answers_nobody(outside, batches):
    sent, waiting, other = ask(batches, 2, "a"), ask(batches, 2, "b"), ask(batches, 3, "c")
    outside.run_due()
    batches.on_brokers({1, 3})
    for _ in range(3):
        outside.run_due()
    assert [type(each) for each in sent + waiting] == [Unreachable, Unreachable]
    outside.connections[1].answer()
    assert other == ["c!"]
    back = ask(batches, 2, "d")
    outside.run_due()
    outside.connections[2].answer()
    assert back == ["d!"]


def test_after_the_end_nobody_is_asked(outside, batches):
    sent = ask(batches, 2, "a")
    outside.run_due()
    batches.close()
    late = ask(batches, 2, "b")
    assert late == []
    outside.run_due()
    assert [type(each) for each in sent + late] == [Unreachable, Unreachable]
    assert len(outside.connections) == 1


@pytest.mark.parametrize(("highest", "taken"), [(3, 3), (4, 4), (9, 5), (0, 3)])
def test_a_broker_is_asked_first_which_version_it_speaks(outside, highest, taken):
    batches = make_batches(outside, (3, 5))
    ask(batches, 2, "a")
    waiting = ask(batches, 2, "b")
    outside.run_due()
    [connection] = outside.connections
    connection.tell_versions(0, highest)
    assert groups(connection) == [["a"]]
    connection.requests.pop(0)
    assert connection.versions[1:] == [(DescribeGroupsRequest.API_KEY, taken)]
    assert waiting == []


def test_it_is_asked_again_after_its_connection_broke(outside):
    batches = make_batches(outside, (3, 5))
    first = ask(batches, 2, "a")
    outside.run_due()
    [connection] = outside.connections
    connection.tell_versions(0, 4)
    connection.events.on_closed("it has gone")
    outside.run_due()
    assert isinstance(first[0], Unreachable)
    ask(batches, 2, "b")
    for timer in list(outside.booked):
        timer.deadline_ms = 0
    outside.run_due()
    outside.run_due()
    assert outside.connections[-1].versions == [(ApiVersionsRequest.API_KEY, 0)]


def test_an_answer_that_cannot_be_used_is_an_error_for_each_who_asked_and_others_go_on(outside):
    batches = make_batches(outside, VERSIONS)
    first, second = ask(batches, 2, "a"), ask(batches, 2, "b")
    outside.run_due()
    [connection] = outside.connections
    number, _groups = connection.requests.pop(0)
    body = DescribeGroupsResponse(groups=[]).encode(VERSION)  # it speaks of nobody
    header = frame.response_header(number, DescribeGroupsRequest.API_KEY, VERSION)
    connection.events.on_frame(memoryview(header + b"".join(map(bytes, body))))
    assert isinstance(first[0], WireError)
    connection.answer()
    assert second == ["b!"]
    with pytest.raises(Contained):
        outside.run_due()


def test_one_who_cannot_use_its_answer_does_not_keep_the_others_from_theirs(outside):
    batches = make_batches(outside, VERSIONS)
    opening = ask(batches, 2, "opening")

    def fail(_answer, _error):
        raise RuntimeError("planted")

    batches.ask(2, Question("a", 1, "a", lambda: True), fail)
    other = ask(batches, 2, "b")
    outside.run_due()
    [connection] = outside.connections
    connection.answer()
    assert opening == ["opening!"]
    with pytest.raises(RuntimeError, match="planted"):
        connection.answer()
    assert other == ["b!"]
