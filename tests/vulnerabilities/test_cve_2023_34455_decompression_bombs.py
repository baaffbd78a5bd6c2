"""CVE-2023-34455 and B6: compressed bytes that announce, or are, far more than they should be. What they hold is counted in pieces, up to a bound; what they
announce is not believed."""

import gzip
import struct

import pytest
import zstandard
from chaos.packed_lies import batch_of
from chaos.wire_kit import BrokerProcess, RawClient, batch

from barnabas.model.errors import ErrorCode
from barnabas.wire.compression import Codec, compress

MIB = 1024 * 1024
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
#: Announces an uncompressed length of 2^32 - 1, and has nothing.
SNAPPY_LIE = b"\xff\xff\xff\xff\x0f\0"

BOMBS = {
    "gzip, 300 MiB of zeros": (Codec.GZIP, lambda: gzip.compress(bytes(300 * MIB))),
    "zstd, 300 MiB of zeros": (Codec.ZSTD, lambda: zstandard.compress(bytes(300 * MIB))),
    "zstd, a window of 2 GiB": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\x00\xa8" + bytes(20)),
    "lz4, 200 MiB of zeros": (Codec.LZ4, lambda: compress(Codec.LZ4, bytes(200 * MIB))),
    "snappy, a length of 2^32": (Codec.SNAPPY, lambda: SNAPPY_LIE),
    "snappy, a piece of 2^31 - 1": (Codec.SNAPPY, lambda: XERIAL + b"\x7f\xff\xff\xff" + bytes(8)),
    "snappy, a piece of -1": (Codec.SNAPPY, lambda: XERIAL + b"\xff\xff\xff\xff" + bytes(8)),
    "snappy, a piece that lies": (
        Codec.SNAPPY, lambda: XERIAL + struct.pack(">i", len(SNAPPY_LIE)) + SNAPPY_LIE,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("bombed") / "data") as process:
        with RawClient(process.bootstrap) as client:
            client.create_topic("t")
            client.produce("t", batch(b"warm"))
        yield process
        assert process.terminate() == 0


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_little_memory_while_others_are_served(broker, name):
    codec, pack = BOMBS[name]
    bomb = batch_of(codec, pack(), count=1)
    assert len(bomb) < 1_048_576
    before = broker.resident_bytes
    with RawClient(broker.bootstrap) as client, RawClient(broker.bootstrap) as other:
        end = other.end_offset("t")
        refused = client.produce("t", bomb)
        assert refused.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
        assert other.produce("t", batch(b"v")).base_offset == end
    assert broker.resident_bytes - before < 64 * MIB
