"""One seed of transactions, from an empty disk to a verdict (F13-F15).

Job: let tellers move money while the broker dies, loses power, runs out of disk and is cut off, and late copies of requests come in;
heal everything; then judge (`transaction_verdict`). Two tellers may fight for one transactional id. Everything is synced before
it is acknowledged, so that what is promised holds after a loss of power.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.node import Node
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.faults import Faults
from barnabas.sim.machine import Machine
from barnabas.sim.network import Network
from barnabas.sim.run import Verdict, play_out
from barnabas.sim.teller import Echo, Ledger, Teller
from barnabas.sim.transaction_verdict import judge
from barnabas.sim.violation import Violation
from barnabas.sim.world import SECOND, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

TROUBLE_US: Final = 4 * SECOND
PATIENCE_US: Final = 60 * SECOND
#: Late copies have arrived by then, and what they began has run out of time.
SETTLING_US: Final = 10 * SECOND
_SETTINGS: Final = {
    "broker.id": "1",
    "log.dirs": "/data",
    "log.flush.interval.messages": "1",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
}


def run_transactions(
    seed: int,
    *,
    node_class: type[Node] = Node,
    on_note: Callable[[int, str], None] | None = None,
) -> Verdict:
    """Run one seed. `node_class` is for trying out nodes that break a promise."""
    return play_out(
        seed,
        lambda: TransactionRun(seed, node_class, on_note),
        is_quiet=on_note is None,
    )


class TransactionRun:
    """The parts of one run."""

    def __init__(
        self,
        seed: int,
        node_class: type[Node],
        on_note: Callable[[int, str], None] | None,
    ) -> None:
        """Build everything; nothing happens yet."""
        self.scheduler = Scheduler(seed, on_note)
        self._chance = self.scheduler.chance("transactions")
        self.machine = Machine(self.scheduler, BrokerConfig(_SETTINGS), node_class)
        self.network = Network(self.scheduler, self.machine)
        self.faults = Faults(self.scheduler, self.machine, self.network)
        # A wrong clock decides when transactions are out of time; here they must be over at the end.
        self.faults.kinds = [kind for kind in self.faults.kinds if kind != "clock jump"]
        self.ledgers = [Ledger("shared"), Ledger("own")]
        self._echo = Echo("echo", self.network)
        shared, own = self.ledgers
        self.tellers = [self._teller("anna", shared, rises=True), self._teller("carl", own)]
        if self._chance.random() < 0.6:
            self.tellers.append(self._teller("bob", shared, rises=True))

    def _teller(self, name: str, ledger: Ledger, *, rises: bool | None = None) -> Teller:
        if rises is None:
            rises = self._chance.random() < 0.5
        count = self._chance.randint(5, 20)
        return Teller(name, self.network, ledger, self._echo, rises=rises, transaction_count=count)

    def play(self) -> None:
        """Let it all happen, then judge."""
        self.machine.start()
        for teller in self.tellers:
            teller.wake()
        self.faults.book(TROUBLE_US)
        self.scheduler.run(lambda: False, TROUBLE_US)
        self.faults.heal()
        finished = self.scheduler.run(
            lambda: all(one.is_finished for one in self.tellers),
            self.scheduler.now_us + PATIENCE_US,
        )
        if not finished:
            left = [one.unfinished for one in self.tellers if not one.is_finished]
            raise Violation("work gets done", "; ".join(left))
        self.scheduler.run(lambda: False, self.scheduler.now_us + SETTLING_US)
        node = self.machine.node
        if node is None or not self.machine.is_up:
            raise Violation("work gets done", f"not up: {self.machine.last_failure!r}")
        judge([node], self.ledgers)
