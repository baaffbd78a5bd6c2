"""Read Kafka's message schemas (JSON inside published jars) into plain Python objects.

Job: versions, types, defaults and names, exactly as Kafka's own generator understands them, and the union of
several releases of one message. It must not know how code is written from them.
"""

import builtins
import json
import keyword
import re
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

FIXED = {"bool", "int8", "int16", "uint16", "int32", "int64", "float64", "uuid"}
PRIMITIVES = FIXED | {"string", "bytes", "records"}
LAST_VERSION = 0x7FFF
EMPTY = (1, 0)


def parse_versions(text: str | None) -> tuple[int, int]:
    """Read "3", "3-5", "3+" or "none" as an inclusive range; an empty range has its end before its start."""
    if text is None or text == "none":
        return EMPTY
    if text.endswith("+"):
        return int(text[:-1]), LAST_VERSION
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def snake(name: str) -> str:
    """Spell a schema's name as a Python attribute."""
    spelled = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    clashes = keyword.iskeyword(spelled) or hasattr(builtins, spelled)
    return spelled + "_" if clashes else spelled


@dataclass
class Field:
    """One field of one struct, as one release describes it."""

    name: str
    kind: str  # a primitive, or the name of a struct
    is_array: bool
    versions: tuple[int, int]
    nullable: tuple[int, int]
    tagged: tuple[int, int]
    tag: int
    default: str | None
    ignorable: bool
    flexible: tuple[int, int] | None
    about: str

    @property
    def is_struct(self) -> bool:
        """Tell whether the field, or each of its elements, is a struct."""
        return self.kind not in PRIMITIVES

    def present(self, version: int) -> bool:
        """Tell whether a version carries the field, tagged or not."""
        return _within(version, self.versions)

    def is_tagged(self, version: int) -> bool:
        """Tell whether a version carries the field in its tagged section."""
        return _within(version, self.tagged)

    def is_nullable(self, version: int) -> bool:
        """Tell whether a version allows null."""
        return _within(version, self.nullable)

    @property
    def ever_nullable(self) -> bool:
        """Tell whether any version allows null."""
        return self.nullable != EMPTY

    @property
    def ever_tagged(self) -> bool:
        """Tell whether any version tags the field."""
        return self.tagged != EMPTY


def _within(version: int, span: tuple[int, int]) -> bool:
    return span[0] <= version <= span[1]


@dataclass
class Schema:
    """One message as one release describes it; `structs[""]` is the message itself."""

    name: str
    type: str
    api_key: int
    versions: tuple[int, int]
    flexible: tuple[int, int]
    structs: dict[str, list[Field]] = field(default_factory=dict)


def load_jar(path: Path) -> dict[str, Schema]:
    """Read every schema in a jar, by message name."""
    found = {}
    with zipfile.ZipFile(path) as jar:
        for entry in sorted(jar.namelist()):
            if entry.startswith(("common/message/", "common/metadata/")) and entry.endswith(
                ".json"
            ):
                schema = parse_schema(jar.read(entry).decode())
                found[schema.name] = schema
    return found


def parse_schema(text: str) -> Schema:
    """Read one schema; its JSON has comments, on lines of their own or at a line's end."""
    bare = re.sub(r"(?m)^\s*//.*$", "", text)
    raw = json.loads(re.sub(r'(?m)\s+//[^"\n]*$', "", bare))
    schema = Schema(
        name=raw["name"],
        type=raw["type"],
        api_key=raw.get("apiKey", -1),
        versions=parse_versions(raw["validVersions"]),
        flexible=parse_versions(raw.get("flexibleVersions")),
    )
    for common in raw.get("commonStructs", []):
        _add_struct(schema, common["name"], common["fields"])
    _add_struct(schema, "", raw.get("fields", []))
    return schema


def _add_struct(schema: Schema, name: str, raw_fields: list[dict]) -> None:
    assert name not in schema.structs, f"{schema.name}: struct {name} is described twice"
    fields = schema.structs[name] = []
    for raw in raw_fields:
        parsed = _parse_field(raw)
        fields.append(parsed)
        if "fields" in raw:
            _add_struct(schema, parsed.kind, raw["fields"])


def _parse_field(raw: dict) -> Field:
    kind = raw["type"].removeprefix("[]")
    default = raw.get("default")
    tagged = parse_versions(raw.get("taggedVersions"))
    own_flexible = raw.get("flexibleVersions")
    return Field(
        name=raw["name"],
        kind=kind,
        is_array=raw["type"].startswith("[]"),
        versions=parse_versions(raw["versions"]) if "versions" in raw else tagged,
        nullable=parse_versions(raw.get("nullableVersions")),
        tagged=tagged,
        tag=raw.get("tag", -1),
        default=None if default is None else str(default),
        ignorable=raw.get("ignorable", False),
        flexible=None if own_flexible is None else parse_versions(own_flexible),
        about=raw.get("about", ""),
    )


@dataclass
class Union:
    """One message over all its releases, newest first: which release rules a version, and all fields ever."""

    name: str
    type: str
    api_key: int
    by_version: dict[int, Schema]
    structs: dict[str, list[Field]]

    @property
    def min_version(self) -> int:
        """The oldest version any release has."""
        return min(self.by_version)

    @property
    def max_version(self) -> int:
        """The newest version any release has."""
        return max(self.by_version)

    def is_flexible(self, version: int) -> bool:
        """Tell whether a version uses compact lengths and tagged sections."""
        return _within(version, self.by_version[version].flexible)

    @property
    def flexible_from(self) -> int | None:
        """The first flexible version, or None."""
        flexible = [version for version in sorted(self.by_version) if self.is_flexible(version)]
        assert flexible == list(range(flexible[0], self.max_version + 1)) if flexible else True
        return flexible[0] if flexible else None


def unite(releases: list[dict[str, Schema]]) -> dict[str, Union]:
    """Unite the messages of several releases, the newest first, leaving out those without any version."""
    united = {}
    for name in sorted({name for release in releases for name in release}):
        schemas = [release[name] for release in releases if name in release]
        union = _unite_one([schema for schema in schemas if schema.versions != EMPTY])
        if union is not None:
            united[name] = union
    return united


def _unite_one(schemas: list[Schema]) -> Union | None:
    if not schemas:
        return None
    by_version: dict[int, Schema] = {}
    structs: dict[str, list[Field]] = {}
    for schema in schemas:
        for version in range(schema.versions[0], schema.versions[1] + 1):
            by_version.setdefault(version, schema)
        for struct, fields in schema.structs.items():
            structs[struct] = _unite_fields(schema.name, structs.get(struct, []), fields)
    versions = sorted(by_version)
    assert versions == list(range(versions[0], versions[-1] + 1)), f"{schemas[0].name} has a gap"
    newest = schemas[0]
    return Union(newest.name, newest.type, newest.api_key, by_version, structs)


def _unite_fields(message: str, newer: list[Field], older: list[Field]) -> list[Field]:
    united = list(newer)
    known = {each.name: each for each in newer}
    for each in older:
        other = known.get(each.name)
        if other is None:
            united.append(each)
            continue
        assert (other.kind, other.is_array) == (each.kind, each.is_array), (
            f"{message}.{each.name} changed type"
        )
        assert (other.default or "0") == (each.default or "0") or other.kind == "bool", (
            f"{message}.{each.name} changed default {other.default} {each.default}"
        )
        if other.nullable == EMPTY and each.nullable != EMPTY:
            united[united.index(other)] = replace(other, nullable=each.nullable)
    return united
