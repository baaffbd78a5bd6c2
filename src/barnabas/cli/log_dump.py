"""`barnabas log dump`: what stands in the files of a data directory.

One job: which files, and rows as text or as JSON lines. Records of Kafka's own topics are shown by their meaning.
"""

from __future__ import annotations

import json
import os
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from barnabas.broker.internal_records import describe
from barnabas.cli.failure import Failure
from barnabas.cli.offline import is_locked, output_option
from barnabas.cli.record import bytes_to_json
from barnabas.runtime.read_only_disk import ReadOnlyDisk
from barnabas.storage.directory import parse_folder
from barnabas.storage.dump import Row, UnknownFile, dump_file, is_known

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Keys that text leaves out where they say nothing: no producer, no transaction, the usual time.
_USUAL = {
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "transactional": False,
    "control": False,
    "timestamp_type": "create",
    "codec": "none",
    "headers": (),
}


@click.command()
@click.argument("path", type=click.Path(exists=True))
@click.option("--records", is_flag=True, help="Also every record, with key and value.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N rows of each file."
)
@output_option("table", "json")
def dump(path: str, output: str, *, records: bool, limit: int | None) -> None:
    """Show what is in a log file, an index, a snapshot or a checkpoint.

    PATH is a file, or a folder: then all of its files, one after another. With -o json each row is one line of JSON.
    """
    disk = ReadOnlyDisk()
    for file in _files(disk, path):
        if output == "table":
            click.echo(click.style(f"{file}:", bold=True))
        topic = _topic_of(file)
        for row in islice(_rows(disk, file, records=records), limit):
            click.echo(_json(file, row, topic) if output == "json" else _text(row, topic))
        disk.close()


def _files(disk: ReadOnlyDisk, path: str) -> Iterator[str]:
    if not disk.is_dir(path):
        yield path
        return
    if is_locked(path):
        click.echo(f"note: a broker is running on {path}: it may write as we read", err=True)
    for name in disk.list(path):
        below = os.path.join(path, name)
        if disk.is_dir(below):
            if parse_folder(name) is not None:
                yield from _files(disk, below)
        elif is_known(name):
            yield below


def _rows(disk: ReadOnlyDisk, file: str, *, records: bool) -> Iterator[Row]:
    try:
        yield from dump_file(disk, file, records=records)
    except UnknownFile as problem:
        raise Failure(str(problem)) from None
    except ValueError as problem:
        yield {"kind": "damage", "reason": str(problem)}


def _topic_of(file: str) -> str:
    key = parse_folder(os.path.basename(os.path.dirname(os.path.abspath(file))))
    return key.topic if key else ""


def _meaning(row: Row, topic: str) -> Any:  # noqa: ANN401 - a JSON-like value
    if row["kind"] != "record" or not topic.startswith("__"):
        return None
    return describe(topic, row["key"], row["value"])


# JSON


def _json(file: str, row: Row, topic: str) -> str:
    meaning = _meaning(row, topic)
    values = {"file": file, **row}
    if meaning is not None:
        values["decoded"] = meaning
    if "headers" in values:
        values["headers"] = [{"key": name, "value": value} for name, value in values["headers"]]
    return json.dumps(_jsonable(values), ensure_ascii=False)


def _jsonable(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, dict):
        return {name: _jsonable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(one) for one in value]
    return bytes_to_json(value) if isinstance(value, bytes) else value


# Text


def _text(row: Row, topic: str) -> str:
    meaning = _meaning(row, topic)
    kind, values = row["kind"], {name: row[name] for name in row if name != "kind"}
    if meaning is not None:
        del values["key"], values["value"]
        kind = meaning.pop("type")
        values |= meaning
    words = [
        f"{name}={_word(value)}"
        for name, value in values.items()
        if name not in _USUAL or _USUAL[name] != value
    ]
    indent = "" if row["kind"] not in ("record", "control") else "  "
    return f"{indent}{kind} {' '.join(words)}"


def _word(value: Any) -> str:  # noqa: ANN401 - as above
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return escaped(value)
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}={_word(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(_word(one) for one in value) + "]"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def escaped(data: bytes) -> str:
    """Bytes between quotes: text as it is, everything else escaped, so that each is one word of one line."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text:
        shown = "".join(_escaped_byte(byte) for byte in data)
        return f'"{shown}"'
    return json.dumps(text, ensure_ascii=False)


def _escaped_byte(byte: int) -> str:
    if chr(byte) in '\\"':
        return "\\" + chr(byte)
    return chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"
