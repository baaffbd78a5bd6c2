"""The error table is whole and agrees with what Kafka's clients do."""

import pytest

from barnabas.model.errors import ErrorCode, KafkaError


def test_codes_run_without_a_gap_from_unknown_server_error():
    assert sorted(ErrorCode) == list(range(-1, 137))


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_every_code_tells_a_person_something(code):
    assert len(code.message.split()) >= 2
    assert code.message != code.name


@pytest.mark.parametrize(
    ("code", "number", "retriable"),
    [
        (ErrorCode.UNKNOWN_SERVER_ERROR, -1, False),
        (ErrorCode.NONE, 0, False),
        (ErrorCode.CORRUPT_MESSAGE, 2, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, True),
        (ErrorCode.MESSAGE_TOO_LARGE, 10, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 45, False),
        (ErrorCode.KAFKA_STORAGE_ERROR, 56, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, 100, True),
        (ErrorCode.CONTROLLER_ID_NOT_REGISTERED, 136, False),
    ],
)
def test_number_and_retriability(code, number, retriable):
    assert code == number
    assert code.retriable is retriable


def test_error_takes_the_codes_message_unless_told_better():
    assert str(KafkaError(ErrorCode.INVALID_REQUEST)) == ErrorCode.INVALID_REQUEST.message
    told = KafkaError(ErrorCode.INVALID_CONFIG, "segment.bytes is 3")
    assert (told.code, told.message, str(told)) == (40, "segment.bytes is 3", "segment.bytes is 3")
    assert "INVALID_CONFIG" in repr(told)


@pytest.mark.parametrize("number", [200, 137, -2, 32767])
def test_a_code_that_is_not_known_here_is_an_unknown_error_as_in_kafka(number):
    assert ErrorCode(number) is ErrorCode.UNKNOWN_SERVER_ERROR
