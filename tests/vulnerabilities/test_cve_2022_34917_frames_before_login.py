"""CVE-2022-34917: who had not logged in could announce frames of any size, and the broker made room for them. Before a login a frame has 512 KiB at most
(`sasl.server.max.receive.size`)."""

import struct

import pytest
from chaos.wire_kit import RawClient, batch
from vulnerability_kit import broker_with_login, memory_below

from barnabas.wire.messages.api_versions import ApiVersionsRequest

LIMIT = 512 * 1024


@pytest.fixture(scope="module")
def addresses():
    with broker_with_login() as both:
        yield both


@pytest.mark.parametrize("size", [LIMIT + 1, 100 * 1024 * 1024, 2**31 - 1])
def test_a_long_frame_before_a_login_closes_the_connection(addresses, size):
    safe, open_ = addresses
    with RawClient(safe) as client, RawClient(open_) as other:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        with memory_below(LIMIT):
            client.send_bytes(struct.pack(">i", size))
            assert client.is_closed_by_peer()
        assert other.ask(ApiVersionsRequest(), 0).error_code == 0


def test_frames_that_are_allowed_get_memory_as_they_come(addresses):
    held = [RawClient(addresses[0]) for _ in range(50)]
    with memory_below(50 * 128 * 1024), RawClient(addresses[0]) as last:
        for client in held:
            client.send_bytes(struct.pack(">i", LIMIT) + b"\0\x12")
        assert last.ask(ApiVersionsRequest(), 0).error_code == 0
    for client in held:
        client.socket.close()


def test_where_nobody_logs_in_the_limit_is_that_of_all_requests(addresses):
    with RawClient(addresses[1]) as client:
        client.create_topic("t", max_message_bytes=2_000_000)
        assert client.produce("t", batch(bytes(LIMIT))).error_code == 0
