"""F14: two producers with one transactional id, who fence each other without end while the broker is killed: each transaction is one's, whole, or nobody's."""

import threading
from itertools import count

from chaos.transaction_kit import RawProducer, Refused, find_coordinators, read_log
from chaos.wire_kit import (
    DEADLINE_S,
    BrokerProcess,
    ClosedByPeer,
    RawClient,
    eventually,
    reserved_address,
)

from barnabas.model.errors import ErrorCode

LIVES = 5
PER_LIFE = 40
FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
)
SETTINGS = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")


class Rival:
    """Takes the transactional id, moves money until somebody else has taken it, and takes it back."""

    def __init__(self, address, name):
        self.address = address
        self.name = name
        self.committed, self.refused = set(), set()
        self.failure = None
        self._numbers = count()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self):
        self._stopping.set()
        self._thread.join(2 * DEADLINE_S)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        assert self.failure is None, self.failure

    def _run(self):
        try:
            while not self._stopping.is_set():
                self._live()
        except BaseException as failure:  # told by `finish`
            self.failure = failure
            raise

    def _live(self):
        try:
            with RawClient(self.address) as client:
                producer = RawProducer(client, "shared")
                producer.init()
                while not self._stopping.is_set():
                    self._transfer(producer, f"{self.name}:{next(self._numbers)}".encode())
        except Refused as refusal:
            if refusal.code not in FENCED:
                raise
            self._stopping.wait(0.01)  # let the other one get somewhere
        except (ClosedByPeer, OSError):
            self._stopping.wait(0.01)  # no broker: there will be another

    def _transfer(self, producer, tag):
        try:
            for account in (0, 1):
                producer.produce("accounts", account, tag)
            producer.end(committed=True)
        except Refused:
            self.refused.add(tag)
            raise
        self.committed.add(tag)


def test_two_producers_fight_for_one_transactional_id(tmp_path):
    data = tmp_path / "data"
    with reserved_address() as address:
        for life in range(LIVES):
            with BrokerProcess(data, listen=(address,), settings=SETTINGS) as broker:
                if life == 0:
                    with RawClient(address) as client:
                        assert client.create_topic("accounts", partitions=2).error_code == 0
                        find_coordinators(client, "shared")
                    rivals = [Rival(address, name) for name in ("anna", "bob")]
                wait_for_a_fight(rivals)
                broker.kill()
        with BrokerProcess(data, listen=(address,), settings=SETTINGS) as broker:
            for rival in rivals:
                rival.finish()
            with RawClient(address) as client:
                RawProducer(client, "shared").init()  # the last word: whatever was open is aborted
                check_transfers(client, rivals)
            assert broker.terminate() == 0


def wait_for_a_fight(rivals):
    """Both commit some, and both are refused some."""
    goals = [(len(rival.committed) + PER_LIFE, len(rival.refused) + 3) for rival in rivals]

    def is_over():
        assert not any(rival.failure for rival in rivals)
        return all(
            len(rival.committed) >= commits and len(rival.refused) >= refusals
            for rival, (commits, refusals) in zip(rivals, goals, strict=True)
        )

    eventually(is_over, "a fight", 2 * DEADLINE_S)


def check_transfers(client, rivals):
    one, other = (read_log(client, "accounts", account) for account in (0, 1))
    assert (one.undecided, other.undecided) == (0, 0)
    assert one.committed == other.committed, "a transfer is torn"
    found = set(one.committed)
    assert len(found) == len(one.committed), "a transfer is there twice"
    for rival in rivals:
        assert rival.committed <= found, "a committed transfer is lost"
        assert not rival.refused & found, "a refused transfer is seen"
