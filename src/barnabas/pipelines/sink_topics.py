"""Topics that a pipeline writes to are made when they are missing.

Job: which topics those are, and asking the cluster for them, with as many partitions and replicas as its brokers choose. Must not know queries. A topic that a sink names is one;
a sink without a `topic` that is given dead letters (`poison.dead_letters`) writes to those of the topics that were read. Topics that are read by a pattern are those there are now: for one that comes
later, its dead letters' topic is made when the flow has failed for want of it and starts again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from barnabas.client.errors import refusal
from barnabas.client.settings import ClientSettings
from barnabas.model.errors import ErrorCode
from barnabas.pipelines.options import OUR_FORMAT, impatient
from barnabas.pipelines.poison import DEAD_LETTER_COLUMNS, SUFFIX
from barnabas.runtime.blocking_client import BlockingClient
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.pipelines.output import Sink

_TIMEOUT_MS: Final = 30_000
#: How long one broker may take to name its topics. One that takes connections and says nothing would hold up all flows for the 30 seconds of request.timeout.ms.
_ANSWER_MS: Final = 5_000


def topics_of(sink: Sink, columns: Sequence[str], topics_read: Iterable[str]) -> list[str]:
    """Name the topics that rows with these columns go to, as far as that can be known before they come."""
    if sink.format != OUR_FORMAT:
        return []
    options = {name.lower(): value for name, value in sink.options.items()}
    named = [options[name] for name in ("topic", "deadlettertopic") if name in options]
    if takes_dead_letters(sink, columns):
        named += [f"{topic}{SUFFIX}" for topic in sorted(topics_read)]
    return list(dict.fromkeys(named))


def takes_dead_letters(sink: Sink, columns: Sequence[str]) -> bool:
    """Whether rows with these columns go to the dead letters of the topics they came from."""
    has_topic = any(name.lower() == "topic" for name in sink.options)
    return sink.format == OUR_FORMAT and not has_topic and tuple(columns) == DEAD_LETTER_COLUMNS


def topics_found(client: Mapping[str, str], patterns: Iterable[str]) -> set[str]:
    """Ask for the topics that are found by one of these patterns now; without dead letters, for each of those would be given its own, and these again."""
    searches = [re.compile(pattern).search for pattern in patterns]
    if not searches:
        return set()
    topics = [topic for topic in _known(client) if not topic.endswith(SUFFIX)]
    return {topic for topic in topics if any(search(topic) for search in searches)}


def client_of(sink: Sink) -> dict[str, str]:
    """Give the settings of a client for the sink's cluster."""
    return {
        name[len("kafka.") :]: value
        for name, value in sink.options.items()
        if name.lower().startswith("kafka.")
    }


def create_missing(sink: Sink, topics: Iterable[str]) -> None:
    """Create those that are not there; ClientError if that cannot be, soon: other flows wait meanwhile, and this one is tried again."""
    wanted = list(dict.fromkeys(topics))
    if not wanted:
        return
    known = _known(client_of(sink))
    missing = [topic for topic in wanted if topic not in known]
    if missing:
        # To create topics may take a cluster longer than to name them.
        with BlockingClient(impatient(ClientSettings.parse(client_of(sink)))) as client:
            _create(client, missing)


def _known(client: Mapping[str, str]) -> set[str]:
    settings = impatient(ClientSettings.parse(client))
    answer_ms = min(settings.request_timeout_ms, _ANSWER_MS)
    with BlockingClient(settings.replace(request_timeout_ms=answer_ms)) as asked:
        return set(asked.topics())


def _create(client: BlockingClient, topics: Sequence[str]) -> None:
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
