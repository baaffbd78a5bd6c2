"""The direct Fetch writer gives the same bytes as the generated encoder, and the same record objects."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire.fetch_writer import FIRST_VERSION, LAST_VERSION, FetchWriter
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.none() | st.sampled_from((0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 3_000_000)).map(
    bytes
)
ABORTED = st.none() | st.lists(st.tuples(INT64, INT64), max_size=2) | st.just([(1, 2)] * 130)
PARTITION = st.tuples(INT32, INT16, INT64, INT64, INT64, RECORDS, ABORTED, INT32)
TOPIC = st.tuples(
    st.text(max_size=200), st.binary(min_size=16, max_size=16), st.lists(PARTITION, max_size=3)
)
TOPICS = st.lists(TOPIC, max_size=3) | st.just([("t", bytes(16), [])] * 130)


@given(st.integers(FIRST_VERSION, LAST_VERSION), INT32, INT16, INT32, TOPICS)
@settings(max_examples=300)
def test_same_bytes_as_the_generated_encoder(
    version, throttle_time_ms, error_code, session_id, topics
):
    session_id = session_id if version >= 7 else 0
    writer = FetchWriter(
        version,
        len(topics),
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        session_id=session_id,
    )
    response = FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id
    )
    for name, topic_id, partitions in topics:
        writer.topic(name, topic_id, len(partitions))
        topic = FetchableTopicResponse(topic=name, topic_id=topic_id)
        response.responses.append(topic)
        for *numbers, records, aborted, replica in partitions:
            replica = replica if version >= 11 else -1
            writer.partition(*numbers, records, aborted, replica)
            topic.partitions.append(_partition(*numbers, records, aborted, replica))
    ours, expected = writer.finish(), response.encode(version)
    assert b"".join(ours) == b"".join(expected)
    assert all(
        mine is theirs for mine, theirs in zip(ours[1::2], filter(len, expected[1::2]), strict=True)
    )


def _partition(
    index,
    error_code,
    high_watermark,
    last_stable_offset,
    log_start_offset,
    records,
    aborted,
    replica,
):
    transactions = None
    if aborted is not None:
        transactions = [
            AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first in aborted
        ]
    return PartitionData(
        partition_index=index,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=transactions,
        preferred_read_replica=replica,
        records=records,
    )
