from __future__ import annotations

from dataclasses import replace

import pytest
from txn_kit import A0, A1, B0, NOW_MS, TIMEOUT_MS, WALL_MS, Host

from barnabas.core.txn.records import TransactionRemoved
from barnabas.core.txn.requests import ListRequest, ProducerReply
from barnabas.core.txn.settings import TransactionSettings
from barnabas.core.txn.states import TransactionState
from barnabas.model.errors import ErrorCode

LAST_EPOCH = 0x7FFF - 1  # the last that a client is given


@pytest.fixture
def host():
    return Host()


def at_epoch(host, epoch):
    """Bring the transactional id to a later epoch of its producer id."""
    host.init()
    host.shard.replay(replace(host.now(), producer_epoch=epoch))


# InitProducerId


def test_new_transactional_id_gets_a_producer_id_and_epoch_0(host):
    assert host.init() == ProducerReply(ErrorCode.NONE, 1000, 0)
    now = host.now()
    assert (now.state, now.partitions, now.start_ms) == (TransactionState.EMPTY, (), -1)
    assert (now.timeout_ms, now.last_update_ms) == (TIMEOUT_MS, WALL_MS)
    assert (now.previous_producer_id, now.next_producer_id) == (1000, -1)


def test_asking_again_fences_whoever_asked_before(host):
    host.init()
    assert host.init() == ProducerReply(ErrorCode.NONE, 1000, 1)
    assert host.add([A0], epoch=0) == ErrorCode.PRODUCER_FENCED
    assert host.end(True, epoch=0).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_time_outs_that_are_refused(host, timeout_ms):
    reply = host.init(timeout_ms=timeout_ms)
    assert reply == ProducerReply(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    assert host.log == []


def test_init_takes_over_a_new_time_out(host):
    host.init()
    host.init(timeout_ms=5)
    assert host.now().timeout_ms == 5


def test_no_producer_id_at_hand_is_asked_for_again(host):
    host.has_producer_ids = False
    assert host.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.has_producer_ids = True
    assert host.init().error_code == ErrorCode.NONE


def test_init_while_a_transaction_is_open_ends_it_first(host):
    host.init()
    host.add([A0, B0])
    assert host.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.written == [(A0, 1000, 1, False), (B0, 1000, 1, False)]
    assert host.now().state is TransactionState.COMPLETE_ABORT
    assert host.init() == ProducerReply(ErrorCode.NONE, 1000, 2)


def test_init_waits_until_the_markers_are_written(host):
    host.init()
    host.add([A0])
    host.holds_markers = True
    host.end(True)
    assert host.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    host.write_markers()
    assert host.init() == ProducerReply(ErrorCode.NONE, 1000, 1)


# KIP-360: a producer that goes on after an error


def test_producer_that_names_itself_goes_on_with_the_next_epoch(host):
    host.init()
    assert host.init(producer_id=1000, epoch=0) == ProducerReply(ErrorCode.NONE, 1000, 1)
    # its answer was lost: the same question gets the same answer
    assert host.init(producer_id=1000, epoch=0) == ProducerReply(ErrorCode.NONE, 1000, 1)


def test_producer_that_was_fenced_is_told_so(host):
    host.init()
    host.init(producer_id=1000, epoch=0)
    host.init()  # somebody else
    assert host.init(producer_id=1000, epoch=0).error_code == ErrorCode.PRODUCER_FENCED
    assert host.init(producer_id=1000, epoch=1).error_code == ErrorCode.PRODUCER_FENCED
    assert host.init(producer_id=999, epoch=2).error_code == ErrorCode.PRODUCER_FENCED


def test_unknown_transactional_id_takes_any_producer(host):
    assert host.init(producer_id=7, epoch=3) == ProducerReply(ErrorCode.NONE, 1000, 0)


def test_repeated_question_after_a_restart_is_fenced_as_in_kafka(host):
    host.init()
    host.init(producer_id=1000, epoch=0)
    host.log[-1] = replace(host.log[-1], last_producer_epoch=-1)  # the log has no place for it
    host.restart()
    assert host.init(producer_id=1000, epoch=0).error_code == ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_bring_a_new_producer_id(host):
    at_epoch(host, LAST_EPOCH)
    assert host.init() == ProducerReply(ErrorCode.NONE, 1001, 0)
    assert host.now().previous_producer_id == 1000


def test_used_up_epochs_of_a_producer_that_names_itself(host):
    at_epoch(host, LAST_EPOCH)
    assert host.init(producer_id=1000, epoch=LAST_EPOCH).producer_id == 1001
    again = host.init(producer_id=1000, epoch=LAST_EPOCH)
    assert again == ProducerReply(ErrorCode.NONE, 1001, 0)


def test_used_up_epochs_without_a_producer_id_at_hand(host):
    at_epoch(host, LAST_EPOCH)
    host.has_producer_ids = False
    assert host.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert host.now().producer_epoch == LAST_EPOCH


def test_last_epoch_is_still_given_out(host):
    at_epoch(host, LAST_EPOCH - 1)
    assert host.init() == ProducerReply(ErrorCode.NONE, 1000, LAST_EPOCH)


def test_open_transaction_in_the_last_epoch_is_fenced_and_its_successor_gets_a_new_id(host):
    at_epoch(host, LAST_EPOCH)
    host.add([A0])
    host.has_producer_ids = False
    assert host.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    host.has_producer_ids = True
    assert host.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.written == [(A0, 1000, 0x7FFF, False)]
    assert (host.now().producer_id, host.now().producer_epoch) == (1001, 0)
    assert host.init() == ProducerReply(ErrorCode.NONE, 1001, 1)


# AddPartitionsToTxn


def test_first_partition_begins_the_transaction(host):
    host.init()
    assert host.add([A0]) == ErrorCode.NONE
    assert host.now().state is TransactionState.ONGOING
    assert host.now().start_ms == WALL_MS
    host.advance(5)
    assert host.add([B0, A0, A1]) == ErrorCode.NONE
    assert host.now().partitions == (A0, B0, A1)
    assert (host.now().start_ms, host.now().last_update_ms) == (WALL_MS, WALL_MS + 5)


def test_partitions_that_are_there_write_nothing(host):
    host.init()
    host.add([A0, B0])
    before = len(host.log)
    assert host.add([B0]) == ErrorCode.NONE
    assert len(host.log) == before


def test_partitions_of_strangers(host):
    assert host.add([A0], 0, 1000) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    host.init()
    assert host.add([A0], producer_id=1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert host.add([A0], epoch=1) == ErrorCode.PRODUCER_FENCED


def test_partitions_while_markers_are_written(host):
    host.init()
    host.add([A0])
    host.holds_markers = True
    host.end(True)
    # Kafka looks at this first, whoever asks
    assert host.add([B0], producer_id=1) == ErrorCode.CONCURRENT_TRANSACTIONS
    host.write_markers()
    assert host.add([B0]) == ErrorCode.NONE
    assert host.now().partitions == (B0,)


def test_verify_tells_what_was_added(host):
    assert host.verify([A0], 0, 1000) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    host.init()
    host.add([A0])
    before = len(host.log)
    assert host.verify([A1, A0]) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    assert host.verify([A0], epoch=1) == [ErrorCode.PRODUCER_FENCED]
    assert host.verify([A0], producer_id=1) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert len(host.log) == before
    host.holds_markers = True
    host.end(True)
    assert host.verify([A0]) == [ErrorCode.CONCURRENT_TRANSACTIONS]


# EndTxn, version 0


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_writes_markers_and_completes(host, is_commit):
    host.init()
    host.add([A0, B0])
    assert host.end(is_commit) == ProducerReply()
    assert host.written == [(A0, 1000, 0, is_commit), (B0, 1000, 0, is_commit)]
    states = [record.state.title for record in host.log]
    word = "Commit" if is_commit else "Abort"
    assert states == ["Empty", "Ongoing", f"Prepare{word}", f"Complete{word}"]
    assert host.now().partitions == ()


def test_end_is_answered_before_its_markers(host):
    host.init()
    host.add([A0])
    host.holds_markers = True
    assert host.end(True).error_code == ErrorCode.NONE
    assert host.now().state is TransactionState.PREPARE_COMMIT
    assert host.end(True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert host.end(True, epoch=1).error_code == ErrorCode.PRODUCER_FENCED


def test_repeated_end_is_answered_by_its_outcome(host):
    host.init()
    assert host.end(True).error_code == ErrorCode.INVALID_TXN_STATE
    host.add([A0])
    host.end(True)
    before = len(host.log)
    assert host.end(True) == ProducerReply()
    assert host.end(False).error_code == ErrorCode.INVALID_TXN_STATE
    host.add([A0])
    host.end(False)
    assert host.end(False) == ProducerReply()
    assert host.end(True).error_code == ErrorCode.INVALID_TXN_STATE
    assert len(host.log) == before + 3


def test_end_of_strangers(host):
    assert host.end(True, 0, 1000).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    host.init()
    assert host.end(True, producer_id=1).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert host.end(True, epoch=5).error_code == ErrorCode.PRODUCER_FENCED


# EndTxn, version 2 (KIP-890)


def begin(host, *partitions):
    host.init()
    host.add(partitions, version=2)


def test_epoch_rises_with_every_end(host):
    begin(host, A0)
    assert host.end(True, version=2) == ProducerReply(ErrorCode.NONE, 1000, 1)
    assert host.written == [(A0, 1000, 1, True)]
    host.add([A0], version=2)
    assert host.end(False, version=2) == ProducerReply(ErrorCode.NONE, 1000, 2)


def test_repeated_end_of_version_2_is_known_by_its_epoch(host):
    begin(host, A0)
    host.end(True, version=2)
    before = len(host.log)
    assert host.end(True, epoch=0, version=2) == ProducerReply(ErrorCode.NONE, 1000, 1)
    assert host.end(False, epoch=0, version=2).error_code == ErrorCode.INVALID_TXN_STATE
    assert host.end(True, epoch=1, version=2).error_code == ErrorCode.INVALID_TXN_STATE
    assert len(host.log) == before


def test_late_end_of_the_transaction_before_is_fenced(host):
    """KAFKA-17754: the answer was lost, the client gave up, and another transaction is open."""
    begin(host, A0)
    host.end(True, version=2)
    host.add([A0], version=2)
    for is_commit in (True, False):
        late = host.end(is_commit, epoch=0, version=2)
        assert late.error_code == ErrorCode.PRODUCER_FENCED
    assert host.add([B0], epoch=0, version=2) == ErrorCode.PRODUCER_FENCED
    assert host.now().state is TransactionState.ONGOING


def test_late_end_of_version_0_ends_the_next_transaction(host):
    """What version 2 is for: with version 0 nothing tells a late EndTxn from a new one."""
    begin(host, A0)
    host.end(True)
    host.add([B0])
    assert host.end(True).error_code == ErrorCode.NONE
    assert host.written[-1][0] == B0


def test_abort_of_what_was_never_begun(host):
    host.init()
    assert host.end(True, version=2).error_code == ErrorCode.INVALID_TXN_STATE
    assert host.end(False, version=2) == ProducerReply(ErrorCode.NONE, 1000, 1)
    assert host.written == []
    assert host.now().state is TransactionState.COMPLETE_ABORT
    assert host.now().start_ms == WALL_MS
    assert host.end(False, version=2) == ProducerReply(ErrorCode.NONE, 1000, 2)
    assert host.end(False, epoch=1, version=2) == ProducerReply(ErrorCode.NONE, 1000, 2)
    assert host.end(False, epoch=0, version=2).error_code == ErrorCode.PRODUCER_FENCED


def test_repeated_end_in_a_fresh_epoch_is_fenced(host):
    host.init()
    host.init()
    assert host.end(False, epoch=0, version=2).error_code == ErrorCode.PRODUCER_FENCED


def test_end_of_version_2_while_markers_are_written(host):
    begin(host, A0)
    host.holds_markers = True
    host.end(True, version=2)
    for epoch in (0, 1, 7):
        answer = host.end(False, epoch=epoch, version=2)
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_end_in_the_last_epoch_goes_on_under_a_new_producer_id(host):
    at_epoch(host, LAST_EPOCH)
    host.add([A0], version=2)
    host.holds_markers = True
    assert host.end(True, version=2) == ProducerReply(ErrorCode.NONE, 1001, 0)
    assert (host.now().producer_id, host.now().producer_epoch) == (1000, 0x7FFF)
    assert host.now().next_producer_id == 1001
    host.write_markers()
    assert host.written == [(A0, 1000, 0x7FFF, True)]
    now = host.now()
    assert (now.producer_id, now.producer_epoch, now.next_producer_id) == (1001, 0, -1)
    # repeated
    again = host.end(True, epoch=LAST_EPOCH, producer_id=1000, version=2)
    assert again == ProducerReply(ErrorCode.NONE, 1001, 0)
    stranger = host.end(True, epoch=3, producer_id=1000, version=2)
    assert stranger.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_end_in_the_last_epoch_without_a_producer_id_at_hand(host):
    at_epoch(host, LAST_EPOCH)
    host.add([A0], version=2)
    host.has_producer_ids = False
    reply = host.end(True, version=2)
    assert reply.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert host.now().state is TransactionState.ONGOING


def test_version_0_never_needs_a_new_producer_id_to_end(host):
    at_epoch(host, LAST_EPOCH)
    host.add([A0])
    host.has_producer_ids = False
    assert host.end(True) == ProducerReply()


# Markers


def test_marker_that_cannot_be_written_is_tried_again(host):
    begin(host, A0, B0)
    host.answers[B0] = ErrorCode.KAFKA_STORAGE_ERROR
    host.end(True)
    assert host.now().state is TransactionState.PREPARE_COMMIT
    host.advance(250)
    assert host.now().state is TransactionState.PREPARE_COMMIT
    del host.answers[B0]
    host.advance(50)
    assert host.now().state is TransactionState.COMPLETE_COMMIT
    assert [one[0] for one in host.written] == [A0, B0]


def attempts(host, duration_ms):
    """After how long a marker is tried again while its partition is offline."""
    found, started_ms = [], host.now_ms
    while (due_ms := host.shard.next_deadline_ms()) <= started_ms + duration_ms:
        host.advance(due_ms - host.now_ms)
        found.append(host.now_ms - started_ms)
    return found


def test_marker_for_a_partition_that_stays_offline_is_tried_less_and_less_often():
    host = Host(TransactionSettings(abort_check_interval_ms=1 << 40))
    begin(host, A0)
    host.answers[A0] = ErrorCode.KAFKA_STORAGE_ERROR
    host.end(True)
    assert attempts(host, 10_000) == [100, 300, 700, 1500, 3100, 5100, 7100, 9100]


def test_the_next_transaction_does_not_inherit_the_wait_of_the_one_before(host):
    begin(host, A0)
    host.answers[A0] = ErrorCode.KAFKA_STORAGE_ERROR
    host.end(True)
    host.advance(5000)
    host.answers.clear()
    host.advance(2000)
    host.add([A0])
    host.answers[A0] = ErrorCode.KAFKA_STORAGE_ERROR
    host.end(True)
    assert host.shard.next_deadline_ms() == host.now_ms + 100


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]
)
def test_partition_that_cannot_have_a_marker_does_not_hold_up_the_others(host, code):
    begin(host, A0, B0)
    host.answers[A0] = code
    host.end(True)
    assert host.now().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_marker_that_is_fenced_is_not_tried_again(host, code):
    begin(host, A0)
    host.answers[A0] = code
    host.end(True)
    host.answers.clear()
    host.advance(60_000)
    assert host.now().state is TransactionState.PREPARE_COMMIT
    host.restart()  # as the coordinator that took over does
    assert host.now().state is TransactionState.COMPLETE_COMMIT


def test_answer_to_markers_of_an_end_before_changes_nothing(host):
    begin(host, A0)
    host.holds_markers = True
    host.end(True, version=2)
    (old,) = host.held
    host.write_markers()
    host.add([A0], version=2)
    assert host.shard.on_markers(old, [(A0, ErrorCode.NONE)], 0, 0).records == []
    host.end(False, version=2)
    assert host.shard.on_markers(old, [(A0, ErrorCode.NONE)], 0, 0).records == []
    assert host.now().state is TransactionState.PREPARE_ABORT


def test_every_end_that_waits_is_tried_again(host):
    """Each at its own time, also one that failed between the attempts of others."""
    host.answers = {A0: ErrorCode.KAFKA_STORAGE_ERROR}
    for number, name in enumerate(("first", "second", "third")):
        host.init(name)
        host.add([A0, B0] if number == 1 else [A0], transactional_id=name)
        host.end(True, transactional_id=name)
        host.advance(30)
    assert host.written == [(B0, 1001, 0, True)]
    assert host.shard.next_deadline_ms() == NOW_MS + 100
    host.advance(400)
    assert host.shard.next_deadline_ms() is not None
    host.answers = {}
    host.advance(400)
    states = {host.now(name).state for name in ("first", "second", "third")}
    assert states == {TransactionState.COMPLETE_COMMIT}
    host.advance(200)
    assert host.shard.next_deadline_ms() >= host.now_ms + 1000


def test_completion_that_cannot_be_written_is_tried_again(host):
    begin(host, A0)
    host.holds_markers = True
    host.end(True)
    host.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    host.write_markers()
    assert host.now().state is TransactionState.PREPARE_COMMIT
    host.advance(1000)
    host.fail_appends_with = None
    host.advance(500)
    assert host.now().state is TransactionState.COMPLETE_COMMIT
    assert len(host.written) == 1, "the marker itself was written once"


def test_end_that_cannot_be_written_changes_nothing(host):
    begin(host, A0)
    host.fail_appends_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert host.end(True) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert host.written == []
    host.fail_appends_with = None
    assert host.end(False) == ProducerReply()


# Restart


@pytest.mark.parametrize("is_commit", [True, False])
def test_restart_between_prepare_and_complete_ends_what_was_decided(host, is_commit):
    begin(host, A0, B0)
    host.holds_markers = True
    host.end(is_commit, version=2)
    host.holds_markers = False
    host.restart()
    assert host.written == [(A0, 1000, 1, is_commit), (B0, 1000, 1, is_commit)]
    word = "Commit" if is_commit else "Abort"
    assert host.now().state.title == f"Complete{word}"


def test_restart_keeps_open_transactions_open(host):
    begin(host, A0)
    host.restart()
    assert host.verify([A0]) == [ErrorCode.NONE]
    assert host.end(True) == ProducerReply()


# Time


def test_transaction_that_runs_out_of_time_is_aborted_and_its_producer_fenced(host):
    begin(host, A0)
    host.advance(TIMEOUT_MS)
    assert host.now().state is TransactionState.ONGOING
    host.advance(10_000)
    assert host.written == [(A0, 1000, 1, False)]
    assert host.end(True, epoch=0).error_code == ErrorCode.PRODUCER_FENCED
    # in version 2 its own EndTxn reads as a repetition: an abort did happen, a commit did not
    assert host.end(False, epoch=0, version=2).error_code == ErrorCode.NONE
    assert host.end(True, epoch=0, version=2).error_code == ErrorCode.INVALID_TXN_STATE


def test_time_runs_from_the_first_partition_through_a_restart(host):
    begin(host, A0)
    host.advance(TIMEOUT_MS - 1000)
    host.add([B0])
    host.restart()
    host.advance(11_001)
    assert host.now().state is TransactionState.COMPLETE_ABORT


def test_many_that_run_out_of_time_are_aborted_in_pieces(host):
    names = [f"id-{number}" for number in range(120)]
    for name in names:
        host.init(name)
        host.add([A0], transactional_id=name)
    host.now_ms += TIMEOUT_MS + 10_000
    host.wall_ms += TIMEOUT_MS + 10_000
    first = host.shard.on_time(host.now_ms, host.wall_ms)
    assert 0 < len(first) < len(names)
    for result in first:
        host.apply(result)
    assert host.shard.next_deadline_ms() == host.now_ms
    # In between, one ends by itself and another is forced to: neither is touched again.
    assert host.end(True, transactional_id=names[-1]).error_code == ErrorCode.NONE
    host.init(names[-2])
    host.advance(0)
    assert host.now(names[-1]).state is TransactionState.COMPLETE_COMMIT
    ended = {host.now(name).state for name in names[:-1]}
    assert ended == {TransactionState.COMPLETE_ABORT}
    assert len(host.written) == len(names)
    assert host.shard.next_deadline_ms() > host.now_ms


def test_aborts_that_cannot_be_written_wait_for_the_next_check(host):
    begin(host, A0)
    host.fail_appends_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    host.advance(TIMEOUT_MS + 10_000)
    assert host.now().state is TransactionState.ONGOING
    assert host.shard.next_deadline_ms() > host.now_ms
    host.fail_appends_with = None
    host.advance(10_000)
    assert host.now().state is TransactionState.COMPLETE_ABORT


def test_time_out_in_the_last_epoch_waits_for_a_producer_id(host):
    at_epoch(host, LAST_EPOCH)
    host.add([A0])
    host.has_producer_ids = False
    host.advance(TIMEOUT_MS + 20_000)
    assert host.now().state is TransactionState.ONGOING
    host.has_producer_ids = True
    host.advance(10_000)
    assert (host.now().producer_id, host.now().producer_epoch) == (1001, 0)


def test_nothing_to_do_books_no_deadline(host):
    assert host.shard.next_deadline_ms() is None
    host.shard.unload()
    assert host.shard.on_time(host.now_ms + 10**9, host.wall_ms) == []


def test_ids_that_nobody_uses_are_forgotten():
    host = Host(TransactionSettings(id_expiration_ms=10_000, expiration_check_interval_ms=1000))
    host.init("used")
    host.init("left")
    host.init("open")
    host.add([A0], transactional_id="open")
    host.advance(9000)
    host.init("used")
    host.advance(1000)
    assert sorted(host.shard.transactions) == ["open", "used"]
    assert host.log[-1] == TransactionRemoved("left")
    assert host.init("left") == ProducerReply(ErrorCode.NONE, 1003, 0)


def test_many_ids_are_forgotten_in_pieces():
    host = Host(TransactionSettings(id_expiration_ms=10, expiration_check_interval_ms=1000))
    for number in range(1500):
        host.init(f"id-{number}")
    results = host.shard.on_time(host.now_ms + 1000, host.wall_ms + 1000)
    assert [len(result.records) for result in results] == [1000, 500]


# Describe and list


def test_describe(host):
    begin(host, A0, B0)
    ((ticket, found),) = host.shard.describe("x", "t").replies
    assert ticket == "x"
    assert (found.state, found.producer_id, found.producer_epoch) == ("Ongoing", 1000, 0)
    assert (found.timeout_ms, found.start_ms, found.partitions) == (TIMEOUT_MS, WALL_MS, (A0, B0))
    ((_, missing),) = host.shard.describe("x", "nobody").replies
    assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def listed(host, **filters):
    request = ListRequest([*host.shard.transactions, "nobody"], **filters)
    result = host.shard.list_transactions("x", request, host.wall_ms)
    ((_, found),) = result.replies
    return [(one.transactional_id, one.state) for one in found]


def test_list_by_each_filter(host):
    host.init("rest")
    host.init("open")
    host.add([A0], transactional_id="open")
    host.advance(500)
    assert listed(host) == [("rest", "Empty"), ("open", "Ongoing")]
    assert listed(host, states=["Ongoing"]) == [("open", "Ongoing")]
    assert listed(host, states=["ongoing", "Strange"]) == []
    assert listed(host, producer_ids=[1000]) == [("rest", "Empty")]
    assert listed(host, matches=lambda name: name.startswith("o")) == [("open", "Ongoing")]
    # as in Kafka, what never began counts as begun for ever
    assert listed(host, longer_than_ms=500) == [("rest", "Empty")]
    assert len(listed(host, longer_than_ms=499)) == 2
