"""Settings that another broker, or a tool, has changed: read again and put in force here.

Job: take the notices under `/config/changes` (`notices.py`). A notice says only that something changed: what is in force is what
stands at its place.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from barnabas.broker import cluster_znodes, config_changes, entity_config, quota_store, znodes
from barnabas.broker.notices import Notices

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.ports import ZNode


class ConfigNotices:
    """Keeps this broker's settings those of the store."""

    def __init__(self, node: Node) -> None:
        """Have seen none."""
        self._node = node
        self._notices = Notices(
            node, cluster_znodes.CONFIG_CHANGES, self._on_notice, self._read_all
        )

    def start(self) -> None:
        """Look, and look again whenever there may be a new one."""
        self._notices.start()

    def stop(self) -> None:
        """Look no more."""
        self._notices.stop()

    def _on_notice(self, notice: ZNode) -> Task[None]:
        entity = cluster_znodes.read_config_notice(notice)
        found = yield partial(self._node.world.coordination.read, f"{znodes.CONFIG}/{entity}")
        self._put(entity, entity_config.read(found))

    def _read_all(self) -> Task[None]:
        tree = yield partial(self._node.world.coordination.read_tree, znodes.CONFIG)
        for path, found in tree.items():
            if found.data and not path.startswith(cluster_znodes.CONFIG_CHANGES):
                self._put(path.removeprefix(f"{znodes.CONFIG}/"), entity_config.read(found))

    def _put(self, entity: str, texts: dict[str, str]) -> None:
        """Put in force what stands under /config for this entity."""
        node = self._node
        kind, _, name = entity.partition("/")
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
