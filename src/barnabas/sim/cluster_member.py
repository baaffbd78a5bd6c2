"""A simulated member of a group in a cluster: its scripts are those of a lone broker's members, its requests go to whom they concern.

Job: who coordinates the group, who leads what it reads, found out again whenever an answer is an error or does not come. What
members do is `group_member` and `consumer_member`.

A coordinator that was replaced without knowing it goes on telling members that they are well, as Kafka's does: so nobody is in good standing
here, and only what is written counts (`group_checkers`): who owns what in a generation, commits, and what was processed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.sim.cluster_client import Line
from barnabas.sim.cluster_consumer import PASSING
from barnabas.sim.consumer_member import ConsumerMember
from barnabas.sim.group_client import COORDINATOR_LOST, Ask, GroupClient
from barnabas.sim.group_member import GroupMember
from barnabas.sim.history import Poll, Seek
from barnabas.sim.violation import Violation
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from barnabas.sim.group_checkers import Standing
    from barnabas.sim.group_client import GroupSpec, MemberStyle, Nap
    from barnabas.sim.history import History, Key
    from barnabas.sim.network import Network

_FIND_VERSION: Final = 4


class PolledRecords:
    """What members read, for `history.History`; nothing is ever deleted."""

    failures_explained = False

    def __init__(self, history: History) -> None:
        """Have seen nothing."""
        self._history = history
        self._next: dict[tuple[str, Key], int] = {}
        #: In which leader epoch somebody has read a partition: what members commit with their offsets, and ask nobody of an older one (KIP-320).
        self.epochs: dict[Key, int] = {}

    def on_read(
        self,
        key: Key,
        reader: str,
        _life: int,
        fetch_offset: int,
        records: Sequence[tuple[int, bytes]],
        high_watermark: int,
    ) -> None:
        """Note what was polled; a member that comes to a partition begins anew there."""
        if not records:
            return
        if records[-1][0] >= high_watermark:
            raise Violation(
                "readers see what is committed",
                f"{reader} got offset {records[-1][0]} of {key[0]}-{key[1]}, high watermark {high_watermark}",
            )
        if self._next.get((reader, key)) != fetch_offset:
            self._history.add(reader, Seek(key))
        self._next[reader, key] = records[-1][0] + 1
        self._history.add(reader, Poll(key, tuple(records)))

    def may_be_deleted(self, _key: Key, _offset: int) -> bool:
        """Never."""
        return False

    def may_be_gone(self, _key: Key, _offset: int) -> bool:
        """Never."""
        return False


class ClusterGroupClient(GroupClient):
    """A member that talks to several brokers."""

    history: PolledRecords

    def __init__(
        self,
        name: str,
        networks: Mapping[int, Network],
        group: GroupSpec,
        style: MemberStyle,
    ) -> None:
        """Know nothing of the cluster yet."""
        super().__init__(name, next(iter(networks.values())), group, style)
        self.lines = {broker: Line(name, network) for broker, network in networks.items()}
        self._keys = group.keys
        self._leaders: dict[Key, tuple[int, int]] = {}
        self._coordinator: int | None = None
        self._is_finding = False
        self._reads_from = -1

    @property
    def standing(self) -> Standing:
        """See the module: what an answer says of time counts for nothing."""
        return super().standing._replace(timeout_us=0)

    def leader_epoch(self, key: Key) -> int:
        """Only the epoch tells a leader from one that was it and lost its tail."""
        return self._leaders[key][1]

    def hang_up(self) -> None:
        """Close all connections."""
        for line in self.lines.values():
            line.hang_up()

    # Sending

    def _on_wake(self) -> None:
        if not self.is_finished:
            self.step()

    def step(self) -> None:
        """Send what is to be sent to whom it concerns, or find out who that is."""
        if self._script is None:
            self.hang_up()
        elif self._unsent is not None and not self._hangs:
            broker = self._find(self._unsent.request)
            if broker is None:
                self.wake_after_backoff()
            else:
                asked, self._unsent = self._unsent, None
                self._send_to(broker, asked)

    def _find(self, request: Any) -> int | None:  # noqa: ANN401
        if isinstance(request, MetadataRequest | FindCoordinatorRequest):
            return self.chance.choice(list(self.lines))
        if isinstance(request, FetchRequest):
            return self._reads_from
        if self._coordinator is None:
            self._ask_coordinator()
        return self._coordinator

    def _ask_coordinator(self) -> None:
        def answered(response: Any) -> None:  # noqa: ANN401
            self._is_finding = False
            self._note_coordinator(response)
            self.wake_after_backoff()

        if not self._is_finding:
            self._is_finding = True
            request = FindCoordinatorRequest(coordinator_keys=[self.group_id], key_type=0)
            line = self.chance.choice(list(self.lines.values()))
            line.put(request, _FIND_VERSION, answered)

    def _note_coordinator(self, response: Any) -> None:  # noqa: ANN401
        found = response.coordinators[0] if response and response.coordinators else response
        if found is not None and not found.error_code and found.node_id in self.lines:
            self._coordinator = found.node_id

    def _send_to(self, broker: int, asked: Ask) -> None:
        self.sent_us = self.scheduler.now_us
        if asked.on_sent is not None:
            asked.on_sent()
        line = self.lines[broker]
        answered = partial(self._on_answer, self.process, asked.request)
        line.put(asked.request, asked.version, answered, asked.timeout_us)
        if self.is_calm:
            return
        if line.connection is not None and self.chance.random() < self.style.loses_replies:
            line.connection.loses_replies = True
        if self.chance.random() < self.style.crashes:
            self.crash()

    def _on_answer(self, process: int, request: Any, response: Any) -> None:  # noqa: ANN401
        if process != self.process:
            return
        if isinstance(request, MetadataRequest):
            self._note_leaders(response)
        elif isinstance(request, FindCoordinatorRequest):
            self._note_coordinator(response)
        elif not isinstance(request, FetchRequest) and _is_lost(response):
            self._coordinator = None
        self._take_answer(response)

    # Reading

    def _note_leaders(self, response: Any) -> None:  # noqa: ANN401
        for topic in response.topics if response is not None else ():
            for one in topic.partitions:
                key = (topic.name, one.partition_index)
                if one.leader_id in self.lines and not one.error_code:
                    self._leaders[key] = (one.leader_id, one.leader_epoch)
                else:
                    self._leaders.pop(key, None)

    def ask_topics(self) -> Generator[Ask | Nap, Any, dict[str, Any] | None]:
        """Ask for the topics; None if a broker was asked that does not know all of them yet."""
        topics = yield from super().ask_topics()
        counts = {name: len(topic.partitions) for name, topic in (topics or {}).items()}
        return topics if all(index < counts.get(name, 0) for name, index in self._keys) else None

    def read(self) -> Generator[Ask | Nap, Any, None]:
        """Fetch and process what is there, from one of those that lead what it owns."""
        starts = {key: at for key, at in self.positions.items() if at is not None}
        self._forget_old_leaders()
        if any(key not in self._leaders for key in starts):
            yield from self.ask_topics()
            self._forget_old_leaders()
            starts = {key: at for key, at in starts.items() if key in self.positions}
        leaders = sorted({self._leaders[key][0] for key in starts if key in self._leaders})
        if not leaders:
            yield self.nap()
            return
        leader = self._reads_from = self.chance.choice(leaders)
        some = {key: at for key, at in starts.items() if self._leaders.get(key, (-1,))[0] == leader}
        response = yield Ask(self._fetch(some), self.chance.choice((9, 11, 12)))
        sent_us = self.sent_us
        if response is None:
            for key in some:
                self._leaders.pop(key, None)
            return
        for topic in response.responses:
            for data in topic.partitions:
                self._take_partition((topic.topic, data.partition_index), some, data, sent_us)

    def _forget_old_leaders(self) -> None:
        """A leader of before, which does not know that it was replaced, has no idea of what was read since."""
        for key, epoch in self.history.epochs.items():
            if self._leaders.get(key, (-1, epoch))[1] < epoch:
                del self._leaders[key]

    def _take_partition(self, key: Key, starts: dict[Key, int], data: Any, sent_us: int) -> None:  # noqa: ANN401
        code = ErrorCode(data.error_code)
        if code in PASSING:
            self._leaders.pop(key, None)
        elif code:
            raise self.unexpected(f"Fetch of {key} from {starts[key]}", code)
        elif key in self.positions:
            self._process(key, starts[key], data, sent_us, self.life)
            epochs = self.history.epochs
            epochs[key] = max(self._leaders.get(key, (-1, -1))[1], epochs.get(key, -1))


def _is_lost(response: Any) -> bool:  # noqa: ANN401
    """Tell whether an answer says that somebody else coordinates the group, or does not come."""
    if response is None:
        return True
    codes = [getattr(response, "error_code", 0)]
    codes += [one.error_code for one in getattr(response, "groups", ())]
    for topic in getattr(response, "topics", ()):
        codes += [one.error_code for one in topic.partitions]
    return any(code in COORDINATOR_LOST for code in codes)


class ClusterGroupMember(ClusterGroupClient, GroupMember):
    """A member of a classic group."""


class ClusterConsumerMember(ClusterGroupClient, ConsumerMember):
    """A member that speaks KIP-848."""


CLASSES: Final[dict[type[GroupClient], type[ClusterGroupClient]]] = {
    GroupMember: ClusterGroupMember,
    ConsumerMember: ClusterConsumerMember,
}
