"""A simulated transactional producer of a cluster: asks its coordinator, writes to leaders, commits offsets to its group's coordinator.

Job: find out who that is, again whenever an answer is an error or does not come. What it does with them is `teller.TellerScript`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.sim.cluster_client import ClusterClient
from barnabas.sim.teller import ACCOUNTS, TOPIC, TellerScript
from barnabas.sim.world import MS
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.sim.network import Network
    from barnabas.sim.teller import Ledger, Repeater, Script

_GROUP, _TRANSACTION = 0, 1
#: How long a late copy of a request is on its way.
_LATE_US: Final = (50 * MS, 1500 * MS)


class ClusterEcho(ClusterClient):
    """Sends again what others sent, late, to any broker, and ignores the answers."""

    def __init__(self, name: str, networks: Mapping[int, Network]) -> None:
        """Have nothing to send."""
        super().__init__(name, networks, [])

    def repeat(self, request: Any, version: int) -> None:  # noqa: ANN401
        """Send this once more, later."""
        send = partial(self._send, request, version)
        self.scheduler.after(self.chance.randint(*_LATE_US), f"{self.name} repeats", send)

    def step(self) -> None:
        """Do nothing by itself."""

    def _send(self, request: Any, version: int) -> None:  # noqa: ANN401
        self.any_line().put(request, version, lambda _response: None)


class ClusterTeller(ClusterClient, TellerScript):
    """See the module."""

    def __init__(
        self,
        name: str,
        networks: Mapping[int, Network],
        ledger: Ledger,
        echo: Repeater,
        *,
        rises: bool,
        transaction_count: int,
    ) -> None:
        """Have done nothing."""
        ClusterClient.__init__(self, name, networks, [TOPIC])
        TellerScript.__init__(self, ledger, echo, rises=rises, transaction_count=transaction_count)
        self._coordinators: dict[int, int] = {}
        self._is_finding = False

    def prepare(self) -> Script:
        """Wait until somebody has made the topic."""
        while any((TOPIC, account) not in self.leaders for account in ACCOUNTS):
            self.refresh()
            yield self._nap()

    def step(self) -> None:
        """Send what the script asks for to whom it concerns, or find out who that is."""
        wanted = self.take_wanted()
        if wanted is None:
            return
        broker = self._find(wanted.request)
        if broker is None:
            self.put_back(wanted)
            return
        answered = partial(self._on_answer, wanted.request)
        self.lines[broker].put(wanted.request, wanted.version, answered)

    def on_passing(self, request: Any, code: ErrorCode) -> None:  # noqa: ANN401
        """Look again who it concerns, unless the answer shows that it was the right one."""
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            self._forget(request)

    def _on_answer(self, request: Any, answer: Any) -> None:  # noqa: ANN401
        if answer is None:
            self._forget(request)
        self._advance(answer)

    def _find(self, request: Any) -> int | None:  # noqa: ANN401
        """Tell whom a request is for; None if that is being asked."""
        if isinstance(request, ProduceRequest):
            leader = self.leaders.get(_place(request))
            if leader is None:
                self.refresh()
            return leader
        found = self._coordinators.get(_key_type(request))
        if found is None:
            self._find_coordinator(_key_type(request))
        return found

    def _forget(self, request: Any) -> None:  # noqa: ANN401
        if isinstance(request, ProduceRequest):
            self.leaders.pop(_place(request), None)
        else:
            self._coordinators.pop(_key_type(request), None)

    def _find_coordinator(self, key_type: int) -> None:
        def answered(response: Any) -> None:  # noqa: ANN401
            self._is_finding = False
            if response is not None and not response.coordinators[0].error_code:
                self._coordinators[key_type] = response.coordinators[0].node_id
            self.wake_after_backoff()

        if not self._is_finding:
            self._is_finding = True
            key = self._ledger.transactional_id
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
            self.any_line().put(request, 4, answered)


def _place(request: ProduceRequest) -> tuple[str, int]:
    return TOPIC, request.topic_data[0].partition_data[0].index


def _key_type(request: Any) -> int:  # noqa: ANN401
    return _GROUP if isinstance(request, TxnOffsetCommitRequest) else _TRANSACTION
