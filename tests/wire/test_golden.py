"""Frames that real clients and Apache Kafka exchanged: each decodes whole and encodes to the same bytes.

They were recorded by tools/capture_frames.py; every folder in golden/ is a client.
"""

from pathlib import Path

import pytest

from barnabas.wire import frame

GOLDEN = Path(__file__).parent / "golden"
REQUESTS = sorted(GOLDEN.glob("*/*-request.hex"))
RESPONSES = sorted(GOLDEN.glob("*/*-response.hex"))


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


def read(path):
    return memoryview(bytes.fromhex(path.read_text()))


def request_of(path):
    return path.with_name(path.name.replace("-response", "-request"))


def body_of(message, version):
    return b"".join(bytes(part) for part in message.encode(version))


def test_every_client_is_there():
    clients = {path.parent.name for path in REQUESTS}
    assert clients == {
        "aiokafka-0.14",
        "franz-go-1.22",
        "java-3.9.2",
        "java-4.4.0",
        "kafka-python-3.0",
        "kcat-1.7",
        "librdkafka-2.16",
    }
    assert {request_of(path) for path in RESPONSES} <= set(REQUESTS)


@pytest.mark.parametrize("path", REQUESTS, ids=name_of)
def test_request(path):
    data = read(path)
    head = frame.decode_request_header(data)
    assert path.name.endswith(f"-v{head.api_version}-request.hex")
    request_type, _ = frame.message_types(head.api_key)
    message = request_type.decode(data, head.api_version, head.body_pos)
    assert body_of(message, head.api_version) == data[head.body_pos :]


@pytest.mark.parametrize("path", RESPONSES, ids=name_of)
def test_response(path):
    data = read(path)
    head = frame.decode_request_header(read(request_of(path)))
    # Kafka answers an ApiVersions version that it does not know in the first one; error 35 comes first in the body.
    unknown = head.api_key == frame.API_VERSIONS and data[4:6] == b"\x00\x23"
    version = 0 if unknown else head.api_version
    header = frame.response_header(head.correlation_id, head.api_key, version)
    assert data[: len(header)] == header
    _, response_type = frame.message_types(head.api_key)
    message = response_type.decode(data, version, len(header))
    assert body_of(message, version) == data[len(header) :]


def test_librdkafkas_metadata_request_for_all_topics_has_bytes_to_ignore():
    """librdkafka 2.16 writes the array as four bytes where version 13 has one; Kafka reads on and ignores the rest."""
    wire = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    head = frame.decode_request_header(memoryview(wire))
    request_class, _ = frame.message_types(head.api_key)
    request = request_class.decode_prefix(wire, head.api_version, head.body_pos)
    assert request.topics is None
    assert not request.allow_auto_topic_creation
