"""Every message and version against Apache Kafka's own classes, byte for byte, and the generator against itself.

Random content is made here from the schemas, twice: as our object and as the JSON that Kafka's converters read. Kafka's
bytes must be ours; read back they must be the object; and where Kafka refuses to write a value in an older version, so must we.
"""

import base64
import importlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import generate_messages
import peers
import pytest
from generate_messages import base_name, class_names
from message_schemas import Field, Schema, Union, snake, unite

from barnabas.wire.primitives import Struct, WireError

pytestmark = pytest.mark.java

INSTANCES = 6
CROSSINGS = 3
HERE = Path(__file__).parent
RANGES = {"int8": 1 << 7, "int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}
TEXTS = ("", "a", "topic-0", "ünï漢🙂", "x" * 126, "y" * 127, "z" * 300)


@dataclass
class Case:
    """One message for Kafka to write, and what ours is."""

    java_class: str
    made_in: int
    version: int
    message: Any
    tags: list[tuple[int, bytes]]
    json: dict[str, Any]

    def line(self) -> str:
        tags = ",".join(f"{tag}:{value.hex()}" for tag, value in self.tags)
        return "\t".join(
            (self.java_class, str(self.made_in), str(self.version), tags, json.dumps(self.json))
        )


class Maker:
    """Makes random content for one message, as Python objects and as Kafka's JSON."""

    def __init__(self, union: Union, names: dict[str, str], module: Any, rng: Random) -> None:
        self.union, self.names, self.module, self.rng = union, names, module, rng

    def struct(self, version: int, struct: str = "") -> tuple[Any, dict[str, Any]]:
        ours, theirs = {}, {}
        for field in self.union.by_version[version].structs[struct]:
            if not field.present(version) or (field.is_tagged(version) and self.rng.random() < 0.4):
                continue
            name = field.name[0].lower() + field.name[1:]
            value, theirs[name] = self._field(field, version)
            # A tagged struct equal to its default is not sent, and is None when it is read.
            if not (
                field.is_tagged(version) and isinstance(value, Struct) and value == type(value)()
            ):
                ours[snake(field.name)] = value
        return getattr(self.module, self.names[struct])(**ours), theirs

    def _field(self, field: Field, version: int) -> tuple[Any, Any]:
        if field.is_nullable(version) and self.rng.random() < 0.25:
            return None, None
        if not field.is_array:
            return self._one(field, version)
        count = self.rng.choice((0, 1, 2, 2, 3, 130 if not field.is_struct else 2))
        pairs = [self._one(field, version) for _ in range(count)]
        return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]

    def _one(self, field: Field, version: int) -> tuple[Any, Any]:
        rng = self.rng
        if field.is_struct:
            return self.struct(version, field.kind)
        if field.kind in RANGES:
            bound = RANGES[field.kind]
            value = rng.choice((rng.randrange(-bound, bound), -bound, bound - 1, 0, -1, 1))
            return value, value
        if field.kind == "uint16":
            return (port := rng.randrange(1 << 16)), port
        return self._other(field.kind)

    def _other(self, kind: str) -> tuple[Any, Any]:
        rng = self.rng
        if kind == "bool":
            return (truth := rng.random() < 0.5), truth
        if kind == "float64":
            return (number := rng.uniform(-1e12, 1e12)), number
        if kind == "string":
            return (text := rng.choice(TEXTS)), text
        if kind == "uuid":
            raw = rng.randbytes(16)
            return raw, base64.urlsafe_b64encode(raw).decode().rstrip("=")
        raw = rng.randbytes(rng.choice((0, 1, 61, 127, 200)))
        return raw, base64.b64encode(raw).decode()


def _cases(
    unions: dict[str, Union], release: dict[str, Schema], package: str, folder: str
) -> list[Case]:
    """Make cases for the versions that one release rules."""
    cases = []
    modules: dict[str, list[Union]] = {}
    for union in unions.values():
        is_lone = union.type in ("data", "header")
        modules.setdefault(snake(union.name if is_lone else base_name(union.name)), []).append(
            union
        )
    for name, members in sorted(modules.items()):
        module = importlib.import_module(f"barnabas.wire.messages.{folder}{name}")
        for union, names in zip(members, class_names(members), strict=True):
            ruled = [
                v for v, schema in union.by_version.items() if schema is release.get(union.name)
            ]
            rng = Random(f"{union.name} {ruled}")
            maker = Maker(union, names, module, rng)
            suffix = "Data" if union.type in ("request", "response", "header") else ""
            for version in ruled:
                cases += _cases_of_version(maker, f"{package}.{union.name}{suffix}", version, ruled)
    return cases


