"""What compressed bytes may look like, and where unpacking ends."""

import gzip

import pytest

from barnabas.wire.compression import Codec, CompressionError, compress, decompress


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_parts_with_nothing_in_them_are_taken_but_not_without_end(codec):
    nothing = {Codec.GZIP: gzip.compress(b""), Codec.SNAPPY: b"\0\0\0\1\0"}[codec]
    content = bytes(compress(codec, memoryview(b"content" * 100)))
    few, many = content + nothing * 50, content + nothing * 2000
    assert decompress(codec, few, 10_000) == b"content" * 100
    with pytest.raises(CompressionError, match="nothing in them"):
        decompress(codec, many, 10_000)
