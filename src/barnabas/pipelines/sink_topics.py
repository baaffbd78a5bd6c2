"""Topics that a pipeline writes to are made when they are missing.

Job: which topics those are, and asking the cluster for them, with as many partitions and replicas as its brokers choose. Must not know queries. A topic that a sink names is one;
a sink without a `topic` that is given dead letters (`poison.dead_letters`) writes to those of the topics that were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.client.errors import refusal
from barnabas.client.settings import ClientSettings
from barnabas.model.errors import ErrorCode
from barnabas.pipelines.options import impatient
from barnabas.pipelines.poison import DEAD_LETTER_COLUMNS, SUFFIX
from barnabas.runtime.blocking_client import BlockingClient
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.pipelines.output import Sink

_TIMEOUT_MS: Final = 30_000
OUR_FORMAT: Final = "barnabas"


def topics_of(sink: Sink, columns: Sequence[str], topics_read: Iterable[str]) -> list[str]:
    """Name the topics that rows with these columns go to, as far as that can be known before they come."""
    if sink.format != OUR_FORMAT:
        return []
    options = {name.lower(): value for name, value in sink.options.items()}
    named = [options[name] for name in ("topic", "deadlettertopic") if name in options]
    if "topic" not in options and tuple(columns) == DEAD_LETTER_COLUMNS:
        named += [f"{topic}{SUFFIX}" for topic in sorted(topics_read)]
    return list(dict.fromkeys(named))


def create_missing(sink: Sink, topics: Iterable[str]) -> None:
    """Create those that are not there; ClientError if that cannot be, soon: other flows wait meanwhile, and this one is tried again."""
    wanted = list(dict.fromkeys(topics))
    if not wanted:
        return
    settings = {
        name[len("kafka.") :]: value
        for name, value in sink.options.items()
        if name.lower().startswith("kafka.")
    }
    with BlockingClient(impatient(ClientSettings.parse(settings))) as client:
        known = set(client.topics())
        _create(client, [topic for topic in wanted if topic not in known])


def _create(client: BlockingClient, topics: Sequence[str]) -> None:
    if not topics:
        return
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1) for topic in topics
        ],
        timeout_ms=_TIMEOUT_MS,
    )
    controller = client.metadata([]).controller_id
    for answer in client.ask(controller, request).topics:
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise refusal(answer.error_code, f"topic {answer.name!r}", answer.error_message)
