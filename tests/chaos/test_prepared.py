"""F14: the coordinator dies when an end is decided (Prepare) and not yet everywhere (Complete): the next start brings it there.

A kill cannot be aimed at a moment that lasts microseconds. So a broker is killed right after the end, and its logs are cut back, at batches, to
what they were at that moment: that is just what a kill leaves.
"""

import pytest
from chaos.transaction_kit import RawProducer, fetch, find_coordinators, read_log
from chaos.wire_kit import BrokerProcess, RawClient, eventually, reserved_address

from barnabas.broker import transaction_records
from barnabas.core.txn.states import TransactionState
from barnabas.wire import batch as batches
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

SETTINGS = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
STATE = "__transaction_state-0"
#: Where the transaction has its markers.
PLACES = ("t-0", "t-1", "__consumer_offsets-0")


def cut_last_batch(folder):
    """Take the last batch off a log; what it was."""
    path = folder / f"{0:020}.log"
    data = memoryview(path.read_bytes())
    position, header = list(batches.headers(data))[-1]
    with path.open("r+b") as file:
        file.truncate(position)
    return data[position : position + header.size], header


def go_back_to_the_decision(data_dir, unmarked):
    """The decision is in the log, and the markers are on no partition of `unmarked`."""
    complete, _ = cut_last_batch(data_dir / STATE)
    (record,) = batches.read_records(complete, 1 << 20)
    saved = transaction_records.decode(record.key, record.value)
    assert saved.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    for place in unmarked:
        _, header = cut_last_batch(data_dir / place)
        assert header.is_control


def run_transaction(address, *, committed):
    """A transaction with records on two partitions and an offset, up to its end; the producer as it was before that."""
    with RawClient(address) as client:
        assert client.create_topic("t", partitions=2).error_code == 0
        find_coordinators(client, "p")
        before, producer = RawProducer(client, "p"), RawProducer(client, "p")
        producer.init()
        before.id, before.epoch = producer.id, producer.epoch
        for partition in (0, 1):
            producer.produce("t", partition, b"one")
        producer.commit_offset("g", "t", 7)
        producer.end(committed=committed)
        eventually(lambda: state_of(client).startswith("Complete"), "the end")
    return before


@pytest.mark.parametrize("unmarked", [PLACES, PLACES[1:], PLACES[:1], ()], ids=len)
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_decided_end_is_reached_after_a_kill(tmp_path, committed, unmarked):
    with reserved_address() as address:
        with BrokerProcess(tmp_path / "data", listen=(address,), settings=SETTINGS) as broker:
            producer = run_transaction(address, committed=committed)
            broker.kill()
        go_back_to_the_decision(tmp_path / "data", unmarked)
        with BrokerProcess(tmp_path / "data", listen=(address,), settings=SETTINGS) as broker:
            with RawClient(address) as client:
                state = "CompleteCommit" if committed else "CompleteAbort"
                eventually(lambda: state_of(client) == state, state)
                check_whole(client, [b"one"] if committed else [])
                assert committed_offset(client) == (7 if committed else -1)
                # The one who asked has no answer yet, asks again, and goes on with the next.
                producer.client = client
                producer.end(committed=committed)
                producer.produce("t", 0, b"two")
                producer.produce("t", 1, b"two")
                producer.end(committed=True)
                eventually(lambda: state_of(client) == "CompleteCommit", "the next end")
                check_whole(client, [b"one", b"two"] if committed else [b"two"])
            assert broker.terminate() == 0


def check_whole(client, values):
    for partition in (0, 1):
        told = read_log(client, "t", partition)
        assert (told.committed, told.undecided) == (values, 0)
        assert fetch(client, "t", partition, 0).last_stable_offset == told.end_offset


def state_of(client):
    request = DescribeTransactionsRequest(transactional_ids=["p"])
    return client.ask(request, 0).transaction_states[0].transaction_state


def committed_offset(client):
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    request = OffsetFetchRequest(groups=groups, require_stable=True)

    def stable():
        (group,) = client.ask(request, 8).groups
        return not group.error_code and not group.topics[0].partitions[0].error_code and group

    return eventually(stable, "a stable offset").topics[0].partitions[0].committed_offset
