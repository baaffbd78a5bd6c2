"""The server against clients that misbehave on their sockets: a broker in this process, raw connections to it."""

import contextlib
import random
import ssl
import struct
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from chaos.wire_kit import RawClient, batch, encode, eventually, fetch_request, produce_request
from security_kit import make_certificates

import barnabas
from barnabas.broker import turn
from barnabas.broker.client_link import ClientLink
from barnabas.wire.compression import Codec
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

ANY = ApiVersionsRequest()
MAX_FRAME = 104_857_600


def framed(body):
    return struct.pack(">i", len(body)) + body


def is_served(bootstrap):
    with RawClient(bootstrap) as client:
        return client.ask(ANY, 0).error_code == 0


@pytest.mark.parametrize("length", [0, -1, 2**31 - 1, -(2**31), MAX_FRAME + 1])
def test_a_frame_with_a_length_that_cannot_be_closes_one_connection(broker, length):
    with RawClient(broker.bootstrap) as other, RawClient(broker.bootstrap) as client:
        client.ask(ANY, 0)
        tracemalloc.start()
        try:
            client.send_bytes(struct.pack(">i", length))
            assert client.is_closed_by_peer()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 512 * 1024, "memory was taken for a length that nobody believes"
        assert other.ask(ANY, 0).error_code == 0


def test_a_long_frame_gets_memory_as_its_bytes_come(broker):
    with RawClient(broker.bootstrap) as client:
        client.ask(ANY, 0)
        tracemalloc.start()
        try:
            client.send_bytes(struct.pack(">i", MAX_FRAME) + bytes(10_000))
            assert is_served(broker.bootstrap)
            assert is_served(broker.bootstrap)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 3 * 1024 * 1024


def test_a_request_that_comes_byte_by_byte(broker):
    body = encode(ANY, 0, 7)
    with RawClient(broker.bootstrap) as client:
        for byte in struct.pack(">i", len(body)) + body:
            client.send_bytes(bytes([byte]))
        assert client.receive()[:4] == struct.pack(">i", 7)


def test_a_frame_longer_than_all_buffers(broker):
    with RawClient(broker.bootstrap) as client:
        client.create_topic("t", max_message_bytes=10_000_000)
        value = bytes(5_000_000)
        assert client.produce("t", batch(value)).error_code == 0
        assert client.produce("t", batch(value)).base_offset == 1
        assert [len(v) for _, v in client.read_all("t")] == [5_000_000] * 2


def test_a_hundred_requests_one_behind_the_other_are_answered_in_order(broker):
    with RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        sent = []
        for number in range(100):
            request, version = [
                (ANY, 3),
                (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9),
                (fetch_request("t", 0, max_wait_ms=1, min_bytes=10**6), 11),
                (produce_request("t", batch(b"v")), 9),
            ][number % 4]
            sent.append((request, version, client.send(request, version)))
        for request, version, correlation_id in sent:
            client.receive_for(request, version, correlation_id)
        assert client.end_offset("t") == 25


def test_requests_that_want_no_answer_do_not_hold_up_what_comes_behind(broker, monkeypatch):
    """In a long turn a connection gets one request: there is no reply to send after which it would go on."""
    monkeypatch.setattr(turn, "LONG_TURN_NS", -1)
    with RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        silent = framed(encode(produce_request("t", batch(b"v"), acks=0), 9, 1))
        client.send_bytes(silent * 5 + framed(encode(ANY, 3, 2)))
        client.receive_for(ANY, 3, 2)
        assert client.end_offset("t") == 5


def test_many_bytes_of_requests_that_want_no_answer(broker, monkeypatch):
    """What is left of each connection's requests must not be more than the receive buffer takes."""
    monkeypatch.setattr(turn, "LONG_TURN_NS", -1)
    silent = framed(encode(produce_request("t", batch(bytes(5000)), acks=0), 9, 1))
    clients, rounds, each = 6, 8, 20
    with contextlib.ExitStack() as stack:
        control = stack.enter_context(RawClient(broker.bootstrap))
        control.create_topic("t")
        crowd = [stack.enter_context(RawClient(broker.bootstrap)) for _ in range(clients)]
        for _ in range(rounds):
            for client in crowd:
                client.send_bytes(silent * each)
        for client in crowd:
            client.ask(ANY, 3)
        assert control.end_offset("t") == clients * rounds * each


