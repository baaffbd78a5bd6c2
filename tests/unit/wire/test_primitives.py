"""Variable-length integers, limits that hold before memory is taken, and the base classes of messages."""

import pytest

from barnabas.wire import primitives
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.primitives import Packers, Unpackers, WireError, uvarint

UNSIGNED = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16_383, "ff7f"),
    (16_384, "808001"),
    (2_097_151, "ffff7f"),
    (2_097_152, "80808001"),
    (268_435_455, "ffffff7f"),
    (268_435_456, "8080808001"),
    (4_294_967_295, "ffffffff0f"),
]
SIGNED = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-64, "7f"),
    (64, "8001"),
    (2_147_483_647, "feffffff0f"),
    (-2_147_483_648, "ffffffff0f"),
]
SIGNED_LONG = [
    *SIGNED,
    (9_223_372_036_854_775_807, "feffffffffffffffff01"),
    (-9_223_372_036_854_775_808, "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), UNSIGNED)
def test_unsigned_varints(value, encoded):
    raw = bytes.fromhex(encoded)
    assert uvarint(value) == raw
    assert primitives.read_uvarint(b"\xff" + raw + b"\xff", 1) == (value, 1 + len(raw))
    assert primitives.read_uvarlong(raw, 0) == (value, len(raw))


@pytest.mark.parametrize(("value", "encoded"), SIGNED)
def test_signed_varints(value, encoded):
    raw = bytes.fromhex(encoded)
    assert primitives.varint(value) == raw
    assert primitives.read_varint(memoryview(raw), 0) == (value, len(raw))


@pytest.mark.parametrize(("value", "encoded"), SIGNED_LONG)
def test_signed_varlongs(value, encoded):
    raw = bytes.fromhex(encoded)
    assert primitives.varlong(value) == raw
    assert primitives.read_varlong(raw, 0) == (value, len(raw))


@pytest.mark.parametrize("read", [primitives.read_uvarint, primitives.read_varint])
@pytest.mark.parametrize("raw", [b"\x80" * 5 + b"\x00", b"\xff\xff\xff\xff\x10"])
def test_overlong_varints(read, raw):
    with pytest.raises(WireError, match="longer than its type"):
        read(raw, 0)


@pytest.mark.parametrize("read", [primitives.read_uvarlong, primitives.read_varlong])
@pytest.mark.parametrize("raw", [b"\x80" * 10 + b"\x00", b"\xff" * 9 + b"\x02"])
def test_overlong_varlongs(read, raw):
    with pytest.raises(WireError, match="longer than its type"):
        read(raw, 0)


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\x80\x80\x80\x80"])
def test_varints_cut_off(raw):
    for read in (primitives.read_uvarint, primitives.read_varint, primitives.read_varlong):
        with pytest.raises(WireError, match="cut off"):
            read(raw, 0)


class TestLimitsOfDecoding:
    def test_array_over_the_limit(self):
        with pytest.raises(WireError, match="1000001 elements is longer than 1000000"):
            MetadataRequest.decode(b"\x00\x0f\x42\x41" + bytes(1_000_002), 0)

    def test_compact_array_over_the_limit(self):
        with pytest.raises(WireError, match="is longer than 1000000"):
            MetadataRequest.decode(uvarint(1_000_002) + bytes(1_000_002), 9)

    def test_array_of_more_elements_than_bytes(self):
        with pytest.raises(WireError, match="200 elements announced, 3 bytes remain"):
            MetadataRequest.decode(uvarint(201) + bytes(3), 9)

    def test_small_array_of_more_elements_than_bytes(self):
        with pytest.raises(WireError, match="cut off"):
            MetadataRequest.decode(b"\x64\x02a\x00", 9)

    @pytest.mark.parametrize("count", [b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00"])
    def test_negative_array_count(self, count):
        assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
        with pytest.raises(WireError, match="topics is null"):
            MetadataRequest.decode(count, 1)

    def test_null_array_where_there_is_none(self):
        with pytest.raises(WireError, match="topics is null"):
            MetadataRequest.decode(b"\xff\xff\xff\xff", 0)

    def test_null_string_where_there_is_none(self):
        with pytest.raises(WireError, match="client_software_name is null"):
            ApiVersionsRequest.decode(bytes(3), 3)

    def test_string_past_the_end(self):
        with pytest.raises(WireError, match="cut off"):
            ApiVersionsRequest.decode(b"\x02a\x09bc", 3)

    def test_last_string_past_the_end(self):
        with pytest.raises(WireError, match="MetadataRequest version 0 is cut off"):
            MetadataRequest.decode(b"\x00\x00\x00\x01\x00\x05ab", 0)

    def test_string_up_to_the_limit(self):
        request = ApiVersionsRequest(client_software_name="n" * 32_767)
        assert ApiVersionsRequest.decode(b"".join(request.encode(3)), 3) == request

    def test_string_over_the_limit(self):
        raw = uvarint(32_769) + b"a" * 32_768 + b"\x02v\x00"
        with pytest.raises(WireError, match="32768 bytes is longer than 32767"):
            ApiVersionsRequest.decode(raw, 3)

    def test_string_that_is_not_utf8(self):
        with pytest.raises(WireError, match="not UTF-8"):
            ApiVersionsRequest.decode(b"\x03\xc3\x28\x02v\x00", 3)

    def test_records_past_the_end(self):
        raw = b"".join(_produce(b"x" * 500).encode(9))
        with pytest.raises(WireError, match="cut off"):
            ProduceRequest.decode(raw[:-100], 9)

    def test_too_many_tagged_fields(self):
        with pytest.raises(WireError, match="10001 tagged fields"):
            ApiVersionsRequest.decode(b"\x02n\x02v" + uvarint(10_001) + bytes(30_000), 3)

    def test_tagged_field_past_the_end(self):
        with pytest.raises(WireError, match="tagged field 5 of 9 bytes announced, 1 bytes remain"):
            ApiVersionsRequest.decode(b"\x02n\x02v\x01\x05\x09a", 3)

    def test_known_tagged_field_of_a_wrong_size(self):
        raw = bytearray(b"".join(FetchRequest(cluster_id="abc").encode(12)))
        at = raw.index(b"\x04abc")
        raw[at : at + 4] = b"\x03ab\x00"
        with pytest.raises(WireError, match="cluster_id does not match"):
            FetchRequest.decode(raw, 12)

    def test_bytes_left_over(self):
        with pytest.raises(
            WireError, match=r"2 bytes left over after ApiVersionsRequest version 0"
        ):
            ApiVersionsRequest.decode(b"ab", 0)

    @pytest.mark.parametrize("version", [-1, 6])
    def test_version_that_does_not_exist(self, version):
        with pytest.raises(
            WireError, match=f"ApiVersionsRequest has no version {version}, only 0 to 5"
        ):
            ApiVersionsRequest.decode(b"", version)
        with pytest.raises(WireError, match="has no version"):
            ApiVersionsRequest().encode(version)


class TestTaggedFields:
    UNKNOWN = ((7, b"seven"), (300, b""))

    def test_unknown_fields_are_kept_and_sent_on(self):
        message = ApiVersionsRequest(client_software_name="n", client_software_version="v")
        message.unknown_tagged_fields = list(self.UNKNOWN)
        raw = b"".join(message.encode(3))
        assert raw == b"\x02n\x02v\x02\x07\x05seven\xac\x02\x00"
        decoded = ApiVersionsRequest.decode(raw, 3)
        assert decoded.unknown_tagged_fields == list(self.UNKNOWN)
        assert decoded == message

    def test_unknown_fields_stay_in_their_order(self):
        raw = b"\x02n\x02v\x02\x09\x01a\x03\x01b\x00"[:-1]
        assert b"".join(ApiVersionsRequest.decode(raw, 3).encode(3)) == raw

    def test_unknown_fields_stand_among_known_ones_by_tag(self):
        message = ApiVersionsResponse(finalized_features_epoch=9, zk_migration_ready=True)
        message.unknown_tagged_fields = [(2, b"?")]
        raw = b"".join(message.encode(3))
        assert raw.endswith(b"\x03\x01\x08" + (9).to_bytes(8) + b"\x02\x01?\x03\x01\x01")
        with pytest.raises(WireError):
            ApiVersionsResponse.decode(raw, 3)  # tag 2 is known there, and "?" is no list

    def test_many_unknown_fields(self):
        message = ApiVersionsRequest(unknown_tagged_fields=[(tag, b"") for tag in range(10_000)])
        assert ApiVersionsRequest.decode(b"".join(message.encode(3)), 3) == message

    def test_without_any_the_section_is_shared_and_empty(self):
        assert ApiVersionsRequest.decode(b"\x02n\x02v\x00", 3).unknown_tagged_fields == ()
        assert ApiVersionsRequest().unknown_tagged_fields == ()

    def test_a_tagged_struct_is_none_until_it_is_sent(self):
        partition = PartitionData(partition_index=1)
        assert partition.diverging_epoch is None
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
        plain = b"".join(response.encode(12))
        partition.diverging_epoch = EpochEndOffset()
        assert b"".join(response.encode(12)) == plain, "the default is not sent"
        partition.diverging_epoch = EpochEndOffset(epoch=3, end_offset=4)
        decoded = FetchResponse.decode(b"".join(response.encode(12)), 12)
        assert decoded.responses[0].partitions[0].diverging_epoch == EpochEndOffset(
            epoch=3, end_offset=4
        )


class FileSlice:
    """Stands for bytes in a file: has a length, and nothing else may be asked of it."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


def _produce(records):
    return ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=1, records=records)]
            )
        ]
    )


class TestRecords:
    @pytest.mark.parametrize("version", [3, 9])
    def test_decoded_records_are_a_slice_of_the_input(self, version):
        raw = bytearray(b"".join(_produce(b"0123456789").encode(version)))
        records = ProduceRequest.decode(raw, version).topic_data[0].partition_data[0].records
        assert type(records) is memoryview
        raw[raw.index(b"0123456789")] = ord("X")
        assert records == b"X123456789"

    @pytest.mark.parametrize("version", [4, 12])
    def test_encoded_records_are_the_same_objects(self, version):
        slices = [FileSlice(0), FileSlice(7), FileSlice(70_000)]
        partitions = [PartitionData(records=each) for each in slices]
        response = FetchResponse(
            responses=[FetchableTopicResponse(topic="t", partitions=partitions)]
        )
        buffers = response.encode(version)
        assert len(buffers) == 2 * len(slices) + 1
        assert [buffers[1], buffers[3], buffers[5]] == slices
        assert b"".join(response.encode(version)[::2])

    def test_null_records(self):
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])])
        (buffer,) = response.encode(12)
        assert FetchResponse.decode(buffer, 12).responses[0].partitions[0].records is None


class TestRefusedValues:
    def test_a_value_the_version_has_no_place_for(self):
        request = CreateTopicsRequest(validate_only=True)
        assert request.encode(1)
        with pytest.raises(WireError, match="validate_only has a value, but version 0"):
            request.encode(0)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": None},
            {"name": b"bytes"},
            {"name": "\ud800"},
            {"num_partitions": 2**31},
            {"num_partitions": "1"},
            {"configs": None},
        ],
    )
    @pytest.mark.parametrize("version", [4, 7])
    def test_values_of_a_wrong_kind(self, wrong, version):
        request = CreateTopicsRequest(topics=[CreatableTopic(**wrong)])
        with pytest.raises(WireError, match="cannot carry a value"):
            request.encode(version)

    @pytest.mark.parametrize("version", [4, 7])
    def test_a_string_over_the_limit(self, version):
        with pytest.raises(WireError):
            CreateTopicsRequest(topics=[CreatableTopic(name="x" * 32_768)]).encode(version)
        assert CreateTopicsRequest(topics=[CreatableTopic(name="x" * 32_767)]).encode(version)

    def test_a_uuid_of_a_wrong_size(self):
        response = FetchResponse(responses=[FetchableTopicResponse(topic_id=b"short")])
        with pytest.raises(WireError, match="topic_id must be 16 raw bytes"):
            response.encode(13)

    def test_after_a_failure_the_list_is_as_it_was(self):
        partitions = [PartitionData(records=b"x"), PartitionData(high_watermark=2**64)]
        out = [b"before"]
        with pytest.raises(WireError):
            FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)]).encode_into(
                out, 12
            )
        assert out == [b"before"]


class TestStructs:
    def test_equality_is_by_fields_and_class(self):
        assert ApiVersion(api_key=1) == ApiVersion(api_key=1)
        assert ApiVersion(api_key=1) != ApiVersion(api_key=2)
        assert ApiVersion() != EpochEndOffset()
        assert PartitionProduceData(records=b"a") == PartitionProduceData(records=memoryview(b"a"))

    def test_they_are_mutable_and_so_not_hashable(self):
        with pytest.raises(TypeError):
            hash(ApiVersion())

    def test_representation(self):
        assert repr(ApiVersion(api_key=3)) == "ApiVersion(api_key=3, min_version=0, max_version=0)"

    def test_mutable_defaults_are_fresh(self):
        MetadataResponse().topics.append("x")
        assert MetadataResponse().topics == []

    def test_no_other_attributes(self):
        with pytest.raises(AttributeError):
            ApiVersion().apikey = 1


class TestNumberArrays:
    @pytest.mark.parametrize("version", [0, 12])
    @pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 20_000])
    def test_any_length(self, version, size):
        nodes = list(range(size))
        partition = MetadataResponsePartition(replica_nodes=nodes, isr_nodes=nodes)
        response = MetadataResponse()
        response.topics.append(MetadataResponseTopic(name="t", partitions=[partition]))
        decoded = MetadataResponse.decode(b"".join(response.encode(version)), version)
        assert decoded.topics[0].partitions[0].replica_nodes == nodes
        assert decoded.topics[0].partitions[0].isr_nodes == nodes

    def test_formats_are_kept_up_to_a_bound(self, monkeypatch):
        monkeypatch.setattr(primitives, "MAX_CACHED_FORMATS", 2)
        packers, unpackers = Packers(">B{}hB{}h"), Unpackers("h")
        for size in range(4):
            numbers = [7] * size
            packed = packers[size, 1](size, *numbers, 1, 9)
            assert packed == bytes([size]) + b"\x00\x07" * size + b"\x01\x00\x09"
            assert unpackers[size](packed, 1) == tuple(numbers)
        assert len(packers) == len(unpackers) == 2
        assert Packers(">{}h")[2](1, 2) == b"\x00\x01\x00\x02"
