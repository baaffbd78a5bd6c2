"""Settings that another broker, or a tool, has changed: the store's notices, each read once.

Job: watch `/config/changes`, read again what a notice names, put it in force here. A notice says only that something changed: what is
in force is what stands at its place. Whoever finds a new one takes away, as in Kafka, those that every broker has had time to see.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from barnabas.broker import cluster_znodes, config_changes, entity_config, quota_store
from barnabas.broker.tasks import drive
from barnabas.ports import CoordinationError, Delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.ports import Watch

log = logging.getLogger(__name__)

_RETRY_MS = 500


class ConfigNotices:
    """Keeps this broker's settings those of the store."""

    def __init__(self, node: Node) -> None:
        """Have seen none."""
        self._node = node
        self._watch: Watch | None = None
        self._seen = -1
        #: Since when each notice is known here, by the clock that only goes on.
        self._known_since: dict[str, int] = {}
        self._is_looking = False
        self._look_again = False

    def start(self) -> None:
        """Look, and look again whenever there may be a new one."""
        self._watch = self._node.world.coordination.watch(cluster_znodes.CONFIG_CHANGES, self._look)
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self) -> None:
        self._look_again = True
        if not self._is_looking:
            self._is_looking = True
            drive(self._read_new(), self._on_read)

    def _on_read(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_looking = False
        if problem is not None:
            log.error("cannot follow changes of settings", exc_info=problem)

    def _read_new(self) -> Task[None]:
        node, coordination = self._node, self._node.world.coordination
        while self._look_again and self._watch is not None:
            self._look_again = False
            try:
                names = yield partial(coordination.read_children, cluster_znodes.CONFIG_CHANGES)
                for name in names or ():
                    number = cluster_znodes.notice_number(name)
                    if number <= self._seen:
                        continue
                    path = f"{cluster_znodes.CONFIG_CHANGES}/{name}"
                    notice = yield partial(coordination.read, path)
                    if notice is not None:
                        yield from self._take(cluster_znodes.read_config_notice(notice))
                    self._seen = number
                yield from self._remove_old(names or ())
            except OSError as problem:
                log.warning("cannot read changes of settings: %s", problem)
                yield partial(node.pause, _RETRY_MS)
                self._look_again = True

    def _remove_old(self, names: Sequence[str]) -> Task[None]:
        now_ms = self._node.world.clock.monotonic_ms()
        self._known_since = {name: self._known_since.get(name, now_ms) for name in names}
        for name, since_ms in self._known_since.items():
            if now_ms - since_ms >= cluster_znodes.CONFIG_CHANGE_KEPT_MS:
                operation = Delete(f"{cluster_znodes.CONFIG_CHANGES}/{name}")
                try:
                    yield partial(self._node.world.coordination.commit, [operation])
                except CoordinationError:
                    continue  # another broker was faster

    def _take(self, entity: str) -> Task[None]:
        """Put in force what stands under /config for this entity."""
        node = self._node
        kind, _, name = entity.partition("/")
        found = yield partial(node.world.coordination.read, f"/config/{entity}")
        texts = entity_config.read(found)
        if kind == "topics":
            config_changes.on_topic_changed(node, name, texts)
        elif kind == "brokers":
            config_changes.on_broker_changed(node, name, texts)
        elif kind == "groups":
            node.coordinators.group_settings.put(unquote(name), texts)
        elif kind == "users" and "/" not in name:
            node.users.put(unquote(name), texts)
        whose = quota_store.entity_at(entity)
        if whose is not None:
            node.quotas.put(whose, quota_store.limits_of(whose, texts))
