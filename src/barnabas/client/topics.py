"""Topics, their partitions, and the two of their settings that a writer must know.

Must not know offsets or records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.client.errors import ClientError, UnknownTopic, refusal
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.client.cluster import Cluster
    from barnabas.client.talk import Talk
    from barnabas.wire.messages.metadata import MetadataResponse

_TOPIC_RESOURCE: Final = 2
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_CLEANUP_POLICY: Final = "cleanup.policy"


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