def _cases_of_version(maker: Maker, java_class: str, version: int, ruled: list[int]) -> list[Case]:
    cases = []
    for number in range(INSTANCES):
        message, theirs = maker.struct(version)
        tags = []
        if maker.union.is_flexible(version) and number % 2:
            tags = [(100, maker.rng.randbytes(3)), (20_000, b"")]
            message.unknown_tagged_fields = tags
        cases.append(Case(java_class, version, version, message, tags, theirs))
    for _ in range(CROSSINGS if len(ruled) > 1 else 0):
        message, theirs = maker.struct(version)
        cases.append(Case(java_class, version, maker.rng.choice(ruled), message, [], theirs))
    return cases


@pytest.fixture(scope="session")
def ask_kafka(tmp_path_factory):
    """Compile the oracle against a folder of jars and put cases to it."""
    if peers.java() is None or peers.javac() is None:
        pytest.skip(peers.reason())

    def ask(lib: Path, cases: list[Case]) -> list[str]:
        classes = tmp_path_factory.mktemp("oracle")
        classpath = f"{lib}/*"
        source = HERE / "oracle/Oracle.java"
        subprocess.run(
            [peers.javac(), "-cp", classpath, "-d", str(classes), str(source)], check=True
        )
        done = subprocess.run(
            [peers.java(), "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{classpath}", "Oracle"],
            input="\n".join(case.line() for case in cases) + "\n",
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.splitlines()

    return ask


def _releases(group: str) -> list[dict[str, Schema]]:
    try:
        return generate_messages.load_releases(group)
    except FileNotFoundError as error:
        pytest.skip(f"the jars with the schemas could not be had: {error}")


def _compare(cases: list[Case], answers: list[str]) -> None:
    assert len(cases) == len(answers)
    for case, answer in zip(cases, answers, strict=True):
        if answer.startswith("refused"):
            assert case.made_in != case.version, (case, answer)
            with pytest.raises(WireError):
                case.message.encode(case.version)
            continue
        kafkas = bytes.fromhex(answer)
        label = (case.java_class, case.made_in, case.version)
        assert b"".join(case.message.encode(case.version)) == kafkas, label
        decoded = type(case.message).decode(kafkas, case.version)
        assert b"".join(decoded.encode(case.version)) == kafkas, label
        if case.made_in == case.version:
            assert decoded == case.message, label


@pytest.mark.parametrize(("number", "version"), [(0, "4.4.0"), (1, "3.9.2")])
def test_messages(ask_kafka, number, version):
    jar = peers.kafka_clients_jar(version)
    if jar is None:
        pytest.skip(peers.reason())
    releases = _releases("messages")
    cases = _cases(unite(releases), releases[number], "org.apache.kafka.common.message", "")
    _compare(cases, ask_kafka(jar.parent, cases))


def test_coordinator_records(ask_kafka):
    lib = peers.kafka_lib("4.3.1")
    if lib is None:
        pytest.skip(peers.reason())
    releases = _releases("records")
    cases = []
    for release, area in zip(releases, ("group", "transaction", "share"), strict=True):
        cases += _cases(
            unite([release]), release, f"org.apache.kafka.coordinator.{area}.generated", "records."
        )
    _compare(cases, ask_kafka(lib, cases))


def test_metadata_records(ask_kafka):
    lib = peers.kafka_lib("4.3.1")
    if lib is None:
        pytest.skip(peers.reason())
    (release,) = _releases("metadata")
    package = "org.apache.kafka.common.metadata"
    cases = _cases(unite([release]), release, package, "metadata_records.")
    _compare(cases, ask_kafka(lib, cases))


def test_the_committed_code_is_what_the_generator_writes():
    _releases("messages")
    _releases("records")
    _releases("metadata")
    files = generate_messages.generate()
    target = generate_messages.TARGET
    committed = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*.py")}
    assert sorted(committed) == sorted(files)
    assert [name for name in files if files[name] != committed[name]] == []
