"""CVE-2026-111108: a few bytes that announce an array of billions made readers allocate for all of it. Here a length is held
against the bytes that are there, and against 1,000,000, before anything is made; and before a login nothing but the login is decoded."""

import struct

import pytest
from chaos.wire_kit import RawClient
from vulnerability_kit import broker_with_login, memory_below

from barnabas.wire.messages.api_versions import ApiVersionsRequest

METADATA, V8, V9 = 3, 8, 9
COUNTS = [2**31 - 1, 1_000_001, 500_000_000]


def varint(number):
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def metadata(count, version):
    """A Metadata request that announces `count` topics and names none."""
    head = struct.pack(">hhih", METADATA, version, 1, -1)
    return head + (struct.pack(">i", count) if version == V8 else b"\0" + varint(count + 1))


@pytest.fixture(scope="module")
def addresses():
    with broker_with_login() as both:
        yield both


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("version", [V8, V9])
@pytest.mark.parametrize("listener", ["with login", "open"])
def test_an_array_that_is_not_there_is_not_made(addresses, listener, version, count):
    safe, open_ = addresses
    with (
        RawClient(open_) as other,
        RawClient(safe if listener == "with login" else open_) as client,
    ):
        with memory_below(512 * 1024):
            client.send_frame(metadata(count, version))
            assert client.is_closed_by_peer()
        assert other.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_million_bytes_are_no_million_and_one_elements(addresses):
    """Enough bytes for the array, and still more elements than anybody means."""
    with RawClient(addresses[1]) as client:
        client.send_frame(metadata(1_000_001, V8) + bytes(2 * 1_000_001))
        assert client.is_closed_by_peer()
