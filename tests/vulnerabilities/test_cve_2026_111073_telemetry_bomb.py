"""CVE-2026-111073: PushTelemetry, open to everybody, opened whatever it was sent. It is not served here: not told of, and refused before it is decoded."""

import gzip
import struct

from chaos.wire_kit import RawClient
from vulnerability_kit import broker_with_login, memory_below

from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.push_telemetry import PushTelemetryRequest

GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 71, 72


def test_telemetry_is_neither_told_of_nor_opened():
    bomb = gzip.compress(bytes(100_000_000))
    request = PushTelemetryRequest(client_instance_id=b"\1" * 16, compression_type=1, metrics=bomb)
    body = b"".join(bytes(part) for part in request.encode(0))
    with broker_with_login() as (_, open_), RawClient(open_) as client:
        served = [one.api_key for one in client.ask(ApiVersionsRequest(), 0).api_keys]
        assert GET_TELEMETRY_SUBSCRIPTIONS not in served
        assert PUSH_TELEMETRY not in served
        with memory_below(8 * 1024 * 1024):
            client.send_frame(struct.pack(">hhih", PUSH_TELEMETRY, 0, 2, -1) + b"\0" + body)
            assert client.is_closed_by_peer()
