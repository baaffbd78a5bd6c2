"""Whether a data directory is that of a cluster's member, on which somebody is about to start a broker that stands alone.

Such a broker would take over every folder as a topic of its own, with default settings and without what other brokers have. Apache Kafka's directories
are known by its metadata log, or by an older meta.properties; a broker's own by its store.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.runtime.assembly import STORE_FILE
from barnabas.storage.directory import METADATA_TOPIC, parse_folder
from barnabas.storage.meta_properties import CorruptMetaProperties, decode

if TYPE_CHECKING:
    from collections.abc import Sequence

_META_PROPERTIES = "meta.properties"


def objection(log_dirs: Sequence[str]) -> str | None:
    """Say what speaks against a broker of its own on these directories; None if nothing does."""
    folders = [Path(each) for each in log_dirs]
    has_store = (folders[0] / STORE_FILE).exists()
    if has_store or any(list(each.glob(f"{METADATA_TOPIC}-*")) for each in folders):
        return None
    for folder in folders:
        try:
            meta = decode((folder / _META_PROPERTIES).read_bytes())
        except (OSError, CorruptMetaProperties):
            continue  # empty, or the start says what is wrong
        partitions = [each for each in folder.iterdir() if parse_folder(each.name) is not None]
        if meta.version and partitions:
            return (
                f"{folder} has {len(partitions)} partitions of broker {meta.node_id} of the cluster {meta.cluster_id}, and no {STORE_FILE}:"
                " it is that of a member of a cluster, or its store is lost. Name the cluster with --set zookeeper.connect=HOST:PORT,"
                " or make all that is there topics of a broker of its own, with default settings, by --adopt"
            )
    return None
