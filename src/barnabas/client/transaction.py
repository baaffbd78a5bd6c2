"""A transactional producer's side of its transactions: begin, what belongs to it, commit or abort.

Job: the conversations with the transaction coordinator, and with a group's for offsets. Must not know records.

| state | moves |
|---|---|
| unknown | `init` -> ready: older producers of the id are fenced, their transaction aborted |
| ready | `begin` -> open |
| open | `end` -> ready; a fenced producer stays as it is and gets `Fenced` for everything |

Transactions of version 2 (KIP-890) need no AddPartitionsToTxn or AddOffsetsToTxn: the brokers add what is written themselves, and every end
gives a new epoch. Which version there is, the coordinator's features tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client.cluster import GROUP, TRANSACTION
from barnabas.client.errors import Refused, refusal
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.client.cluster import Cluster
    from barnabas.client.talk import Talk
    from barnabas.model.ids import TopicPartition
    from barnabas.wire.primitives import Message

_FEATURE: Final = "transaction.version"
_V2: Final = 2
_API_VERSIONS: Final = 3
#: The last versions that do not mean transactions of version 2.
PRODUCE_V1_MAX: Final = 11
_END_V1_MAX: Final = 4
_COMMIT_V1_MAX: Final = 4
#: Versions in which InitProducerId tells fenced producers apart from failed ones.
_INIT_MAX: Final = 5


class PreparedTransaction(NamedTuple):
    """A transaction that is written and open, for somebody else to end."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_v2: bool
    has_content: bool


class Transaction:
    """Transactions of one transactional id, one after the other."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        """Ask nothing yet."""
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self.is_v2 = False
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._partitions: set[TopicPartition] = set()
        self._is_open = False
        self._has_content = False

    @property
    def is_open(self) -> bool:
        """Has it begun and not ended?"""
        return self._is_open

    def init(self) -> Talk[None]:
        """Take over the transactional id."""
        self.is_v2 = yield from self._cluster.retried(self._ask_feature)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        answer: InitProducerIdResponse = yield from self._ask(request, _INIT_MAX)
        self._become(answer.producer_id, answer.producer_epoch)

    def prepared(self) -> PreparedTransaction:
        """Hand it over as it is."""
        assert self._is_open, "there is no transaction to hand over"
        return PreparedTransaction(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.is_v2,
            self._has_content,
        )

    def take_over(self, prepared: PreparedTransaction) -> None:
        """Go on with what another began, to end it."""
        self._become(prepared.producer_id, prepared.producer_epoch)
        self.is_v2 = prepared.is_v2
        self._is_open, self._has_content = True, prepared.has_content

    def begin(self) -> None:
        """Start; the cluster hears of it with the first thing that belongs to it."""
        assert not self._is_open, "the transaction before has not ended"
        self._is_open = True

    def note_written(self) -> None:
        """Something was sent to a partition, whether or not it arrived."""
        assert self._is_open, "a transactional producer writes in a transaction only"
        self._has_content = True

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> Talk[None]:
        """Make partitions part of it, where the brokers do not do that themselves."""
        missing = [each for each in partitions if each not in self._partitions]
        if self.is_v2 or not missing:
            return
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for each in missing:
            entry = topics.setdefault(
                each.topic, AddPartitionsToTxnTopic(name=each.topic, partitions=[])
            )
            entry.partitions.append(each.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[*topics.values()],
        )
        yield from self._ask(request)
        self._partitions.update(missing)
        self._has_content = True

    def add_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> Talk[None]:
        """Commit a group's offsets with it."""
        self.note_written()
        if not self.is_v2:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                group_id=group,
            )
            yield from self._ask(request)
        commit = self._offset_request(group, offsets)
        yield from self._cluster.retried(lambda: self._commit_offsets(group, commit))

    def end(self, *, committed: bool) -> Talk[None]:
        """Commit or abort, and be ready for the next."""
        if self._has_content:
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                committed=committed,
            )
            answer: EndTxnResponse = yield from self._ask(
                request, None if self.is_v2 else _END_V1_MAX
            )
            if self.is_v2 and answer.producer_id >= 0:
                self._become(answer.producer_id, answer.producer_epoch)
        self._is_open = self._has_content = False
        self._partitions.clear()

    # -- asking -------------------------------------------------------------------------------

    def _become(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def _ask_feature(self) -> Talk[bool]:
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version="0.1")
        answer: ApiVersionsResponse = yield from self._cluster.ask_coordinator(
            TRANSACTION, self.transactional_id, request, _API_VERSIONS
        )
        return any(
            each.name == _FEATURE and each.max_version_level >= _V2
            for each in answer.finalized_features
        )

    def _ask(self, request: Message, version_max: int | None = None) -> Talk[Any]:
        """Ask the transaction coordinator until it does what is asked."""
        key = self.transactional_id

        def attempt() -> Talk[Any]:
            answer = yield from self._cluster.ask_coordinator(
                TRANSACTION, key, request, version_max
            )
            for code in _codes(answer):
                raise self._cluster.coordinator_refusal(
                    TRANSACTION, key, code, f"transactional id '{key}'"
                )
            return answer

        return (yield from self._cluster.retried(attempt))

    def _offset_request(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> TxnOffsetCommitRequest:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            entry = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic, partitions=[]))
            entry.partitions.append(
                TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[*topics.values()],
        )

    def _commit_offsets(self, group: str, request: TxnOffsetCommitRequest) -> Talk[None]:
        answer: TxnOffsetCommitResponse = yield from self._cluster.ask_coordinator(
            GROUP, group, request, None if self.is_v2 else _COMMIT_V1_MAX
        )
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise self._cluster.coordinator_refusal(
                        GROUP, group, each.error_code, f"offsets of group '{group}'"
                    )


def init_idempotent(cluster: Cluster) -> Talk[tuple[int, int]]:
    """Get a producer id without transactions; any broker gives one."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)

    def attempt() -> Talk[tuple[int, int]]:
        answer: InitProducerIdResponse = yield from cluster.ask_any(request, _INIT_MAX)
        if answer.error_code:
            problem: Refused = refusal(answer.error_code, "a producer id")
            raise problem
        return answer.producer_id, answer.producer_epoch

    outcome: tuple[int, int] = yield from cluster.retried(attempt)
    return outcome


def _codes(answer: Any) -> list[int]:  # noqa: ANN401  # one of four response classes
    """Find the errors in an answer: for a request, the first that is not about others' errors comes first."""
    if not isinstance(answer, AddPartitionsToTxnResponse):
        return [answer.error_code] if answer.error_code else []
    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
        if each.partition_error_code
    ]
    return sorted(codes, key=_is_consequence)


def _is_consequence(code: int) -> bool:
    """OPERATION_NOT_ATTEMPTED only says that another partition failed."""
    return code == ErrorCode.OPERATION_NOT_ATTEMPTED