def test_a_client_that_wants_no_answer_sends_and_closes(broker, monkeypatch):
    monkeypatch.setattr(turn, "LONG_TURN_NS", -1)
    silent = framed(encode(produce_request("t", batch(b"v"), acks=0), 9, 1))
    with RawClient(broker.bootstrap) as control:
        control.create_topic("t")
        with RawClient(broker.bootstrap) as client:
            client.send_bytes(silent * 100)
        eventually(lambda: control.end_offset("t") == 100, "all that was sent is in the log")


def test_requests_behind_a_long_poll_wait_for_it_and_are_answered(broker):
    with RawClient(broker.bootstrap) as client, RawClient(broker.bootstrap) as producer:
        client.create_topic("t")
        poll = fetch_request("t", 0, max_wait_ms=60_000)
        first = client.send(poll, 11)
        second = client.send(ANY, 3)
        assert producer.produce("t", batch(b"v")).error_code == 0
        assert len(client.receive_for(poll, 11, first).responses[0].partitions[0].records) > 0
        client.receive_for(ANY, 3, second)


def test_a_reader_is_answered_although_a_producer_never_stops(broker):
    """It is held for more bytes to come, but not for ever."""
    frames = framed(encode(produce_request("t", batch(b"v"), acks=0), 9, 1)) * 100
    with RawClient(broker.bootstrap) as reader, RawClient(broker.bootstrap) as producer:
        reader.create_topic("t")
        poll = fetch_request("t", 0, max_wait_ms=60_000)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(lambda: reader.ask(poll, 11))
            while not answer.done():
                producer.send_bytes(frames)
        assert len(answer.result().responses[0].partitions[0].records) > 0


def test_requests_behind_a_reply_that_does_not_fit_the_socket_are_answered(broker):
    """The reply leaves in pieces as the client reads; then it is the turn of what came behind."""
    size = 8_000_000
    with (
        RawClient(broker.bootstrap, receive_buffer=65536) as client,
        RawClient(broker.bootstrap) as producer,
    ):
        client.create_topic("t", max_message_bytes=size + 1000)
        poll = fetch_request("t", 0, max_wait_ms=60_000, max_bytes=size + 1000)
        client.send_bytes(framed(encode(poll, 11, 1)) + framed(encode(ANY, 3, 2)))
        assert producer.produce("t", batch(bytes(size))).error_code == 0
        assert len(client.receive_for(poll, 11, 1).responses[0].partitions[0].records) > size
        client.receive_for(ANY, 3, 2)


def test_a_client_that_goes_away_during_a_long_poll_leaves_nothing(broker):
    node = broker._broker.node
    with RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        client.send(fetch_request("t", 0, max_wait_ms=2**31 - 1), 11)
        eventually(lambda: node.replicas.waiting.count == 1, "the poll waits")
    eventually(lambda: node.replicas.waiting.count == 0, "the poll is forgotten")
    eventually(lambda: broker._broker.server.connection_count == 0, "the connection is closed")
    assert not node.waiters


def test_a_client_that_goes_away_while_its_batch_is_opened_is_no_fault_of_ours(broker, caplog):
    """Its request is read in the background until it is done, in memory of its own."""
    node, server_, post = broker._broker.node, broker._broker.server, broker._broker.loop.post
    values = random.Random(1).randbytes(1_000_000)
    request = produce_request("t", batch(values, codec=Codec.GZIP), acks=1)
    others = [object() for _ in range(64)]
    taken = []
    with RawClient(broker.bootstrap) as control:
        control.create_topic("t", max_message_bytes=2_000_000)
        with RawClient(broker.bootstrap) as client:
            for other in others:  # nobody else can open a batch
                post(partial(node.unpacking.take, other, lambda *_: taken.append(0)))
            client.send(request, 9)
            eventually(lambda: len(node.unpacking._visits) > len(others), "it waits for its turn")
        eventually(lambda: server_.connection_count == 1, "the connection is closed")
        control.ask(ANY, 0)  # a turn later
        assert server_.turn.frame_pool.kept_count == 0
        for other in others:
            post(partial(node.unpacking.give, other, 0))
        eventually(lambda: control.end_offset("t") == 1, "what was sent is in the log")
    assert "still in use" not in caplog.text


def test_half_a_frame_held_open_harms_nobody(broker):
    clients = [RawClient(broker.bootstrap) for _ in range(50)]
    for client in clients:
        client.send_bytes(struct.pack(">i", 1000) + bytes(10))
    assert is_served(broker.bootstrap)
    for client in clients:
        client.socket.close()
    eventually(lambda: broker._broker.server.connection_count == 0)


