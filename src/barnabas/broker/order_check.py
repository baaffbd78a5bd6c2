"""Orders that no controller can mean: names that are no topic's, partitions that cannot be or are named twice.

Job: refuse such an order whole, before anything of it is done; a name becomes a folder, and an index the length of a list. Must not know
what is hosted here, or who may give orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import topic_name_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.wire.messages.leader_and_isr import LeaderAndIsrTopicState
    from barnabas.wire.messages.update_metadata import UpdateMetadataTopicState

#: More partitions than any topic has.
PARTITION_COUNT_MAX: Final = 200_000


def check_roles(topics: Iterable[LeaderAndIsrTopicState]) -> None:
    """Raise KafkaError for an order to lead or follow that cannot be meant: topics have ids, and who leads is in sync."""
    check_order(topics)
    for topic in topics:
        if not any(topic.topic_id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic {topic.topic_name} has no id.")
        for state in topic.partition_states:
            if state.leader >= 0 and state.leader not in state.isr:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Broker {state.leader} cannot lead {topic.topic_name}-{state.partition_index}:"
                    f" in sync are {state.isr}.",
                )


def check_order(topics: Iterable[LeaderAndIsrTopicState | UpdateMetadataTopicState]) -> None:
    """Raise KafkaError for an order that cannot be meant."""
    named: set[str] = set()
    for topic in topics:
        problem = _problem(topic)
        if problem is None and topic.topic_name in named:
            problem = f"Topic {topic.topic_name} is named twice."
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        named.add(topic.topic_name)


def _problem(topic: LeaderAndIsrTopicState | UpdateMetadataTopicState) -> str | None:
    name, indexes = topic.topic_name, [state.partition_index for state in topic.partition_states]
    wrong = [index for index in indexes if not 0 <= index < PARTITION_COUNT_MAX]
    if wrong:
        return f"Topic {name} cannot have a partition {wrong[0]}."
    if not indexes:
        return f"Topic {name} is named without a partition."
    if len(set(indexes)) < len(indexes):
        return f"A partition of topic {name} is named twice."
    return topic_name_problem(name)
