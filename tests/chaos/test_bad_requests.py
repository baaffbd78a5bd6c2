"""B2, B3, B10: requests that are none. What closes a connection in Kafka closes it here, what is answered is answered the same."""

import struct
import uuid

import pytest
from chaos.wire_kit import RawClient, encode

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA_V1 = struct.pack(">hhih", 3, 1, 1, -1)
METADATA_V9 = struct.pack(">hhih", 3, 9, 1, -1)
CREATE_TOPICS_V2 = struct.pack(">hhih", 19, 2, 1, -1)
NO_TAGS = b"\0"
HUGE = 2**31 - 1


def closes(attacked, body):
    """Tell whether the broker answers this frame by closing, and goes on serving others."""
    with RawClient(attacked) as client:
        client.send_frame(body)
        data = client.receive()
    with RawClient(attacked) as other:
        assert other.ask(ApiVersionsRequest(), 0).error_code == 0
    return data is None


CLOSING = {
    "an array of 2^31-1": METADATA_V1 + struct.pack(">i", HUGE),
    "an array of 1,000,001": METADATA_V1 + struct.pack(">i", 1_000_001) + bytes(100),
    "an array below null": METADATA_V1 + struct.pack(">i", -2),
    "a compact array of 2^31-1": METADATA_V9 + NO_TAGS + b"\xff\xff\xff\xff\x07" + bytes(20),
    "a compact array of 1,000,001": METADATA_V9 + NO_TAGS + b"\xc2\x84\x3d" + bytes(100),
    "an array longer than its frame": METADATA_V1 + struct.pack(">i", 50),
    "2^31-1 tagged fields": METADATA_V9 + b"\xff\xff\xff\xff\x07",
    "10,001 tagged fields": METADATA_V9 + b"\x91\x4e" + bytes(30_000),
    "a tagged field of 2^31-1 bytes": METADATA_V9 + b"\x01\x05\xff\xff\xff\xff\x07" + bytes(9),
    "an overlong varint": METADATA_V9 + NO_TAGS + b"\xff\xff\xff\xff\xff\xff\x01",
    "a varint without an end": METADATA_V9 + NO_TAGS + b"\x80",
    "a string below null": METADATA_V1 + struct.pack(">ih", 1, -2),
    "a null where there is none": METADATA_V1 + struct.pack(">ih", 1, -1),
    "a string longer than its frame": METADATA_V1 + struct.pack(">ih", 1, 500) + b"abc",
    "a client id longer than its frame": struct.pack(">hhih", 3, 1, 1, 500) + b"abc",
    "a client id below null": struct.pack(">hhih", 3, 1, 1, -2) + struct.pack(">i", 0),
    "half a header": b"\0\3\0\1\0",
    "one byte": b"\0",
    "an API key that nobody knows": struct.pack(">hhih", 999, 0, 1, -1),
    "a negative API key": struct.pack(">hhih", -5, 0, 1, -1),
    "an API version that nobody knows": struct.pack(">hhih", 3, 99, 1, -1) + bytes(10),
    "a negative API version": struct.pack(">hhih", 3, -1, 1, -1) + bytes(10),
    "a Produce of old": struct.pack(">hhih", 0, 2, 1, -1) + struct.pack(">hii", 1, 1000, 0),
    "an empty body": METADATA_V1,
    "topics whose count lies": CREATE_TOPICS_V2 + struct.pack(">i", 5) + bytes(3),
}


#: Apache Kafka 4.3.1 takes every negative length for null; the limit on tagged fields came with 4.4.
STRICTER_THAN_KAFKA = {"an array below null", "a client id below null", "10,001 tagged fields"}


@pytest.mark.parametrize("name", CLOSING)
def test_bytes_that_are_no_request_close_one_connection(attacked, is_ours, name):
    if not is_ours and name in STRICTER_THAN_KAFKA:
        pytest.skip("Kafka takes it")
    assert closes(attacked, CLOSING[name])


def test_ten_thousand_tagged_fields_are_taken(client):
    """The limit itself: a newer client may send fields that are not known here."""
    fields = b"".join(bytes((tag % 128 | 0x80, tag // 128, 0)) for tag in range(10_000))
    client.send_frame(METADATA_V9 + b"\x90\x4e" + fields + b"\x01\x00\x00\x00\x00")
    assert client.receive()[:4] == struct.pack(">i", 1)


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_api_versions_of_a_version_nobody_knows_is_answered_in_version_0(client, version):
    client.send_frame(struct.pack(">hhih", 18, version, 5, -1) + b"\0\1\2\3")
    data = client.receive()
    assert data[:4] == struct.pack(">i", 5)
    answer = ApiVersionsResponse.decode(data, 0, 4)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version) for api in answer.api_keys] == [(18, 0)]
    assert client.ask(ApiVersionsRequest(), 0).error_code == 0, "the connection goes on"


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("has space", "1"), ("ok", "")])
def test_api_versions_with_a_software_name_that_is_none(client, name, version):
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert client.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(ApiVersionsRequest(), 0).error_code == 0, "the connection goes on"


def test_bytes_after_the_body_are_ignored(client):
    """As in Kafka, which reads a request's fields and never asks whether bytes are left."""
    client.send_frame(encode(MetadataRequest(topics=[]), 9, 3) + b"more")
    assert client.receive()[:4] == struct.pack(">i", 3)


def test_a_name_that_is_not_utf_8(attacked, client, is_ours):
    """Kafka decodes with replacement characters and refuses the name; here the request is none."""
    body = METADATA_V1 + struct.pack(">ih", 1, 2) + b"\xff\xfe"
    if is_ours:
        assert closes(attacked, body)
    else:
        client.send_frame(body)
        assert client.receive() is not None


BAD_NAMES = {
    "up and out": "../x", "dot": ".", "dots": "..", "250": "x" * 250, "empty": "", "slash": "a/b", "nul": "a\0b",
    "unicode": "tópico", "emoji": "🙂", "space": "a b", "newline": "a\n", "backslash": "a\\b", "32767": "y" * 32767,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_names_that_no_topic_may_have(client, name, is_ours, tmp_path):
    assert client.create_topic(name).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    (answer,) = client.ask(request, 9).topics
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
    (deleted,) = client.ask(delete, 6).responses
    assert deleted.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_longest_name_works(client):
    name = uuid.uuid4().hex + "x" * (249 - 32)
    assert client.create_topic(name).error_code == 0


def test_names_that_metrics_cannot_tell_apart_collide(client):
    stem = uuid.uuid4().hex
    assert client.create_topic(f"{stem}.b").error_code == 0
    refused = client.create_topic(f"{stem}_b")
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert f"{stem}.b" in refused.error_message
    again = client.create_topic(f"{stem}.b")
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
