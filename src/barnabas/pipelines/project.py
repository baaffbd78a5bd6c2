"""A project: a folder with Spark's `spark-pipeline.yml`, definitions, and what its runs leave behind.

Job: find the specification and the files it names, and say where state lies. Must not know what the definitions say, nor start anything. What Spark
refuses in a specification is refused here in a sentence that names the file.

State is in DIR/.barnabas. Tables and checkpoints are under the specification's `storage`: an address with a scheme (`s3a://…`, `file:///…`) as it is,
anything else as a folder of the project.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.reader import ReaderError

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
STATE: Final = ".barnabas"
_FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
#: What a folder's pattern needs for the files in it, and Spark adds by itself.
_BELOW: Final = "/*"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class Project:
    """One project, as its specification has it."""

    folder: Path
    spec: Path
    name: str
    storage: str
    """An address with a scheme, without a slash at its end."""
    database: str | None
    catalog: str | None
    configuration: Mapping[str, str]
    patterns: Sequence[str]

    @classmethod
    def open(cls, folder: Path | str) -> Project:
        """Read the specification; PipelineProblem says what is wrong with it, and where."""
        folder = Path(folder).resolve()
        spec = find_spec(folder)
        said = _read(spec)
        return cls(
            folder=folder,
            spec=spec,
            name=str(said["name"]),
            storage=_address(folder, str(said["storage"])),
            database=said.get("database", said.get("schema")),
            catalog=said.get("catalog"),
            configuration=_texts(spec, said.get("configuration") or {}),
            patterns=_patterns(spec, said.get("libraries") or []),
        )

    @property
    def state(self) -> Path:
        """Where this machine keeps what is known of runs."""
        return self.folder / STATE

    def files(self) -> list[Path]:
        """Give the files with definitions, in the order of their names; PipelineProblem if there are none."""
        found: dict[Path, None] = {}
        for pattern in self.patterns:
            for file in sorted(self.folder.glob(pattern)):
                if file.is_file() and "__pycache__" not in file.parts:
                    found[file] = None
        if not found:
            raise PipelineProblem(f"{self.spec.name}:{line_of(self.spec, 'libraries')}: libraries: {self._no_files()}")  # fmt: skip
        return list(found)

    def _no_files(self) -> str:
        if not self.patterns:
            return "no files are named: write `- glob: {include: transformations/**}` under it"
        return f"no file matches {' or '.join(repr(_included(each)) for each in self.patterns)}"

    def shown(self, file: str | Path) -> str:
        """Give the name of a file as a person would type it in the project's folder."""
        path = Path(file)
        if not path.is_absolute():
            return str(path)
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)


def find_spec(folder: Path) -> Path:
    """Give the specification of the project in this very folder."""
    for name in SPEC_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise PipelineProblem(
        f"{folder} is no pipeline: it has no {SPEC_NAMES[0]} (barnabas pipeline init makes one)"
    )


def line_of(spec: Path, key: str) -> int:
    """Give the line of a specification that sets this key, for messages."""
    for number, line in enumerate(spec.read_text("utf-8").splitlines(), start=1):
        if re.match(rf"\s*['\"]?{re.escape(key)}['\"]?\s*:", line):
            return number
    return 1


def _read(spec: Path) -> Mapping[str, Any]:
    said = _parsed(spec)
    if not isinstance(said, dict):
        raise PipelineProblem(f"{spec.name}:1: it must map names to values, `name: …` among them")
    for key in said:
        if key not in _FIELDS:
            raise PipelineProblem(f"{spec.name}:{line_of(spec, str(key))}: unknown field {key!r}: known are {', '.join(_FIELDS)}")  # fmt: skip
    for key in ("name", "storage"):
        if key not in said:
            raise PipelineProblem(f"{spec.name}:1: the field {key!r} is missing")
    return said


def _parsed(spec: Path) -> object:
    data = spec.read_bytes()
    try:
        return yaml.safe_load(data.decode())
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise PipelineProblem(f"{spec.name}:{line}: this is no text in UTF-8") from None
    except (yaml.YAMLError, ValueError) as problem:  # ValueError: a date that no calendar has
        line, text = _explained(problem, data.decode())
        raise PipelineProblem(f"{spec.name}:{line}: this is no YAML: {text}") from None


def _explained(problem: Exception, text: str) -> tuple[int, str]:
    """Give line and reason: what PyYAML writes of them is a drawing of several lines."""
    if isinstance(problem, ReaderError):
        return text.count("\n", 0, problem.position) + 1, f"it has the character U+{problem.character:04X}"  # fmt: skip
    if isinstance(problem, yaml.MarkedYAMLError):
        mark = problem.problem_mark or problem.context_mark
        told = problem.problem or problem.context or "it cannot be read"
        return (mark.line + 1 if mark else 1), told
    return 1, str(problem)


def _texts(spec: Path, said: object) -> dict[str, str]:
    if not isinstance(said, dict):
        raise PipelineProblem(
            f"{spec.name}:{line_of(spec, 'configuration')}: configuration must map names to texts"
        )
    for key, value in said.items():
        if not isinstance(value, str):
            raise PipelineProblem(
                f'{spec.name}:{line_of(spec, str(key))}: {key} must be a text: write {key}: "{value}"'
            )
    return {str(key): value for key, value in said.items()}


def _patterns(spec: Path, said: object) -> list[str]:
    if not isinstance(said, list):
        raise PipelineProblem(f"{spec.name}:{line_of(spec, 'libraries')}: libraries must be a list")
    return [_pattern(spec, each) for each in said]


def _pattern(spec: Path, entry: Any) -> str:  # noqa: ANN401 - whatever the file says
    """Take what Spark takes: one file, or everything under a folder (`folder/**`), from the project's folder on."""
    where = f"{spec.name}:{line_of(spec, 'libraries')}"
    try:
        include = str(entry["glob"]["include"])
    except (TypeError, KeyError):
        raise PipelineProblem(f"{where}: a library is written as `- glob: {{include: transformations/**}}`") from None  # fmt: skip
    folder = include.removesuffix("/**")
    if not folder or any(each in folder for each in "*?["):
        raise PipelineProblem(f"{where}: {include!r}: Spark takes a file or a folder with /** at the end")  # fmt: skip
    if Path(folder).is_absolute():
        raise PipelineProblem(f"{where}: {include!r}: Spark looks for files from the project's folder on: write a path that does not begin with /")  # fmt: skip
    return f"{include}{_BELOW}" if include.endswith("/**") else include


def _included(pattern: str) -> str:
    """Give a pattern as the specification has it."""
    return pattern.removesuffix(_BELOW) if pattern.endswith(f"/**{_BELOW}") else pattern


def _address(folder: Path, storage: str) -> str:
    if _SCHEME.match(storage):
        return storage.rstrip("/")
    # Hadoop takes an address as it stands: `as_uri` would write a space as %20, and %20 it would be.
    return f"file://{(folder / storage.removeprefix('file:')).resolve()}"
