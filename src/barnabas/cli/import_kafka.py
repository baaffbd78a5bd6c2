"""`barnabas import-kafka`: the data directory of an Apache Kafka becomes one of ours.

One job: the command: look, show, copy (or link, or leave in place), write the store. What comes along is decided in
broker/adoption.py, which a plain start on such a directory uses, too.

A new directory is made beside its place under another name and renamed when it is complete: a crash leaves no half of one.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from barnabas.broker.adoption import Adoption, plan_adoption
from barnabas.broker.znodes import cluster_id_operation
from barnabas.cli.failure import Failure
from barnabas.cli.offline import LOCK_FILE, output_option, progress, take_lock
from barnabas.cli.output import counted, emit, table
from barnabas.cli.up import DEFAULT_DATA_DIR
from barnabas.model.cluster import INTERNAL_TOPICS
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.ids import TopicId, topic_id_text
from barnabas.runtime.assembly import STORE_FILE
from barnabas.runtime.directory_copy import (
    copy_folder,
    find_link,
    folder_bytes,
    sync_folder,
)
from barnabas.runtime.offline_store import write_store
from barnabas.runtime.read_only_disk import ReadOnlyDisk
from barnabas.storage import checkpoints, meta_properties
from barnabas.storage.directory import (
    CLEAN_SHUTDOWN_CONTENT,
    CLEAN_SHUTDOWN_FILE,
    read_identity,
)
from barnabas.storage.verify_directory import CHECKPOINTS, view_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.model.ids import TopicPartition
    from barnabas.storage.meta_properties import MetaProperties

COPY, LINK, IN_PLACE = "copy", "link", "in-place"
#: Behind the name of a directory that is not complete, and in it so that nobody else's is taken for one.
PARTIAL = ".importing"
MARK = ".barnabas-import"


@dataclass(slots=True, frozen=True)
class Source:
    """The directories of one Apache Kafka, and what becomes of what is in them."""

    paths: tuple[str, ...]
    cluster_id: str
    clean: bool
    adoption: Adoption
    folder_bytes: dict[str, int]

    @property
    def size_bytes(self) -> int:
        """Bytes to bring over."""
        return sum(self.folder_bytes.values())


@click.command("import-kafka")
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option(
    "--data-dir",
    metavar="DIR",
    help=f"The new directory: not there yet, or empty. [default: ./{DEFAULT_DATA_DIR}]",
)
@click.option("--copy", "how", flag_value=COPY, help="Copy everything. [default]")
@click.option("--link", "how", flag_value=LINK, help="Share closed segments, on one volume.")
@click.option("--in-place", "how", flag_value=IN_PLACE, help="Take the directory itself over.")
@click.option("--topics", metavar="PATTERN", help="Only these, as in a shell: 'orders-*'.")
@click.option("--node-id", type=click.IntRange(min=0), help="Of the new broker. [default: 1]")
@click.option("--dry-run", is_flag=True, help="Show what would come, change nothing.")
@output_option()
def import_kafka(sources: tuple[str, ...], output: str, **options: Any) -> None:  # noqa: ANN401
    """Bring the data directory of an Apache Kafka in.

    SOURCES are the log directories of one stopped broker (4.x, or 3.9). Topics come with ids, settings and records, groups with
    their offsets. Without --in-place the source stays as it is.
    """
    how = options["how"] or COPY
    _refuse_links(sources)
    target = _target(sources, how, options)
    disk = ReadOnlyDisk()
    locks = [take_lock(path) for path in sources if os.path.exists(os.path.join(path, LOCK_FILE))]
    try:
        source = _look(disk, sources, how, options)
        if output == "table":
            _show(source)
        if not options["dry_run"]:
            _bring(source, how, target)
        if output != "table":
            emit(_as_json(source, target, done=not options["dry_run"]), output)
        elif not options["dry_run"]:
            _tell_next(source, how, target)
    finally:
        disk.close()
        for lock in locks:
            lock.release()


def _target(sources: Sequence[str], how: str, options: dict[str, Any]) -> str:
    if how == IN_PLACE:
        for name in ("data_dir", "topics", "node_id"):
            if options[name] is not None:
                word = name.replace("_", "-")
                raise click.UsageError(f"--in-place takes everything as it is: no --{word}")
        target = sources[0]
        taken = os.path.exists(os.path.join(target, STORE_FILE))
    else:
        target = os.path.abspath(options["data_dir"] or DEFAULT_DATA_DIR)
        taken = os.path.isdir(target) and bool(os.listdir(target))
    if how != IN_PLACE and any(_is_within(target, path) for path in sources):
        raise Failure(f"{target} is in the directory that it is made from", "name another one")
    if taken:
        raise Failure(f"{target} is in use already", "name a new directory with --data-dir")
    return target


def _is_within(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path != folder and os.path.commonpath((path, folder)) == folder


# Looking


def _refuse_links(sources: Sequence[str]) -> None:
    """Make sure that what is read and written lies in the directories that were named."""
    for path in sources:
        link = find_link(path)
        if link is not None:
            raise Failure(
                f"{link} is a symbolic link to {os.readlink(link)}, and links are not followed",
                "put what it points to in its place; a directory elsewhere can be named as one more of SOURCES",
            )


def _look(disk: ReadOnlyDisk, sources: Sequence[str], how: str, options: dict[str, Any]) -> Source:
    views = [view_directory(disk, path) for path in sources]
    identities = [read_identity(disk, path) for path in sources]
    if not any(view.partitions for view in views):
        raise Failure(f"{', '.join(sources)}: no partition is there", "name Kafka's log.dirs")
    identity = next((one for one in identities if one is not None), None)
    _check_sources(sources, identities, [view.partitions for view in views])
    config = BrokerConfig({"node.id": str(_node_id(identity, how, options))})
    pattern = options["topics"]

    def wanted(topic: str) -> bool:
        return pattern is None or topic in INTERNAL_TOPICS or fnmatch.fnmatchcase(topic, pattern)

    adoption = plan_adoption(disk, sources, config, _new_id, wanted)
    if not adoption.has_metadata:
        adoption.notes.append(
            "there is no metadata log here, so topics get default settings: "
            "Kafka 3.9 with ZooKeeper kept them there; set them with `barnabas config set`"
        )
    cluster_id = (identity.cluster_id if identity else None) or topic_id_text(TopicId(_new_id()))
    sizes = {folder.path: folder_bytes(folder.path) for folder in adoption.folders}
    return Source(tuple(sources), cluster_id, all(view.clean for view in views), adoption, sizes)


def _check_sources(
    sources: Sequence[str],
    identities: Sequence[MetaProperties | None],
    partitions: Sequence[Iterable[TopicPartition]],
) -> None:
    """Refuse what is not the directories of one Kafka: folders with a number behind their name are everywhere."""
    if not any(identities):
        raise Failure(
            f"{', '.join(sources)}: no {meta_properties.FILE_NAME} is there, so it is no directory of Kafka's",
            "name Kafka's log.dirs",
        )
    clusters = {one.cluster_id for one in identities if one is not None and one.cluster_id}
    if len(clusters) > 1:
        raise Failure(
            f"{', '.join(sources)}: of different clusters ({', '.join(sorted(clusters))})",
            "name the log.dirs of one broker",
        )
    places: dict[TopicPartition, str] = {}
    for path, keys in zip(sources, partitions, strict=True):
        for key in keys:
            if key in places:
                raise Failure(
                    f"{key} is in {places[key]} and in {path}",
                    "name each directory once, and move one of the two folders out of the way",
                )
            places[key] = path


def _node_id(identity: MetaProperties | None, how: str, options: dict[str, Any]) -> int:
    if how == IN_PLACE and identity is not None and identity.node_id is not None:
        return identity.node_id
    return 1 if options["node_id"] is None else int(options["node_id"])


def _new_id() -> bytes:
    while True:
        raw = uuid.uuid4().bytes
        # Kafka hands out no id that a command line would take for an option.
        if not topic_id_text(TopicId(raw)).startswith("-"):
            return raw


# Doing


def _bring(source: Source, how: str, target: str) -> None:
    node_id = source.adoption.topics[0].partitions[0].leader if source.adoption.topics else 1
    operations = [cluster_id_operation(source.cluster_id), *source.adoption.operations(node_id)]
    if how == IN_PLACE:
        write_store(os.path.join(target, STORE_FILE), operations)
        return
    partial = target + PARTIAL
    _begin(partial, source if how == COPY else None)
    with progress(source.size_bytes, "linking" if how == LINK else "copying") as advance:
        _copy_all(source, partial, advance, link=how == LINK)
    write_store(os.path.join(partial, STORE_FILE), operations)
    sync_folder(partial)
    if os.path.isdir(target):
        os.rmdir(target)
    os.rename(partial, target)
    sync_folder(os.path.dirname(target))
    os.unlink(os.path.join(target, MARK))


def _begin(partial: str, source: Source | None) -> None:
    """Make the directory, in place of one that an import before left half done."""
    if os.path.exists(os.path.join(partial, MARK)):
        shutil.rmtree(partial)
    os.makedirs(partial)
    with open(os.path.join(partial, MARK), "x"):
        pass
    free = shutil.disk_usage(partial).free
    if source is not None and source.size_bytes > free:
        raise Failure(
            f"{counted(source.size_bytes, 'byte')} to copy, {counted(free, 'byte')} free",
            "--link needs no room on the same volume, --in-place none at all",
        )


def _copy_all(source: Source, partial: str, advance: Callable[[int], None], *, link: bool) -> None:
    for folder in source.adoption.folders:
        copy = os.path.join(partial, str(folder.key))
        try:
            copy_folder(folder.path, copy, advance, link=link)
        except OSError as problem:
            if not link:
                raise
            raise Failure(
                f"{folder.path} cannot be linked: {problem.strerror}",
                "--link needs the same volume; --copy works everywhere",
            ) from None
    _copy_checkpoints(source, partial)
    if source.clean:
        _write(os.path.join(partial, CLEAN_SHUTDOWN_FILE), CLEAN_SHUTDOWN_CONTENT)


def _copy_checkpoints(source: Source, partial: str) -> None:
    """Bring the lines of the partitions that come along."""
    keys = {folder.key for folder in source.adoption.folders}
    views = [view_directory(ReadOnlyDisk(), path) for path in source.paths]
    for name in CHECKPOINTS:
        offsets = {
            key: offset
            for view in views
            for key, offset in view.offsets.get(name, {}).items()
            if key in keys
        }
        if offsets:
            _write(os.path.join(partial, name), checkpoints.encode(offsets))


def _write(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# Telling


def _sizes(source: Source) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for folder in source.adoption.folders:
        size = source.folder_bytes[folder.path]
        sizes[folder.key.topic] = sizes.get(folder.key.topic, 0) + size
    return sizes


def _show(source: Source) -> None:
    sizes = _sizes(source)
    rows = [
        (
            topic.name,
            len(topic.partitions),
            sizes.get(topic.name, 0),
            " ".join(f"{name}={value}" for name, value in topic.overrides.items()) or "-",
        )
        for topic in source.adoption.topics
    ]
    click.echo(table(("TOPIC", "PARTITIONS", "BYTES", "SETTINGS"), rows))
    for broker, settings in source.adoption.broker_settings.items():
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        click.echo(f"settings of broker {broker}: {words}")
    for note in source.adoption.notes:
        click.echo(f"note: {note}", err=True)
    if not source.clean:
        click.echo("note: Kafka was not stopped cleanly: the first start checks the logs", err=True)


def _tell_next(source: Source, how: str, target: str) -> None:
    topics = counted(len(source.adoption.topics), "topic")
    click.echo(f"imported {topics} of cluster {source.cluster_id} into {target}", err=True)
    node_id = source.adoption.topics[0].partitions[0].leader if source.adoption.topics else 1
    words = [f"barnabas up --data-dir {','.join(source.paths) if how == IN_PLACE else target}"]
    if node_id != 1:
        words.append(f"--set node.id={node_id}")
    click.echo(f"start it:  {' '.join(words)}", err=True)
    click.echo(
        "settings in Kafka's server.properties stay there: add --config FILE to use them", err=True
    )


def _as_json(source: Source, target: str, *, done: bool) -> dict[str, Any]:
    sizes = _sizes(source)
    return {
        "cluster_id": source.cluster_id,
        "data_dir": target,
        "done": done,
        "clean_stop": source.clean,
        "topics": [
            {
                "topic": topic.name,
                "id": topic_id_text(TopicId(topic.id)),
                "partitions": len(topic.partitions),
                "bytes": sizes.get(topic.name, 0),
                "settings": topic.overrides,
            }
            for topic in source.adoption.topics
        ],
        "broker_settings": source.adoption.broker_settings,
        "group_settings": source.adoption.group_settings,
        "notes": source.adoption.notes,
    }