def test_replies_that_nobody_reads_stay_within_a_bound():
    """Requests are no longer taken from who does not read: thousands of answers would pile up."""
    with barnabas.Broker() as broker:
        with RawClient(broker.bootstrap) as client:
            topics = [
                CreatableTopic(name=f"{number:0249}", num_partitions=1, replication_factor=1)
                for number in range(200)
            ]
            client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
            request = MetadataRequest(topics=None)
            one = len(client.receive() if client.send(request, 9) else b"")
        assert one > 40_000
        server = broker._broker.server
        eventually(lambda: server.connection_count == 0, "the first client to be gone")
        tracemalloc.start()
        try:
            with RawClient(broker.bootstrap, receive_buffer=4096) as client:
                client.send_bytes(framed(encode(request, 9, 1)) * 400)
                eventually(lambda: server.connection_count == 1, "the second client to be here")
                (connection,) = server._connections.values()
                eventually(lambda: connection._out, "a reply that does not leave")
                assert is_served(broker.bootstrap)
                _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 * 1024 * 1024, f"{peak >> 20} MiB for one connection that does not read"


def test_idle_connections_are_closed():
    with barnabas.Broker(settings={"connections.max.idle.ms": 1000}) as broker:
        with RawClient(broker.bootstrap) as client, RawClient(broker.bootstrap) as half:
            client.ask(ANY, 0)
            half.send_bytes(struct.pack(">i", 1000) + bytes(10))
            assert client.is_closed_by_peer()
            assert half.is_closed_by_peer()
        assert is_served(broker.bootstrap)


def test_a_connection_that_waits_for_the_broker_is_not_idle():
    with barnabas.Broker(settings={"connections.max.idle.ms": 1000}) as broker, RawClient(broker.bootstrap) as client:  # fmt: skip
        client.create_topic("t")
        assert client.fetch("t", 0, max_wait_ms=3000).error_code == 0


def test_a_client_that_never_reads_is_closed_as_idle():
    big = batch(bytes(20_000_000))
    with (
        barnabas.Broker(settings={"connections.max.idle.ms": 1500}) as broker,
        RawClient(broker.bootstrap, receive_buffer=4096) as client,
    ):
        client.create_topic("t", max_message_bytes=20_001_000)
        with RawClient(broker.bootstrap) as producer:
            assert producer.produce("t", big).error_code == 0
        client.send(fetch_request("t", 0, max_bytes=30_000_000), 11)
        server = broker._broker.server
        eventually(lambda: server.connection_count == 0, "the connection is closed")


def test_connections_from_one_address_are_limited():
    with barnabas.Broker(settings={"max.connections.per.ip": 3}) as broker:
        held = [RawClient(broker.bootstrap) for _ in range(3)]
        for client in held:
            client.ask(ANY, 0)
        with RawClient(broker.bootstrap) as fourth:
            assert fourth.is_closed_by_peer()
        held.pop().socket.close()
        eventually(lambda: broker._broker.server.connection_count == 2)
        assert is_served(broker.bootstrap)
        for client in held:
            client.socket.close()


def test_connections_are_limited_in_all():
    with barnabas.Broker(settings={"max.connections": 2}) as broker:
        held = [RawClient(broker.bootstrap) for _ in range(2)]
        for client in held:
            client.ask(ANY, 0)
        with RawClient(broker.bootstrap) as third:
            assert third.is_closed_by_peer()
        for client in held:
            client.ask(ANY, 0)
            client.socket.close()


def addresses_told(bootstrap):
    with RawClient(bootstrap) as client:
        return [
            (each.host, each.port) for each in client.ask(MetadataRequest(topics=[]), 9).brokers
        ]


def test_ipv6_and_several_listeners_tell_the_address_that_was_connected_to():
    listeners = "A://127.0.0.1:0,B://[::1]:0,C://127.0.0.1:0"
    settings = {
        "listeners": listeners,
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
        "inter.broker.listener.name": "A",
    }
    with barnabas.Broker(settings=settings) as broker:
        bound = broker._broker.addresses
        assert [name for name, _, _ in bound] == ["A", "B", "C"]
        for _, host, port in bound:
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            assert addresses_told(shown) == [(host, port)]


def test_advertised_addresses_are_told_per_listener():
    settings = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
        "advertised.listeners": "A://broker.example:1234,B://other.example:5678",
    }
    with barnabas.Broker(settings=settings) as broker:
        told = [addresses_told(f"{host}:{port}") for _, host, port in broker._broker.addresses]
        assert told == [[("broker.example", 1234)], [("other.example", 5678)]]


