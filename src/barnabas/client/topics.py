"""Topics, their partitions, whether they may be written to, and the two of their settings that a writer must know.

Must not know offsets or records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.client.errors import ClientError, Refused, UnknownTopic, refusal
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.client.cluster import Cluster
    from barnabas.client.talk import Talk

_TOPIC_RESOURCE: Final = 2
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_CLEANUP_POLICY: Final = "cleanup.policy"
#: What a broker says that does not tell rights: no bits, but the lowest number there is.
_RIGHTS_UNKNOWN: Final = -0x80000000


class TopicLimits(NamedTuple):
    """What a topic takes; None where we may not look."""

    max_message_bytes: int | None
    is_compacted: bool | None


def topics(cluster: Cluster) -> Talk[list[str]]:
    """Return the names of all topics, without internal ones."""

    def attempt() -> Talk[list[str]]:
        answer: MetadataResponse = yield from cluster.metadata(None)
        return sorted(each.name for each in answer.topics if each.name and not each.is_internal)

    return (yield from cluster.retried(attempt))


def partitions(cluster: Cluster, names: Iterable[str]) -> Talk[dict[str, list[int]]]:
    """Return the partitions of topics; UnknownTopic at once if one is not there."""
    wanted = list(dict.fromkeys(names))

    def attempt() -> Talk[dict[str, list[int]] | UnknownTopic]:
        answer: MetadataResponse = yield from cluster.metadata(wanted)
        found = {}
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return UnknownTopic(name)
            if topic.error_code:
                raise refusal(topic.error_code, f"topic '{name}'")
            found[name] = sorted(each.partition_index for each in topic.partitions)
        return {name: found[name] for name in wanted if name in found}

    outcome: dict[str, list[int]] | UnknownTopic = yield from cluster.retried(attempt)
    if isinstance(outcome, UnknownTopic):
        raise outcome
    return outcome


def closed(cluster: Cluster, names: Iterable[str]) -> Talk[dict[str, Refused]]:
    """Name the topics that cannot be written to, and why: not there, or no right to. Nothing is written to find out."""
    wanted = [MetadataRequestTopic(name=each) for each in dict.fromkeys(names)]
    request = MetadataRequest(
        topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )

    def attempt() -> Talk[dict[str, Refused]]:
        answer: MetadataResponse = yield from cluster.ask_any(request)
        found = {topic.name or "": _why_closed(topic) for topic in answer.topics}
        for problem in found.values():
            # That a topic is not there may pass, too; but who asks wants to hear of it, not to wait.
            if problem is not None and problem.retriable and not isinstance(problem, UnknownTopic):
                raise problem
        return {name: problem for name, problem in found.items() if problem is not None}

    return (yield from cluster.retried(attempt))


def _why_closed(topic: MetadataResponseTopic) -> Refused | None:
    name, rights = topic.name or "", topic.topic_authorized_operations
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(name)
    if topic.error_code:
        return refusal(topic.error_code, f"topic '{name}'")
    if rights != _RIGHTS_UNKNOWN and not rights & 1 << Operation.WRITE:
        return refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic '{name}'", "no right to Write")
    return None


def limits(cluster: Cluster, topic: str) -> Talk[TopicLimits]:
    """Ask what a topic takes. Not being allowed to is no error: then only the broker's refusals tell."""
    resource = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE,
        resource_name=topic,
        configuration_keys=[_MAX_MESSAGE_BYTES, _CLEANUP_POLICY],
    )
    request = DescribeConfigsRequest(resources=[resource])

    def attempt() -> Talk[TopicLimits]:
        answer: DescribeConfigsResponse = yield from cluster.ask_any(request)
        for result in answer.results:
            if result.error_code:
                problem: ClientError = refusal(result.error_code, f"settings of topic '{topic}'")
                if problem.retriable:
                    raise problem
                break
            values = {each.name: each.value or "" for each in result.configs}
            size = values.get(_MAX_MESSAGE_BYTES, "")
            return TopicLimits(
                int(size) if size.isdigit() else None,
                "compact" in values.get(_CLEANUP_POLICY, ""),
            )
        return TopicLimits(None, None)

    return (yield from cluster.retried(attempt))
