"""Request heads of every header version, reply heads, and what stands in front of a reply's buffers."""

import subprocess
import sys

import pytest

from barnabas.wire import frame
from barnabas.wire.frame import decode_request_header, finish, message_types, response_header
from barnabas.wire.messages.index import APIS, NAMES
from barnabas.wire.messages.request_header import RequestHeader
from barnabas.wire.messages.response_header import ResponseHeader
from barnabas.wire.primitives import WireError

PRODUCE, FETCH, METADATA, CONTROLLED_SHUTDOWN, API_VERSIONS = 0, 1, 3, 7, 18


def _header(key, version, header_version, client_id="client", tags=()):
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=-77,
        client_id=client_id,
        unknown_tagged_fields=tags,
    )
    return b"".join(header.encode(header_version))


def _read(raw):
    head = decode_request_header(memoryview(raw))
    return head.api_key, head.api_version, head.correlation_id, head.client_id, raw[head.body_pos :]


class TestRequestHeader:
    @pytest.mark.parametrize("client_id", [None, "", "client", "clïent-🙂", "c" * 32_767])
    @pytest.mark.parametrize(("version", "header_version"), [(8, 1), (9, 2)])
    def test_client_ids(self, client_id, version, header_version):
        raw = _header(PRODUCE, version, header_version, client_id) + b"body"
        assert _read(raw) == (PRODUCE, version, -77, client_id, b"body")

    def test_controlled_shutdown_0_has_no_client_id(self):
        assert _read(_header(CONTROLLED_SHUTDOWN, 0, 0) + b"body") == (7, 0, -77, None, b"body")
        assert _read(_header(CONTROLLED_SHUTDOWN, 1, 1) + b"body") == (7, 1, -77, "client", b"body")

    def test_tags_are_passed_over(self):
        raw = _header(FETCH, 12, 2, tags=[(0, b"x"), (500, b"yy")]) + b"body"
        assert _read(raw) == (FETCH, 12, -77, "client", b"body")

    def test_an_api_versions_request_from_the_future(self):
        assert _read(_header(API_VERSIONS, 99, 2) + b"body") == (
            API_VERSIONS,
            99,
            -77,
            "client",
            b"body",
        )

    def test_an_unknown_key(self):
        assert _read(_header(9999, 3, 1) + b"body") == (9999, 3, -77, "client", b"body")

    @pytest.mark.parametrize("version", [8, 9])
    def test_every_truncation_is_refused(self, version):
        raw = _header(
            PRODUCE, version, 1 if version < 9 else 2, tags=[(1, b"x")] if version > 8 else ()
        )
        for size in range(len(raw)):
            with pytest.raises(WireError):
                decode_request_header(memoryview(raw[:size]))

    def test_a_negative_length_is_null_only_as_minus_one(self):
        raw = bytearray(_header(PRODUCE, 8, 1, None))
        raw[8:10] = b"\xff\xfe"
        with pytest.raises(WireError, match="length -2"):
            decode_request_header(memoryview(raw))

    def test_a_client_id_that_is_not_utf8(self):
        raw = _header(PRODUCE, 8, 1, "ab").replace(b"ab", b"\xff\xff")
        with pytest.raises(WireError, match="not UTF-8"):
            decode_request_header(memoryview(raw))

    def test_representation(self):
        shown = repr(decode_request_header(memoryview(_header(PRODUCE, 8, 1))))
        assert shown == (
            "RequestHead(api_key=0, api_version=8, correlation_id=-77, client_id='client', body_pos=16)"
        )


class TestResponseHeader:
    @pytest.mark.parametrize(
        ("key", "version", "header_version"),
        [
            (PRODUCE, 8, 0),
            (PRODUCE, 9, 1),
            (METADATA, 12, 1),
            (9999, 5, 0),
            (CONTROLLED_SHUTDOWN, 0, 0),
        ],
    )
    def test_versions(self, key, version, header_version):
        expected = b"".join(ResponseHeader(correlation_id=123).encode(header_version))
        assert response_header(123, key, version) == expected

    @pytest.mark.parametrize("version", range(6))
    def test_api_versions_always_has_header_0(self, version):
        assert response_header(5, API_VERSIONS, version) == b"\x00\x00\x00\x05"


class FileSlice:
    """Stands for bytes in a file: has a length, and nothing else may be asked of it."""

    def __len__(self):
        return 1000


class TestFinish:
    def test_the_head_joins_a_small_first_buffer(self):
        records = FileSlice()
        assert finish([b"abc", records, b"d"], b"HEAD") == [
            b"\x00\x00\x03\xf0HEADabc",
            records,
            b"d",
        ]

    def test_the_head_stands_alone_before_a_large_buffer(self):
        large = bytes(frame.MAX_MERGED_BYTES + 1)
        buffers = finish([large], b"HEAD")
        assert buffers[0] == (len(large) + 4).to_bytes(4) + b"HEAD"
        assert buffers[1] is large

    def test_the_head_stands_alone_before_a_file_slice(self):
        records = FileSlice()
        assert finish([records], b"HEAD") == [b"\x00\x00\x03\xecHEAD", records]

    def test_no_buffers(self):
        assert finish([], b"HEAD") == [b"\x00\x00\x00\x04HEAD"]


class TestMessageTypes:
    @pytest.mark.parametrize("key", sorted(APIS))
    def test_every_key_has_its_classes(self, key):
        request, response = message_types(key)
        api = APIS[key]
        assert (request.__name__, response.__name__) == (
            f"{api.name}Request",
            f"{api.name}Response",
        )
        assert request.API_KEY == response.API_KEY == key
        assert (api.min_version, api.max_version) == (request.MIN_VERSION, request.MAX_VERSION)
        assert (api.min_version, api.max_version) == (response.MIN_VERSION, response.MAX_VERSION)
        assert request.FLEXIBLE_FROM == response.FLEXIBLE_FROM == api.flexible_from

    def test_an_unknown_key(self):
        with pytest.raises(KeyError):
            message_types(9999)

    def test_names(self):
        assert NAMES[:3] == ["Produce", "Fetch", "ListOffsets"]
        assert len(NAMES) == len(set(NAMES)) == len(APIS)

    def test_messages_are_loaded_only_when_asked_for(self):
        program = (
            "import sys; import barnabas.wire.frame as frame;"
            "loaded = [name for name in sys.modules if name.startswith('barnabas.wire.messages.')];"
            "assert loaded == ['barnabas.wire.messages.index'], loaded;"
            "frame.message_types(0);"
            "assert 'barnabas.wire.messages.produce' in sys.modules;"
            "assert 'barnabas.wire.messages.fetch' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", program], check=True)
