"""F14: kill -9 while transactions run, again and again: all of each or nothing, what was told stays true, nothing twice."""

from chaos.transaction_workers import Copier, Teller, check, read_committed, send_inputs
from chaos.wire_kit import BrokerProcess, RawClient, eventually, reserved_address
from topic_kit import wait_until_ended

LIVES = 6
PER_LIFE = 15
INPUTS = 300
SETTINGS = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "group.initial.rebalance.delay.ms=0",
)


def set_up(address):
    with RawClient(address) as client:
        for name, partitions in (("accounts", 2), ("in", 1), ("out", 1)):
            assert client.create_topic(name, partitions=partitions).error_code == 0
    send_inputs(address, INPUTS)


def test_transactions_outlive_the_brokers(tmp_path):
    data = tmp_path / "data"
    with reserved_address() as address:
        tellers = [Teller(address, name) for name in ("anna", "bob")]
        copier = Copier(address, "copier")
        for life in range(LIVES):
            with BrokerProcess(data, listen=(address,), settings=SETTINGS) as broker:
                if life == 0:
                    set_up(address)
                    for worker in (*tellers, copier):
                        worker.start()
                goals = [teller.done + PER_LIFE for teller in tellers]
                eventually(
                    lambda goals=goals: all(
                        teller.done >= goal for teller, goal in zip(tellers, goals, strict=True)
                    ),
                    "transactions",
                )
                broker.kill()
        with BrokerProcess(data, listen=(address,), settings=SETTINGS) as broker:
            eventually(lambda: len(read_committed(address, "out", 0)) >= INPUTS, "copies")
            for worker in (*tellers, copier):
                worker.finish()
            for topic in ("accounts", "out"):
                wait_until_ended(address, topic)
            check(address, tellers, INPUTS)
            assert broker.terminate() == 0
