"""Topics that are new here: known once their settings have been read, never before.

Job: read the settings of topics that an order names for the first time, and make the topics known with them. Must not know what the order wants.

Invariants: a topic without settings of its own and one whose settings could not be read are never mistaken for each other: the read is
repeated until the store answers, or the order does not count any more. A setting that changes between the read and the moment
at which the topic becomes known is not lost: whichever text the store showed last is in force.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import config_changes, entity_config, znodes
from barnabas.broker.tasks import together
from barnabas.model.cluster import Topic
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Done, Start, Task
    from barnabas.ports import ZNode

log = logging.getLogger(__name__)

#: How long to wait before settings are read again that could not be read.
RETRY_MS: Final = 200


class TopicLearning:
    """See the module. One order at a time learns."""

    def __init__(self, node: Node) -> None:
        """Learn nothing yet."""
        self._node = node
        #: Topics that are being learned: the settings that the store had when it was last read, None before the first answer.
        self._texts: dict[str, dict[str, str] | None] = {}
        #: Those of them whose settings make no sense.
        self._senseless: dict[str, None] = {}

    def learn(self, topics: Mapping[str, bytes]) -> Task[None]:
        """Make those of these topics known that are not: their ids by name.

        KafkaError if the registration is over before the settings could be read. A topic whose settings make no sense stays unknown.
        """
        assert not self._texts, "one order at a time"
        known = self._node.topics.by_name
        new = [name for name, id_ in topics.items() if name not in known or known[name].id != id_]
        self._texts = dict.fromkeys(new)
        try:
            yield from self._read_all()
            for name in new:
                self._make_known(name, topics[name])
        finally:
            self._texts = {}
            self._senseless = {}

    def on_settings(self, name: str, texts: dict[str, str]) -> None:
        """Hear what a topic's settings are now: one that is being learned gets them."""
        if name in self._texts:
            self._texts[name] = texts
            self._senseless.pop(name, None)

    def _read_all(self) -> Task[None]:
        node = self._node
        epoch = node.members.broker_epoch
        while unread := self._unread():
            errors = yield together([self._reading(name) for name in unread])
            unread = self._unread()
            if not unread:
                return
            error = next((one for one in errors if one is not None), None)
            log.warning(
                "the settings of %d new topics, such as %s, cannot be read, and are waited for: %s",
                len(unread), unread[0], error,
            )  # fmt: skip
            yield partial(node.pause, RETRY_MS)
            if node.stopping or node.members.broker_epoch != epoch:
                raise KafkaError(
                    ErrorCode.STALE_BROKER_EPOCH, f"The settings of {unread[0]} cannot be read."
                )

    def _unread(self) -> list[str]:
        return [n for n, texts in self._texts.items() if texts is None and n not in self._senseless]

    def _reading(self, name: str) -> Start:
        def start(done: Done) -> None:
            def read(found: ZNode | None, error: BaseException | None) -> None:
                if error is None:
                    self._take(name, found)
                done(None, error)

            self._node.world.coordination.read(f"{znodes.TOPIC_CONFIGS}/{name}", read)

        return start

    def _take(self, name: str, found: ZNode | None) -> None:
        try:
            self._texts[name] = entity_config.read(found)
        except znodes.SENSELESS as problem:
            self._senseless[name] = None
            log.error("topic %s cannot be served: its settings make no sense: %r", name, problem)

    def _make_known(self, name: str, topic_id: bytes) -> None:
        texts = self._texts[name]
        if texts is None:
            return
        known = self._node.topics.by_name.get(name)
        if (
            known is not None
        ):  # it was deleted, and another one made, without a word about the first
            self._node.coordinators.on_topic_deleted(known)
            self._node.transactions.on_topic_deleted(known)
        self._node.topics.put(Topic(name, topic_id, [], texts))
        if texts:
            config_changes.tell_office(self._node, name, texts)