def test_limits_count_from_the_moment_they_are_set():
    with barnabas.Broker() as broker, RawClient(broker.bootstrap) as first:
        change = AlterableConfig(name="max.connections.per.ip", config_operation=0, value="2")
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
        answer = first.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0
        with RawClient(broker.bootstrap) as second, RawClient(broker.bootstrap) as third:
            assert second.ask(MetadataRequest(topics=[]), 9).brokers
            assert third.socket.recv(1) == b""


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "TLS"])
def test_a_throttled_connection_is_answered_at_once_and_read_later(is_encrypted, tmp_path):
    """Ten windows' worth and more: the next request of that client waits, and one of another does not."""
    settings = encrypted(tmp_path) if is_encrypted else {}
    with barnabas.Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
        if is_encrypted:
            client.socket = trusting().wrap_socket(client.socket)
        client.create_topic("t")
        limit_producers(client, 90_000.0)
        request = produce_request("t", batch(bytes(1_030_000)))
        client.send(request, 9)
        number = client.send(ANY, 0)
        answer = client.receive_for(request, 9, number - 1)
        assert 1000 < answer.throttle_time_ms < 3000
        connection = next(iter(broker._broker.server._connections.values()))
        assert connection._muted is not None
        if not is_encrypted:
            assert is_served(broker.bootstrap)
        client.receive_for(ANY, 0, number)
        assert connection._muted is None


def test_who_is_throttled_for_longer_than_the_idle_may_is_closed():
    """As in Kafka: that it may not be read from is no reason to keep it."""
    settings = {"connections.max.idle.ms": 1500, "quota.window.size.seconds": 1000}
    with barnabas.Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        limit_producers(client, 1.0)
        request = produce_request("t", batch(bytes(1_000_000)))
        assert client.ask(request, 9).throttle_time_ms > 100_000
        assert client.is_closed_by_peer()


def limit_producers(client, rate):
    entity = EntityData(entity_type="client-id", entity_name=None)
    limit = OpData(key="producer_byte_rate", value=rate)
    quota = AlterClientQuotasRequest(entries=[RequestEntryData(entity=[entity], ops=[limit])])
    assert client.ask(quota, 1).entries[0].error_code == 0


def encrypted(folder):
    """Settings of a broker that speaks TLS only."""
    return {
        "listeners": "SAFE://127.0.0.1:0",
        "listener.security.protocol.map": "SAFE:SSL",
        "inter.broker.listener.name": "SAFE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(make_certificates(folder).server),
    }


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_an_address_above_its_rate_is_closed_and_others_of_the_broker_are_served():
    entity = EntityData(entity_type="ip", entity_name="127.0.0.1")
    limit = OpData(key="connection_creation_rate", value=1.0)
    quota = AlterClientQuotasRequest(entries=[RequestEntryData(entity=[entity], ops=[limit])])
    settings = {
        "listeners": "A://127.0.0.1:0,B://[::1]:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
    }
    with barnabas.Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
        (_, _, _), (_, host, port) = broker._broker.addresses
        assert client.ask(quota, 1).entries[0].error_code == 0
        with contextlib.ExitStack() as stack:
            several = [stack.enter_context(RawClient(broker.bootstrap)) for _ in range(11)]
            assert several[-1].is_closed_by_peer()
            assert several[0].ask(ANY, 0).error_code == 0
        assert is_served(f"[{host}]:{port}")


def test_above_the_rate_of_the_broker_connections_wait_and_are_served():
    settings = {"max.connection.creation.rate": 10}
    with barnabas.Broker(settings=settings) as broker:
        for _ in range(105):
            assert is_served(broker.bootstrap)


@pytest.mark.source
@pytest.mark.parametrize("method", ["_on_readable", "handle_received", "flush"])
def test_a_fault_of_ours_closes_the_connection_that_met_it_and_nothing_else(
    broker, monkeypatch, caplog, method
):
    fault_at = []
    real = getattr(ClientLink, method)

    def faulty(self, *arguments):
        if self in fault_at:
            raise TypeError("planted")
        return real(self, *arguments)

    with RawClient(broker.bootstrap) as other, RawClient(broker.bootstrap) as client:
        assert other.ask(ANY, 0).error_code == client.ask(ANY, 0).error_code == 0
        fault_at.append(max(broker._broker.server._connections.items())[1])
        monkeypatch.setattr(ClientLink, method, faulty)
        client.send(ANY, 0)
        assert client.is_closed_by_peer()
        assert other.ask(ANY, 0).error_code == 0
    assert "a fault of the broker" in caplog.text
