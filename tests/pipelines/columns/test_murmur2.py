"""The hash of keys is Java's: figures of Apache Kafka's own tests, and a plain version written from the algorithm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipelines.columns.murmur2 import murmur2, partitions_of

#: From UtilsTest.testMurmur2 of Apache Kafka.
KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def hashed(keys):
    data = np.frombuffer(b"".join(keys), np.uint8)
    length = np.array([len(key) for key in keys], np.int64)
    return murmur2(data, np.cumsum(length) - length, length)


def plain(key):
    """One key, step by step, in 32 bits."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * m & mask
        word = (word ^ word >> 24) * m & mask
        value = (value * m & mask) ^ word
    if key[whole:]:
        value = (value ^ int.from_bytes(key[whole:], "little")) * m & mask
    value = (value ^ value >> 13) * m & mask
    return value ^ value >> 15


@pytest.mark.parametrize("key", KAFKA)
def test_kafkas_figures(key):
    assert hashed([key]).view(np.int32)[0] == KAFKA[key]


@given(st.lists(st.binary(max_size=40)))
def test_all_at_once_is_one_by_one(keys):
    assert hashed(keys).tolist() == [plain(key) for key in keys]


@given(st.lists(st.binary(max_size=12)), st.integers(1, 50))
def test_partitions_are_javas(keys, count):
    chosen = partitions_of(hashed(keys), count).tolist()
    assert chosen == [(plain(key) & 0x7FFFFFFF) % count for key in keys]
