"""F13: requests of a transaction that come when the next one has begun, or none has (KAFKA-17754): they change nothing."""

from contextlib import ExitStack

import pytest
from chaos.transaction_kit import (
    END,
    RawProducer,
    ask_until_settled,
    fetch,
    find_coordinators,
    read_log,
    send_offset,
    send_produce,
)
from chaos.wire_kit import BrokerProcess, RawClient, eventually, reserved_address

from barnabas.model.errors import ErrorCode

REFUSALS = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
)
SETTINGS = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")


def leave_behind(producer):
    """Requests of the transaction that is open now, by name; the answers to some of them were lost on the way."""
    return {
        "next batch": (send_produce, producer.produce_request("t", 0, b"late")),
        "batch elsewhere": (send_produce, producer.produce_request("t", 1, b"late")),
        "offset": (send_offset, producer.offset_request("g", "t", 99)),
        "commit": (send_end, producer.end_request(committed=True)),
        "abort": (send_end, producer.end_request(committed=False)),
    }


def send_end(client, request):
    answer = ask_until_settled(client, request, END, lambda a: a.error_code)
    return answer.error_code


def send_all_late(client, late, *, but=()):
    """Over another connection than the producer has now, as a network gives back what it had held."""
    for name, (send, request) in late.items():
        if name not in but:
            code = send(client, request)
            assert code in REFUSALS, f"{name}: {ErrorCode(code).name}"


@pytest.mark.parametrize("is_killed", [False, True], ids=["one life", "after a kill"])
def test_late_requests_change_nothing(tmp_path, is_killed):
    with reserved_address() as address, ExitStack() as lives:

        def start():
            life = BrokerProcess(tmp_path / "data", listen=(address,), settings=SETTINGS)
            return lives.enter_context(life)

        broker = start()
        with RawClient(address) as client:
            assert client.create_topic("t", partitions=2).error_code == 0
            find_coordinators(client, "p")
            producer = RawProducer(client, "p")
            producer.init()
            producer.produce("t", 0, b"first")
            late = leave_behind(producer)
            producer.end(committed=True)
        if is_killed:
            broker.kill()
            broker = start()
        check_late(address, producer, late)
        assert broker.terminate() == 0


def check_late(address, producer, late):
    with RawClient(address) as client, RawClient(address) as other:
        producer.client = client
        # It has ended once its marker is written, which may be after EndTxn is answered.
        eventually(lambda: stable_offsets(client) == [2, 0], "the first one has ended")
        # No transaction is open: nothing of the one before may begin one. Its own end may be asked for again.
        send_all_late(other, late, but=("commit",))
        assert send_end(other, late["commit"][1]) == 0
        assert stable_offsets(client) == [2, 0]
        # The next one is open: nothing of the one before may join it or end it.
        producer.produce("t", 0, b"second")
        send_all_late(other, late)
        assert stable_offsets(client) == [2, 0]
        second = leave_behind(producer)
        producer.end(committed=False)
        producer.produce("t", 0, b"third")
        send_all_late(other, second)
        send_all_late(other, late)
        producer.end(committed=True)
        eventually(lambda: not read_log(client, "t", 0).undecided, "the last one has ended")
        told = read_log(client, "t", 0)
        assert (told.committed, told.undecided) == ([b"first", b"third"], 0)
        assert read_log(client, "t", 1).end_offset == 0
        assert stable_offsets(client) == [told.end_offset, 0]


def stable_offsets(client):
    return [fetch(client, "t", partition, 0).last_stable_offset for partition in (0, 1)]
