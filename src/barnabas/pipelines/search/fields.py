"""What the index knows of an event, and what it knows of its writers.

Job: the fields, events and marks as documents. Must not know Spark, nor who writes when.

A *mark* is a document that says which batch of which writer was the last. It is committed together with the documents of that batch, so
the two cannot differ after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tantivy import Document, SchemaBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tantivy import Schema

TIME: Final = "time_ms"
#: Texts of an event, in the order in which they are shown.
TEXTS: Final = ("level", "source", "host", "app", "format", "message", "stack", "place")
#: Where words are looked for that are given without a field.
SEARCHED: Final = ("message", "stack", "source")
DETAILS: Final = "details"
WRITER: Final = "writer_"
BATCH: Final = "batch_"
#: A line may have megabytes; nobody reads that in a list of findings. The table has it whole.
TEXT_CHARS_MAX: Final = 32 * 1024


class Event(NamedTuple):
    """One event as it is found."""

    time_ms: int
    texts: Mapping[str, str]
    details: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """All of it, under stable keys."""
        texts = {name: self.texts.get(name) for name in TEXTS}
        return {TIME: self.time_ms, **texts, DETAILS: dict(self.details)}


def schema() -> Schema:
    """Make the schema. A level, a host or an app is found in upper or lower case."""
    builder = SchemaBuilder()
    builder.add_integer_field(TIME, stored=True, indexed=True, fast=True)
    for name in TEXTS:
        if name == "place":
            builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
        else:
            builder.add_text_field(name, stored=True)
    builder.add_json_field(DETAILS, stored=True)
    builder.add_text_field(WRITER, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(BATCH, stored=True, fast=True)
    return builder.build()


def event_document(row: Mapping[str, Any], known: Schema) -> Document:
    """Make the document of an event: `time_ms`, texts and `details`, those that it has."""
    made: dict[str, Any] = {TIME: row[TIME]}
    for name in TEXTS:
        text = row.get(name)
        if text:
            made[name] = _cut(text)
    details = row.get(DETAILS)
    if details:
        made[DETAILS] = {name: _cut(text) for name, text in dict(details).items() if text}
    return Document.from_dict(made, known)


def mark_document(writer: str, batch: int, known: Schema) -> Document:
    """Make a mark."""
    return Document.from_dict({WRITER: writer, BATCH: batch}, known)


def event_of(document: Document) -> Event:
    """Read an event from a document."""
    stored = document.to_dict()
    texts: dict[str, str] = {name: stored[name][0] for name in TEXTS if name in stored}
    details = stored.get(DETAILS, [{}])[0]
    return Event(stored[TIME][0], texts, {name: str(text) for name, text in details.items()})


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:TEXT_CHARS_MAX]}… ({len(text):,} characters)"
