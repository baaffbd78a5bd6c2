"""CVE-2026-111115: tagged fields, which any flexible request may carry before a login, were read without bound. More than 10,000 close the connection."""

import struct

import pytest
from chaos.wire_kit import RawClient
from vulnerability_kit import broker_with_login, memory_below

from barnabas.wire.messages.api_versions import ApiVersionsRequest

API_VERSIONS = 18
TWO_TO_31 = b"\xff\xff\xff\xff\x07"
TEN_THOUSAND_ONE = b"\x91\x4e"


@pytest.fixture(scope="module")
def addresses():
    with broker_with_login() as both:
        yield both


def in_header(count):
    return struct.pack(">hhih", API_VERSIONS, 3, 1, -1) + count


def in_body(count):
    return struct.pack(">hhih", API_VERSIONS, 3, 1, -1) + b"\0" + b"\x02a\x02b" + count


@pytest.mark.parametrize("count", [TWO_TO_31, TEN_THOUSAND_ONE], ids=["2^31", "10001"])
@pytest.mark.parametrize("place", [in_header, in_body])
@pytest.mark.parametrize("behind", [b"", b"\x05\0" * 10_001], ids=["none there", "all there"])
def test_too_many_tagged_fields_close_the_connection(addresses, place, count, behind):
    with RawClient(addresses[0]) as client, RawClient(addresses[1]) as other:
        with memory_below(1024 * 1024):
            client.send_frame(place(count) + behind)
            assert client.is_closed_by_peer()
        assert other.ask(ApiVersionsRequest(), 0).error_code == 0
