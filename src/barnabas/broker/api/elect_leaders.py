"""ElectLeaders: let preferred replicas lead again, or replicas that are not in sync where nobody else can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.core.controller.view import ElectionType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.wire.primitives import Buffer


def handle(call: Call) -> Task[ElectLeadersResponse]:
    """Elect, and answer when it is written."""
    request: ElectLeadersRequest = call.request
    office = call.node.members.topics.find_office()
    try:
        kind = ElectionType(request.election_type if call.version else 0)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Election type {request.election_type} is not known; there are 0 (preferred) and 1 (unclean).",
        ) from None
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, index)
            for topic in request.topic_partitions
            for index in topic.partitions
        ]
    verdicts = yield office.ask(lambda machine: machine.on_elect(kind, wanted))
    if verdicts is None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "Another broker has become controller.")
    for key, verdict in verdicts.items():
        if not verdict.code:
            audit.changed(call, "elect", "Partition", str(key), kind=kind.name.lower())
    return ElectLeadersResponse(
        replica_election_results=_results(
            (key, verdict.code, verdict.message) for key, verdict in verdicts.items()
        )
    )


class _Refusal(ElectLeadersResponse):
    """An answer whose code the first version has no place for."""

    def encode_into(self, out: list[Buffer], version: int) -> None:
        if version == 0:
            self.error_code = ErrorCode.NONE
        super().encode_into(out, version)


def refuse(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    """Refuse the request; versions without a code of their own tell it of every partition."""
    return _Refusal(
        error_code=code,
        replica_election_results=_results(
            (TopicPartition(topic.topic, index), code, message)
            for topic in request.topic_partitions or ()
            for index in topic.partitions
        ),
    )


def _results(
    outcomes: Iterable[tuple[TopicPartition, ErrorCode, str | None]],
) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for key, code, message in outcomes:
        topic = topics.setdefault(key.topic, ReplicaElectionResult(topic=key.topic))
        told = (message or code.message) if code else None
        topic.partition_result.append(
            PartitionResult(partition_id=key.partition, error_code=code, error_message=told)
        )
    return list(topics.values())
