"""The text of `meta.properties`: which cluster and broker a log directory belongs to.

Job: Kafka's version 0 (ZooKeeper) and 1 (KRaft) both ways, and whether a directory may be opened by this broker.
Must not know: where the file lies. The same lines in the same order as Kafka's, without its date.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.model.ids import TopicId, topic_id_from_text, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME: Final = "meta.properties"

_LINE: Final = re.compile(r"\s*((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class CorruptMetaProperties(ValueError):
    """Text that is no meta.properties."""


class ForeignDirectory(Exception):
    """The directory belongs to another cluster or another broker."""


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """What the file says. Version 0 may leave out everything."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None


def encode(meta: MetaProperties) -> bytes:
    """Write the file as Java writes properties, with an empty comment first."""
    lines = ["#"]
    if meta.node_id is not None:
        lines.append(f"{'node.id' if meta.version else 'broker.id'}={meta.node_id}")
    if meta.directory_id is not None:
        lines.append(f"directory.id={topic_id_text(TopicId(meta.directory_id))}")
    lines.append(f"version={meta.version}")
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={_escaped(meta.cluster_id)}")
    return "".join(f"{line}\n" for line in lines).encode()


def decode(data: bytes) -> MetaProperties:
    """Read the file; CorruptMetaProperties says what is wrong."""
    try:
        values = dict(_pairs(data.decode()))
    except UnicodeDecodeError:
        raise CorruptMetaProperties("meta.properties is no text") from None
    version = _number(values, "version") or 0
    if version not in (0, 1):
        raise CorruptMetaProperties(
            f"version {version} of meta.properties is not known, only 0 and 1"
        )
    meta = MetaProperties(
        version,
        values.get("cluster.id"),
        _number(values, "node.id" if version else "broker.id"),
        _directory_id(values),
    )
    if version and (meta.cluster_id is None or meta.node_id is None):
        raise CorruptMetaProperties("version 1 of meta.properties needs cluster.id and node.id")
    return meta


def check_owner(meta: MetaProperties, path: str, cluster_id: str, broker_id: int) -> None:
    """ForeignDirectory unless the directory is this broker's; what the file leaves out is not held against it."""
    if meta.cluster_id is not None and meta.cluster_id != cluster_id:
        raise ForeignDirectory(
            f"{path}/{FILE_NAME} says that this directory belongs to cluster {meta.cluster_id}, "
            f"but this broker belongs to cluster {cluster_id}: use the directory of this cluster, "
            "or an empty one"
        )
    if meta.node_id is not None and meta.node_id != broker_id:
        raise ForeignDirectory(
            f"{path}/{FILE_NAME} says that this directory belongs to broker {meta.node_id}, "
            f"but this is broker {broker_id}: start with broker.id={meta.node_id}, or use an empty "
            "directory"
        )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            match = _LINE.fullmatch(stripped)
            assert match is not None, "the pattern matches every line"
            yield _ESCAPE.sub(r"\1", match[1]), _ESCAPE.sub(r"\1", match[2])


def _escaped(value: str) -> str:
    return re.sub(r"([\\:=#!])", r"\\\1", value)


def _number(values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise CorruptMetaProperties(f"{name}={text} in meta.properties is no number") from None


def _directory_id(values: dict[str, str]) -> bytes | None:
    text = values.get("directory.id")
    if text is None:
        return None
    try:
        return topic_id_from_text(text)
    except ValueError:
        raise CorruptMetaProperties(
            f"directory.id={text} in meta.properties is not 22 characters of URL-safe base64"
        ) from None
